"""NumPy references of what Eyeriss computes, and random arguments for streams."""

from __future__ import annotations

import numpy as np

from archloom.oracle.stream import Stream
from archloom.uma_targets.eyeriss.problem import Shape


def arguments(stream: Stream, seed: int = 0) -> dict[str, np.ndarray]:
    """Random arguments: integers over their whole range, floats that hold small integers."""
    rng = np.random.default_rng(seed)
    found = {}
    for tensor in stream.arguments:
        dtype = np.dtype(tensor.dtype)
        low, high = (-50, 50) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        found[tensor.name] = rng.integers(low, high, tensor.shape, endpoint=True).astype(dtype)
    return found


def convolution(
    given: dict[str, np.ndarray], shape: Shape, dtype: np.dtype, *, relu: bool = False, fraction: int = 0
) -> np.ndarray:
    """``Y[n, m, e, f]``, each product shifted right by ``fraction`` bits, modulo the width of ``dtype``."""
    x, w = (given[name].astype(np.int64) for name in ("X", "W"))
    bottom = max(0, shape.reach(shape.e, shape.r) - shape.top - shape.h)
    right = max(0, shape.reach(shape.f, shape.s) - shape.left - shape.w)
    padded = np.pad(x, ((0, 0), (0, 0), (shape.top, bottom), (shape.left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (shape.r, shape.s), axis=(2, 3))
    windows = windows[:, :, ::shape.stride, ::shape.stride][:, :, :shape.e, :shape.f]
    products = windows[:, None] * w[None, :, :, None, None]
    sums = (products >> fraction).sum(axis=(2, 5, 6))
    if "bias" in given:
        sums = sums + given["bias"].astype(np.int64)[None, :, None, None]
    narrow = sums.astype(dtype)
    return np.maximum(narrow, 0) if relu else narrow
