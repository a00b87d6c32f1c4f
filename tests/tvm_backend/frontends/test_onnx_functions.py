"""Operators that stand for several are written out where TVM 0.27 lacks them or quantization must see inside."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from archloom import load
from archloom.tvm_backend.frontends.onnx.functions import with_known_shapes, without_functions
from archloom.tvm_backend.host.network import jitted
from archloom.tvm_backend.targets import registry
from tests.support.examples import examples
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


@given(defaults=st.lists(st.none() | st.sampled_from((0.25, 0.5, 2.0)), min_size=1, max_size=3),
       given_=st.lists(st.none() | st.sampled_from((0.125, 3.0)), min_size=4, max_size=4), branch=st.booleans())
@examples(4, 100)
def test_attributes_of_functions_are_those_of_the_call_or_their_defaults(
    defaults: list[float | None], given_: list[float | None], branch: bool
) -> None:
    """Each function calls the next one twice, in a branch or not; the last ones' slope is an attribute."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    slopes = [{} if slope is None else {"slope": slope} for slope in given_]

    def calling(name: str, x: str, y: str, attributes: dict[str, float]) -> onnx.NodeProto:
        return helper.make_node(name, [x], [y], f"{name}.{y}", domain="own", **attributes)

    functions = []
    for i, default in enumerate(defaults):
        body = [calling(f"F{i - 1}", "a", "b", slopes[0]), calling(f"F{i - 1}", "b", "o", slopes[1])]
        if i == 0:
            body = [helper.make_node("LeakyRelu", ["a"], ["o"], "leaky")]
            body[0].attribute.append(onnx.AttributeProto(
                name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
        elif branch:
            graph = helper.make_graph(body, "body", [], [helper.make_tensor_value_info("o", 1, [2, 4])])
            always = helper.make_tensor("always", onnx.TensorProto.BOOL, [], [True])
            body = [helper.make_node("Constant", [], ["always"], value=always),
                    helper.make_node("If", ["always"], ["y"], then_branch=graph, else_branch=graph)]
        functions.append(helper.make_function("own", f"F{i}", ["a"], [body[-1].output[0]], body, imports, (
            ["slope"] if default is None else [])))
        if default is not None:
            functions[-1].attribute_proto.append(helper.make_attribute("slope", default))
    last = f"F{len(defaults) - 1}"
    nodes = [calling(last, "x", "h", slopes[2]), calling(last, "h", "y", slopes[3])]
    x, y = (helper.make_tensor_value_info(name, 1, [2, 4]) for name in "xy")
    model = helper.make_model(helper.make_graph(nodes, "net", [x], [y]), functions=functions, opset_imports=imports,
                              ir_version=9)
    same_as_onnxruntime(model, model)


@pytest.mark.slow
def test_products_of_attention_are_quantized() -> None:
    net = Net()
    inputs = [net.input(name, 1, length, 16) for name, length in (("q", 4), ("k", 5), ("v", 5))]
    model = net.model(net.node("Attention", inputs, "attention", q_num_heads=2, kv_num_heads=2), opset=23)
    same_as_onnxruntime(model, model)
    assert split(load(model), registry.get("qkv"))[0].offloaded_macs_share == 1
    assert split(quantized(model))[0].offloaded_macs_share == 1


@given(parts=st.integers(1, 4), begins_empty=st.booleans())
@examples(5, 20)
def test_sequences_of_constants_stay_sequences(parts: int, begins_empty: bool) -> None:
    """ONNX's reference has lists for them, of which no constant is made; what is put together of them is one."""
    net = Net()
    names = [net.constant(f"c{i}", np.full((1, 4), i)) for i in range(parts)]
    joined = net.node("SequenceEmpty", [], "begin") if begins_empty else net.node("SequenceConstruct", names, "begin")
    for i, name in enumerate(names if begins_empty else []):
        joined = net.node("SequenceInsert", [joined, name], f"part{i}")
    rows = net.node("ConcatFromSequence", [joined], "rows", axis=0)
    model = net.model(net.node("Add", [net.input("x", parts, 4), rows], "sum"))
    found = with_known_shapes(model)
    assert [n.op_type for n in found.graph.node] == [n.op_type for n in model.graph.node]
    onnx.shape_inference.infer_shapes(found)  # would find tensors where sequences are stated
