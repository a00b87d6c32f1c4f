"""Case distinctions that make no difference: all cases are one function of the place, which is found place by place.

A tensor that is written in tiles and read back in tiles of another size is raised to cases of places counted through
both, ``(147*h + w + 591) % 735`` and such, though the element at row ``h`` and column ``w`` is the same function of
both everywhere. Rules for divisions that carry find that in some cases. Looking finds it in all: every integer form of
every case is evaluated at all the places that reach the case, and one that is affine in the place takes the place of
all if it is what they are, everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.affine import Affine, Atom
from archloom.oracle.xla.notation import limits, traits
from archloom.oracle.xla.notation.constraints import inside, narrow
from archloom.oracle.xla.notation.expr import Element, Expr, Let, Operand, Ranges, Switch, Whole, free, over
from archloom.oracle.xla.notation.substitution import NORMAL, substitute

Array: TypeAlias = NDArray[np.int64]
Values: TypeAlias = Mapping[str, Array]
"""Of each variable at each place."""


def without_cases(e: Expr, ranges: Ranges) -> Expr:
    """``e`` without the distinctions around operations that make no difference, in normal form."""
    if not isinstance(e, (Switch, Let)):
        return e
    found = _as_one(e, ranges)
    if found is not None:
        return substitute(found, {}, ranges)
    if isinstance(e, Let):
        bodies = [without_cases(e.body, inside(e, ranges))]
    else:
        bodies = [without_cases(body, narrow(e.form, low, high, ranges)) for low, high, body in e.cases]
    if all(new is old for new, old in zip(bodies, e.children, strict=True)):
        return e
    return NORMAL[type(e)](e.rebuilt(e.forms, bodies), ranges)


def _as_one(e: Expr, ranges: Ranges) -> Expr | None:
    """The one expression that the distinction is at all places, if there is one."""
    names = sorted(_deciding(e))
    extents = [ranges[name][1] - ranges[name][0] + 1 for name in names]
    if not names or math.prod(extents) > limits.PLACES:
        return None
    grid = np.indices(extents).reshape(len(names), -1)
    places = {name: ranges[name][0] + axis for name, axis in zip(names, grid)}
    cases = list(_cases(e, places, np.arange(grid.shape[1])))
    if len(cases) > limits.CASES:
        return None
    joined = _Joined(cases[0][0], grid.shape[1])
    if not all(joined.take(*case) for case in cases):
        return None
    forms = {key: _affine(rest, values, names, ranges, extents) for key, (rest, values) in joined.forms.items()}
    found = {key: form for key, form in forms.items() if form is not None}
    if len(found) < len(forms) or joined.repeats(found, names, extents, is_shared=_has_let(e)):
        return None
    return joined.rebuilt(found, {name: ranges[name] for name in names})


def _has_let(e: Expr) -> bool:
    """Whether a variable stands for a form around all operations."""
    return isinstance(e, Let) or (isinstance(e, Switch) and any(map(_has_let, e.children)))


def _deciding(e: Expr) -> frozenset[str]:
    """The free variables that decide about cases."""
    if not isinstance(e, (Switch, Let)):
        return frozenset()
    inner = frozenset[str]().union(*map(_deciding, e.children)) - frozenset(e.bound)
    return inner.union(*(form.variables() for form in e.forms))


def _cases(e: Expr, values: Values, places: Array) -> Iterator[tuple[Expr, Values, Array]]:
    """What lies within all distinctions, with the numbers of the places that reach it, and the values there."""
    if isinstance(e, Let):
        named = {name: np.broadcast_to(form.evaluate(values), places.shape) for name, form in e.variables}
        yield from _cases(e.body, {**values, **named}, places)
    elif isinstance(e, Switch):
        at = np.broadcast_to(e.form.evaluate(values), places.shape)
        ends = [high for _, high, _ in e.cases[:-1]]  # the first case holds below its bounds, the last one above
        chosen = np.searchsorted(ends, at)
        for k, (_, _, body) in enumerate(e.cases):
            here = np.flatnonzero(chosen == k)
            if len(here):
                yield from _cases(body, {name: value[here] for name, value in values.items()}, places[here])
    else:
        yield e, values, places


Scope: TypeAlias = int
"""Where a node of the model stands: 0, or the number of a whole tensor of which it makes an operand."""

Node: TypeAlias = tuple[Scope, int]
"""A node of the model: where it stands, and its identity."""


@dataclass
class _Joined:
    """Cases that are alike but for their forms, by the places that reach them: those of the ``model`` are numbered.

    An element of a whole tensor is alike where that is made of alike operands: its parameters have values at each
    place. ``forms``: for each form of each node of the model the terms of variables that decide about no case, and what
    the rest of it is at each place. ``scopes``: where the operands of an element stand.
    """

    model: Expr
    places: int
    forms: dict[tuple[Node, int], tuple[Affine, Array]] = field(default_factory=dict)
    scopes: dict[Node, Scope] = field(default_factory=dict)
    _known: dict[tuple[int, bytes], Scope] = field(default_factory=dict)
    _taken: int = 0

    def take(self, e: Expr, values: Values, places: Array) -> bool:
        """Take up a case; False where it is not like the model."""
        waiting: list[tuple[Scope, Expr, Expr, Values]] = [(0, self.model, e, values)]
        met: dict[Node, tuple[Expr, bytes]] = {}
        while waiting:
            scope, mine, other, at = waiting.pop()
            seen = (other, _bytes(at) if scope else b"")
            if (scope, id(mine)) in met:  # operations share operands
                if met[scope, id(mine)] != seen:
                    return False
                continue
            met[scope, id(mine)] = seen
            self._taken += 1
            if self._taken > limits.NODES or not _alike(mine, other):
                return False
            inner = _inner(mine, other, at, places)
            if not self._forms((scope, id(mine)), other.forms if inner is None else other.forms[len(inner) :], at,
                               places):
                return False
            waiting += [(scope, a, b, at) for a, b in zip(mine.children, other.children, strict=True)]
            if inner is not None:
                assert isinstance(mine, Element) and isinstance(other, Element)
                inside = self._scope((scope, id(mine)), mine.whole, inner)
                pairs = zip(mine.whole.operands, other.whole.operands, strict=True)
                waiting += [(inside, a.body, b.body, inner) for a, b in pairs]
        return True

    def _forms(self, node: Node, forms: Sequence[Affine], values: Values, places: Array) -> bool:
        """Take up the forms of a node."""
        for k, form in enumerate(forms):
            parts = _parts(form, values)
            if parts is None or (1 + len(self.forms)) * self.places > limits.VALUES:
                return False
            known, column = self.forms.setdefault((node, k), (parts[0], np.empty(self.places, np.int64)))
            if known != parts[0]:
                return False
            column[places] = parts[1]
        return True

    def _scope(self, node: Node, whole: Whole, values: Values) -> Scope:
        """Where the operands of an element of the model stand: the same place for elements of one whole tensor."""
        if node not in self.scopes:
            self.scopes[node] = self._known.setdefault((id(whole), _bytes(values)), 1 + len(self._known))
        return self.scopes[node]

    def repeats(
        self, forms: Mapping[tuple[Node, int], Affine], names: Sequence[str], extents: Sequence[int], *, is_shared: bool
    ) -> bool:
        """Whether sums, chains or whole tensors would be computed again for places where they are the same.

        ``is_shared``: whether those around which nothing is made may be computed once for several places now.
        """
        inside: dict[Scope, set[Scope]] = {}
        for (scope, _), inner in self.scopes.items():
            inside.setdefault(scope, set()).add(inner)
        scopes = [*range(1, 1 + len(self._known)), *([0] if is_shared and traits.is_heavy(self.model) else [])]
        for scope in scopes:
            within, waiting = {scope}, [scope]
            while waiting:
                more = inside.get(waiting.pop(), set()) - within
                within |= more
                waiting += more
            mine = [key for key in forms if key[0][0] in within]
            used = frozenset[str]().union(*(forms[key].variables() for key in mine))
            at = tuple(slice(None) if name in used else 0 for name in names)
            if _are_some_equal([self.forms[key][1].reshape(extents)[at].reshape(-1) for key in mine]):
                return True
        return False

    def rebuilt(self, forms: Mapping[tuple[Node, int], Affine], ranges: Ranges) -> Expr:
        """The model with other forms, over variables with these ranges."""
        made, wholes = dict[Node, Expr](), dict[Scope, Whole]()

        def build(scope: Scope, e: Expr) -> Expr:
            node = scope, id(e)
            if node not in made:
                inside = self.scopes.get(node)
                if inside is None:
                    own = [forms[node, k] for k in range(len(e.forms))]
                    made[node] = e.rebuilt(own, [build(scope, child) for child in e.children])
                else:
                    assert isinstance(e, Element)
                    made[node] = element(e, node, inside)
            return made[node]

        def element(e: Element, node: Node, inside: Scope) -> Expr:
            if inside not in wholes:
                wholes[inside] = _over(e.whole, [build(inside, o.body) for o in e.whole.operands], ranges)
            whole = wholes[inside]
            axes = [forms[node, k] for k in range(len(e.index) - len(e.whole.parameters))]
            first = [Affine.variable(name) - ranges[name][0] for name, _ in whole.parameters]
            return Element(whole, e.number, (*first, *axes), e.dtype)

        return build(0, self.model)


def _alike(a: Expr, b: Expr) -> bool:
    """Whether two nodes differ in forms, sub-expressions and the points of whole tensors alone."""
    if a is b:
        return True
    if isinstance(a, Element) and isinstance(b, Element) and _is_of_operands(a):
        return _kind(a) == _kind(b)
    if type(a) is not type(b) or len(a.forms) != len(b.forms) or len(a.children) != len(b.children):
        return False
    return a.rebuilt(b.forms, b.children) == b


def _kind(e: Element) -> tuple[object, ...]:
    """All of an element but its place, and what the operands are made of."""
    axes = tuple([operand.axes for operand in e.whole.operands])
    return e.whole.function, axes, e.number, len(e.index) - len(e.whole.parameters), e.dtype


def _is_of_operands(e: Element) -> bool:
    """Whether a whole tensor depends on its parameters by its operands alone."""
    return not e.whole.function.variables


def _inner(mine: Expr, other: Expr, values: Values, places: Array) -> Values | None:
    """The values of the parameters of a whole tensor, of which ``other`` is an element; None of others."""
    if not isinstance(mine, Element) or not isinstance(other, Element) or not _is_of_operands(other):
        return None
    whole, found = other.whole, dict[str, Array]()
    for (name, _), form in zip(whole.parameters, other.index):
        parts = _parts(form, values)
        if parts is None or parts[0].terms:
            return None
        found[name] = np.broadcast_to(parts[1], places.shape)  # of a constant it is one number
    return found


def _over(whole: Whole, bodies: Sequence[Expr], ranges: Ranges) -> Whole:
    """A whole tensor of operands over variables with these ranges: parameters run from 0."""
    used = frozenset[str]().union(*map(free, bodies)) & ranges.keys()
    parameters = tuple((name, ranges[name][1] - ranges[name][0] + 1) for name in sorted(used))
    shifted = {name: Affine.variable(name) + ranges[name][0] for name, _ in parameters if ranges[name][0]}
    operands = []
    for operand, body in zip(whole.operands, bodies, strict=True):
        inner = over((*parameters, *operand.axes), {})
        operands.append(Operand(operand.axes, substitute(body, shifted, inner)))
    return Whole(whole.function, parameters, tuple(operands))


def _bytes(values: Values) -> bytes:
    return b"".join([values[name].tobytes() for name in sorted(values)])


def _parts(form: Affine, values: Values) -> tuple[Affine, Array] | None:
    """The terms without variables that have values, and the value of the others; None where a term has both."""
    rest: list[tuple[Atom, int]] = []
    own: list[tuple[Atom, int]] = []
    for term in form.terms:
        variables = {term[0]} if isinstance(term[0], str) else term[0].numerator.variables()
        if variables <= values.keys():
            own.append(term)
        elif variables.isdisjoint(values.keys()):
            rest.append(term)
        else:
            return None
    return Affine(0, tuple(rest)), Affine(form.constant, tuple(own)).evaluate(values)


def _are_some_equal(columns: Sequence[Array]) -> bool:
    """Whether two rows are equal, or may be: of each a number is looked at that nearly all others have not."""
    if not columns:
        return False
    factors = np.random.default_rng(0).integers(1, 1 << 62, len(columns)) | 1
    rows = sum(column * factor for column, factor in zip(columns, factors))
    return len(np.unique(rows)) < len(columns[0])


def _affine(
    rest: Affine, values: Array, names: Sequence[str], ranges: Ranges, extents: Sequence[int]
) -> Affine | None:
    """The form that has these values at all places and is affine in the variables ``names``, with the ``rest``."""
    grid = values.reshape(extents)
    corner = grid[(0,) * len(extents)]
    found, expected = rest + int(corner), np.full(extents, corner)
    for axis, (name, extent) in enumerate(zip(names, extents)):
        if extent > 1:
            step = int(grid[tuple(int(a == axis) for a in range(len(extents)))] - corner)
            shape = [extent if a == axis else 1 for a in range(len(extents))]
            expected = expected + step * np.arange(extent).reshape(shape)
            found = found + (Affine.variable(name) - ranges[name][0]) * step
    return found if np.array_equal(expected, grid) else None
