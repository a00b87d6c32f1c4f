"""Fused multiply-adds of arrays as functions of JAX, by machine code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.native import library
from archloom.oracle.native.tracing import is_portable

SMALLEST = 1 << 12
"""From how many numbers on machine code counts. A free choice: alone, 512 take 7 us and by integers 9, 4,096 take 6 and
81, but of several operations on few numbers XLA makes one loop."""


def fuses(shape: Sequence[int]) -> bool:
    """Whether :func:`fused` may be called for results of this shape, and takes less than what XLA has."""
    return math.prod(shape) >= SMALLEST and not is_portable() and "fma" in library.features()


def fused(a: Any, b: Any, c: Any, *, flush: bool) -> Any:
    """``a * b + c`` of f32 that broadcast against each other, rounded once; ``flush``: subnormal numbers are zeros."""
    name = f"{library.FUSED}{'flush' if flush else 'keep'}"
    library.register(name)
    return _batchable(name)(a, b, c)


@cache
def _batchable(name: str) -> Callable[[Any, Any, Any], Any]:
    """A handler as a function of JAX; a batch by ``jax.vmap`` is one more leading axis."""
    batchable = jax.custom_batching.custom_vmap(lambda *operands: _call(name, operands))

    @batchable.def_vmap
    def _(size: int, batched: Sequence[bool], *operands: Any) -> tuple[Any, bool]:
        rank = max(x.ndim - has for x, has in zip(operands, batched, strict=True))
        return batchable(*(x.reshape(size, *(1,) * (rank - x.ndim + 1), *x.shape[1:]) if has else x
                           for x, has in zip(operands, batched, strict=True))), True

    return batchable  # type: ignore[no-any-return]


def _call(name: str, operands: Sequence[Any]) -> Any:
    shape = jnp.broadcast_shapes(*(x.shape for x in operands))
    flat = [x.reshape(-1) if x.size == 1 else jnp.broadcast_to(x, shape).reshape(-1) for x in operands]
    made = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((math.prod(shape),), jnp.float32))(*flat)
    return made.reshape(shape)
