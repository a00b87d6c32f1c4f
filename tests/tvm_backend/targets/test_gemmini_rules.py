"""Each rule of Gemmini's predicates, kept and broken, and the reasons that reach the partition."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.ir.match import QTensor, QuantizedOp, Stage
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.quantization.scheme import Scheme
from archloom.uma_targets.gemmini import target as gemmini
from archloom.uma_targets.kit import rules as kit_rules
from tests.support.examples import slow
from tests.support.tvm_backend.networks import Net, executable, quantized, residual_cnn, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor

SCALE = np.float32(0.1)


def tensor(*shape: int, constant: bool = False, dtype: str = "int8", scale: Any = SCALE, zero: Any = 0,
           permutation: tuple[int, ...] | None = None) -> QTensor:
    array = np.ones(shape, dtype) if constant else None
    return QTensor(shape, dtype, np.asarray(scale, np.float32), np.asarray(zero, dtype),
                   None if constant else "x", array, permutation)


def quantize_stage(
    *shape: int, scale: float = 0.05, dtype: str = "int8", zero: int = 0, kind: str = "quantize"
) -> Stage:
    return Stage(kind, shape, np.asarray(scale, np.float32), np.asarray(zero, dtype), dtype)


CONV_ATTRS = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "data_layout": "NCHW",
              "kernel_layout": "OIHW", "out_layout": "NCHW"}
POOL_ATTRS = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "dilation": (1, 1), "ceil_mode": False,
              "layout": "NCHW"}
CONV = QuantizedOp(
    "nn.conv2d", "conv", (1, 8, 6, 6), CONV_ATTRS, (tensor(1, 4, 6, 6), tensor(8, 4, 3, 3, constant=True)),
    tensor(8, constant=True, dtype="int32", scale=SCALE * SCALE),
    (Stage("relu", (1, 8, 6, 6)), quantize_stage(1, 8, 6, 6)), (1, 8, 1, 1),
)
POOLED = replace(CONV, stages=(
    Stage("relu", (1, 8, 6, 6)), quantize_stage(1, 8, 6, 6), quantize_stage(1, 8, 6, 6, kind="dequantize"),
    Stage("max_pool2d", (1, 8, 3, 3), attrs=POOL_ATTRS), quantize_stage(1, 8, 3, 3),
))
MATMUL = QuantizedOp("matmul", "fc", (2, 5, 3), {}, (tensor(2, 5, 4), tensor(4, 3, constant=True)), None,
                     (quantize_stage(2, 5, 3),))
ADD = QuantizedOp("add", "add", (1, 8, 6, 6), {}, (tensor(1, 8, 6, 6), tensor(1, 8, 6, 6)), None,
                  (quantize_stage(1, 8, 6, 6),))


def operands(op: QuantizedOp, index: int, **changes: Any) -> QuantizedOp:
    changed = list(op.operands)
    changed[index] = replace(changed[index], **changes)
    return replace(op, operands=(changed[0], changed[1]))


def pool(**changes: Any) -> QuantizedOp:
    stages = list(POOLED.stages)
    stages[3] = replace(stages[3], attrs={**POOL_ATTRS, **changes})
    return replace(POOLED, stages=tuple(stages))


def clipped(low: float, high: float, scale: float) -> QuantizedOp:
    stages = (Stage("clip", CONV.shape, low=low, high=high), quantize_stage(*CONV.shape, scale=scale))
    return replace(CONV, stages=stages)


@pytest.mark.parametrize(("op", "rules"), [
    (CONV, gemmini.CONV2D), (POOLED, gemmini.CONV2D), (MATMUL, kit_rules.INT8_MATMUL), (ADD, gemmini.ADD),
    (clipped(0, 6, 6 / 127), gemmini.CONV2D), (clipped(0, 6, 0.01), gemmini.CONV2D),
    (pool(padding=(0, 0, 0, 0), pool_size=(2, 2)), gemmini.CONV2D),
    (operands(MATMUL, 1, shape=(3, 4), permutation=(1, 0)), kit_rules.INT8_MATMUL),
    (replace(MATMUL, operands=(tensor(2, 5, 4), tensor(2, 4, 3))), kit_rules.INT8_MATMUL),
])
def test_accepted(op: QuantizedOp, rules: tuple[kit_rules.Rule, ...]) -> None:
    verdict = kit_rules.AllOf(op.anchor, rules)(op, {})
    assert verdict.ok, verdict.seen


@pytest.mark.parametrize(("rule", "op", "seen"), [
    (kit_rules.int8_operands, operands(CONV, 0, dtype="uint8"), "operand 0 is uint8"),
    (kit_rules.int8_operands, operands(CONV, 1, zero_point=np.asarray(3, np.int8)), "operand 1 has zero point 3"),
    (kit_rules.per_tensor_scales, operands(CONV, 1, scale=np.full(8, SCALE)), "operand 1 has 8 scales"),
    (kit_rules.int8_result, replace(CONV, stages=(quantize_stage(1, dtype="uint8"),)), "quantized to uint8"),
    (kit_rules.int8_result, replace(CONV, stages=(quantize_stage(1, zero=-5),)), "the result has zero point -5"),
    (kit_rules.one_requantization,
     replace(CONV, stages=(quantize_stage(1, scale=0.1), quantize_stage(1, kind="dequantize", scale=0.1),
                           Stage("relu", (1,)), quantize_stage(1, scale=0.2))), r"different scales \(0.1, 0.2\)"),
    (kit_rules.int32_bias, replace(CONV, bias=tensor(8, constant=True, dtype="int32", scale=0.5)), "has scale 0.5"),
    (kit_rules.int32_bias, replace(CONV, bias=tensor(4, constant=True, dtype="int32", scale=SCALE * SCALE)),
     "4 values for 8 channels"),
    (kit_rules.int32_bias, replace(CONV, bias_shape=(1, 1, 1, 8)), r"\(1, 1, 1, 8\), not along the channels"),
    (kit_rules.activation_saturates, clipped(-1, 6, 0.01), "it clips from -1, not from 0"),
    (kit_rules.activation_saturates, clipped(0, 6, 0.1), "clips at 6, which is 60.0 in units"),
    (kit_rules.constant_kernel, replace(CONV, attrs={**CONV_ATTRS, "data_layout": "NHWC"}), "layouts are NHWC"),
    (kit_rules.constant_kernel, operands(CONV, 1, array=None), "the kernel is not constant"),
    (kit_rules.plain_matmul, replace(MATMUL, operands=(tensor(2, 5, 4), tensor(3, 4, 3))), "dimensions differ"),
    (kit_rules.plain_matmul, operands(MATMUL, 0, array=np.ones((2, 5, 4), np.int8)), "the first operand is constant"),
    (kit_rules.plain_matmul, operands(MATMUL, 0, permutation=(0, 2, 1)), "the first operand is transposed"),
    (kit_rules.plain_matmul, operands(MATMUL, 1, array=None, permutation=(1, 0)), "transposed and not constant"),
    (gemmini.tied_addition, operands(ADD, 1, shape=(1, 8, 1, 1)), r"shapes \(1, 8, 6, 6\) and \(1, 8, 1, 1\)"),
    (gemmini.tied_addition, operands(ADD, 1, scale=np.float32(0.2)), "scales 0.1 and 0.2"),
    (gemmini.tied_addition, operands(ADD, 1, array=np.ones(1)), "an operand is constant"),
    (gemmini.pool_in_mvout, pool(pool_size=(3, 2)), "not square"),
    (gemmini.pool_in_mvout, pool(pool_size=(4, 4)), "above 3"),
    (gemmini.pool_in_mvout, pool(padding=(3, 1, 1, 1)), "not below the window"),
    (gemmini.pool_in_mvout, pool(ceil_mode=True), "ceil_mode"),
    (gemmini.pool_in_mvout, replace(POOLED, shape=(1, 8, 256, 6)), "256 x 6 is larger than 255"),
    (gemmini.pool_in_mvout, replace(POOLED, stages=POOLED.stages[1:]), "no ReLU precedes it"),
])
def test_refused(rule: kit_rules.Rule, op: QuantizedOp, seen: str) -> None:
    found = rule(op)
    assert found is not None
    assert re.search(seen, found), found


def test_every_rule_states_itself() -> None:
    for rule in {*gemmini.CONV2D, *kit_rules.INT8_MATMUL, *gemmini.ADD}:
        assert rule.__doc__ and rule.__doc__.splitlines()[0].endswith(".")


def reasons(net: Net, y: str, scheme: Scheme | None = None) -> dict[str, str]:
    """Why operators of a quantized network stay on the host, by their names."""
    model = net.model(y)
    part, _, _ = split(quantize(model, samples(model), scheme) if scheme else quantized(model))
    return {op.name: op.reason for op in part.host.ops}


def test_reasons_reach_the_host_part() -> None:
    net = Net()
    conv = net.node("Conv", [net.input("x", 1, 4, 6, 6), net.input("kernel", 3, 4, 3, 3)], "computed")
    assert "the kernel is not constant" in reasons(net, conv)["computed"]


@pytest.mark.first_case
@pytest.mark.parametrize(("c", "o", "form", "op", "blocks"), [
    (24, 24, {"group": 24, "pads": [1] * 4}, "depthwise_conv2d", 12),
    slow(5, 10, {"group": 5, "strides": [2, 2], "pads": [1] * 4}, "depthwise_conv2d", 5),
    slow(8, 12, {"group": 2}, "grouped_conv2d", 2),
    slow(40, 40, {"group": 2}, "grouped_conv2d", 1),
    (4, 7, {"dilations": [2, 3], "pads": [2, 3, 2, 3]}, "conv2d", 1),
    (6, 6, {"dilations": [2, 2], "group": 3}, "grouped_conv2d", 3),
])
def test_grouped_and_dilated_convolutions_are_exact(c: int, o: int, form: dict[str, Any], op: str, blocks: int) -> None:
    net = Net()
    y = net.conv(net.input("x", 1, c, 9, 8), "conv", c, o, **form)
    model = quantized(net.model(y))
    part, _, _ = split(model)
    (step,) = part.steps()
    assert step.op == f"{op}+bias" and step.workload.blocks == blocks and part.offloaded_macs_share == 1.0
    assert step.macs == math.prod(step.shape) * c // form.get("group", 1) * 9
    x = np.random.default_rng(1).standard_normal((1, c, 9, 8)).astype(np.float32)
    found = executable(model).run({"x": x}, executor=ReferenceExecutor())
    (expected,) = run(integer_session(model), {"x": x}).values()
    np.testing.assert_array_equal(next(iter(found.values())), expected)


def test_scales_along_another_axis_than_the_channels_are_refused_by_name() -> None:
    """A store has one factor, and the host's has one for each output channel: neither for each row of a matrix."""
    net = Net()
    model = quantize(net.model(net.node("MatMul", [net.input("x", 3, 4), net.weight("w", 4, 4)], "product")), [
        {"x": np.ones((3, 4), np.float32)}], Scheme(per_channel=True))
    assert [s.op for s in split(model)[0].steps()] == ["dense+int32"]
    node = next(n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == "w_quantized")
    (axis,) = node.attribute
    axis.i = 0
    part, _, _ = split(model)
    assert not list(part.steps())
    assert {op.name: op.reason for op in part.host.ops}["product"].startswith("operand 1 has 4 scales, one per channel")


def test_float_networks_stay_on_the_host_and_say_why() -> None:
    part, _, _ = split(residual_cnn())
    by_name = {op.name: op for op in part.host.ops}
    assert part.offloaded_macs_share == 0.0 and part.macs > 0
    assert "the network is not quantized here" in by_name["stem"].reason
    assert by_name["average"].reason == "gemmini has no pattern for mean"


def test_illegal_pool_leaves_the_convolution_to_the_target() -> None:
    net = Net()
    x = net.node("Relu", [net.conv(net.input("x", 1, 4, 12, 12), "conv", 4, 4)], "relu")
    y = net.node("MaxPool", [x], "pool", kernel_shape=[5, 5], strides=[2, 2])
    part, found, _ = split(quantized(net.model(y)))
    assert [s.op for s in part.steps()] == ["conv2d+bias+relu"]
    assert any("above 3" in r.reason for answers in found.refused.values() for r in answers)


def overlapping(size: int) -> Net:
    net = Net()
    x = net.node("Relu", [net.conv(net.input("x", 1, 4, size, size), "conv", 4, 4, pads=[1] * 4)], "relu")
    net.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    return net


@pytest.mark.parametrize(("size", "fused"), [(22, True), (23, False)])
def test_overlapping_pools_are_taken_where_the_image_fits(size: int, fused: bool) -> None:
    part, _, _ = split(quantized(overlapping(size).model("pool.out")))
    assert [s.op for s in part.steps()] == ["conv2d+bias+relu" + "+max_pool" * fused]
    pools = [op for op in part.host.ops if op.op == "nn.max_pool2d"]
    assert len(pools) == (not fused)
    if not fused:
        assert "(3 > 2) and the 23 x 23 image does not fit half of the accumulator's rows (512)" in pools[0].reason


def test_the_accumulator_follows_the_options() -> None:
    big = replace(POOLED, shape=(1, 8, 30, 30))
    assert gemmini.pool_without_recomputation(big, {"dim": 16}) is not None
    assert gemmini.pool_without_recomputation(big, {"dim": 16, "accumulator_kib": 128}) is None
    assert gemmini.pool_without_recomputation(replace(pool(strides=(3, 3)), shape=(1, 8, 99, 99)), {}) is None


def test_requantization_follows_onnxruntime_in_its_order_of_rounding() -> None:
    rng = np.random.default_rng(0)
    for sx, sw, sy in rng.uniform(1e-4, 1, (50, 3)).astype(np.float32):
        op = replace(CONV, operands=(replace(CONV.operands[0], scale=sx), replace(CONV.operands[1], scale=sw)),
                     stages=(quantize_stage(1, scale=sy),))
        assert kit_rules.requantization_scale(op) == float(np.float32(np.float32(sx * sw) / sy))
