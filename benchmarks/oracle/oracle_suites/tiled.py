"""Gemmini's tiled matmul of the TAIDL paper's Figure 19: DIM 16 to 1024, both dataflows, every size of the figure."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.oracle.oracle_suites.case import Case, int8, recorded
from examples.gemmini_kernels import Dataflow, tiled_matmul

MOST_ROWS = 4096
"""The largest I times DIM; I goes up in powers of two."""
MOST_INTERPRETED = 1 << 18
"""Elements of C up to which the interpreter runs as well."""
DATAFLOWS: tuple[Dataflow, ...] = ("OS", "WS")


def sizes() -> list[tuple[int, int]]:
    """The pairs (DIM, I) of the figure."""
    return [(dim, 1 << e) for dim in (16, 64, 256, 1024) for e in range((MOST_ROWS // dim).bit_length())]


def made(dim: int, tiles: int, dataflow: Dataflow) -> tuple[Any, Any]:
    kernel = tiled_matmul(dim, tiles, dataflow)
    return kernel, kernel.isa


def native(a: Any, b: Any, d: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp
    from jax import lax

    product = lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return (jnp.clip(product + d.astype(jnp.int32), -128, 127).astype(jnp.int8),)


def cases() -> list[Case]:
    return [
        Case(f"tiled_{dataflow.lower()}_dim{dim}_i{tiles}", partial(made, dim, tiles, dataflow), native,
             int8([(tiles * dim, dim), (dim, dim), (tiles * dim, dim)]),
             recorded(kernel="tiled_matmul", DIM=dim, df=dataflow, size=tiles),
             interpreted=tiles * dim * dim <= MOST_INTERPRETED)
        for dataflow in DATAFLOWS for dim, tiles in sizes()
    ]
