"""Products of integers that are right on every device.

On GPUs, XLA's Triton kernels for products of bytes give wrong integers (JAX 0.11.2 on an H100: every element of
[9, 21] x [21, 11], unless autotuning prefers another kernel). Programs that are compiled by themselves go without those
kernels, by an option. Where a program is part of another one, whose options are not ours, products of bytes are taken
in float32: as long as sums stay below 2^24, they are exact in any order. Integers of 32 bits have no fast products
there (I-BERT's encoder took 19 times as long by them as by those of bytes on an H200). What was traced for programs of
one kind is never part of one of the other kind (:func:`jit_within`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from archloom.oracle import native
from archloom.oracle.late_jax import jax, jnp, lax

WITHOUT_TRITON = {"xla_gpu_enable_triton_gemm": False}
"""XLA's option for programs on GPUs."""

_own: ContextVar[bool] = ContextVar("own", default=False)


@contextmanager
def own_options() -> Iterator[None]:
    """What is traced within is compiled with :data:`WITHOUT_TRITON` where it runs on a GPU."""
    before = _own.set(True)
    try:
        yield
    finally:
        _own.reset(before)


def jit_within(function: Callable[..., Any]) -> Callable[..., Any]:
    """``jax.jit`` of ``function`` for calls within other traces: JAX keeps what it traced, and does not know of
    :func:`own_options`, so that there is one for each."""
    own, others = jax.jit(own_options()(function)), jax.jit(function)
    return lambda *arrays: (own if _own.get() else others)(*arrays)


def integer_dot(left: Any, right: Any, dims: Any, dtype: Any) -> Any:
    """``lax.dot_general`` of integers with sums of ``dtype``; operands of one or two bytes stay so where that is
    right. Bytes with sums of 32 bits are multiplied by machine code where that takes less."""
    if left.dtype == right.dtype == "int8" and dtype == "int32":
        a, b = _matrices(left, right, dims)
        if native.multiplies(a.shape[-2], b.shape[-1], a.shape[-1]):
            return native.product(a, b).reshape(_shape(left, right, dims))
    if jax.default_backend() == "gpu" and not _own.get():
        if left.dtype.itemsize == right.dtype.itemsize == 1:
            return _in_floats(left, right, dims, dtype)
        left, right = (x.astype(jnp.int32) if x.dtype.itemsize < 4 else x for x in (left, right))
        sums = dtype if jnp.dtype(dtype).itemsize >= 4 else "int32"  # what is wrapped at the end is the same
        return lax.dot_general(left, right, dims, preferred_element_type=sums).astype(dtype)
    return lax.dot_general(left, right, dims, preferred_element_type=dtype)


def _in_floats(left: Any, right: Any, dims: Any, dtype: Any) -> Any:
    """The product of bytes in float32, in so many pieces of what is summed that no sum passes 2^24."""
    a, b = _matrices(left, right, dims)
    most = (1 << 24) // (_largest(a) * _largest(b))
    a, b = a.astype(jnp.float32), b.astype(jnp.float32)
    parts = [jnp.matmul(a[..., k:k + most], b[..., k:k + most, :], precision=lax.Precision.HIGHEST)
             for k in range(0, max(1, a.shape[-1]), most)]
    sums = dtype if jnp.dtype(dtype).itemsize >= 4 else jnp.int32
    return sum(part.astype(sums) for part in parts).astype(dtype).reshape(_shape(left, right, dims))


def _largest(x: Any) -> int:
    return -int(jnp.iinfo(x.dtype).min) or int(jnp.iinfo(x.dtype).max)


def _matrices(left: Any, right: Any, dims: Any) -> tuple[Any, Any]:
    """The operands as [batch, free, contracted] and [batch, contracted, free]."""
    (of_left, of_right), (left_batch, right_batch) = dims
    return (as_matrices(left, left_batch, of_left, contracting_last=True),
            as_matrices(right, right_batch, of_right, contracting_last=False))


def _shape(left: Any, right: Any, dims: Any) -> tuple[int, ...]:
    """Of their product."""
    (of_left, of_right), (left_batch, right_batch) = dims
    free = [x.shape[i] for x, batch, summed in ((left, left_batch, of_left), (right, right_batch, of_right))
            for i in _free(x, batch, summed)]
    return (*(left.shape[i] for i in left_batch), *free)


def as_matrices(x: Any, batch: Sequence[int], contracting: Sequence[int], *, contracting_last: bool) -> Any:
    """The tensor [batch, free, contracted], or [batch, contracted, free]; without batch axes, a matrix."""
    if x.ndim == 2 and not batch and tuple(contracting) == ((1,) if contracting_last else (0,)):
        return x
    free = _free(x, batch, contracting)
    inner = [*free, *contracting] if contracting_last else [*contracting, *free]
    sizes = [math.prod(x.shape[i] for i in part) for part in (batch, free, contracting)]
    matrix = (sizes[1], sizes[2]) if contracting_last else (sizes[2], sizes[1])
    lead = (sizes[0],) if batch else ()
    return x.transpose([*batch, *inner]).reshape(*lead, *matrix)


def _free(x: Any, batch: Sequence[int], contracting: Sequence[int]) -> list[int]:
    """The axes that stay, one side's alone."""
    return [i for i in range(x.ndim) if i not in (*batch, *contracting)]
