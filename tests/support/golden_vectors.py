"""Vectors like the recorded ones, of any size: the same names and arrays, results by plain NumPy formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def _bytes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, dtype=np.int8)


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """With six decimals, as recorded."""
    return rng.uniform(-4, 4, shape).round(6).astype(np.float32)


def _sixteenths(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Few digits: sums and products of some of them are exact in whatever order."""
    return (rng.integers(-640, 640, shape) / 16).astype(np.float32)


def tiled_matmul(rng: np.random.Generator, dim: int, tiles: int) -> Arrays:
    a, b, d = _bytes(rng, tiles * dim, dim), _bytes(rng, dim, dim) // 16, _bytes(rng, tiles * dim, dim)
    c = np.clip(a.astype(np.int64) @ b.astype(np.int64) + d, -128, 127)
    return {"A": a, "B": b, "D": d, "C": c.astype(np.int8)}


def exo(rng: np.random.Generator, n: int, m: int, k: int) -> Arrays:
    a, b = _bytes(rng, n, k) // 16, _bytes(rng, k, m) // 16
    return {"A": a, "B": b, "C": np.clip(a.astype(np.int64) @ b.astype(np.int64), -128, 127).astype(np.int32)}


def _sums(a: np.ndarray, b: np.ndarray, blocks: int, column: int) -> np.ndarray:
    """What one tile adds up: 16 rows of A from row ``block`` on, and a tile of B that holds four rows side by side."""
    total = np.zeros((16, 16), np.int64)
    for block in range(blocks):
        left = a.view(np.uint8).reshape(-1, 64)[block:block + 16].astype(np.int64)
        first = 2048 * block + 64 * column
        right = b[first:first + 1024].reshape(16, 16, 4).transpose(0, 2, 1).reshape(64, 16).astype(np.int64)
        total += left @ right
    return total.astype(np.int32).reshape(256)


def rnn_inference_amx(rng: np.random.Generator, blocks: int) -> Arrays:
    a, b = _bytes(rng, 1024 + 64 * (blocks - 1)), _bytes(rng, 2048 * blocks)
    return {"in_t2": a, "in_t3": b, "out": np.stack([_sums(a, b, blocks, c) for c in (0, 1)])}


def cnn_inference_amx(rng: np.random.Generator, blocks: int) -> Arrays:
    rows = [_bytes(rng, 1024 + 64 * (blocks - 1)) for _ in range(2)]
    b = _bytes(rng, 2048 * blocks)
    out = np.stack([_sums(a, b, blocks, c) for a in rows for c in (0, 1)])
    return {"in_t4": rows[0], "in_t5": rows[1], "in_t6": b, "out": out}


def cnn_inference_mix(rng: np.random.Generator, blocks: int) -> Arrays:
    made = cnn_inference_amx(rng, blocks)
    made["out1"] = made.pop("out")
    low, shift, factor = (_sixteenths(rng, 16) for _ in range(3))
    scale, numbers = _sixteenths(rng, 4) / 16, _sixteenths(rng, blocks, 3, 16)
    out = np.rint(np.clip(np.maximum(numbers * factor + shift, low) * scale[0], 0, 255)).astype(np.uint8)
    return {**made, "max": low, "in_z0": scale, "in_z10": shift, "in_z15": factor, "avx_in": numbers, "out2": out}


def sgemm_avx(rng: np.random.Generator, blocks: int) -> Arrays:
    vectors, scalars, offset = _floats(rng, blocks, 3, 16), _floats(rng, 5, 2, 4), _floats(rng, 32, 16)
    out = np.zeros((32, 16))
    for step in range(4):
        for column in range(2):
            # a step's scalars are fetched in the one before it, the very first ones from the last place
            places = [4 if step == block == 0 else (step - 1) % 4 for block in range(blocks)]
            used = scalars[places, column, 0]
            for v in range(3):
                register = 8 + 2 * step + column + 8 * v
                out[register] = offset[register] + used.astype(float) @ vectors[:, v].astype(float)
    return {"in": vectors, "in_z6_7": scalars, "offset": offset, "out": out.round(6).astype(np.float32)}


def mem_format_prop_avx(rng: np.random.Generator, blocks: int) -> Arrays:
    scalars, vectors = _floats(rng, 14, 4), _floats(rng, blocks, 2, 16)
    out = np.zeros((32, 16))
    for step in range(14):
        out[30 - 2 * step:32 - 2 * step] = vectors.astype(float).sum(0) * float(scalars[step, 0])
    return {"in_z0": scalars, "in_z2_3": vectors, "out": out.round(6).astype(np.float32)}


AMX: tuple[Callable[[np.random.Generator, int], Arrays], ...] = (
    rnn_inference_amx, cnn_inference_amx, cnn_inference_mix, sgemm_avx, mem_format_prop_avx)
