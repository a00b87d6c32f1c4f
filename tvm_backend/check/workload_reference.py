"""A plain NumPy evaluation of workloads: what every stream of a workload must compute."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from archloom.mapper import nests
from archloom.mapper.workload import Epilogue, Pool, Workload

EXACT_IN_FLOAT32 = 1 << 10
"""Sums of fewer products of bytes stay below 2**24."""


FLOAT_TOLERANCE: Mapping[str, float] = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 8e-2}
"""For what is computed in floats: part of the largest magnitude, since sums have another order, and operands and
results of float16 are rounded to 11 bits, of bfloat16 to 8."""


def evaluate(workload: Workload, arguments: Mapping[str, np.ndarray]) -> np.ndarray:
    """The output of a workload of integers for its input tensors by name."""
    return result_of_sums(sums_of(workload, arguments), workload, arguments)


def sums_of(workload: Workload, arguments: Mapping[str, np.ndarray]) -> np.ndarray:
    """The int32 sums of a workload of integers, bias included, for its input tensors by name."""
    tensors = logical(workload, arguments)
    rounding = workload.epilogue.requantization
    if rounding is not None and any(rounding.operand_zeros):
        for tensor, zero in zip(workload.inputs, rounding.operand_zeros, strict=False):
            tensors[tensor.name] = tensors[tensor.name].astype(np.int16) - np.int16(zero)
    return _sums(workload, tensors).astype(np.int32)


def in_floats(workload: Workload, arguments: Mapping[str, np.ndarray]) -> tuple[np.ndarray, float] | None:
    """The result of a product or a convolution of floats, in float64, and how far rounding may be off; None of another
    workload, and of tensors in tiles."""
    epilogue, dtypes = workload.epilogue, {workload.inputs[0].dtype, workload.output.dtype}
    rows = workload.kind in ("gemm", "conv2d") and not (workload.tile or any(workload.image) or epilogue.activation)
    if not rows or not dtypes <= FLOAT_TOLERANCE.keys():
        return None
    tensors = {name: array.astype(np.float64) for name, array in logical(workload, arguments).items()}
    result = _sums(workload, tensors)
    largest = float(_sums(workload, {name: np.abs(array) for name, array in tensors.items()}).max(initial=0))
    bound = max(FLOAT_TOLERANCE[dtype] for dtype in dtypes) * largest
    return (np.maximum(result, 0) if epilogue.relu else result), bound


def _sums(workload: Workload, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    """The sums of a workload, bias and what else is added included."""
    if workload.kind == "gemm":
        sums = _product(tensors["A"], tensors["B"])
    elif workload.kind == "conv2d":
        kernels = np.split(tensors["W"], workload.groups) if workload.groups > 1 else [tensors["W"][None]]
        images = np.split(tensors["X"], workload.groups, axis=-1)
        sums = np.concatenate([convolution(x, w[0], workload.stride, workload.padding, workload.dilation)
                               for x, w in zip(images, kernels, strict=True)], axis=-1)
    else:
        sums = tensors["A"].astype(np.int64) + tensors["B"]
    for name, there in (("bias", workload.epilogue.bias), ("residual", workload.epilogue.residual)):
        sums = sums + tensors[name] if there else sums
    return sums


def logical(workload: Workload, arguments: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors as they lie in memory, in the shapes that the operator has."""
    return {t.name: t.logical(np.asarray(arguments[t.name])) for t in workload.inputs if t.name in arguments}


def result_of_sums(sums: np.ndarray, workload: Workload, arguments: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the epilogue makes of int32 sums."""
    rounding, arguments = workload.epilogue.requantization, logical(workload, arguments)
    if rounding is None:
        return apply_epilogue(sums, workload.epilogue)
    found = rounding.apply(sums, arguments["multiplier"], arguments["shift"], arguments.get("table"))
    return found.astype(workload.output.dtype)


def rounding_steps(sums: np.ndarray, epilogue: Epilogue, arguments: Mapping[str, np.ndarray]) -> float | None:
    """How far a machine's own rounding is from that by float32 factors, before a table; None where it is none."""
    rounding = epilogue.requantization
    if rounding is None:
        return None
    constants = arguments["multiplier"], arguments["shift"]
    return float(np.abs(rounding.apply(sums, *constants) - rounding.in_floats(sums, *constants)).max(initial=0))


def steps_of_nest(workload: Workload, arguments: Mapping[str, np.ndarray], output: np.ndarray) -> float | None:
    """How far bytes that nests of loops give are from what these say, with functions and sums of float64 (None for
    other results). A function within 3 units in the last place (``functions.BOUNDS``) is off by 255 * 3 * 2**-23 steps,
    less than 0.0001, so that what is rounded differs by a step where it lies that near the middle of two bytes, and
    never by two."""
    if workload.output.dtype not in ("int8", "uint8"):
        return None
    words = {name: array.reshape(-1) for name, array in arguments.items()}
    words[workload.output.name] = np.zeros(output.size, output.dtype)
    words = {name: a.view(np.int32) if a.dtype == np.float32 else a for name, a in words.items()}
    for nest in workload.nests:
        nests.evaluate(nest, words)
    found = words[workload.output.name].astype(np.int64)
    return float(np.abs(found - output.reshape(-1)).max(initial=0))


def convolution(
    x: np.ndarray, kernel: np.ndarray, stride: tuple[int, int], padding: tuple[int, int, int, int],
    dilation: tuple[int, int] = (1, 1),
) -> np.ndarray:
    """NHWC by [kh, kw, c, o]; padding is top, left, bottom, right."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel.shape[:2], dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, (1, 2))[
        :, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return reduce(np.add, (_product(windows[..., i, j], kernel[i, j]) for i, j in np.ndindex(*kernel.shape[:2])))


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product of matrices of bytes, or of 9 bits, as int64, by BLAS in a type that holds all of its sums exactly; one
    of float64."""
    if a.dtype == np.float64:
        return np.matmul(a, b)
    dtype = np.float32 if a.dtype == np.int8 and a.shape[-1] < EXACT_IN_FLOAT32 else np.float64
    return np.matmul(a.astype(dtype), b.astype(dtype)).astype(np.int64)


def apply_epilogue(sums: np.ndarray, epilogue: Epilogue) -> np.ndarray:
    """Scale, saturate, ReLU and pooling, as ``Epilogue`` states them."""
    if epilogue.out_dtype == "int32":
        return sums
    scaled = np.rint(sums.astype(np.float32) * np.float32(epilogue.scale))
    y = np.clip(scaled, -128, 127).astype(np.int8)
    if epilogue.relu:
        y = np.maximum(y, 0)
    return y if epilogue.pool is None else max_pool(y, epilogue.pool)


def max_pool(x: np.ndarray, pool: Pool) -> np.ndarray:
    top, left, bottom, right = pool.padding
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (pool.size, pool.size), axis=(1, 2))
    return windows[:, :: pool.stride, :: pool.stride].max(axis=(-2, -1))
