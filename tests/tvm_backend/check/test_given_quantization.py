"""Products of networks that were quantized elsewhere: bytes of both kinds, with zero points for weights, too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import archloom
from archloom.tvm_backend.check.network import _in_floats, _judged, _references

m, k, n = 12, 20, 24
INPUTS = np.random.default_rng(1).standard_normal((m, k)).astype(np.float32)


def product(weight_zero: int, input_zero: int) -> onnx.ModelProto:
    """A product of uint8 numbers [12, 20] with constant ones [20, 24], in QDQ form."""
    weights = np.random.default_rng(0).integers(0, 255, (k, n)).astype(np.uint8)
    values = {"w": weights, "ws": np.float32(0.01), "wz": np.uint8(weight_zero), "xs": np.float32(0.02),
              "xz": np.uint8(input_zero), "ys": np.float32(0.2), "yz": np.uint8(120)}
    nodes = [("QuantizeLinear", "x xs xz", "xq"), ("DequantizeLinear", "xq xs xz", "xd"),
             ("DequantizeLinear", "w ws wz", "wd"), ("MatMul", "xd wd", "s"), ("QuantizeLinear", "s ys yz", "yq"),
             ("DequantizeLinear", "yq ys yz", "y")]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs.split(), [output], output) for operator, inputs, output in nodes], "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (m, k))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (m, n))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.first_case
@pytest.mark.parametrize(("target", "weight_zero", "input_zero"), [
    ("amx", 131, 117), ("amx", 131, 128), ("amx", 128, 117), ("gemmini", 131, 117), ("systolic_array", 131, 117)])
def test_weights_with_zero_points(target: str, weight_zero: int, input_zero: int) -> None:
    """Constants may lie packed in memory; what the host makes of the sums needs none of them."""
    result = archloom.check(product(weight_zero, input_zero), target, inputs={"x": INPUTS})
    assert result.passed and len(result.layers) == 1
    assert [output.max_error_in_steps for output in result.outputs] == [0]


@pytest.mark.parametrize(("target", "passes"), [("mesh", True), ("amx", False)])
def test_a_machine_of_floats_may_be_off_by_steps(target: str, passes: bool) -> None:
    """A sum that floats round otherwise becomes another byte, which a machine of integers has no excuse for."""
    model = archloom.load(product(131, 117))
    (right,) = next(iter(_references(model)))[1](batch := {"x": INPUTS})
    found = right.copy()
    found[0, 0] += 2 * 0.2 * (1 if found[0, 0] < 0 else -1)
    assert (not _judged(model, target, [batch], [[found]], _in_floats(target)).failures) is passes
    assert _judged(model, target, [batch], [[-right]], _in_floats(target)).failures


@pytest.mark.parametrize("version", [17, 21])
def test_operators_that_are_written_out_leave_weights_quantized(version: int) -> None:
    """ONNX's reference computes ``DequantizeLinear`` in some versions, and not in others."""
    model = product(131, 117)
    model.opset_import[0].version = version
    model.graph.output[0].name = "z"
    model.graph.node.append(helper.make_node("Celu", ["y"], ["z"], "celu"))
    assert archloom.coverage(model, "gemmini").offloaded_macs == m * k * n


def test_the_hosts_last_operator_is_called_as_the_output_that_it_makes() -> None:
    """What a function's result is called when it is made anew is no name of the network's."""
    (last, *_) = reversed(archloom.coverage(product(131, 117), "gemmini").operators)
    assert (last.op, last.name) == ("dequantize", "y")
