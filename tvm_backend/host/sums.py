"""Operators of quantized networks as int32 sums, and what is made of them: the numbers of a machine's or the host's
output stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.mapper.workload import Epilogue
from archloom.tvm_backend.host.output_stage import FLIPPED, OutputStage
from archloom.tvm_backend.ir.match import QTensor, QuantizedOp, Stage

BOUNDS = ("relu", "clip")
CURVES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2}
"""Activations that are no bounds, which a table of bytes holds; of float64."""


def channels(op: QuantizedOp) -> int:
    return op.operands[1].shape[0] if op.anchor == "nn.conv2d" else op.operands[1].read_shape[-1]


def zero_point(tensor: QTensor) -> int:
    """Zero point of an operand as int8."""
    return int(tensor.zero_point.reshape(-1)[0]) - (FLIPPED if tensor.dtype == "uint8" else 0)


def unit(op: QuantizedOp) -> np.ndarray:
    """What 1 of a sum is: the product of the scales, one value, one for each channel, or [batch, 1, 1], float32."""
    data, weights = op.operands
    product: np.ndarray = np.float32(data.scale.reshape(-1)[0]) * weights.scale.astype(np.float32).reshape(-1)
    return product.reshape(-1, 1, 1) if has_scales_of_batch(op) else product


def has_scales_of_batch(op: QuantizedOp) -> bool:
    """Whether each of a batch of products by constants has a scale of its own."""
    weights = op.operands[1]
    return (op.anchor == "matmul" and weights.is_constant and weights.permutation is None and weights.axis == 0
            and len(weights.shape) == 3 and weights.scale.size == weights.shape[0] > 1)


def as_sums(op: QuantizedOp, *, fold: bool = True) -> QuantizedOp:
    """The operator on int8 whose result is int32; zero points are part of its bias as far as they can, unless the
    machine subtracts them."""
    data, weights = (_as_int8(tensor) for tensor in op.operands)
    bias = None if op.bias is None or op.bias.dtype == "float32" else op.bias
    folded = _folded(op, weights) if fold else None
    if folded is not None:
        own = 0 if bias is None or bias.array is None else bias.array.astype(np.int64).reshape(
            folded.shape if bias.array.size == folded.size else -1)
        array = (own + folded).astype(np.int32)
        nothing = np.zeros((), np.int32)
        bias = QTensor(array.shape, "int32", unit(op).reshape(-1), nothing, None, array)
    return replace(op, operands=(data, weights), bias=bias, stages=(),
                   epilogue=Epilogue(bias is not None, 1.0, False, "int32"))


def no_bias(op: QuantizedOp) -> QTensor:
    """A bias of zeros, for each of a batch where these have scales of their own."""
    each = unit(op).shape[:-1] if has_scales_of_batch(op) else ()
    zeros = np.zeros((*each, channels(op)), np.int32)
    return QTensor(zeros.shape, "int32", unit(op).reshape(-1), np.zeros((), np.int32), None, zeros)


def _as_int8(tensor: QTensor) -> QTensor:
    if tensor.dtype == "int8":
        return tensor
    array = None if tensor.array is None else (tensor.array ^ np.uint8(FLIPPED)).view(np.int8)
    return replace(tensor, dtype="int8", array=array)


def _folded(op: QuantizedOp, weights: QTensor) -> np.ndarray | None:
    """What zero points add to the bias of each channel, for each of a batch of products, where the weights are
    constant; None for nothing."""
    first, second = (zero_point(t) for t in op.operands)
    if not first or not op.operands[1].is_constant:
        return None
    assert weights.array is not None
    if op.anchor == "nn.conv2d":
        return -first * weights.array.astype(np.int64).sum((1, 2, 3))
    array = weights.array.transpose(weights.permutation) if weights.permutation else weights.array
    along = array.ndim - 2
    columns = array.astype(np.int64).sum(along, keepdims=along > 0)
    total: np.ndarray = -first * columns + first * second * array.shape[along]
    return total


def output_stage(op: QuantizedOp) -> OutputStage:
    """What the host does with the sums of :func:`as_sums`."""
    return replace(scaling_stage(op), **zeros_left(op))


def zeros_left(op: QuantizedOp) -> dict[str, Any]:
    """What zero points add to the sums that is no part of the bias, as fields of :class:`OutputStage`."""
    first, second = (zero_point(t) for t in op.operands)
    if op.anchor == "nn.conv2d":
        return {"border": _border(op, first)}
    return {"second_zero": second} if op.operands[1].is_constant else {"first_zero": first, "second_zero": second}


def scaling_stage(op: QuantizedOp) -> OutputStage:
    """From the sums to the result, where zero points are part of the sums."""
    stages = merged(op.stages)
    if not stages or stages[0].kind == "convert":
        return OutputStage(unit(op), "int32") if stages else OutputStage(unit(op), "float32", bias=_float_bias(op))
    position = next(i for i, stage in enumerate(stages) if stage.kind == "quantize")
    stage, before, after = stages[position], stages[:position], stages[position + 1:]
    assert stage.scale is not None and stage.zero_point is not None
    limits = np.iinfo(stage.dtype)
    low, high = int(limits.min), int(limits.max)
    for activation in before:
        bounds = _quantized(np.array([activation.low, activation.high], np.float32), stage)
        low, high = int(bounds[0]), high if activation.kind == "relu" else int(bounds[1])
    step = np.float32(stage.scale.reshape(-1)[0])
    scale = (unit(op) / step).astype(np.float32)
    return OutputStage(
        scale, after[-1].dtype if after else stage.dtype, int(stage.zero_point.reshape(-1)[0]), low, high,
        table=_table(stage, after) if after else None, between=stage.dtype, bias=_float_bias(op, step))


def merged(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """A bound between two quantizations that are the same comes before one: quantizing is monotonic."""
    if [s.kind for s in stages[:2]] != ["quantize", "dequantize"] or stages[2].kind not in BOUNDS:
        return stages
    first, _, bound, last = stages
    alike = first.dtype == last.dtype and first.scale == last.scale and first.zero_point == last.zero_point
    return (bound, last) if alike else stages


def _float_bias(op: QuantizedOp, step: np.float32 = np.float32(1)) -> np.ndarray | None:  # noqa: B008
    """A bias that is no part of the sums, in steps of the result."""
    if op.bias is None or op.bias.dtype != "float32":
        return None
    assert op.bias.array is not None
    whole = op.bias.array
    bias: np.ndarray = (whole.reshape(-1) if whole.size == channels(op) else whole) / step
    return bias


def _quantized(real: np.ndarray, stage: Stage) -> np.ndarray:
    """``real`` as the bytes of a quantize stage."""
    assert stage.scale is not None and stage.zero_point is not None
    limits = np.iinfo(stage.dtype)
    with np.errstate(over="ignore"):
        scaled = np.rint(real.astype(np.float32) / np.float32(stage.scale.reshape(-1)[0]))
    moved = scaled + np.float32(stage.zero_point.reshape(-1)[0])
    return np.clip(moved, limits.min, limits.max).astype(stage.dtype)


def _table(stage: Stage, after: tuple[Stage, ...]) -> np.ndarray:
    """The bytes that a dequantize, an activation and another quantize make of each byte of ``stage``."""
    dequantize, activation, last = after
    assert dequantize.scale is not None and dequantize.zero_point is not None
    limits = np.iinfo(stage.dtype)
    centred = np.arange(limits.min, limits.max + 1) - int(dequantize.zero_point.reshape(-1)[0])
    real = centred.astype(np.float32) * np.float32(dequantize.scale.reshape(-1)[0])
    if activation.kind in CURVES:
        with np.errstate(over="ignore"):
            return _quantized(CURVES[activation.kind](real.astype(np.float64)), last)
    real = np.maximum(real, np.float32(activation.low))
    return _quantized(real if activation.kind == "relu" else np.minimum(real, np.float32(activation.high)), last)


def _border(op: QuantizedOp, zero: int) -> np.ndarray | None:
    """What the sums lack where the kernel reaches over the edge: the padding is the zero point, not the number 0."""
    top, left, bottom, right = op.attrs["padding"]
    if not zero or not (top or left or bottom or right):
        return None
    kernel = _as_int8(op.operands[1]).array
    assert kernel is not None
    taps = kernel.astype(np.int64).sum(1)
    height, width = op.operands[0].shape[2:]
    outside = taps.sum((1, 2)) - np.einsum(
        "yk,xl,okl->yxo", _inside(op, 0, height, top), _inside(op, 1, width, left), taps)
    return (zero * outside).astype(np.int32)


def _inside(op: QuantizedOp, axis: int, extent: int, before: int) -> np.ndarray:
    """[outputs, taps] along an axis of the image: 1 where a tap meets the image."""
    taps = np.arange(op.operands[1].shape[2 + axis]) * op.attrs["dilation"][axis] - before
    place = np.arange(op.shape[2 + axis])[:, None] * op.attrs["strides"][axis] + taps
    return ((place >= 0) & (place < extent)).astype(np.int64)
