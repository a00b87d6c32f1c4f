"""What Gemmini takes, rule by rule.

A rule's docstring is the rule; it returns None where an operator keeps it, and what it saw where it does not. The
partition report prints both, and ``archloom describe gemmini`` prints the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tvm_backend.compiled import OptionValue
from tvm_backend.uma.backend import Verdict
from tvm_backend.uma.match import QuantizedOp, Stage

Rule: TypeAlias = Callable[[QuantizedOp], str | None]
SizedRule: TypeAlias = Callable[[QuantizedOp, Mapping[str, OptionValue]], str | None]
"""A rule that depends on the target's options."""

POOL_FIELD = 3
"""largest window, stride and padding that the two-bit fields of config_st hold"""
POOL_ROWS = 255
"""largest height and width that its eight-bit fields hold"""


def int8_operands(op: QuantizedOp) -> str | None:
    """Both operands are int8 with zero point 0."""
    for index, tensor in enumerate(op.operands):
        if tensor.dtype != "int8":
            return f"operand {index} is {tensor.dtype}"
        if np.any(tensor.zero_point):
            return f"operand {index} has zero point {_show(tensor.zero_point)}"
    return None


def per_tensor_scales(op: QuantizedOp) -> str | None:
    """Each operand has a single scale: mvout multiplies all channels by one factor."""
    for index, tensor in enumerate(op.operands):
        if tensor.scale.size != 1:
            return f"operand {index} has {tensor.scale.size} scales, one per channel; quantize per tensor"
    return None


def int8_result(op: QuantizedOp) -> str | None:
    """The result is quantized to int8 with zero point 0 and a single scale."""
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


def int32_bias(op: QuantizedOp) -> str | None:
    """A bias is int32 in units of the product of the operands' scales, one value for each output channel."""
    if op.bias is None:
        return None
    expected = scalar(op.operands[0].scale) * scalar(op.operands[1].scale)
    if np.any(op.bias.zero_point):
        return f"the bias has zero point {_show(op.bias.zero_point)}"
    if not np.allclose(op.bias.scale, expected, rtol=1e-6, atol=0):
        return f"the bias has scale {_show(op.bias.scale)}, the sums have {float(expected):.6g}"
    channels = op.operands[1].read_shape[-1] if op.anchor == "matmul" else op.operands[1].shape[0]
    if int(np.prod(op.bias.shape)) != channels:
        return f"the bias has {int(np.prod(op.bias.shape))} values for {channels} channels"
    along = (channels,) if op.anchor == "matmul" else (channels, 1, 1)
    if op.bias_shape[-len(along):] != along:
        return f"the bias is added in the shape {op.bias_shape}, not along the channels"
    return None


def activation_saturates(op: QuantizedOp) -> str | None:
    """The activation is ReLU, or a clip from 0 to a bound that is at least the largest int8 value.

    Gemmini has no upper bound in mvout: saturation at 127 is the bound. So ReLU6 is exact when 6 / scale is
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
    attrs, (data, kernel) = op.attrs, op.operands
    if tuple(attrs["dilation"]) != (1, 1):
        return f"dilation is {'x'.join(map(str, attrs['dilation']))}"
    if attrs["groups"] != 1:
        return f"groups is {attrs['groups']}"
    if attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW" or attrs["out_layout"] not in ("NCHW", ""):
        return f"layouts are {attrs['data_layout']} and {attrs['kernel_layout']}"
    if not kernel.is_constant:
        return "the kernel is not constant"
    if data.is_constant:
        return "the data are constant"
    if data.permutation or kernel.permutation:
        return "an operand is transposed"
    return None


def plain_matmul(op: QuantizedOp) -> str | None:
    """A matmul multiplies [..., m, k] by one [k, n], or by [..., k, n] with the same leading dimensions."""
    a, b = (t.read_shape for t in op.operands)
    if op.operands[0].is_constant:
        return "the first operand is constant"
    if len(a) < 2 or len(b) < 2:
        return f"the operands have shapes {a} and {b}"
    if len(b) > 2 and a[:-2] != b[:-2]:
        return f"the leading dimensions differ: {a} and {b}"
    if op.operands[0].permutation is not None:
        return "the first operand is transposed"
    if op.operands[1].permutation is not None and not op.operands[1].is_constant:
        return "the second operand is transposed and not constant"
    return None


def tied_addition(op: QuantizedOp) -> str | None:
    """An addition has operands of one shape and one scale, so that integers can be added before scaling."""
    a, b = op.operands
    if a.shape != b.shape:
        return f"the operands have shapes {a.shape} and {b.shape}"
    if a.is_constant or b.is_constant:
        return "an operand is constant"
    if scalar(a.scale) != scalar(b.scale):
        return f"the operands have scales {float(scalar(a.scale)):.6g} and {float(scalar(b.scale)):.6g}"
    return None


def pool_in_mvout(op: QuantizedOp) -> str | None:
    """A max-pool has a square window and stride of at most 3, dilation 1, images below 256 x 256, and follows ReLU.

    mvout pads with zeros, which is the maximum's neutral element only for values that are not negative.
    """
    pool = pool_stage(op)
    if pool is None:
        return None
    window, stride, padding = pool.attrs["pool_size"], pool.attrs["strides"], pool.attrs["padding"]
    if len(set(window)) != 1 or len(set(stride)) != 1:
        return f"the window is {window} with stride {stride}, not square"
    if max(*window, *stride, *padding) > POOL_FIELD:
        return f"the window is {window} with stride {stride} and padding {padding}, above {POOL_FIELD}"
    if max(padding) >= window[0]:
        return f"the padding {padding} is not below the window {window}"
    if tuple(pool.attrs["dilation"]) != (1, 1) or pool.attrs["ceil_mode"] or pool.attrs["layout"] != "NCHW":
        return "it has dilation, ceil_mode or another layout than NCHW"
    if max(op.shape[2:] + pool.shape[2:]) > POOL_ROWS:
        return f"the image of {op.shape[2]} x {op.shape[3]} is larger than {POOL_ROWS}"
    if not has_relu(op):
        return "no ReLU precedes it"
    return None


def pool_without_recomputation(op: QuantizedOp, options: Mapping[str, OptionValue]) -> str | None:
    """A max-pool whose windows overlap is taken where half of the accumulator holds the whole image.

    Tiles of a larger image would each compute the rows again in which their windows overlap.
    """
    pool = pool_stage(op)
    if pool is None or pool.attrs["pool_size"][0] <= pool.attrs["strides"][0]:
        return None
    rows = accumulator_rows(options) // 2
    height, width = op.shape[2:]
    if height * width > rows:
        return (f"its windows overlap ({pool.attrs['pool_size'][0]} > {pool.attrs['strides'][0]}) and the {height} x "
                f"{width} image does not fit half of the accumulator's rows ({rows})")
    return None


def accumulator_rows(options: Mapping[str, OptionValue]) -> int:
    """Rows of the accumulator at these options."""
    from uma_targets.gemmini.accelerator import GEMMINI

    return dict(GEMMINI.isa(options).parameters)["acc_rows"]


QUANTIZATION: tuple[Rule, ...] = (
    int8_operands, per_tensor_scales, int8_result, one_requantization, activation_saturates,
)
CONV2D: tuple[Rule, ...] = (*QUANTIZATION, int32_bias, plain_convolution, pool_in_mvout)
CONV2D_SIZED: tuple[SizedRule, ...] = (pool_without_recomputation,)
MATMUL: tuple[Rule, ...] = (*QUANTIZATION, int32_bias, plain_matmul)
ADD: tuple[Rule, ...] = (*QUANTIZATION, tied_addition)


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
                return Verdict(False, seen)
        for sized in self.sized_rules:
            if (seen := sized(op, options)) is not None:
                return Verdict(False, seen)
        return Verdict(True, "all rules hold")


def all_of(anchor: str, rules: tuple[Rule, ...], sized: tuple[SizedRule, ...] = ()) -> AllOf:
    """See :class:`AllOf`."""
    return AllOf(anchor, rules, sized)


# numbers of an operator ---------------------------------------------------------------------------------------------


def scalar(scale: np.ndarray) -> np.float32:
    return np.float32(scale.reshape(-1)[0])


def result_scale(op: QuantizedOp) -> np.float32:
    """Scale of the requantized result."""
    last = next(s for s in reversed(op.stages) if s.kind == "quantize")
    assert last.scale is not None
    return scalar(last.scale)


def has_relu(op: QuantizedOp) -> bool:
    return any(stage.kind in ("relu", "clip") for stage in op.stages)


def pool_stage(op: QuantizedOp) -> Stage | None:
    return next((stage for stage in op.stages if stage.kind == "max_pool2d"), None)


def requantization_scale(op: QuantizedOp) -> float:
    """The float32 factor from sums to the result: (scale x scale) / scale, in onnxruntime's order of rounding."""
    a, b = (scalar(t.scale) for t in op.operands)
    if op.anchor == "add":
        return float(a / result_scale(op))
    return float(np.float32(np.float32(a * b) / result_scale(op)))


def _show(values: np.ndarray) -> str:
    flat = np.asarray(values).reshape(-1)
    return f"{flat[0]:.6g}" if flat.size == 1 else f"{flat[0]:.6g} and {flat.size - 1} more"
