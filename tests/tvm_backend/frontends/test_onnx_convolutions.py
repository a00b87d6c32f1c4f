"""1-D and transposed convolutions as plain ones: the same numbers, and all of them on Gemmini when quantized."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx.rewrites import plain_convolutions
from tests.support.examples import examples
from tests.support.tvm_backend.networks import Net, executable, quantized, split
from tests.support.tvm_backend.reference import ReferenceExecutor


def transposed(shape: tuple[int, ...], kernel: tuple[int, ...], **form: Any) -> onnx.ModelProto:
    """A transposed convolution with bias; ``kernel`` is [c, o / groups, kh, kw]."""
    net = Net()
    bias = net.constant("b", net.rng.standard_normal(kernel[1] * form.get("group", 1)))
    return net.model(net.node("ConvTranspose", [net.input("x", *shape), net.weight("w", *kernel), bias], "y", **form))


def evaluated(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, {"x": x})[0]
    return result


@examples(16, 200)
@given(st.data())
def test_transposed_convolution_by_phases(data: st.DataObject) -> None:
    def pick(*values: int) -> int:
        return data.draw(st.sampled_from(values))

    groups, rank = pick(1, 1, 2), pick(1, 2)
    strides, dilations = ([pick(*values) for _ in range(rank)] for values in ((1, 2, 3), (1, 1, 2)))
    kernel = (2 * groups, pick(1, 3), *(pick(1, 2, 3, 4, 5) for _ in range(rank)))
    pads = [pick(0, 0, 1, 2) for _ in range(2 * rank)]
    more = [data.draw(st.integers(0, stride - 1)) for stride in strides]
    shape = (1, kernel[0], *(pick(1, 2, 5) for _ in range(rank)))
    reach = [(k - 1) * d for k, d in zip(kernel[2:], dilations, strict=True)]
    sizes = [(shape[2 + i] - 1) * strides[i] + more[i] + reach[i] + 1 - pads[i] - pads[rank + i] for i in range(rank)]
    assume(min(sizes) > 0)
    model = transposed(
        shape, kernel, strides=strides, pads=pads, output_padding=more, group=groups, dilations=dilations)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = evaluated(model, x)
    plain = plain_convolutions(model)
    kinds = {node.op_type for node in plain.graph.node}
    assert "ConvTranspose" not in kinds or any(reach[i] - pads[rank + i] + more[i] < 0 for i in range(rank))
    onnx.checker.check_model(plain)
    np.testing.assert_allclose(evaluated(plain, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", [{"output_shape": [8, 8]}, {"auto_pad": "SAME_UPPER"}])
def test_what_has_no_plain_form_stays(form: dict[str, Any]) -> None:
    model = transposed((1, 2, 4, 4), (2, 3, 2, 2), **form)
    assert [node.op_type for node in plain_convolutions(model).graph.node] == ["ConvTranspose"]


@examples(6, 60)
@given(st.data())
def test_macs_of_a_transposed_convolution_on_the_host(data: st.DataObject) -> None:
    """Each input is multiplied into all places of its kernel for each channel of its group's results, whatever the
    strides, also what the padding cuts off; the weights are an input, so that the host runs it."""
    def pick(*values: int) -> int:
        return data.draw(st.sampled_from(values))

    groups, deep = pick(1, 2), pick(0, 1)
    shape = (pick(1, 2), 2 * groups, *[3] * deep, pick(3, 4, 5), 4)
    kernel = (2 * groups, pick(1, 3), *[2] * deep, pick(2, 3), pick(1, 2))
    net = Net()
    x, weights = net.input("x", *shape), net.input("w", *kernel)
    form = {"strides": [*[2] * deep, pick(1, 2, 3), pick(1, 2)], "group": groups,
            "pads": [0] * (2 + deep) + [*[1] * deep, pick(0, 1), 0]}
    model = net.model(net.node("ConvTranspose", [x, weights], "up", **form))
    report = archloom.estimate(archloom.load(model), "qkv")
    macs = math.prod(shape) * math.prod(kernel[1:])
    assert {op.op: op.macs for op in report.host if op.macs} == {f"nn.conv{2 + deep}d_transpose": macs}
    assert report.macs == macs and report.offloaded_macs == 0


def offloaded(model: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    """All of the quantized network's products run on Gemmini, and its outputs equal onnxruntime's."""
    ready = quantized(model)
    part, _, _ = split(ready)
    assert part.offloaded_macs_share == 1.0 and part.macs > 0
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    found = executable(ready).run({"x": x}, executor=ReferenceExecutor())
    (expected,) = run(integer_session(ready), {"x": x}).values()
    np.testing.assert_array_equal(next(iter(found.values())), expected)


def test_transposed_convolution_on_gemmini() -> None:
    offloaded(transposed((1, 4, 5, 6), (4, 3, 2, 2), strides=[2, 2]), (1, 4, 5, 6))


@pytest.mark.slow
def test_transposed_convolution_of_unequal_strides_and_of_a_row_on_gemmini() -> None:
    offloaded(transposed((1, 4, 5, 6), (4, 3, 2, 3), strides=[1, 3]), (1, 4, 5, 6))
    offloaded(transposed((1, 4, 6), (4, 3, 4), strides=[2], pads=[1, 1]), (1, 4, 6))


def test_convolution_of_a_row_on_gemmini() -> None:
    net = Net()
    x = net.input("x", 1, 6, 20)
    bias = net.constant("b", net.rng.standard_normal(8))
    x = net.node("Conv", [x, net.weight("w", 8, 6, 3), bias], "enter", kernel_shape=[3], pads=[1, 1])
    y = net.node("Conv", [net.node("Relu", [x], "relu"), net.weight("v", 4, 8, 3)], "half", strides=[2], pads=[1, 1])
    offloaded(net.model(y), (1, 6, 20))
