"""Workloads evaluated in NumPy, and random operands for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from archloom.mapper.workload import Epilogue, Workload


def random_inputs(workload: Workload, seed: int = 0) -> dict[str, np.ndarray]:
    """Full-range values for every argument."""
    rng = np.random.default_rng(seed)
    bounds = {"int8": (-128, 128), "int32": (-5000, 5000)}
    return {t.name: rng.integers(*bounds[t.dtype], t.shape).astype(t.dtype) for t in workload.inputs}


def evaluate(workload: Workload, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result as the definition of the workload gives it."""
    values = [inputs[t.name].astype(np.int64) for t in workload.inputs]
    bias = values[2] if workload.epilogue.bias else 0
    if workload.kind == "add":
        sums = values[0] + values[1]
    elif workload.kind == "gemm":
        sums = values[0] @ values[1] + bias
    else:
        sums = _convolve(workload, values[0], values[1]) + bias
    return _epilogue(workload.epilogue, sums.astype(np.int32)).reshape(workload.output.shape)


def _convolve(workload: Workload, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    top, left, bottom, right = workload.padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    n, oh, ow, o, c = (workload.extent(d) for d in ("n", "oh", "ow", "o", "c"))
    kernels = w if w.ndim == 5 else w[None]
    sums = np.zeros((n, oh, ow, len(kernels) * o), np.int64)
    (sh, sw), (dh, dw) = workload.stride, workload.dilation
    for g, kh, kw in np.ndindex(*kernels.shape[:3]):
        rows, columns = slice(kh * dh, kh * dh + (oh - 1) * sh + 1, sh), slice(kw * dw, kw * dw + (ow - 1) * sw + 1, sw)
        sums[..., g * o:(g + 1) * o] += padded[:, rows, columns, g * c:(g + 1) * c] @ kernels[g, kh, kw]
    return sums


def _epilogue(epilogue: Epilogue, sums: np.ndarray) -> np.ndarray:
    if epilogue.out_dtype == "int32":
        return sums
    y = np.rint(sums.astype(np.float32) * np.float32(epilogue.scale)).clip(-128, 127).astype(np.int8)
    y = np.maximum(y, 0) if epilogue.relu else y
    if epilogue.pool is None:
        return y
    pool = epilogue.pool
    top, left, bottom, right = pool.padding
    padded = np.pad(y, ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (pool.size, pool.size), axis=(1, 2))
    return windows[:, ::pool.stride, ::pool.stride].max(axis=(-2, -1))
