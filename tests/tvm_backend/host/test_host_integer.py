"""What the target refuses is computed in integers on the host, as onnxruntime does."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

from archloom import load
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.compiled import Partition
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.host.integer import integer_operator
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.quantization.scheme import Scheme
from archloom.uma_targets.gemmini.target import Gemmini
from tests.support.tvm_backend import networks
from tests.support.tvm_backend.networks import Net, quantized, samples
from tests.support.tvm_backend.reference import ReferenceExecutor
from tests.support.tvm_backend.sample_reader import SampleReader


class Fused(Gemmini):
    """Gemmini with what its own store finishes; the rest is the host's."""

    def _offer_sums(self) -> None:
        pass


def split(model: onnx.ModelProto) -> tuple[Partition, object, object]:
    return networks.split(model, Fused())


def executable(model: onnx.ModelProto) -> CompiledNetwork:
    return networks.executable(model, Fused())


def agree(model: onnx.ModelProto, count: int = 4) -> None:
    exe, session = executable(model), integer_session(model)
    for x in samples(model, count, seed=3):
        found, expected = exe.run(x, executor=ReferenceExecutor()), run(session, x)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def integers(model: onnx.ModelProto) -> int:
    """How many operators of the network are recognized as integer operators."""
    bound = {b.var: b.value for b in compat.bindings(load(model).module["main"])}
    return sum(integer_operator(v, bound.get) is not None for v in bound.values() if compat.op_name(v) == "quantize")


def depthwise(seed: int = 0) -> Net:
    net = Net(seed)
    x = net.node("Relu", [net.conv(net.input("x", 1, 4, 9, 9), "grow", 4, 12, 1)], "grow_relu")
    x = net.node("Relu", [net.conv(x, "depth", 12, 12, group=12, pads=[1] * 4)], "depth_relu")
    net.conv(x, "shrink", 12, 6, 1)
    return net


@pytest.mark.slow
def test_depthwise_convolutions() -> None:
    model = quantized(depthwise().model("shrink.out"))
    part, _, _ = split(model)
    assert [s.name for s in part.steps()] == ["grow", "depth", "shrink"]  # the host's are those of the next test
    assert integers(model) == 3
    agree(model)


@pytest.mark.slow
def test_scales_per_channel() -> None:
    net = depthwise()
    model = net.model("shrink.out")
    per_channel = quantize(model, samples(model), Scheme(per_channel=True))
    assert not list(split(per_channel)[0].steps()) and integers(per_channel) == 3
    agree(per_channel)


@pytest.mark.slow
def test_many_channels_need_int32() -> None:
    net = Net()
    y = net.conv(net.input("x", 1, 2048, 3, 3), "conv", 2048, 8, 1, dilations=[1, 1], group=1)
    model = net.model(y)
    per_channel = quantize(model, samples(model), Scheme(per_channel=True))
    assert integers(per_channel) == 1
    agree(per_channel, 2)


@pytest.mark.parametrize("dense", [False, True])
def test_unsigned_activations_with_zero_points(tmp_path: object, dense: bool) -> None:
    """Networks that other tools quantized asymmetrically run on the host, exactly."""
    net = Net(2)
    if dense:
        net.dense(net.input("x", 5, 32), "last", 32, 7)
    else:
        x = net.node("Relu", [net.conv(net.input("x", 1, 3, 8, 8), "conv", 3, 8, pads=[1] * 4)], "relu")
        net.conv(x, "last", 8, 4, strides=[2, 2])
    model, out = net.model("last.out"), f"{tmp_path}/q.onnx"
    quantize_static(model, out, SampleReader(samples(model)), quant_format=QuantFormat.QDQ,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    result = onnx.load(out)
    part, _, _ = split(result)
    assert not list(part.steps()) and "operand 0 is uint8" in {o.reason for o in part.host.ops}
    assert integers(result) >= 1
    agree(result)


@pytest.mark.first_case
@pytest.mark.parametrize("shape", [(9, 1), (9, 9), (1, 9), (9,), (1,)])
def test_biases_of_any_shape_of_a_square_product(shape: tuple[int, ...]) -> None:
    """Nine values down the rows are not nine values along the channels."""
    net = Net(2)
    x, weights = net.input("x", 9, 21), net.weight("w", 21, 9)
    bias = net.constant("b", net.rng.standard_normal(shape))
    model = quantized(net.model(net.node("Gemm", [x, weights, bias], "dense")))
    assert [s.op for s in split(model)[0].steps()] == (
        ["dense+bias"] if shape in ((1, 9), (9,)) else ["dense"])
    agree(model)
