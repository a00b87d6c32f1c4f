"""Products of matrices of signed bytes in bfloat16, where that gives the same integers sooner.

bfloat16 has eight significant bits and holds every signed byte. A product of two of them is at most 2^14 in magnitude,
so of up to :data:`DEEPEST` = 1024 products every sum, of all of them or of some, in whatever order, is an integer of at
most 2^24, and float32 holds all of those: nothing is ever rounded, whatever instructions add up.

XLA's kernels for bytes spend more on each product than those for bfloat16 on processors that multiply bfloat16 but
have no matrix unit for bytes (AMD's since Zen 4: 0.72 to 0.9 of the processor time from the sizes below on). Smaller
or narrower products lose more to the conversion of their operands than that.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from archloom.oracle.late_jax import jax, jnp

DEEPEST = 1 << 24 - 14
"""Up to how many products of two signed bytes float32 adds up without rounding."""

SHALLOWEST = 256
"""From how many products for each element on bfloat16 pays."""

NARROWEST = 128
"""From how many rows and columns on it pays: each byte that is converted takes part in so many products."""

SMALLEST = 1 << 25
"""From how many products in all on it pays."""


@cache
def processor() -> frozenset[str]:
    """The features of the processor, as Linux names them; none where another system runs."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())


def in_bfloat16(rows: int, columns: int, depth: int) -> bool:
    """Whether a product [rows, depth] x [depth, columns] of signed bytes is exact in bfloat16, and sooner made."""
    features = processor() if jax.default_backend() == "cpu" else frozenset()
    return ("avx512_bf16" in features and "amx_int8" not in features and SHALLOWEST <= depth <= DEEPEST
            and min(rows, columns) >= NARROWEST and rows * columns * depth >= SMALLEST)


def product(left: Any, right: Any) -> Any:
    """[m, k] x [k, n] of int8 as int32, by sums in float32; k at most :data:`DEEPEST`."""
    if left.shape[1] > DEEPEST:
        raise ValueError(f"sums of {left.shape[1]} products of bytes may take more than 24 bits")
    total = jnp.matmul(left.astype(jnp.bfloat16), right.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
    return total.astype(jnp.int32)
