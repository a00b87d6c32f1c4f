"""What a network writes several times, or in parts, as one: the same numbers of fewer operators."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import onnx
from hypothesis import given

from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx import joined
from archloom.tvm_backend.quantization.quantize import applied
from tests.support.examples import examples, randoms
from tests.support.tvm_backend.networks import Net, quantized, samples
from tests.support.tvm_backend.written_out import gelu, layer_norm, network

ALL = (joined.whole_functions, joined.equal_nodes_once, joined.reshapes_at_once)


@given(random=randoms)
@examples(10, 300)
def test_joined_operators_compute_the_same(random: Random) -> None:
    model = network(random)
    made = applied(ALL, model)
    assert len(made.graph.node) <= len(model.graph.node)
    data = samples(model, 1)[0]
    found, expected = (run(integer_session(m, fused=False), data) for m in (made, model))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


@given(random=randoms)
@examples(10, 100)
def test_functions_are_found_however_they_are_written(random: Random) -> None:
    net = Net()
    x = gelu(net, net.input("x", 4, 8), "gelu", random)
    model = net.model(layer_norm(net, x, "norm", random), opset=20)
    assert [node.op_type for node in applied(ALL, model).graph.node] == ["Gelu", "LayerNormalization"]


def test_draws_and_outputs_stay_apart() -> None:
    """Two draws are not the same, and each output has its name."""
    net = Net()
    x = net.input("x", 4, 8)
    drawn = [net.node("RandomNormalLike", [x], name) for name in "ab"]
    results = [net.node("Tanh", [x], name) for name in "cd"]
    model = net.model(net.node("Sub", drawn, "difference"), *results)
    assert joined.equal_nodes_once(model).graph == model.graph


def test_zeros_around_an_image_are_among_those_that_are_compared() -> None:
    """onnxruntime's optimizer takes them into the search of maxima, which does not see them then."""
    net = Net()
    x, pads = net.input("i", 1, 2, 4, 4), net.constant("pads", [0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    low = net.node("Sub", [net.conv(x, "conv", 2, 2), net.constant("far", 99)], "low")
    model = net.model(net.node("MaxPool", [net.node("Pad", [low, pads], "pad")], "pool", kernel_shape=[2, 2]))
    data = samples(model, 1)[0]
    for one in (model, quantized(model)):
        (found,) = run(integer_session(one), data).values()
        assert found[0, 0, 0, 0] == 0 > found[0, 0, 1, 1]
    assert Counter(node.op_type for node in onnx.shape_inference.infer_shapes(quantized(model)).graph.node)["Pad"] == 1
