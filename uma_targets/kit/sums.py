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
from archloom.tvm_backend.host import sums as numbers
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets.backend import Lowered, UMABackend, Verdict
from archloom.uma_targets.kit.patterns import fused
from archloom.uma_targets.kit.rules import AllOf, Rule, along_channels, constant_kernel, matrices, plain_matmul

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
    """The second operand has one scale, or is constant with one for each output channel, or for each of a batch, and
    one zero point."""
    weights = op.operands[1]
    if weights.scale.size != 1 and not numbers.has_scales_of_batch(op):
        axis = 0 if op.anchor == "nn.conv2d" else len(weights.shape) - 1
        found = weights.axis % len(weights.shape)
        if op.anchor == "matmul" and weights.permutation is not None:
            found = weights.permutation.index(found)
        if not weights.is_constant or found != axis or weights.scale.size != numbers.channels(op):
            return (f"operand 1 has {weights.scale.size} scales along axis {weights.axis}, not one for each output "
                    "channel")
    if np.unique(weights.zero_point).size > 1:
        return "operand 1 has zero points of several values"
    if op.anchor == "nn.conv2d" and numbers.zero_point(weights):
        return f"the kernel has zero point {int(weights.zero_point.reshape(-1)[0])}"
    return None


def scales_of_groups(op: QuantizedOp) -> str | None:
    """A convolution of several groups has one scale for all channels of a group."""
    groups, scale = op.attrs["groups"], op.operands[1].scale
    if groups > 1 and scale.size > 1 and np.ptp(scale.reshape(groups, -1), axis=1).any():
        return f"its {groups} groups have {scale.size} scales"
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
    if not np.allclose(op.bias.scale.reshape(-1), numbers.unit(op).reshape(-1), rtol=1e-6, atol=0):
        return "the bias is not in units of the sums"
    return along_channels(op)


def finished_by_host(op: QuantizedOp) -> str | None:
    """The result is float32, int32 as it is, or quantized to bytes with one scale before or after a ReLU or clip, or
    before another activation."""
    kinds = ["activation" if s.kind in numbers.BOUNDS or (i == 2 and s.kind in numbers.CURVES) else s.kind
             for i, s in enumerate(op.stages)]
    if kinds not in FINISHED:
        return f"{', '.join(s.kind for s in op.stages)} follow it"
    for stage in op.stages:
        if stage.scale is not None and stage.scale.size != 1:
            return "the result has one scale per channel"
        if stage.kind == "convert" and (stage.dtype != "int32" or np.any(numbers.unit(op) != 1)):
            return f"the result is converted to {stage.dtype} from numbers that are not whole"
        if stage.kind == "quantize" and stage.dtype not in BYTES:
            return f"the result is quantized to {stage.dtype}"
    return None


SUMS: tuple[Rule, ...] = (byte_operands, scales_of_channels, bias_of_sums, finished_by_host)
SUMS_MATMUL: tuple[Rule, ...] = (*SUMS, plain_matmul)
SUMS_CONV2D: tuple[Rule, ...] = (*SUMS, constant_kernel)
INTEGERS = {"nn.conv2d": AllOf("nn.conv2d", SUMS_CONV2D), "matmul": AllOf("matmul", (*SUMS, matrices))}


def as_integers(op: QuantizedOp) -> Verdict:
    """Whether a product is one of bytes with int32 sums and what is made of them."""
    return INTEGERS[op.anchor](op, {})


# strategies ----------------------------------------------------------------------------------------------------------


def offer(target: UMABackend, anchor: str, predicate: AllOf, strategy: Strategy) -> None:
    """Let a target take an operator of which it stores the sums, whatever the host makes of them."""
    for name, form in WIDE.items():
        target._register_pattern(f"{anchor}_{name}", partial(fused, anchor, form), predicate)
        target._register_operator_strategy(f"{anchor}_{name}", with_sums(strategy), takes_options=True)


def with_sums(strategy: Strategy) -> Strategy:
    """The strategy whose workload stores the sums, with what the host makes of them."""
    def lowered(op: QuantizedOp, options: Mapping[str, OptionValue]) -> Lowered:
        plain = numbers.as_sums(op)
        found = strategy(plain, options)
        return replace(found, op=f"{found.op}+int32", output_stage=numbers.output_stage(op))

    return lowered
