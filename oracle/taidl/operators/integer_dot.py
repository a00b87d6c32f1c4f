"""Products of integers by XLA that are right on every device.

On GPUs, XLA's Triton kernels for products of bytes give wrong integers (JAX 0.11.2 on an H100: every element of
[9, 21] x [21, 11], unless autotuning prefers another kernel). Programs that are compiled by themselves go without those
kernels, by an option. Where a program is part of another one, whose options are not ours, bytes are widened first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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


def integer_dot(left: Any, right: Any, dims: Any, dtype: Any, **how: Any) -> Any:
    """``lax.dot_general`` of integers with sums of ``dtype``; operands of one or two bytes stay so where that is
    right."""
    if jax.default_backend() == "gpu" and not _own.get():
        left, right = (x.astype(jnp.int32) if x.dtype.itemsize < 4 else x for x in (left, right))
    return lax.dot_general(left, right, dims, preferred_element_type=dtype, **how)
