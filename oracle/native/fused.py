"""Fused multiply-adds of arrays as functions of JAX, by machine code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.native import library
from archloom.oracle.native.tracing import is_portable

SMALLEST = 1 << 12
"""From how many numbers on machine code counts. A free choice: alone, 512 take 7 us and by integers 9, 4,096 take 6 and
81, but of several operations on few numbers XLA makes one loop."""

Step: TypeAlias = tuple[int, int, int]
"""Numbers of what is multiplied and added: of the operands first, then of the steps before."""


def fuses(shape: Sequence[int]) -> bool:
    """Whether :func:`fused` may be called for results of this shape, and takes less than what XLA has."""
    return math.prod(shape) >= SMALLEST and not is_portable() and "fma" in library.features()


def fused(*operands: Any, flush: bool, steps: Sequence[Step] = ((0, 1, 2),)) -> Any:
    """The result of the last of some steps ``a * b + c``, of f32 operands that broadcast against each other, each
    rounded once; ``flush``: subnormal numbers are zeros."""
    name = f"{library.FUSED}{'flush' if flush else 'keep'}"
    library.register(name)
    return _batchable(name, placed(steps, len(operands)))(*operands)


def placed(steps: Sequence[Step], operands: int) -> tuple[tuple[int, int, int, int], ...]:
    """The rows of a program (:mod:`.fused_code`): each step leaves its result in the place of one that is read no more,
    if there is any."""
    last = {o: s for s, step in enumerate(steps) for o in step}
    free, places, rows = list[int](), list[int](), []
    for s, step in enumerate(steps):
        read = [o if o < operands else places[o - operands] for o in step]
        free += [places[o - operands] for o in dict.fromkeys(step) if o >= operands and last[o] == s]
        places.append(free.pop() if free else operands + len(set(places)))
        rows.append((places[-1], *read))
    return tuple(rows)  # type: ignore[arg-type]


@lru_cache(maxsize=1 << 10)
def _batchable(name: str, rows: tuple[tuple[int, int, int, int], ...]) -> Callable[..., Any]:
    """A program as a function of JAX; a batch by ``jax.vmap`` is one more leading axis."""
    batchable = jax.custom_batching.custom_vmap(lambda *operands: _call(name, rows, operands))

    @batchable.def_vmap
    def _(size: int, batched: Sequence[bool], *operands: Any) -> tuple[Any, bool]:
        rank = max(x.ndim - has for x, has in zip(operands, batched, strict=True))
        return batchable(*(x.reshape(size, *(1,) * (rank - x.ndim + 1), *x.shape[1:]) if has else x
                           for x, has in zip(operands, batched, strict=True))), True

    return batchable  # type: ignore[no-any-return]


def _call(name: str, rows: Sequence[Sequence[int]], operands: Sequence[Any]) -> Any:
    shape = jnp.broadcast_shapes(*(x.shape for x in operands))
    flat = [x.reshape(-1) if x.size == 1 else jnp.broadcast_to(x, shape).reshape(-1) for x in operands]
    result = jax.ShapeDtypeStruct((math.prod(shape),), jnp.float32)
    return jax.ffi.ffi_call(name, result)(np.array(rows, np.int32), *flat).reshape(shape)
