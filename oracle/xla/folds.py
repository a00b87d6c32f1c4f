"""Lowering chains: values that are computed one from the other, in the order that the stream states.

All that does not depend on the chain is computed before it, for every step and element at once. What is left is a
loop of a few element-wise operations on one vector, which XLA compiles to a single kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oracle.xla.expr import Carry, Expr, Fold, Map, Ranges, carries, free
from oracle.xla.ops import elementwise
from oracle.xla.views import Spread, extent

if TYPE_CHECKING:
    from oracle.xla.lower import Lowering

UNROLLED = 2
"""Up to how many steps a chain is written out."""

Step = Callable[[Any, Any], Any]
"""The next value for the number of the step and the value so far."""


def fold(lowering: "Lowering", e: Fold, ranges: Ranges) -> Spread:
    """The array of a chain over its free variables."""
    import jax.numpy as jnp
    from jax import lax

    mine = free(e)
    names = tuple(n for n, (low, high) in ranges.items() if n in mine and low != high)
    inner = {**ranges, **{n: (0, x - 1) for n, x in e.variables}}
    shape, steps = tuple(extent(ranges[n]) for n in names), math.prod(x for _, x in e.variables)
    lowering.operations.append(f"chain of {steps} over {math.prod(shape)}")
    step = _step(lowering, e, e.body, names, inner)
    start = jnp.broadcast_to(lowering.spread(e.start, ranges).expand(names), shape)

    def body(i: Any, value: Any) -> Any:
        return jnp.broadcast_to(step(i, value), shape)

    if steps <= UNROLLED:
        for i in range(steps):
            start = body(i, start)
        return Spread(start, names)
    return Spread(lax.fori_loop(0, steps, body, start), names)


def _step(lowering: "Lowering", e: Fold, body: Expr, names: tuple[str, ...], ranges: Ranges) -> Step:
    """What a sub-expression of the chain's body is in each step."""
    if isinstance(body, Carry):
        return lambda i, value: value
    if not carries(body):
        return _given(lowering, e, body, names, ranges)
    assert isinstance(body, Map)
    operands = [_step(lowering, e, o, names, ranges) for o in body.operands]
    opcode, attributes, dtype = body.opcode, body.attributes, body.dtype
    return lambda i, value: elementwise(opcode, [o(i, value) for o in operands], attributes, dtype)


def _given(lowering: "Lowering", e: Fold, part: Expr, names: tuple[str, ...], ranges: Ranges) -> Step:
    """A part that does not depend on the chain: computed for all steps, a row for each."""
    import jax.numpy as jnp
    from jax import lax

    found = lowering.spread(part, ranges)
    own = [n for n, _ in e.variables]
    if not any(n in found.names for n in own):
        array = found.expand(names)
        return lambda i, value: array
    array = found.expand((*own, *names))
    array = jnp.broadcast_to(array, (*(x for _, x in e.variables), *array.shape[len(own):]))
    rows = array.reshape(-1, *array.shape[len(own):])
    return lambda i, value: lax.dynamic_index_in_dim(rows, i, 0, keepdims=False)
