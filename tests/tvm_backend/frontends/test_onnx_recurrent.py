"""Recurrent layers written out frame by frame: onnxruntime computes the same of both forms. For TVM 0.27."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from archloom import load
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx.recurrent import GATES, frame_by_frame, frames_first
from archloom.tvm_backend.host.network import jitted
from archloom.tvm_backend.targets import registry
from tests.support.examples import slow
from tests.support.tvm_backend.networks import Net, executable, quantized, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor

FRAMES, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5


def layer(kind: str, direction: str = "forward", *, bias: bool = True, state: bool = False, opset: int = 17,
          **attributes: Any) -> onnx.ModelProto:
    net = Net(1)
    ways, rows = 2 if direction == "bidirectional" else 1, GATES[kind] * HIDDEN
    inputs = [net.input("x", FRAMES, BATCH, WIDTH)]
    for name, shape in (("w", (ways, rows, WIDTH)), ("r", (ways, rows, HIDDEN))):
        inputs.append(net.constant(name, net.rng.standard_normal(shape)))
    inputs.append(net.constant("b", net.rng.standard_normal((ways, 2 * rows))) if bias else "")
    if state:
        inputs += ["", net.input("h", ways, BATCH, HIDDEN)]
        if kind == "LSTM":
            inputs.append(net.input("c", ways, BATCH, HIDDEN))
    outputs = ["every", "last", *(["cell"] if kind == "LSTM" else [])]
    net.nodes.append(onnx.helper.make_node(
        kind, inputs, outputs, "layer", hidden_size=HIDDEN, direction=direction, **attributes))
    return net.model(*outputs, opset=opset)


def same(model: onnx.ModelProto) -> None:
    written = frame_by_frame(model)
    onnx.checker.check_model(written, full_check=True)
    assert not {node.op_type for node in written.graph.node} & set(GATES)
    (x,) = samples(model, 1)
    expected, found = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, x) for m in (model, written))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.first_case
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", list(GATES))
def test_written_out_it_computes_the_same(kind: str, direction: str, state: bool) -> None:
    same(layer(kind, direction, state=state))


def with_more(kind: str, direction: str, lengths: bool, peepholes: bool) -> onnx.ModelProto:
    """A layer with lengths of its sequences, with peepholes, or both."""
    model = layer(kind, direction, state=True)
    (node,) = model.graph.node
    more = []
    if lengths:
        node.input[4] = "lengths"
        more.append(onnx.numpy_helper.from_array(np.array([FRAMES - 2, FRAMES], np.int32), "lengths"))
    if peepholes:
        ways = 2 if direction == "bidirectional" else 1
        values = np.random.default_rng(3).standard_normal((ways, 3 * HIDDEN)).astype(np.float32)
        node.input.extend(["p"])
        more.append(onnx.numpy_helper.from_array(values, "p"))
    model.graph.initializer.extend(more)
    return model


@pytest.mark.parametrize(("kind", "lengths", "peepholes"), [
    ("LSTM", True, True), ("LSTM", False, True), ("GRU", True, False), ("RNN", True, False)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lengths_and_peepholes(kind: str, direction: str, lengths: bool, peepholes: bool) -> None:
    same(with_more(kind, direction, lengths, peepholes))


@pytest.mark.parametrize("kind", list(GATES))
def test_the_batch_first(kind: str) -> None:
    """``layout=1``, which onnxruntime does not run: onnx's reference does."""
    from onnx.reference import ReferenceEvaluator

    plain = layer(kind)
    first = layer(kind, layout=1)
    for info, shape in ((first.graph.input[0], (BATCH, FRAMES, WIDTH)),):
        for dim, size in zip(info.type.tensor_type.shape.dim, shape, strict=True):
            dim.dim_value = size
    del first.graph.value_info[:]
    for output in first.graph.output:
        output.type.tensor_type.ClearField("shape")
    (x,) = samples(plain, 1)
    expected = ReferenceEvaluator(plain).run(None, x)
    orders = [(2, 0, 1, 3), (1, 0, 2), (1, 0, 2)]
    written = frame_by_frame(frames_first(first))
    assert "Transpose" in {node.op_type for node in written.graph.node}
    found = onnxruntime.InferenceSession(written.SerializeToString()).run(None, {"x": x["x"].transpose(1, 0, 2)})
    for a, b, order in zip(found, expected, orders[:len(found)], strict=True):
        np.testing.assert_allclose(a, b.transpose(order), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 21])
@pytest.mark.parametrize("kind", list(GATES))
def test_in_old_and_new_operator_sets(kind: str, opset: int) -> None:
    same(layer(kind, bias=False, opset=opset))


def test_forms_of_a_gate() -> None:
    same(layer("GRU", linear_before_reset=1))
    same(layer("GRU", state=True, linear_before_reset=1))
    same(layer("RNN", activations=["Relu"]))
    same(layer("LSTM", "bidirectional", activations=["Sigmoid", "Tanh", "Relu"] * 2))


@pytest.mark.parametrize("attributes", [{"clip": 1.0}, {"activations": ["HardSigmoid", "Tanh", "Tanh"]}])
def test_what_is_not_written_out_is_named(attributes: dict[str, Any]) -> None:
    model = layer("LSTM", **attributes)
    assert [node.op_type for node in frame_by_frame(model).graph.node] == ["LSTM"]
    with pytest.raises(ModelError, match="node 'layer': operator 'LSTM' is not supported"):
        load(model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [slow("LSTM"), "GRU"])
def test_all_products_are_offloaded(kind: str) -> None:
    model = layer(kind)
    loaded = load(model)
    assert split(loaded, registry.get("qkv"))[0].offloaded_macs_share == 1
    (x,) = samples(model, 1)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, x)
    for found, reference in zip(jitted(loaded.module["main"])(list(x.values())), expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), reference, rtol=1e-4, atol=1e-5)
    integers = quantized(model)
    assert split(integers)[0].offloaded_macs_share == 1
    found = executable(integers).run(x, executor=ReferenceExecutor())
    for name, value in run(integer_session(integers), x).items():
        np.testing.assert_allclose(found[name], value, atol=2e-2)
