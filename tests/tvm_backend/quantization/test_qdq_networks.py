"""Whole QDQ networks: equal to onnxruntime's integer execution, bit for bit, layer by layer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from archloom.oracle.errors import InputError
from archloom.tvm_backend.check.reference import integer_session, run
from tests.support.tvm_backend.networks import Net, executable, quantized, residual_cnn, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor


def agree(model: onnx.ModelProto, count: int = 3) -> ReferenceExecutor:
    """Demand equality with onnxruntime on random inputs; gives the executor that ran the steps."""
    exe, session, executor = executable(model), integer_session(model), ReferenceExecutor()
    for x in samples(model, count, seed=7):
        found, expected = exe.run(x, executor=executor), run(session, x)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    return executor


@pytest.mark.slow
def test_residual_cnn_equals_onnxruntime() -> None:
    model = quantized(residual_cnn())
    part, _, _ = split(model)
    assert part.offloaded_macs_share == 1.0
    assert [s.op for s in part.steps()] == [
        "conv2d+bias+relu+max_pool", "conv2d+bias+relu", "conv2d+bias", "add+relu", "dense+bias",
    ]
    assert len(part.regions) == 2
    assert agree(model).steps[:5] == ["stem", "a", "b", "add", "logits"]


@pytest.mark.first_case
@pytest.mark.parametrize("attributes", [
    {"strides": [2, 2], "pads": [1, 1, 1, 1]}, {"strides": [1, 2], "pads": [0, 1, 2, 3]}, {"pads": [2, 2, 2, 2]},
    {"strides": [3, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
])
def test_strides_and_paddings(attributes: dict[str, object]) -> None:
    net = Net(3)
    x = net.input("x", 2, 5, 11, 13)
    model = quantized(net.model(net.conv(x, "conv", 5, 7, 3, **attributes)))
    part, _, _ = split(model)
    assert [s.op for s in part.steps()] == ["conv2d+bias"]
    agree(model)


def test_one_by_one_everything() -> None:
    net = Net(4)
    x = net.input("x", 1, 1, 1, 1)
    model = quantized(net.model(net.node("Relu", [net.conv(x, "conv", 1, 1, 1, bias=False)], "relu")))
    assert [s.op for s in split(model)[0].steps()] == ["conv2d+relu"]
    agree(model)


def test_relu6_saturates() -> None:
    net = Net(5)
    x = net.conv(net.input("x", 1, 4, 6, 6), "conv", 4, 8)
    low, high = net.constant("low", 0.0), net.constant("high", 6.0)
    model = quantized(net.model(net.node("Clip", [x, low, high], "relu6")))
    part, _, _ = split(model)
    assert [s.op for s in part.steps()] == ["conv2d+bias+relu"]
    agree(model)


def test_dense_without_transposition_and_batched_matmul() -> None:
    net = Net(6)
    a, b = net.input("a", 2, 3, 5, 16), net.input("b", 2, 3, 16, 7)
    y = net.node("MatMul", [net.node("MatMul", [a, b], "scores"), net.weight("w", 7, 9)], "project")
    model = quantized(net.model(y))
    part, _, _ = split(model)
    assert [s.op for s in part.steps()] == ["batch_matmul", "dense"]
    assert [s.workload.output.shape for s in part.steps()] == [(6, 5, 7), (1, 30, 9)]
    agree(model)


@pytest.mark.slow
def test_shared_activation_feeds_two_convolutions_and_an_addition() -> None:
    net = Net(7)
    x = net.node("Relu", [net.conv(net.input("x", 1, 3, 8, 8), "stem", 3, 8, pads=[1] * 4)], "relu")
    left, right = net.conv(x, "left", 8, 8, pads=[1] * 4), net.conv(x, "right", 8, 8, 1)
    y = net.node("Add", [net.node("Add", [left, right], "first"), x], "second")
    model = quantized(net.model(y, left))
    part, _, _ = split(model)
    assert sorted(s.name for s in part.steps()) == ["first", "left", "right", "second", "stem"]
    assert len(part.regions) == 1 and len(part.regions[0].outputs) == 2
    agree(model)


@pytest.mark.slow
def test_region_split_by_a_host_operator_stays_convex() -> None:
    """One branch leaves to the host and comes back: the addition must wait for it, in a second region."""
    net = Net(8)
    x = net.conv(net.input("x", 1, 4, 6, 6), "stem", 4, 4, pads=[1] * 4)
    host = net.node("Sigmoid", [net.conv(x, "left", 4, 4, 1)], "sigmoid")
    right = net.conv(net.conv(host, "deep", 4, 4, 1), "deeper", 4, 4, 1)
    model = quantized(net.model(net.node("Add", [right, net.conv(x, "right", 4, 4, 1)], "add")))
    part, _, _ = split(model)
    assert [[s.name for s in r.steps] for r in part.regions] == [
        ["stem", "left", "right"], ["deep", "deeper", "add"],
    ]
    assert "sigmoid" in {op.op for op in part.host.ops}
    agree(model, 1)


@pytest.mark.slow
def test_several_inputs_and_outputs_by_name() -> None:
    net = Net(9)
    a, b = net.input("a", 1, 3, 5, 5), net.input("b", 1, 3, 5, 5)
    left, right = net.conv(a, "left", 3, 4), net.conv(b, "right", 3, 4)
    model = quantized(net.model(left, right))
    exe, x = executable(model), samples(model, 1)[0]
    both = exe.run(x, executor=ReferenceExecutor())
    assert list(both) == ["left.out", "right.out"]
    with pytest.raises(InputError, match="input 'b' is missing; expected float32 of shape 1x3x5x5"):
        exe.run({"a": x["a"]}, executor=ReferenceExecutor())


@pytest.mark.slow
def test_two_networks_do_not_see_each_other() -> None:
    first, second = quantized(residual_cnn(12)), quantized(residual_cnn(16))
    exes = [executable(m) for m in (first, second)]
    for _ in range(2):
        for exe, model in zip(exes, (first, second)):
            x = samples(model, 1)[0]
            expected = run(integer_session(model), x)
            found = exe.run(x, executor=ReferenceExecutor())
            np.testing.assert_array_equal(next(iter(found.values())), next(iter(expected.values())))
