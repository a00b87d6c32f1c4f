"""What a target takes, rule by rule.

A rule's docstring is the rule; it returns None where an operator keeps it, and what it saw where it does not. The
partition report prints both, and ``archloom describe TARGET`` prints the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from archloom.mapper.nests import HALVES
from archloom.mapper.options import OptionValue
from archloom.oracle.user_code import called, in_user_code
from archloom.tvm_backend.ir.expressions import IRModule
from archloom.tvm_backend.ir.match import QuantizedOp, Stage
from archloom.tvm_backend.passes.quantized_products import quantized_products
from archloom.tvm_backend.targets.backend import Verdict

Rule: TypeAlias = Callable[[QuantizedOp], str | None]
SizedRule: TypeAlias = Callable[[QuantizedOp, Mapping[str, OptionValue]], str | None]
"""A rule that depends on the target's options."""


def int8_operands(op: QuantizedOp) -> str | None:
    """Both operands are int8 with zero point 0."""
    for index, tensor in enumerate(op.operands):
        if tensor.dtype != "int8":
            return f"operand {index} is {tensor.dtype}"
        if np.any(tensor.zero_point):
            return f"operand {index} has zero point {_show(tensor.zero_point)}"
    return None


def per_tensor_scales(op: QuantizedOp) -> str | None:
    """Each operand has a single scale: the store multiplies all channels by one factor."""
    for index, tensor in enumerate(op.operands):
        if tensor.scale.size != 1:
            return f"operand {index} has {tensor.scale.size} scales, one per channel; quantize per tensor"
    return None


def int8_result(op: QuantizedOp) -> str | None:
    """The result is quantized to int8 with zero point 0 and a single scale."""
    if not any(stage.kind == "quantize" for stage in op.stages):
        return "the result is not quantized"
    for stage in op.stages:
        if stage.kind == "quantize":
            if stage.dtype != "int8":
                return f"the result is quantized to {stage.dtype}"
            if stage.zero_point is not None and np.any(stage.zero_point):
                return f"the result has zero point {_show(stage.zero_point)}"
            if stage.scale is None or stage.scale.size != 1:
                return "the result has one scale per channel"
    return None


def one_requantization(op: QuantizedOp) -> str | None:
    """The result is scaled once: all quantize and dequantize after the operator have the same scale."""
    scales = {float(s.scale.reshape(-1)[0]) for s in op.stages if s.scale is not None and s.scale.size == 1}
    if len(scales) > 1:
        return f"the result is requantized with different scales ({', '.join(f'{s:.6g}' for s in sorted(scales))})"
    return None


def finite_factor(op: QuantizedOp) -> str | None:
    """The factor from sums to the result (scale · scale / scale) is a positive finite float32."""
    with np.errstate(all="ignore"):
        factor = requantization_scale(op)
    return None if 0 < factor < math.inf else f"the factor from sums to the result is {factor:g}"


def int32_bias(op: QuantizedOp) -> str | None:
    """A bias is int32 in units of the product of the operands' scales, one value for each output channel."""
    if op.bias is None:
        return None
    if op.bias.dtype != "int32":
        return f"the bias is {op.bias.dtype}"
    expected = scalar(op.operands[0].scale) * scalar(op.operands[1].scale)
    if np.any(op.bias.zero_point):
        return f"the bias has zero point {_show(op.bias.zero_point)}"
    if not np.allclose(op.bias.scale, expected, rtol=1e-6, atol=0):
        return f"the bias has scale {_show(op.bias.scale)}, the sums have {float(expected):.6g}"
    return along_channels(op)


def along_channels(op: QuantizedOp) -> str | None:
    """The bias has one value for each output channel and is added along them; in a batch of products it may have them
    for each."""
    assert op.bias is not None
    if op.anchor == "matmul" and len(op.bias_shape) > 1 and op.bias_shape == (
            *op.operands[1].read_shape[:-2], 1, op.operands[1].read_shape[-1]):
        return None
    last = op.anchor == "matmul" or op.attrs["data_layout"] == "NHWC"
    channels = op.operands[1].read_shape[-1] if last else op.operands[1].shape[0]
    if int(np.prod(op.bias.shape)) != channels:
        return f"the bias has {int(np.prod(op.bias.shape))} values for {channels} channels"
    along = (channels,) if last else (channels, 1, 1)
    if op.bias_shape[-len(along):] != along:
        return f"the bias is added in the shape {op.bias_shape}, not along the channels"
    return None


def activation_saturates(op: QuantizedOp) -> str | None:
    """The activation is ReLU, or a clip from 0 to a bound that is at least the largest int8 value.

    The store has no upper bound of its own: saturation at 127 is the bound. So ReLU6 is exact when 6 / scale is
    127 or more.
    """
    scale = result_scale(op)
    for stage in op.stages:
        if stage.kind == "clip":
            if stage.low != 0.0:
                return f"it clips from {stage.low:g}, not from 0"
            if np.rint(np.float32(stage.high) / scale) < 127:
                return (f"it clips at {stage.high:g}, which is {float(np.float32(stage.high) / scale):.1f} in units of "
                        "the result's scale, below 127")
    return None


def plain_convolution(op: QuantizedOp) -> str | None:
    """A convolution has dilation 1, groups 1, NCHW data and a constant OIHW kernel."""
    if op.attrs["groups"] != 1:
        return f"groups is {op.attrs['groups']}"
    return undilated(op)


def undilated(op: QuantizedOp) -> str | None:
    """A convolution has dilation 1, NCHW data and a constant OIHW kernel, for any number of groups."""
    if tuple(op.attrs["dilation"]) != (1, 1):
        return f"dilation is {'x'.join(map(str, op.attrs['dilation']))}"
    return constant_kernel(op)


def constant_kernel(op: QuantizedOp) -> str | None:
    """A convolution has NCHW data and a constant OIHW kernel."""
    attrs, (data, kernel) = op.attrs, op.operands[:2]
    if attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW" or attrs["out_layout"] not in ("NCHW", ""):
        return f"layouts are {attrs['data_layout']} and {attrs['kernel_layout']}"
    if not kernel.is_constant:
        return "the kernel is not constant"
    if data.is_constant:
        return "the data are constant"
    if data.permutation or kernel.permutation:
        return "an operand is transposed"
    return None


def matrices(op: QuantizedOp) -> str | None:
    """A matmul multiplies [..., m, k] by one [k, n], or by [..., k, n] with the same leading dimensions."""
    a, b = (t.read_shape for t in op.operands[:2])
    if op.operands[0].is_constant:
        return "the first operand is constant"
    if len(a) < 2 or len(b) < 2:
        return f"the operands have shapes {a} and {b}"
    if math.prod(b[:-2]) > 1 and a[:-2] != b[:-2]:
        return f"the leading dimensions differ: {a} and {b}"
    return None


def plain_matmul(op: QuantizedOp) -> str | None:
    """A matmul multiplies [..., m, k] by one [k, n] or as many as the first has; only constants are transposed."""
    if (seen := matrices(op)) is not None:
        return seen
    if op.operands[0].permutation is not None:
        return "the first operand is transposed"
    if op.operands[1].permutation is not None and not op.operands[1].is_constant:
        return "the second operand is transposed and not constant"
    return None


def pointwise_convolution(op: QuantizedOp) -> str | None:
    """A convolution has a 1 x 1 kernel, stride 1 and no padding: it is a matrix product over all pixels."""
    kernel = op.operands[1].shape[2:]
    if tuple(kernel) != (1, 1):
        return f"the kernel is {'x'.join(map(str, kernel))}: only 1x1 is a matrix product without im2col"
    if tuple(op.attrs["strides"]) != (1, 1) or any(op.attrs["padding"]):
        return f"stride is {'x'.join(map(str, op.attrs['strides']))}, padding {op.attrs['padding']}"
    return None


def channels_last(op: QuantizedOp) -> str | None:
    """A convolution has NHWC data, a constant HWIO kernel, one group and no padding: its image is read in place."""
    attrs = op.attrs
    layouts = (attrs["data_layout"], attrs["kernel_layout"], attrs["out_layout"])
    if layouts not in (("NHWC", "HWIO", "NHWC"), ("NHWC", "HWIO", "")):
        return f"layouts are {', '.join(layouts)}"
    if not op.operands[1].is_constant or op.operands[0].is_constant:
        return "the kernel is not constant, or the image is"
    if op.attrs["groups"] != 1 or any(attrs["padding"]):
        return f"groups is {attrs['groups']}, padding {attrs['padding']}"
    return None


def no_bias(op: QuantizedOp) -> str | None:
    """There is no bias: the target does not add one."""
    return None if op.bias is None else "it adds a bias"


def no_activation(op: QuantizedOp) -> str | None:
    """There is no activation: the target has none."""
    return "it has an activation" if has_relu(op) else None


# float networks -----------------------------------------------------------------------------------------------------


def float32_operands(op: QuantizedOp) -> str | None:
    """Both operands are float32."""
    for index, tensor in enumerate(op.operands):
        if tensor.dtype != "float32":
            return f"operand {index} is {tensor.dtype}"
    return None


def float32_bias(op: QuantizedOp) -> str | None:
    """A bias is of the numbers of the result, one value for each output channel."""
    if op.bias is None:
        return None
    return along_channels(op)


def integers_as_sums(op: QuantizedOp) -> str | None:
    """Both operands are int8, the result is int32."""
    for index, tensor in enumerate(op.operands):
        if tensor.dtype != "int8":
            return f"operand {index} is {tensor.dtype}"
    return None if op.epilogue is not None and op.epilogue.out_dtype == "int32" else "its sums are no int32"


def halves(op: QuantizedOp) -> str | None:
    """Both operands are float16, or both bfloat16, the result is float32."""
    for index, tensor in enumerate(op.operands):
        if tensor.dtype not in HALVES or tensor.dtype != op.operands[0].dtype:
            return f"operand {index} is {tensor.dtype}"
    return None


def residual_alike(op: QuantizedOp) -> str | None:
    """A tensor that is added to the result has the result's shape."""
    if not op.residual or op.operands[-1].shape == op.shape:
        return None
    return f"what is added has {op.operands[-1].shape}, the result {op.shape}"


def relu_only(op: QuantizedOp) -> str | None:
    """The activation is ReLU, or a clip from 0 without an upper bound."""
    for stage in op.stages:
        if stage.kind == "clip" and (stage.low != 0.0 or stage.high < float(np.finfo(np.float32).max)):
            return f"it clips to {stage.low:g}..{stage.high:g}; only ReLU is fused"
    return None


QUANTIZATION: tuple[Rule, ...] = (
    int8_operands, per_tensor_scales, int8_result, one_requantization, activation_saturates, finite_factor,
)
INT8_MATMUL: tuple[Rule, ...] = (*QUANTIZATION, int32_bias, plain_matmul)
INT8_CONV2D: tuple[Rule, ...] = (*QUANTIZATION, int32_bias, plain_convolution, pointwise_convolution)
INT8_WINDOWS: tuple[Rule, ...] = (*QUANTIZATION, int32_bias, constant_kernel)
"""Of a convolution that is a product once its windows are gathered."""
FLOAT_MATMUL: tuple[Rule, ...] = (float32_operands, float32_bias, plain_matmul, residual_alike, relu_only)
HALVES_MATMUL: tuple[Rule, ...] = (halves, float32_bias, plain_matmul, relu_only)
INTEGER_MATMUL: tuple[Rule, ...] = (integers_as_sums, float32_bias, plain_matmul)
FLOAT_IMAGES: tuple[Rule, ...] = (float32_operands, float32_bias, channels_last, residual_alike, relu_only)
HALVES_IMAGES: tuple[Rule, ...] = (halves, float32_bias, channels_last, relu_only)
INTEGER_IMAGES: tuple[Rule, ...] = (integers_as_sums, float32_bias, channels_last)
FLOAT_CONV2D: tuple[Rule, ...] = (float32_operands, float32_bias, plain_convolution, pointwise_convolution, relu_only)


@dataclass(frozen=True)
class AllOf:
    """The predicate that an operator is ``anchor`` and keeps all rules; it reports the first one broken."""

    anchor: str
    operator_rules: tuple[Rule, ...]
    sized_rules: tuple[SizedRule, ...] = ()

    @property
    def rules(self) -> tuple[Callable[..., str | None], ...]:
        """All rules, for listings."""
        return (*self.operator_rules, *self.sized_rules)

    def __call__(self, op: QuantizedOp, options: Mapping[str, OptionValue]) -> Verdict:
        if op.anchor != self.anchor:
            return Verdict(False, f"expected {self.anchor}, found {op.anchor}")
        for rule in self.operator_rules:
            if (seen := rule(op)) is not None:
                return Verdict(False, seen, stated(rule))
        for sized in self.sized_rules:
            with in_user_code(lambda: f"{op.name}, a rule"):
                seen = called(sized, op, options, gives=str | None)  # type: ignore[arg-type]
            if seen is not None:
                return Verdict(False, seen, stated(sized))
        return Verdict(True, "all rules hold")


def gathered(
    module: "IRModule", products: Sequence[AllOf], whole: Sequence[AllOf], options: Mapping[str, OptionValue],
    together: Callable[[QuantizedOp], int] = lambda op: 1,
) -> "IRModule":
    """A quantized network with those convolutions as products of which the target takes the product by one of the
    predicates, and by none the convolution as a ``whole``; ``together`` of their groups become one."""
    return quantized_products(module, lambda op: any(asked(op, options).ok for asked in products) and not any(
        asked(op, options).ok for asked in whole), together)


def stated(rule: Callable[..., str | None]) -> str:
    """What a rule demands: the first paragraph of its docstring, on one line."""
    return " ".join((rule.__doc__ or rule.__name__).strip().split("\n\n")[0].split())


# numbers of an operator ---------------------------------------------------------------------------------------------


def scalar(scale: np.ndarray) -> np.float32:
    return np.float32(scale.reshape(-1)[0])


def result_scale(op: QuantizedOp) -> np.float32:
    last = next(s for s in reversed(op.stages) if s.kind == "quantize")
    assert last.scale is not None
    return scalar(last.scale)


def pool_stage(op: QuantizedOp) -> Stage | None:
    """The max-pooling that is fused to the operator, if any."""
    return next((stage for stage in op.stages if stage.kind == "max_pool2d"), None)


def has_relu(op: QuantizedOp) -> bool:
    """Whether an activation is fused to the operator."""
    return any(stage.kind in ("relu", "clip") for stage in op.stages)


def requantization_scale(op: QuantizedOp) -> float:
    """The float32 factor from sums to the result: (scale x scale) / scale, in onnxruntime's order of rounding."""
    a, b = (scalar(t.scale) for t in op.operands)
    if op.anchor == "add":
        return float(a / result_scale(op))
    return float(np.float32(np.float32(a * b) / result_scale(op)))


def _show(values: np.ndarray) -> str:
    flat = np.asarray(values).reshape(-1)
    return f"{flat[0]:.6g}" if flat.size == 1 else f"{flat[0]:.6g} and {flat.size - 1} more"
