"""Lowering chains: values that are computed one from the other, in the order that the stream states.

All that does not depend on the chain is computed before it, for every step and element at once. What is left is a
loop of a few element-wise operations on one vector, which XLA compiles to a single kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from archloom.oracle.affine import Affine
from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.xla.lowering.ops import elementwise
from archloom.oracle.xla.lowering.views import Spread, Spreading, extent
from archloom.oracle.xla.notation import expr
from archloom.oracle.xla.notation.constraints import Cases
from archloom.oracle.xla.notation.expr import Expr, Fold, Map, Ranges, Switch

UNROLLED = 2
"""Up to how many steps a chain is written out."""

Step = Callable[[Any, Any], Any]
"""The next value for the number of the step and the value so far."""


def fold(lowering: Spreading, e: Fold, ranges: Ranges) -> Spread:
    """The array of a chain over its free variables."""
    mine = expr.free(e)
    names = tuple(n for n, (low, high) in ranges.items() if n in mine and low != high)
    inner = {**ranges, **e.bound_ranges(ranges)}
    shape, steps = tuple(extent(ranges[n]) for n in names), math.prod(x for _, x in e.variables)
    lowering.record.operations.append(f"chain of {steps} over {math.prod(shape)}")
    step = _step(lowering, e, e.body, names, inner)
    start = jnp.broadcast_to(lowering.spread(e.start, ranges).expand(names), shape)

    def body(i: Any, value: Any) -> Any:
        return jnp.broadcast_to(step(i, value), shape)

    if steps <= UNROLLED:
        for i in range(steps):
            start = body(i, start)
        return Spread(start, names)
    return Spread(lax.fori_loop(0, steps, body, start), names)


def one_chain(e: Switch) -> Expr | None:
    """The cases as one chain of operations on distinctions, where they are chains of the same operations."""
    if not all(_chained(body) for _, _, body in e.cases):
        return None
    found = _merged(e.form, e.cases)
    return None if isinstance(found, Switch) else found


@expr.once
def _chained(e: Expr) -> bool:
    return isinstance(e, Fold) or (isinstance(e, Map) and any(_chained(o) for o in e.operands))


def _merged(form: Affine, cases: Cases) -> Expr | None:
    """The same operations on what is different; None where the carried value is used in different ways."""
    bodies = [body for _, _, body in cases]
    first = bodies[0]
    if all(body == first for body in bodies):
        return first
    if isinstance(first, Fold):
        if any(not isinstance(b, Fold) or b.variables != first.variables for b in bodies):
            return Switch(form, cases, first.dtype)
        start, body = (_merged(form, tuple((low, high, getattr(b, part)) for low, high, b in cases))
                       for part in ("start", "body"))
        return None if start is None or body is None else replace(first, start=start, body=body)
    if (isinstance(first, Map) and any(expr.carries(b) or _chained(b) for b in bodies)
            and all(expr.same_kind(b, replace(first, operands=b.children)) for b in bodies)):
        parts = [_merged(form, tuple((low, high, b.children[i]) for low, high, b in cases))
                 for i in range(len(first.operands))]
        return None if None in parts else replace(first, operands=tuple(p for p in parts if p is not None))
    return None if any(expr.carries(b) for b in bodies) else Switch(form, cases, first.dtype)


def _step(lowering: Spreading, e: Fold, body: Expr, names: tuple[str, ...], ranges: Ranges) -> Step:
    """What a sub-expression of the chain's body is in each step."""
    if isinstance(body, expr.Carry):
        return lambda i, value: value
    if not expr.carries(body):
        return _given(lowering, e, body, names, ranges)
    assert isinstance(body, Map)
    operands = [_step(lowering, e, o, names, ranges) for o in body.operands]
    opcode, attributes, dtype, types = body.opcode, body.attributes, body.dtype, [o.dtype for o in body.operands]
    return lambda i, value: elementwise(opcode, [o(i, value) for o in operands], attributes, dtype, types)


def _given(lowering: Spreading, e: Fold, part: Expr, names: tuple[str, ...], ranges: Ranges) -> Step:
    """A part that does not depend on the chain: computed for all steps, a row for each."""
    found = lowering.spread(part, ranges)
    own = [n for n, _ in e.variables]
    if not any(n in found.names for n in own):
        array = found.expand(names)
        return lambda i, value: array
    array = found.expand((*own, *names))
    array = jnp.broadcast_to(array, (*(x for _, x in e.variables), *array.shape[len(own):]))
    rows = array.reshape(-1, *array.shape[len(own):])
    return lambda i, value: lax.dynamic_index_in_dim(rows, i, 0, keepdims=False)
