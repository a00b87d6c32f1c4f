"""Products of matrices of signed bytes as functions of JAX, by machine code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.native import library
from archloom.oracle.native.tracing import is_portable
from archloom.oracle.native.ways import WAYS

SMALLEST = 1 << 13
"""From how many products on machine code counts: fewer take some microseconds, however they are made."""


def multiplies(rows: int, columns: int, depth: int) -> bool:
    """Whether :func:`product` may be called for matrices of these sizes, and takes less than XLA's own product.

    Where the processor multiplies tiles, XLA's is the faster one, but for a vector and a matrix.
    """
    large = rows * columns * depth >= SMALLEST
    wanted = large and (min(rows, columns) == 1 or not library.tiles())
    return wanted and not is_portable() and best() is not None


@cache
def best() -> str | None:
    """By which feature the processor multiplies bytes (:data:`WAYS`); None for other processors than x86 with AVX2."""
    return next((feature for feature in WAYS if feature in library.features()), None)


def product(a: Any, b: Any, feature: str | None = None) -> Any:
    """[..., m, k] x [..., k, n] of int8 as int32, with equal leading axes; sums wrap.

    ``feature`` is one that the processor has; by default the best.
    """
    feature = feature or best()
    if feature is None:
        raise ValueError("this processor has none of " + ", ".join(WAYS))
    return _batchable(feature)(a, b)


@cache
def _batchable(feature: str) -> Any:
    """The product by a feature; a batch by ``jax.vmap`` is more rows, or one more leading axis of both."""
    batchable = jax.custom_batching.custom_vmap(lambda a, b: _product(feature, a, b))

    @batchable.def_vmap
    def _(size: int, batched: Sequence[bool], a: Any, b: Any) -> tuple[Any, bool]:
        if not batched[1]:
            rows = jnp.moveaxis(a, 0, -3)  # [..., size, m, k]
            made = batchable(rows.reshape(*rows.shape[:-3], -1, rows.shape[-1]), b)
            return jnp.moveaxis(made.reshape(*rows.shape[:-1], b.shape[-1]), -3, 0), True
        return batchable(a if batched[0] else jnp.broadcast_to(a, (size, *a.shape)), b), True

    return batchable


def _product(feature: str, a: Any, b: Any) -> Any:
    columns = b.shape[-1]
    if 0 in (*a.shape, columns):
        return jnp.zeros((*a.shape[:-1], columns), jnp.int32)
    packed = _packed(feature, b)
    if not WAYS[feature].adds:
        a = a.astype(jnp.int16)
    return _call(f"{library.PRODUCTS}{feature}", (*a.shape[:-1], columns), jnp.int32, a, packed)


def _packed(feature: str, b: Any) -> Any:
    way, (*lead, depth, columns) = WAYS[feature], b.shape
    shape = (*lead, -(-columns // way.columns), -(-depth // way.group), 4 * way.columns)
    return _call(f"{library.PACKING}{feature}", shape, jnp.uint8, b)


def _call(name: str, shape: Sequence[int], dtype: Any, *arrays: Any) -> Any:
    library.register(name)
    return jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(tuple(shape), dtype))(*arrays)
