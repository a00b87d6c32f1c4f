"""Operators of which an accelerator stores the int32 sums, and the host makes the result: an output stage.

That takes what a store with one factor and without zero points cannot: scales per channel, zero points, uint8, float
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from archloom.mapper.options import OptionValue
from archloom.tvm_backend.host.output_stage import FLIPPED, OutputStage
from archloom.tvm_backend.ir.match import QTensor, QuantizedOp, Stage
from archloom.tvm_backend.targets.backend import Lowered, UMABackend
from archloom.uma_targets.kit.patterns import fused
from archloom.uma_targets.kit.rules import AllOf, Rule, along_channels, constant_kernel, plain_matmul

BYTES = ("int8", "uint8")
FINISHED: tuple[list[str], ...] = (
    [], ["quantize"], ["activation", "quantize"], ["quantize", "dequantize", "activation", "quantize"],
    ["convert"])
"""What may happen to a result, in the order of its stages."""
WIDE = {"wide_activation": "activation", "wide_plain": "plain", "int32": "int32", "sums": "sums"}
"""Patterns whose results the host makes, each with the form that it matches."""
Strategy = Callable[[QuantizedOp, Mapping[str, OptionValue]], Lowered]


# rules ----------------------------------------------------------------------------------------------------------------


def byte_operands(op: QuantizedOp) -> str | None:
    """Both operands are int8 or uint8, the first with one scale and zero point."""
    for index, tensor in enumerate(op.operands):
        if tensor.dtype not in BYTES:
            return f"operand {index} is {tensor.dtype}"
    if op.operands[0].scale.size != 1 or op.operands[0].zero_point.size != 1:
        return f"operand 0 has {op.operands[0].scale.size} scales"
    return None


def scales_of_channels(op: QuantizedOp) -> str | None:
    """The second operand has one scale, or is constant with one for each output channel, and one zero point."""
    weights = op.operands[1]
    if weights.scale.size != 1:
        axis = 0 if op.anchor == "nn.conv2d" else len(weights.shape) - 1
        found = weights.axis % len(weights.shape)
        if op.anchor == "matmul" and weights.permutation is not None:
            found = weights.permutation.index(found)
        if not weights.is_constant or found != axis or weights.scale.size != channels(op):
            return (f"operand 1 has {weights.scale.size} scales along axis {weights.axis}, not one for each output "
                    "channel")
    if np.unique(weights.zero_point).size > 1:
        return "operand 1 has zero points of several values"
    if op.anchor == "nn.conv2d" and zero_point(weights):
        return f"the kernel has zero point {int(weights.zero_point.reshape(-1)[0])}"
    return None


def scales_of_groups(op: QuantizedOp) -> str | None:
    """A convolution of several groups has one scale for all channels."""
    if op.attrs["groups"] > 1 and op.operands[1].scale.size > 1:
        return f"its {op.attrs['groups']} groups have {op.operands[1].scale.size} scales"
    return None


def bias_of_sums(op: QuantizedOp) -> str | None:
    """A bias is float32, or int32 in units of the product of the operands' scales, with one value for each output
    channel."""
    if op.bias is None:
        return None
    if op.bias.dtype == "float32":
        whole = any(stage.kind == "convert" for stage in op.stages)
        return "a float32 bias is added to integers" if whole else along_channels(op)
    if np.any(op.bias.zero_point):
        return "the bias has a zero point"
    if not np.allclose(op.bias.scale.reshape(-1), unit(op), rtol=1e-6, atol=0):
        return "the bias is not in units of the sums"
    return along_channels(op)


def finished_by_host(op: QuantizedOp) -> str | None:
    """The result is float32, int32 as it is, or quantized to bytes with one scale before or after a ReLU or clip."""
    kinds = [("activation" if s.kind in ("relu", "clip") else s.kind) for s in op.stages]
    if kinds not in FINISHED:
        return f"{', '.join(s.kind for s in op.stages)} follow it"
    for stage in op.stages:
        if stage.scale is not None and stage.scale.size != 1:
            return "the result has one scale per channel"
        if stage.kind == "convert" and (stage.dtype != "int32" or np.any(unit(op) != 1)):
            return f"the result is converted to {stage.dtype} from numbers that are not whole"
        if stage.kind == "quantize" and stage.dtype not in BYTES:
            return f"the result is quantized to {stage.dtype}"
    return None


SUMS: tuple[Rule, ...] = (byte_operands, scales_of_channels, bias_of_sums, finished_by_host)
SUMS_MATMUL: tuple[Rule, ...] = (*SUMS, plain_matmul)
SUMS_CONV2D: tuple[Rule, ...] = (*SUMS, constant_kernel)


# numbers --------------------------------------------------------------------------------------------------------------


def channels(op: QuantizedOp) -> int:
    return op.operands[1].shape[0] if op.anchor == "nn.conv2d" else op.operands[1].read_shape[-1]


def zero_point(tensor: QTensor) -> int:
    """Zero point of an operand as int8."""
    return int(tensor.zero_point.reshape(-1)[0]) - (FLIPPED if tensor.dtype == "uint8" else 0)


def unit(op: QuantizedOp) -> np.ndarray:
    """What 1 of a sum is: the product of the scales, one value or one for each channel, float32."""
    data, weights = op.operands
    product: np.ndarray = np.float32(data.scale.reshape(-1)[0]) * weights.scale.astype(np.float32).reshape(-1)
    return product


# strategies -----------------------------------------------------------------------------------------------------------


def offer(target: UMABackend, anchor: str, predicate: AllOf, strategy: Strategy) -> None:
    """Let a target take an operator of which it stores the sums, whatever the host makes of them."""
    for name, form in WIDE.items():
        target._register_pattern(f"{anchor}_{name}", partial(fused, anchor, form), predicate)
        target._register_operator_strategy(f"{anchor}_{name}", with_sums(strategy), takes_options=True)


def with_sums(strategy: Strategy) -> Strategy:
    """The strategy whose workload stores the sums, with what the host makes of them."""
    def lowered(op: QuantizedOp, options: Mapping[str, OptionValue]) -> Lowered:
        plain = as_sums(op)
        found = strategy(plain, options)
        return replace(found, op=f"{found.op}+int32", output_stage=output_stage(op))

    return lowered


def as_sums(op: QuantizedOp) -> QuantizedOp:
    """The operator on int8 without zero points, whose result is int32: they are part of its bias as far as they can."""
    data, weights = (_as_int8(tensor) for tensor in op.operands)
    bias = None if op.bias is None or op.bias.dtype == "float32" else op.bias
    folded = _folded(op, weights)
    if folded is not None:
        own = 0 if bias is None or bias.array is None else bias.array.astype(np.int64).reshape(
            folded.shape if bias.array.size == folded.size else -1)
        array = (own + folded).astype(np.int32)
        nothing = np.zeros((), np.int32)
        bias = QTensor(array.shape, "int32", unit(op), nothing, None, array)
    return replace(op, operands=(data, weights), bias=bias, stages=(), sums=True)


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
    first, second = (zero_point(t) for t in op.operands)
    if op.anchor == "nn.conv2d":
        zeros = {"border": _border(op, first)}
    elif op.operands[1].is_constant:
        zeros = {"second_zero": second}  # type: ignore[dict-item]
    else:
        zeros = {"first_zero": first, "second_zero": second}  # type: ignore[dict-item]
    if op.stages and op.stages[0].kind == "convert":
        return OutputStage(unit(op), "int32", **zeros)  # type: ignore[arg-type]
    if not op.stages:
        return OutputStage(unit(op), "float32", bias=_float_bias(op), **zeros)  # type: ignore[arg-type]
    position = next(i for i, stage in enumerate(op.stages) if stage.kind == "quantize")
    stage, before, after = op.stages[position], op.stages[:position], op.stages[position + 1:]
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
        table=_table(stage, after) if after else None, between=stage.dtype, bias=_float_bias(op, step), **zeros)  # type: ignore[arg-type]


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
