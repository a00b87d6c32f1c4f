"""Reshapes between quantized operators disappear, and the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

from archloom import load
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.passes.sink_reshapes import sink_reshapes
from tests.support.tvm_backend.networks import Net, executable, quantized, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor


def feed_forward(residual: bool) -> Net:
    """Two dense layers with ReLU on [batch, length, features], as transformers have them."""
    net = Net(1)
    x = net.input("x", 2, 5, 16)
    y = net.node("MatMul", [x, net.weight("w1", 16, 24)], "grow")
    y = net.node("Add", [y, net.weight("b1", 24)], "grow_bias")
    y = net.node("MatMul", [net.node("Relu", [y], "relu"), net.weight("w2", 24, 16)], "shrink")
    y = net.node("Add", [net.weight("b2", 16), y], "shrink_bias")
    if residual:
        y = net.node("Add", [y, x], "residual")
    net.node("MatMul", [y, net.weight("w3", 16, 4)], "head")
    return net


@pytest.mark.slow
@pytest.mark.parametrize("residual", [False, True])
def test_dense_layers_on_sequences_make_one_region(residual: bool) -> None:
    model = quantized(feed_forward(residual).model("head.out"))
    part, _, _ = split(model)
    names = ["grow", "shrink", "residual", "head"] if residual else ["grow", "shrink", "head"]
    assert [[s.name for s in region.steps] for region in part.regions] == [names]
    assert part.regions[0].steps[0].op == "dense+bias+relu"
    exe, session = executable(model), integer_session(model)
    for x in samples(model, 3, seed=2):
        np.testing.assert_array_equal(exe.run(x, executor=ReferenceExecutor())["head.out"], run(session, x)["head.out"])


def operators(net: Net, *outputs: str, sums: bool = False) -> list[str | None]:
    module = sink_reshapes(load(net.model(*outputs)).module, sums)
    return [compat.op_name(b.value) for b in compat.bindings(module["main"]) if compat.op_name(b.value)]


def test_reshapes_join_and_cancel() -> None:
    net = Net()
    x = net.input("x", 4, 6)
    there = net.node("Reshape", [x, net.constant("s1", [2, 12], np.int64)], "there")
    y = net.node("Reshape", [net.node("Relu", [there], "relu"), net.constant("s2", [4, 6], np.int64)], "back")
    assert operators(net, y) == ["nn.relu"]


def test_a_reshape_that_is_needed_twice_is_written_once() -> None:
    net = Net()
    flat = net.node("Reshape", [net.input("x", 4, 6), net.constant("s", [24], np.int64)], "flat")
    a, b = net.node("Exp", [flat], "exp"), net.node("Sin", [flat], "sin")
    assert operators(net, a, b) == ["reshape", "exp", "sin"]


@pytest.mark.parametrize("sums", [False, True])
def test_what_is_added_to_a_product_is_added_before_its_reshape(sums: bool) -> None:
    net = Net()
    x, flat, whole = (net.input("x", 2, 5, 16), net.constant("flat", [10, 16], np.int64),
                      net.constant("whole", [2, 5, 16], np.int64))
    product = net.node("MatMul", [net.node("Reshape", [x, flat], "rows"), net.weight("w", 16, 16)], "product")
    y = net.node("Add", [net.node("Reshape", [product, whole], "back"), net.weight("b", 16)], "bias")
    y = net.node("Relu", [net.node("Add", [x, y], "residual")], "relu")
    moved = ["reshape", "matmul", "add", "reshape", "add", "nn.relu", "reshape"]
    left = ["reshape", "matmul", "reshape", "add", "add", "nn.relu"]
    assert operators(net, y, sums=sums) == (moved if sums else left)


def test_results_have_their_shapes() -> None:
    net = Net()
    flat = net.node("Reshape", [net.input("x", 4, 6), net.constant("s", [2, 12], np.int64)], "flat")
    y = net.node("Relu", [flat], "relu")
    model, x = net.model(y, flat), np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    relu, same = executable(model)(x)
    np.testing.assert_array_equal(same, x.reshape(2, 12))
    np.testing.assert_array_equal(relu, np.maximum(x.reshape(2, 12), 0))


@pytest.mark.slow
def test_transposes_of_bytes_stay_bytes() -> None:
    net = Net(3)
    a = net.node("MatMul", [net.input("a", 2, 5, 8), net.weight("w", 8, 8)], "keys")
    y = net.node("MatMul", [net.input("q", 2, 5, 8), net.node("Transpose", [a], "t", perm=[0, 2, 1])], "scores")
    model = quantized(net.model(y))
    part, _, _ = split(model)
    assert [s.name for s in part.steps()] == ["keys", "scores"]
    assert [(o.op, o.shape) for o in part.host.ops if o.op == "permute_dims"] == [("permute_dims", (2, 8, 5))]
    assert sum(o.op == "dequantize" for o in part.host.ops) == 1
    x = samples(model, 1)[0]
    found = executable(model).run(x, executor=ReferenceExecutor())["scores.out"]
    np.testing.assert_array_equal(found, run(integer_session(model), x)["scores.out"])


def test_scales_per_channel_do_not_move() -> None:
    net = Net()
    x = net.input("x", 3, 8)
    scale, zero = net.constant("scale", np.linspace(0.1, 0.3, 3)), net.constant("zero", np.zeros(3), np.int8)
    q = net.node("QuantizeLinear", [x, scale, zero], "q", axis=0)
    y = net.node("DequantizeLinear", [q, scale, zero], "d", axis=0)
    y = net.node("Relu", [net.node("Reshape", [y, net.constant("s", [4, 6], np.int64)], "r")], "relu")
    assert operators(net, y) == ["quantize", "dequantize", "nn.relu", "reshape"]
