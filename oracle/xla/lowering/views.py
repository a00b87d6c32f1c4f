"""Arrays indexed by affine forms, as slices, reshapes and transposes; a gather only where there is no other way.

An axis of an array that is indexed by ``c + s1*u + s2*v`` (``s1`` at least as large as all that ``s2*v`` spans)
becomes axes u and v by slicing and reshaping; where strides overlap, as in the windows of a convolution, the shorter
variable is unrolled and the slices are stacked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.xla.notation.expr import Expr, Range, Ranges, free
from archloom.oracle.xla.notation.fallbacks import Record
from archloom.oracle.xla.notation.variables import fresh


@dataclass(frozen=True)
class Spread:
    """An array with one axis for each of ``names``, along which the variable runs through its range."""

    array: Any
    names: tuple[str, ...]

    def order(self, names: tuple[str, ...]) -> "Spread":
        """The same with the axes in this order (of the same names)."""
        if names == self.names:
            return self
        return Spread(self.array.transpose(tuple(self.names.index(n) for n in names)), names)

    def expand(self, names: tuple[str, ...]) -> Any:
        """The array with axes in the order of ``names``, of extent 1 for those it does not depend on."""
        mine = self.order(tuple(n for n in names if n in self.names))
        sizes = iter(mine.array.shape)
        shape = tuple(next(sizes) if n in self.names else 1 for n in names)
        return mine.array if mine.array.shape == shape else mine.array.reshape(shape)


class Spreading(Protocol):
    """What makes arrays of expressions (:class:`archloom.oracle.xla.lowering.lower.Lowering`)."""

    record: Record
    reassociate: bool
    """Whether floating-point sums may be added up in any order."""

    def spread(self, e: Expr, ranges: Ranges) -> Spread:
        """The array of ``e`` over its free variables."""


def names_of(e: Expr, ranges: Ranges) -> tuple[str, ...]:
    """The free variables that have more than one value, in the order of ``ranges``."""
    mine = free(e)
    return tuple(n for n, (low, high) in ranges.items() if n in mine and low != high)


def extent(r: Range) -> int:
    return r[1] - r[0] + 1


def grid(form: Affine, ranges: Ranges, names: tuple[str, ...]) -> Any:
    """The values of a form over the variables ``names`` as an int32 array that broadcasts against their axes."""
    used, values = form.variables(), dict[str, Any]()
    for axis, name in enumerate(names):
        if name in used:
            shape = tuple(extent(ranges[n]) if n == name else 1 for n in names)
            values[name] = lax.broadcasted_iota(jnp.int32, shape, axis) + ranges[name][0]
    return jnp.zeros((1,) * len(names), jnp.int32) + form.evaluate(values)


Note = Callable[[str, int], None]
"""What is told why elements are looked up one by one, and how many there are."""


def view(
    array: Any, forms: tuple[Affine, ...], ranges: Ranges, note: Note, unrolled: frozenset[str] = frozenset()
) -> Spread:
    """The elements ``array[forms]``; an index out of range yields some element.

    ``unrolled`` variables have been made axes of the array already: others that are go before them.
    """
    forms = tuple(form.simplify(ranges) for form in forms)
    spans = [form.range(ranges) for form in forms]
    if any(low < 0 or high >= size for (low, high), size in zip(spans, array.shape, strict=True)):
        return gather(array, forms, ranges, note, "an index may lie outside of the array")
    nonlinear = [form for form in forms if not form.is_linear]
    if nonlinear:
        return _split_variable(array, forms, nonlinear[0], ranges, note)
    seen: set[str] = set()
    for form in forms:
        names = form.variables()
        if not names.isdisjoint(seen):
            return gather(array, forms, ranges, note, "two axes move with one variable")
        if any(c < 0 for _, c in form.terms):
            return gather(array, forms, ranges, note, "an index runs backwards")
        seen |= names
    for axis in reversed(range(len(forms))):
        short = overlapping(forms[axis], ranges)
        if short is not None:
            return (_shifted(array, forms, forms[axis], short, ranges, note)
                    or _unroll(array, forms, axis, short, ranges, note, unrolled))
    names_in_order: list[str] = []
    axis = 0
    for form in forms:
        terms = sorted(_strides(form), reverse=True)
        start = form.constant + sum(c * ranges[n][0] for c, n in terms)
        array, made = _axes(array, axis, start, terms, ranges)
        names_in_order += made
        axis += len(made)
    return Spread(array, tuple(names_in_order))


def _strides(form: Affine) -> list[tuple[int, str]]:
    """The variables of a linear form, each behind its coefficient."""
    return [(c, n) for n, c in form.terms if isinstance(n, str)]


def overlapping(form: Affine, ranges: Ranges) -> str | None:
    """The shortest variable of a linear form without which no two strides overlap, or None where none do.

    Where it takes several, the shortest of all is the first.
    """
    terms = sorted((c, extent(ranges[n]), n) for c, n in _strides(form))
    if not _overlap(terms):
        return None
    alone = [t for t in terms if not _overlap([other for other in terms if other is not t])]
    return min(alone or terms, key=lambda t: (t[1], t[0]))[2]


def _overlap(terms: list[tuple[int, int, str]]) -> bool:
    """Whether two strides of ascending ``terms`` (stride, count, variable) overlap."""
    span = 0
    for stride, count, _ in terms:
        if stride <= span:
            return True
        span += stride * (count - 1)
    return False


def _axes(array: Any, axis: int, start: int, terms: list[tuple[int, str]], ranges: Ranges) -> tuple[Any, list[str]]:
    """Make an axis for each of ``terms`` (stride, variable; largest stride first) of one axis."""
    if not terms:
        return lax.index_in_dim(array, start, axis, keepdims=False), []
    stride, name = terms[0]
    count = extent(ranges[name])
    if len(terms) == 1:
        return sliced(array, start, start + stride * (count - 1) + 1, stride, axis), [name]
    stop = start + stride * count
    missing = stop - array.shape[axis]
    array = sliced(array, start, min(stop, array.shape[axis]), 1, axis)
    if missing > 0:
        zero = np.zeros((), array.dtype)
        array = lax.pad(array, zero, [(0, missing, 0) if i == axis else (0, 0, 0) for i in range(array.ndim)])
    array = array.reshape(*array.shape[:axis], count, stride, *array.shape[axis + 1:])
    array, rest = _axes(array, axis + 1, 0, terms[1:], ranges)
    return array, [name, *rest]


def sliced(array: Any, start: int, stop: int, stride: int, axis: int) -> Any:
    """Part of an axis; the array itself if it is all of it, which need not be traced."""
    whole = (start, stop) == (0, array.shape[axis]) and (stride == 1 or stop == 1)
    return array if whole else lax.slice_in_dim(array, start, stop, stride, axis)


FEW = 8
"""Up to how many views of overlapping parts are made one by one: XLA takes some 20 ms to compile each."""


def _shifted(
    array: Any, forms: tuple[Affine, ...], form: Affine, name: str, ranges: Ranges, note: Note
) -> Spread | None:
    """A view in which ``name`` moves along as another variable does: ``x[u + v]``, a Hankel matrix.

    With all of ``x[w]`` once for each u, the rows of that, made longer by one, are the matrix: row u begins u later.
    """
    stride, many = form.coefficient(name), extent(ranges[name])
    other = next((n for c, n in _strides(form) if c == stride and n != name), None)
    if other is None or many <= FEW:
        return None
    both = fresh()
    (a, b), (c, d) = ranges[name], ranges[other]
    inner = {**ranges, both: (a + c, b + d)}
    along = Affine.variable(both) - Affine.variable(name)
    found = view(array, tuple(f.substitute({other: along}).simplify(inner) for f in forms), inner, note)
    at, shape = found.names.index(both), found.array.shape
    lead, size, rest = shape[:at], shape[at], shape[at + 1:]
    rows = jnp.broadcast_to(jnp.expand_dims(found.array, at), (*lead, many, size, *rest))
    rows = jnp.pad(rows.reshape(*lead, many * size, *rest), [(0, many * (i == at)) for i in range(len(shape))])
    rows = rows.reshape(*lead, many, size + 1, *rest)
    made = rows[(*(slice(None),) * (at + 1), slice(0, d - c + 1))]
    return Spread(made, (*found.names[:at], name, other, *found.names[at + 1:]))


def _unroll(
    array: Any, forms: tuple[Affine, ...], axis: int, name: str, ranges: Ranges, note: Note, unrolled: frozenset[str]
) -> Spread:
    """One view of an axis for each value of a variable, stacked before the last axis, so that rows stay contiguous.

    The other axes stay as they are until then: with several such axes, each part of the last one is made once. What
    they become goes before what the last one became, as the windows of a convolution lie in its weights.
    """
    low, high = ranges[name]
    others = {i: fresh() for i in range(len(forms)) if i != axis}
    inner = {**ranges, **{n: (0, array.shape[i] - 1) for i, n in others.items() if array.shape[i] > 1}}
    own = {i: Affine.variable(n) if array.shape[i] > 1 else Affine(0) for i, n in others.items()}
    parts = []
    for x in range(low, high + 1):
        form = forms[axis].substitute({name: x})
        index = tuple(own.get(i, form) for i in range(len(forms)))
        parts.append(view(array, index, {**inner, name: (x, x)}, note))
    before = {n: forms[i] for i, n in others.items()}
    made = parts[0].names
    at = max(len(made) - 1, 0)
    while at and made[at - 1] in before and not before[made[at - 1]].variables().isdisjoint(unrolled):
        at -= 1
    stacked = jnp.stack([p.order(made).array for p in parts], at)
    rest = tuple(before[n] if n in before else Affine.variable(n) - ranges[n][0] for n in made)
    rest = (*rest[:at], Affine.variable(name) - low, *rest[at:])
    return view(stacked, rest, ranges, note, unrolled | {name})


def _split_variable(array: Any, forms: tuple[Affine, ...], form: Affine, ranges: Ranges, note: Note) -> Spread:
    """Make ``divisor*t + y`` of a variable that occurs in a division by ``divisor`` alone, as two axes."""
    found = _single(form)
    if found is None:
        return gather(array, forms, ranges, note, "an index is not linear")
    name, divisor, shift = found
    low, high = ranges[name]
    first = (low + shift) // divisor
    if (low + shift) % divisor:
        return gather(array, forms, ranges, note, "an index begins within a step of its division")
    t, y = fresh(), fresh()
    count = -(-(high + 1 - low) // divisor)
    inner = {**ranges, t: (first, first + count - 1), y: (0, divisor - 1)}
    replaced = {name: Affine.variable(t) * divisor + Affine.variable(y) - shift}
    made = view(array, tuple(f.substitute(replaced).simplify(inner) for f in forms), inner, note)
    # a variable of extent 1 has no axis
    names = tuple(n for n in made.names if n not in (t, y))
    shape = tuple(made.array.shape[made.names.index(n)] for n in names)
    array = jnp.broadcast_to(made.expand((*names, t, y)), (*shape, count, divisor))
    return Spread(array.reshape(*shape, count * divisor)[..., :high + 1 - low], (*names, name))


def _single(form: Affine) -> tuple[str, int, int] | None:
    """Variable, divisor and shift of the innermost division by a constant of one variable with coefficient 1."""
    for atom, _ in form.terms:
        if isinstance(atom, str):
            continue
        inner = _single(atom.numerator)
        if inner is not None:
            return inner
        terms = atom.numerator.terms
        if len(terms) == 1 and isinstance(terms[0][0], str) and atom.divisor % terms[0][1] == 0:
            factor = terms[0][1]
            if factor > 0 and atom.numerator.constant % factor == 0 and atom.divisor // factor > 1:
                return terms[0][0], atom.divisor // factor, atom.numerator.constant // factor
    return None


def gather(array: Any, forms: tuple[Affine, ...], ranges: Ranges, note: Note, why: str) -> Spread:
    """Element by element, the indices computed on the device and clipped to the array."""
    names = tuple(sorted(frozenset().union(*(f.variables() for f in forms)), key=list(ranges).index))
    note(why, math.prod(extent(ranges[n]) for n in names))
    if not names:
        return Spread(array.at[tuple(form.constant for form in forms)].get(mode="clip"), ())
    index = tuple(grid(form, ranges, names) for form in forms)
    return Spread(array.at[index].get(mode="clip"), names)
