"""The six GEMMs of Exo on Gemmini of the TAIDL paper's Figure 21: results are int32 of int8's range."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.oracle.oracle_suites.case import Case, int8, recorded
from examples.gemmini_kernels import EXO_SIZES, exo_matmul

LEAST_OVER_TAIDL = 60


def made(n: int, m: int, k: int) -> tuple[Any, Any]:
    kernel = exo_matmul(n, m, k)
    return kernel, kernel.isa


def native(a: Any, b: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp
    from jax import lax

    product = lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return (jnp.clip(product, -128, 127),)


def cases() -> list[Case]:
    return [
        Case(f"exo_{n}x{m}x{k}", partial(made, n, m, k), native, int8([(n, k), (k, m)]),
             recorded(suite="exo", size=f"{n}x{m}x{k}"), least_over_taidl=LEAST_OVER_TAIDL)
        for n, m, k in EXO_SIZES
    ]
