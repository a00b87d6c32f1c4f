"""Expressions to JAX: free variables become axes, sums of products ``dot_general``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from archloom.oracle.affine import Affine
from archloom.oracle.late_jax import jnp
from archloom.oracle.native import fused
from archloom.oracle.xla.lowering.axes import Divided, by_digits, one_contraction
from archloom.oracle.xla.lowering.extremes import extreme
from archloom.oracle.xla.lowering.folds import fold, one_chain, with_last_steps
from archloom.oracle.xla.lowering.ops import bitcast, constant, convert, elementwise, known
from archloom.oracle.xla.lowering.programs import Gathered, gathered
from archloom.oracle.xla.lowering.sums import summed
from archloom.oracle.xla.lowering.views import Spread, extent, grid, names_of, overlapping, view
from archloom.oracle.xla.lowering.wholes import computed
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.constraints import reach
from archloom.oracle.xla.notation.expr import Expr, Extreme, Fold, Guarded, Map, Ranges, Sum
from archloom.oracle.xla.notation.fallbacks import How, Record
from archloom.oracle.xla.notation.limits import Unraisable
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.variables import GuardedAxis

DEEP = 32
"""Expressions within one another from which on operations are not lowered in calls within calls."""


def _key(e: Expr, ranges: Ranges) -> tuple[object, ...]:
    """What an array of ``e`` over its free variables is known by."""
    return e, tuple(sorted((n, ranges[n]) for n in expr.free(e)))


@dataclass
class Lowering:
    """Lowers expressions over ``arguments`` (arrays by name, in their shapes); equal ones once.

    The order of ``ranges`` is the preferred order of axes.
    """

    arguments: Mapping[str, Any]
    record: Record = field(default_factory=Record)
    """What was made, for the report."""

    reassociate: bool = False
    """Whether floating-point sums may be added up in any order."""

    most_elements: int | None = None
    """Elements that no tensor on the way may have more of."""

    _made: dict[tuple[object, ...], Spread] = field(default_factory=dict)
    _wholes: dict[expr.Whole, tuple[Any, ...]] = field(default_factory=dict)

    def tensor(self, e: Expr, axes: tuple[str, ...], ranges: Ranges) -> Any:
        """The array of ``e`` over ``axes``."""
        shape = tuple(extent(ranges[a]) for a in axes)
        return jnp.broadcast_to(self.spread(e, ranges).expand(axes), shape)

    def spread(self, e: Expr, ranges: Ranges) -> Spread:
        """The array of ``e`` over its free variables (those with more than one value)."""
        points = {n: Affine(ranges[n][0]) for n in expr.free(e) if ranges[n][0] == ranges[n][1]}
        if points:
            e = substitute(e, points, ranges)
        key = _key(e, ranges)
        if key not in self._made:
            if traits.depth(e) > DEEP:
                self._operands_first(e, ranges)
            self._made[key] = self._bounded(self._lower(e, ranges))
        return self._made[key]

    def _operands_first(self, e: Expr, ranges: Ranges) -> None:
        """Lower operations within operations in a loop, the deepest first: they may be deeper than calls may be."""
        waiting = [e]
        while waiting:
            inner = [o for o in self._before(waiting[-1], ranges)
                     if isinstance(o, Map) and _key(o, ranges) not in self._made]
            if inner:
                waiting += inner
            elif (done := waiting.pop()) is not e:
                self.spread(done, ranges)

    def _before(self, e: Expr, ranges: Ranges) -> Sequence[Expr]:
        """What an operation is made of."""
        found = self._program(e, ranges)
        return found.leaves if found is not None else e.children if isinstance(e, Map) else ()

    def _program(self, e: Expr, ranges: Ranges) -> Gathered | None:
        return gathered(e, ranges, lambda o: _key(o, ranges) in self._made or with_last_steps(o, ranges) is not o)

    def _bounded(self, found: Spread) -> Spread:
        """Unraisable for a tensor that is too large."""
        if self.most_elements is not None and found.array.size > self.most_elements:
            raise Unraisable(f"a tensor on the way would have {found.array.size} elements, more than "
                             f"{self.most_elements}")
        return found

    def _lower(self, e: Expr, ranges: Ranges) -> Spread:
        if isinstance(e, (Sum, Fold)):
            divided = by_digits(e, ranges)
            if divided is not None:
                return self._divided(divided)
        return _LOWERINGS[type(e)](self, e, ranges)

    def _const(self, e: expr.Const, ranges: Ranges) -> Spread:
        return Spread(jnp.asarray(constant(e.value, e.dtype)), ())

    def _index(self, e: expr.Index, ranges: Ranges) -> Spread:
        names = names_of(e, ranges)
        return Spread(convert(grid(e.index, ranges, names), "i32", e.dtype), names)

    def _element(self, e: expr.Element, ranges: Ranges) -> Spread:
        if e.whole not in self._wholes:
            self._wholes[e.whole] = computed(self, e.whole)
        return self._view(self._wholes[e.whole][e.number], e.index, ranges, e.whole.function.title)

    def _byte_of(self, e: expr.ByteOf, ranges: Ranges) -> Spread:
        whole = self.spread(e.body, ranges)
        array = bitcast(whole.array, "i8").reshape(*whole.array.shape, expr.width(e.body.dtype))
        index = (*(Affine.variable(n) - ranges[n][0] for n in whole.names), e.byte)
        return self._view(array, index, ranges, f"bytes of {e.body.dtype}")

    def _from_bytes(self, e: expr.FromBytes, ranges: Ranges) -> Spread:
        names = names_of(e, ranges)
        array = self.spread(e.body, {**ranges, **e.bound_ranges(ranges)}).expand((*names, e.variable))
        array = jnp.broadcast_to(array, (*array.shape[:-1], expr.width(e.dtype)))
        return Spread(bitcast(array if expr.width(e.dtype) > 1 else array[..., 0], e.dtype), names)

    def _view(self, array: Any, forms: tuple[Affine, ...], ranges: Ranges, where: str) -> Spread:
        """The elements ``array[forms]`` of what ``where`` names."""

        def note(why: str, elements: int) -> None:
            self.record.add(How.GATHER, where, why, elements)

        return view(array, forms, ranges, note)

    def _map(self, e: Map, ranges: Ranges) -> Spread:
        number = known(e)
        if number is not None:
            return Spread(jnp.asarray(number), ())
        longer = with_last_steps(e, ranges)
        if longer is not e:
            return self.spread(longer, ranges)
        names, steps = names_of(e, ranges), self._program(e, ranges)
        if steps is not None:
            for leaf in steps.leaves:  # which may make what would be a step here
                self.spread(leaf, ranges)
            steps = self._program(e, ranges)
        if steps is not None:
            leaves = [self.spread(o, ranges).expand(names) for o in steps.leaves]
            return Spread(fused(steps.program, *(
                convert(x, "i1", "u32") if o.dtype == "i1" else x for o, x in zip(steps.leaves, leaves, strict=True))),
                names)
        # a fused multiply-add takes less where an operand is known
        given = [known(o) if e.opcode == "fma" else None for o in e.operands]
        arrays = [self.spread(o, ranges).expand(names) if x is None else x.reshape((1,) * len(names))
                  for o, x in zip(e.operands, given, strict=True)]
        types = [o.dtype for o in e.operands]
        return Spread(elementwise(e.opcode, arrays, e.attributes, e.dtype, types), names)

    def _divided(self, divided: Divided) -> Spread:
        """The axes of the two variables as one."""
        minor = divided.outer, divided.inner
        found = self.spread(divided.e, divided.ranges)
        names = tuple(n for n in found.names if n not in minor)
        array = found.expand((*names, *minor))
        shape = array.shape[:len(names)]
        array = jnp.broadcast_to(array, (*shape, *(extent(divided.ranges[n]) for n in minor)))
        return Spread(array.reshape(*shape, -1), (*names, divided.variable))

    def _leaf(self, e: expr.Leaf, ranges: Ranges) -> Spread:
        """An argument in its own shape if each of its axes has a linear index, else flat, else in two steps."""
        array = self.arguments[e.name]
        flat, digits = e.index.simplify(ranges), []
        rest = flat
        for size in reversed(array.shape[1:]):
            digits.append((rest % size).simplify(ranges))
            rest = (rest // size).simplify(ranges)
        if array.shape:
            digits.append(rest)
        own = tuple(reversed(digits))
        if all(d.is_linear for d in own):
            return self._view(array, own, ranges, e.name)
        if flat.is_linear and all(c > 0 for _, c in flat.terms) and overlapping(flat, ranges) is None:
            return self._view(array.reshape(-1), (flat,), ranges, e.name)
        return self._view(array, own, ranges, e.name)

    def _switch(self, e: expr.Switch, ranges: Ranges) -> Spread:
        name = traits.axis_of(e.form)
        chain = one_chain(e) if name is not None else None
        if chain is not None:
            return self.spread(chain, ranges)
        names = names_of(e, ranges)
        shape = {n: extent(ranges[n]) for n in names}
        if name is not None:
            low, high = ranges[name]
            batched = one_contraction(e, name, ranges)
            if batched is not None:
                return self._divided(batched)
            parts = []
            shift = e.form.constant
            for first, last, body in reach(e.cases, low + shift, high + shift):
                a, b = first - shift, last - shift
                part = self.spread(body, {**ranges, name: (a, b)}).expand(names)
                parts.append(jnp.broadcast_to(part, tuple(b - a + 1 if n == name else shape[n] for n in names)))
            return Spread(jnp.concatenate(parts, names.index(name)) if len(parts) > 1 else parts[0], names)
        form = grid(e.form, ranges, names)
        result = self.spread(e.cases[-1][2], ranges).expand(names)
        for _, last, body in reversed(e.cases[:-1]):
            result = jnp.where(form <= last, self.spread(body, ranges).expand(names), result)
        return Spread(result, names)

    def _guarded(self, e: Guarded, ranges: Ranges) -> Spread:
        """Pad along the axes that the constraints run along; forms of several variables become axes for that."""
        core: Expr | None = e.body
        inner, full = dict(ranges), dict(ranges)
        named: dict[str, Affine] = {}
        free = (name for number in count() if (name := f"#{number}") not in ranges)  # a guard may be inside of another
        for form, low, high in e.constraints:
            axis = traits.axis_of(form)
            if axis is None:
                axis = GuardedAxis(next(free))
                named[axis] = form
                full[axis] = form.range(ranges)
                core = core and _renamed(core, form, axis)
            a, b = full[axis]
            inner[axis] = (a if low is None else max(a, low), b if high is None else min(b, high))
        if core is None or any(not expr.free(core).isdisjoint(form.variables()) for form in named.values()):
            return self._masked(e, ranges)
        found = self.spread(core, inner)
        # in the order in which the elements lie: channels stay the last axis of an image
        names = (*(n for n in inner if n not in found.names and inner[n] != full[n]), *found.names)
        array = jnp.broadcast_to(found.expand(names), tuple(extent(inner[n]) for n in names))
        pads = [(inner[n][0] - full[n][0], full[n][1] - inner[n][1]) for n in names]
        array = jnp.pad(array, pads, constant_values=constant(e.fill, e.dtype))
        index = tuple(named.get(n, Affine.variable(n)) - full[n][0] for n in names)
        return self._view(array, index, ranges, "a padded tensor")

    def _masked(self, e: Guarded, ranges: Ranges) -> Spread:
        names = names_of(e, ranges)
        self.record.add(How.MASK, "a padded tensor", "its elements do not follow the forms that bound it",
                        math.prod(extent(ranges[n]) for n in names))
        result = self.spread(e.body, ranges).expand(names)
        for form, low, high in e.constraints:
            values = grid(form, ranges, names)
            for fails in ([values < low] if low is not None else []) + ([values > high] if high is not None else []):
                result = jnp.where(fails, constant(e.fill, e.dtype), result)
        return Spread(result, names)

    def _let(self, e: expr.Let, ranges: Ranges) -> Spread:
        inner = dict(ranges)
        offsets: dict[str, Affine] = {}
        for name, form in e.variables:
            inner[name] = form.range(ranges)
            offsets[name] = form - inner[name][0]
        body = self.spread(e.body, inner)
        index = tuple(offsets[n] if n in offsets else Affine.variable(n) - inner[n][0] for n in body.names)
        return self._view(body.array, index, ranges, "an intermediate tensor")


_LOWERINGS: dict[type[Expr], Callable[[Lowering, Any, Ranges], Spread]] = {
    expr.Const: Lowering._const,
    expr.Index: Lowering._index,
    expr.Leaf: Lowering._leaf,
    expr.Element: Lowering._element,
    Map: Lowering._map,
    expr.Switch: Lowering._switch,
    Guarded: Lowering._guarded,
    Sum: summed,
    Fold: fold,
    Extreme: extreme,
    expr.Let: Lowering._let,
    expr.ByteOf: Lowering._byte_of,
    expr.FromBytes: Lowering._from_bytes,
}
"""What computes each kind of node; a carry is the state of the chain around it."""


def _renamed(e: Expr, form: Affine, axis: str) -> Expr | None:
    """``e`` with ``axis`` for ``form`` wherever its variables occur; None where they occur in another way."""
    known: dict[int, Expr | None] = {}  # an operation may be an operand of many

    def renamed(e: Expr) -> Expr | None:
        if id(e) not in known:
            known[id(e)] = anew(e)
        return known[id(e)]

    def anew(e: Expr) -> Expr | None:
        if isinstance(e, (Sum, Fold, Extreme, expr.Let, expr.FromBytes)):
            return e if expr.free(e).isdisjoint(form.variables()) else None
        forms = [_form_renamed(f, form, axis) for f in e.forms]
        parts = [renamed(c) for c in e.children]
        if None in forms or None in parts:
            return None
        return e.rebuilt([f for f in forms if f is not None], [p for p in parts if p is not None])

    return renamed(e)


def _form_renamed(f: Affine, form: Affine, axis: str) -> Affine | None:
    """``f`` with ``axis`` for ``form``, of which it has a multiple; None where it has not."""
    if f.variables().isdisjoint(form.variables()):
        return f
    atom, unit = form.terms[0]
    times, left = divmod(next((c for a, c in f.terms if a == atom), 0), unit)
    f = f - form * times + Affine.variable(axis) * times
    return None if left or not f.variables().isdisjoint(form.variables()) else f
