"""Programs of element-wise operations as functions of JAX, by machine code: without XLA, which has no fused
multiply-add."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.native import library
from archloom.oracle.native.operations import fma
from archloom.oracle.native.program import Place, Program, name_of
from archloom.oracle.native.program_code import LANES
from archloom.oracle.native.tracing import is_portable

SMALLEST = 1 << 12
"""From how many numbers on machine code counts. A free choice: alone, 512 take 7 us and by integers 9, 4,096 take 6 and
81, but of several operations on few numbers XLA makes one loop."""

NUMPY = {"f32": "float32", "i32": "int32", "u32": "uint32"}

ALONE = {flush: Program(("f32",) * 3, (), ((fma(flush=flush), (0, 1, 2)),)) for flush in (False, True)}
"""A fused multiply-add."""


def fuses(shape: Sequence[int]) -> bool:
    """Whether :func:`fused` may be called for results of this shape, and takes less than what XLA has."""
    return math.prod(shape) >= SMALLEST and not is_portable() and "fma" in library.features()


def fused(program: Program, *operands: Any) -> Any:
    """The result of a program, of operands of its types that broadcast against each other; truth values as u32."""
    return _batchable(program)(*operands)


@lru_cache(maxsize=1 << 10)
def _batchable(program: Program) -> Callable[..., Any]:
    """A program as a function of JAX; a batch by ``jax.vmap`` is one more leading axis."""
    batchable = jax.custom_batching.custom_vmap(lambda *operands: _call(program, operands))

    @batchable.def_vmap
    def _(size: int, batched: Sequence[bool], *operands: Any) -> tuple[Any, bool]:
        rank = max(x.ndim - has for x, has in zip(operands, batched, strict=True))
        return batchable(*(x.reshape(size, *(1,) * (rank - x.ndim + 1), *x.shape[1:]) if has else x
                           for x, has in zip(operands, batched, strict=True))), True

    return batchable  # type: ignore[no-any-return]


def _call(program: Program, operands: Sequence[Any]) -> Any:
    shape = jnp.broadcast_shapes(*(x.shape for x in operands))
    axis, places = placed([x.shape for x in operands], shape)
    arrays, numbers = list[Any](), list[Any]()
    for x, place in zip(operands, places, strict=True):
        if place == "one":
            numbers.append(jax.lax.bitcast_convert_type(x.reshape(1), jnp.uint32))
        else:
            arrays.append((jnp.broadcast_to(x, shape) if place == "all" else x).reshape(-1))
    if numbers:
        arrays.append(jnp.concatenate(numbers))
    name = name_of(program, places)
    library.register(name)
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    made = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(matrix, NUMPY[program.result]))(*arrays)
    return made.reshape(shape)


def placed(operands: Sequence[Sequence[int]], shape: Sequence[int]) -> tuple[int, tuple[Place, ...]]:
    """Before which axis columns begin, and where the elements of each operand are, so that the fewest are copied: those
    that are ``all``, but have not all of the elements."""
    found = []
    for axis in range(len(shape)):
        if axis and math.prod(shape[axis:]) < LANES:
            break
        places = tuple(_place((1,) * (len(shape) - len(x)) + tuple(x), shape, axis) for x in operands)
        copies = sum(p == "all" and math.prod(x) < math.prod(shape) for p, x in zip(places, operands, strict=True))
        found.append((copies, axis, places))
    _, axis, places = min(found)
    return axis, places


def _place(operand: Sequence[int], shape: Sequence[int], axis: int) -> Place:
    sizes = math.prod(operand), math.prod(operand[:axis]), math.prod(operand[axis:])
    if sizes[0] == 1:
        return "one"
    if sizes[1] == 1 and sizes[2] == math.prod(shape[axis:]):
        return "columns" if axis and math.prod(shape[:axis]) > 1 else "all"
    return "rows" if sizes[2] == 1 and sizes[1] == math.prod(shape[:axis]) else "all"
