"""oneDNN's kernels of the TAIDL paper's Figure 20: AMX and AVX-512, 4 to 256 blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.oracle.oracle_suites.case import Case, recorded
from examples.amx_kernels import KERNELS

BLOCKS = tuple(1 << e for e in range(2, 9))
MOST_INTERPRETED = 64
"""Blocks up to which the interpreter runs as well."""


def made(kernel: str, blocks: int) -> tuple[Any, Any]:
    from archloom.oracle.taidl import load

    return KERNELS[kernel](blocks), load("amx")


def _rows(a: Any, blocks: int) -> Any:
    """A's tiles of all blocks side by side, as unsigned bytes: rows move on by one from block to block."""
    import jax.numpy as jnp
    from jax import lax

    lines = lax.bitcast_convert_type(a, jnp.uint8).reshape(blocks + 15, 64)
    return jnp.stack([lines[m:m + blocks].reshape(-1) for m in range(16)])


def _columns(b: Any, blocks: int, first: int) -> Any:
    """B's tiles of all blocks one below the other, unpacked from groups of four."""
    tiles = b.reshape(blocks, 32, 16, 4)[:, first:first + 16]
    return tiles.transpose(0, 1, 3, 2).reshape(blocks * 64, 16)


def _product(a: Any, b: Any) -> Any:
    """Unsigned by signed bytes."""
    import jax.numpy as jnp
    from jax import lax

    return lax.dot_general(a.astype(jnp.int32), b.astype(jnp.int32), (((1,), (0,)), ((), ()))).reshape(256)


def cnn_inference_amx(blocks: int, a0: Any, a1: Any, b: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    rows = [_rows(a, blocks) for a in (a0, a1)]
    columns = [_columns(b, blocks, first) for first in (0, 1)]
    return (jnp.stack([_product(x, y) for x in rows for y in columns]),)


def rnn_inference_amx(blocks: int, a: Any, b: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    rows = _rows(a, blocks)
    return (jnp.stack([_product(rows, _columns(b, blocks, first)) for first in (0, 1)]),)


def sgemm_avx(blocks: int, vectors: Any, scalars: Any, offset: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    used = jnp.roll(scalars[:4, :, 0], 1, 0)
    factors = jnp.broadcast_to(used, (blocks, 4, 2)).at[0, 0].set(scalars[4, :, 0])
    sums = jnp.einsum("bvl,bjc->vjcl", vectors, factors, precision="highest").reshape(24, 16)
    return (jnp.concatenate([jnp.zeros((8, 16), jnp.float32), offset[8:] + sums]),)


def mem_format_prop_avx(blocks: int, scalars: Any, vectors: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    sums = jnp.einsum("bvl,j->jvl", vectors, scalars[::-1, 0], precision="highest").reshape(28, 16)
    return (jnp.concatenate([jnp.zeros((4, 16), jnp.float32), sums]),)


def cnn_inference_mix(blocks: int, a0: Any, a1: Any, b: Any, *more: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    low, scale, shift, factor, numbers = more
    scaled = jnp.maximum(numbers * factor + shift, low) * scale[0]
    out = jnp.round(jnp.clip(scaled, 0, 255)).astype(jnp.uint8)
    return (*cnn_inference_amx(blocks, a0, a1, b), out)


NATIVE: dict[str, Callable[..., tuple[Any, ...]]] = {
    f.__name__: f
    for f in (cnn_inference_amx, rnn_inference_amx, sgemm_avx, mem_format_prop_avx, cnn_inference_mix)
}
TOLERANCE = {"sgemm_avx": 1e-5, "mem_format_prop_avx": 1e-5}


def inputs(kernel: str, blocks: int, random: np.random.Generator) -> Sequence[np.ndarray]:
    """Full-range bytes; floats such that the bytes of the mixed kernel's output stage use their range."""
    arrays: list[np.ndarray] = []
    for tensor in KERNELS[kernel](blocks).arguments:
        if tensor.dtype == "int8":
            arrays.append(random.integers(-128, 128, tensor.shape, dtype=np.int8))
        else:
            # multiples of 1/16: the mixed kernel's sums are then exact however they are rounded
            grid = random.integers(-64, 65, tensor.shape) / (4 if tensor.name == "in_z0" else 16)
            exact = kernel == "cnn_inference_mix"
            arrays.append((grid if exact else random.standard_normal(tensor.shape)).astype(np.float32))
    return arrays


def cases() -> list[Case]:
    return [
        Case(f"{kernel}_{blocks}", partial(made, kernel, blocks), partial(NATIVE[kernel], blocks),
             partial(inputs, kernel, blocks), recorded(suite="amx", kernel=kernel, size=blocks),
             interpreted=blocks <= MOST_INTERPRETED, tolerance=TOLERANCE.get(kernel))
        for kernel in KERNELS for blocks in BLOCKS
    ]
