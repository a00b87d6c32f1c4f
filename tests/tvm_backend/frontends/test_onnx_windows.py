"""Padding, pooling and normalization over channels, of any rank: onnxruntime's numbers, one partition both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.models import zoo
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import attributes_of, opset_of
from archloom.tvm_backend.frontends.onnx.load import load_skeleton
from archloom.tvm_backend.frontends.onnx.rewrites import padded_windows
from archloom.tvm_backend.frontends.onnx.versions import LEAST_OPERATOR_SET, renewed
from tests.support.examples import examples, often
from tests.support.tvm_backend.networks import Net, executable
from tests.support.tvm_backend.partitions import facts
from tests.support.tvm_backend.reference import ReferenceExecutor

TARGET = "plasticine"


@st.composite
def shapes(draw: st.DrawFn, most: int) -> tuple[int, ...]:
    """Batch, channels, and up to ``most`` axes behind them."""
    rank = draw(st.integers(1, most))
    return (draw(st.integers(1, 2)), draw(st.integers(1, 5)), *(draw(st.integers(3, 7)) for _ in range(rank)))


@st.composite
def paddings(draw: st.DrawFn) -> onnx.ModelProto:
    """``Pad`` in any mode, of some axes or all, which may also cut."""
    shape, mode = draw(shapes(3)), draw(st.sampled_from(("constant", "reflect", "edge", "wrap")))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    most = {"reflect": lambda extent: extent - 1, "wrap": lambda extent: extent}.get(mode, lambda extent: 3)
    least = {"constant": -1}.get(mode, 0)
    widths = [draw(st.integers(least if shape[a] > 2 else 0, min(3, most(shape[a])))) for _ in range(2) for a in axes]
    net = Net()
    inputs = [net.input("x", *shape), net.constant("pads", widths, np.int64)]
    inputs.append(net.constant("value", draw(st.sampled_from((0.0, 1.5, -2.0)))) if draw(st.booleans()) else "")
    inputs.append(net.constant("axes", draw(st.sampled_from((axes, [a - len(shape) for a in axes]))), np.int64))
    return net.model(net.node("Pad", inputs, "y", mode=mode), opset=19)


@st.composite
def poolings(draw: st.DrawFn) -> onnx.ModelProto:
    """Means and maxima of windows over rows, images and volumes."""
    shape, op = draw(shapes(3)), draw(st.sampled_from(("AveragePool", "MaxPool")))
    rank = len(shape) - 2
    kernel, strides = ([draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(2))
    pads = [draw(st.integers(0, kernel[i % rank] - 1)) for i in range(2 * rank)]
    form: dict[str, Any] = {"count_include_pad": draw(st.integers(0, 1))} if op == "AveragePool" else {}
    net = Net()
    pooled = net.node(op, [net.input("x", *shape)], "y", kernel_shape=kernel, strides=strides, pads=pads, **form)
    return net.model(pooled)


@st.composite
def normalizations(draw: st.DrawFn) -> onnx.ModelProto:
    """``LRN``, whose windows may be of even size and larger than there are channels."""
    form = {key: draw(st.sampled_from(values)) for key, values in (
        ("alpha", (1e-4, 0.5)), ("beta", (0.75, 0.5)), ("bias", (1.0, 2.0))) if draw(st.booleans())}
    shape, net = draw(shapes(3)), Net()
    return net.model(net.node("LRN", [net.input("x", *shape)], "y", size=draw(st.integers(1, 6)), **form))


def evaluated(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """By onnxruntime; ``LRN``, of which that has windows of odd size alone, as its definition reads."""
    (node,) = model.graph.node
    if node.op_type != "LRN":
        result: np.ndarray = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
        return result
    form = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0} | attributes_of(node)
    before, after = (form["size"] - 1) // 2, form["size"] // 2
    sums = [np.square(x[:, max(0, c - before):c + after + 1]).sum(1) for c in range(x.shape[1])]
    return np.asarray(x / (form["bias"] + form["alpha"] / form["size"] * np.stack(sums, 1)) ** form["beta"])


@given(st.one_of(paddings(), poolings(), normalizations()))
@examples(3, 200)
def test_windows(model: onnx.ModelProto) -> None:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    network = archloom.load(model, name="net")
    plain = load_skeleton(skeleton.parse(skeleton.of_proto(model)), "net", "net", None)
    assert facts(partition_model(plain, TARGET)) == facts(partition_model(network, TARGET))
    (found,) = executable(network).run({"x": x}, executor=ReferenceExecutor()).values()
    np.testing.assert_allclose(found, evaluated(model, x), rtol=1e-5, atol=1e-6)


@given(st.sampled_from(("Conv", "AveragePool")), st.sampled_from((0.0, 1.0)), st.lists(st.integers(0, 2), min_size=4,
       max_size=4), st.integers(0, 1))
@examples(4, 60)
def test_padding_goes_into_the_window_behind_it(op: str, value: float, widths: list[int], own: int) -> None:
    net = Net()
    pads = net.constant("pads", [0, 0, *widths[:2], 0, 0, *widths[2:]], np.int64)
    padded = net.node("Pad", [net.input("x", 1, 2, 5, 6), pads, net.constant("value", value)], "pad")
    inputs = [padded, net.weight("w", 3, 2, 3, 3)] if op == "Conv" else [padded]
    model = net.model(net.node(op, inputs, "y", kernel_shape=[3, 3], pads=[own] * 4))
    joined = padded_windows(model)
    assert len(joined.graph.node) == 2 - (value == 0 and (op == "Conv" or not own))
    x = {"x": np.random.default_rng(0).standard_normal((1, 2, 5, 6)).astype(np.float32)}
    expected, found = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, x)[0] for m in (model, joined))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(("input", "output", "x", "LRN", "Pad", "Split"))),
                min_size=1, max_size=3))
@examples(30, 300)
def test_networks_of_old_operator_sets_are_converted_or_refused(faults: list[tuple[int, str]]) -> None:
    net = Net()
    x = net.conv(net.input("x", 1, 2, 6, 6), "first", 2, 3)
    model = net.model(net.node("Relu", [net.node("MaxPool", [x], "pool", kernel_shape=[2, 2])], "y"), opset=9)
    for place, fault in faults:
        node = model.graph.node[place]
        if fault in ("input", "output"):
            del getattr(node, fault)[:1]
        elif fault == "x":
            node.input.append("absent")
        else:
            node.op_type = fault
    try:
        assert opset_of(renewed(model)) == LEAST_OPERATOR_SET
    except ModelError as error:
        assert "found 9, which cannot be converted" in str(error)


@pytest.mark.parametrize("name", often(zoo.names(), ("light_squeezenet",)))
def test_networks_of_old_operator_sets(name: str) -> None:
    """The package ``onnx``'s own: read without their weights as TVM reads them whole."""
    model = zoo.load(name)
    assert opset_of(model) < LEAST_OPERATOR_SET
    plain = load_skeleton(skeleton.parse(skeleton.of_proto(model)), "net", "net", None)
    whole = archloom.load(renewed(model), name="net")
    assert facts(partition_model(plain, "oma")) == facts(partition_model(whole, "oma"))
