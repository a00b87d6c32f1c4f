"""Operators that stand for several are written out where TVM 0.27 lacks them or quantization must see inside."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from archloom import load
from archloom.tvm_backend.frontends.onnx.functions import without_functions
from archloom.tvm_backend.host.network import jitted
from archloom.tvm_backend.targets import registry
from tests.support.tvm_backend.networks import Net, quantized, samples, split


def same_as_onnxruntime(model: onnx.ModelProto, reference: onnx.ModelProto) -> None:
    (x,) = samples(model, 1)
    (expected,) = onnxruntime.InferenceSession(reference.SerializeToString()).run(None, x)
    (found,) = jitted(load(model).module["main"])(list(x.values()))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_an_operator_that_onnx_defines_by_others() -> None:
    net = Net()
    model = net.model(net.node("Celu", [net.dense(net.input("x", 2, 4), "dense", 4, 3)], "celu", alpha=0.5))
    assert "Celu" not in {node.op_type for node in without_functions(model).graph.node}
    same_as_onnxruntime(model, model)


def test_functions_of_the_network() -> None:
    net = Net()
    model = net.model(net.node("Twice", [net.dense(net.input("x", 2, 4), "dense", 4, 3)], "twice", domain="own"),
                      domain="own")
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("twice.out", 1, [2, 3]))
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["b", "b"], ["c"])]
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 17)]))
    assert [node.op_type for node in without_functions(model).graph.node] == ["Gemm", "Relu", "Add"]
    same_as_onnxruntime(model, model)
    assert split(quantized(model))[0].offloaded_macs_share == 1


@pytest.mark.slow
def test_products_of_attention_are_quantized() -> None:
    net = Net()
    inputs = [net.input(name, 1, length, 16) for name, length in (("q", 4), ("k", 5), ("v", 5))]
    model = net.model(net.node("Attention", inputs, "attention", q_num_heads=2, kv_num_heads=2), opset=23)
    same_as_onnxruntime(model, model)
    assert split(load(model), registry.get("qkv"))[0].offloaded_macs_share == 1
    assert split(quantized(model))[0].offloaded_macs_share == 1
