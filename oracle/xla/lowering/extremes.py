"""Lowering maxima and minima: of few elements one after the other, of many as reductions of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any

from archloom.oracle.affine import Affine
from archloom.oracle.late_jax import jnp
from archloom.oracle.taidl.operators.carriers import element, flush, value
from archloom.oracle.xla.lowering.views import Spread, Spreading, names_of
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.constraints import case_begins
from archloom.oracle.xla.notation.expr import Expr, Extreme, Fold, Ranges, Sum
from archloom.oracle.xla.notation.substitution import substitute

UNROLL = 64
"""Up to how many elements a window is unrolled, where no element takes a sum (see :func:`unrolled`)."""

PIECES = 4
"""Up to how many cases along a variable are reductions of their own. A free choice."""


def extreme(lowering: Spreading, e: Extreme, ranges: Ranges) -> Spread:
    """The array of a maximum or a minimum over its free variables."""
    names = names_of(e, ranges)
    combine = jnp.maximum if e.kind == "max" else jnp.minimum
    made = _one_by_one(lowering, e, names, ranges) if unrolled(e) else (
        _reduced(lowering, piece, names, ranges) for piece in pieces(e, ranges))
    return Spread(element(reduce(combine, made), e.dtype), names)


def _one_by_one(lowering: Spreading, e: Extreme, names: tuple[str, ...], ranges: Ranges) -> Iterator[Any]:
    for point in product(*(range(n) for _, n in e.variables)):
        values = {v: Affine(x) for (v, _), x in zip(e.variables, point, strict=True)}
        yield flush(value(lowering.spread(substitute(e.body, values, ranges), ranges).expand(names), e.dtype))


def _reduced(lowering: Spreading, e: Extreme, names: tuple[str, ...], ranges: Ranges) -> Any:
    axes = (*names, *(n for n, _ in e.variables))
    array = lowering.spread(e.body, {**ranges, **e.bound_ranges(ranges)}).expand(axes)
    along = jnp.max if e.kind == "max" else jnp.min
    return along(flush(value(array, e.dtype)), axis=tuple(range(len(names), len(axes))))


def unrolled(e: Extreme) -> bool:
    """Whether a maximum is one of slices, one for each element of the window, rather than of the elements in turn."""
    small = math.prod(n for _, n in e.variables) <= UNROLL
    return small and not _sums_along(e.body, frozenset(n for n, _ in e.variables), set())


def _sums_along(e: Expr, names: frozenset[str], seen: set[int]) -> bool:
    """Whether sums or chains differ with ``names``, so that each value would be a contraction of its own."""
    if id(e) in seen or not traits.is_heavy(e) or names.isdisjoint(expr.free(e)):
        return False
    seen.add(id(e))
    return isinstance(e, (Sum, Fold)) or any(_sums_along(c, names, seen) for c in e.children)


def pieces(e: Extreme, ranges: Ranges) -> list[Extreme]:
    """Extremes of integers whose extreme is this one, each over a part of the variable where one case holds: otherwise
    the cases, such as the number that a register begins with and those of a tensor, would become one array first."""
    begins = [0]
    if len(e.variables) == 1 and expr.is_integer(e.dtype):
        begins = sorted({0, *(b for b in case_begins(e.body, e.variables[0][0]) if 0 < b < e.variables[0][1])})
    if not 1 < len(begins) <= PIECES:
        return [e]
    ((name, extent),) = e.variables
    made = []
    for first, end in zip(begins, (*begins[1:], extent), strict=True):
        moved = {name: Affine.variable(name) + first}
        body = substitute(e.body, moved, {**ranges, name: (0, end - first - 1)})
        made.append(Extreme(e.kind, ((name, end - first),), body, e.dtype))
    return made
