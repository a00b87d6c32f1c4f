"""Scales per channel, zero points, uint8 and float results on Gemmini: the accelerator's sums, finished on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

import archloom
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.host.output_stage import as_int8
from archloom.tvm_backend.quantization.quantize import prepare, quantize
from archloom.tvm_backend.quantization.scheme import Scheme
from tests.support.examples import every, slow
from tests.support.tvm_backend.networks import Net, executable, residual_cnn, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor
from tests.support.tvm_backend.sample_reader import SampleReader


def equal(model: onnx.ModelProto, steps: int = 1, count: int = 3, macs: float = 1.0, atol: float = 0.0) -> list[str]:
    """Demand onnxruntime's results and that ``macs`` of the multiplications are offloaded; gives the layers."""
    part, _, _ = split(model)
    assert part.offloaded_macs_share == macs, [(op.name, op.reason) for op in part.host.ops if op.macs]
    exe, session = executable(model), integer_session(model)
    for x in samples(model, count, seed=7):
        found, expected = exe.run(x, executor=ReferenceExecutor()), run(session, x)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)
    return [step.op for step in part.steps()]


def conv(net: Net, relu: bool = True, **attributes: Any) -> onnx.ModelProto:
    x = net.input("x", 2, 6, 9, 8)
    y = net.conv(x, "conv", 6, attributes.pop("o", 10), attributes.pop("k", 3), **attributes)
    return net.model(net.node("Relu", [y], "relu") if relu else y)


SCHEMES = [Scheme(per_channel=True), Scheme(symmetric=False), Scheme(per_channel=True, symmetric=False)]


@pytest.mark.first_case
@pytest.mark.parametrize("scheme", [slow(SCHEMES[0]), SCHEMES[2]], ids=["per channel", "both"])
@pytest.mark.parametrize("attributes", every(2, [
    {"pads": [1, 1, 1, 1]}, {"pads": [0, 2, 1, 3], "strides": [2, 1]}, {"pads": [2, 2, 2, 2], "dilations": [2, 2]},
    {"k": 1}, {"group": 2, "pads": [1, 1, 1, 1]}, {"group": 6, "o": 6, "pads": [1, 1, 1, 1], "relu": False},
    {"bias": False, "pads": [3, 3, 3, 3]},
]), ids=str)
def test_convolutions(scheme: Scheme, attributes: dict[str, Any]) -> None:
    floats = conv(Net(11), **attributes)
    (op,) = equal(quantize(floats, samples(floats, 4), scheme))
    assert op.endswith("+int32")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [*map(slow, SCHEMES[:2]), SCHEMES[2]], ids=["per channel", "zero points", "both"])
def test_a_residual_network(scheme: Scheme) -> None:
    """Convolutions of both kinds beside each other, pooling and additions."""
    floats = residual_cnn()
    equal(quantize(floats, samples(floats, 6), scheme), atol=0)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "symmetric"), [
    ("minmax", True), slow("percentile", False), ("entropy", True),
    slow("minmax", False), slow("percentile", True), slow("entropy", False)])
def test_ways_of_calibration(method: Any, symmetric: bool) -> None:
    """Whatever ranges they find, the network is onnxruntime's; an outlier does not widen those of a percentile."""
    floats = conv(Net(3), pads=[1, 1, 1, 1])
    given = samples(floats, 4)
    given[0]["x"][0, 0, 0, 0] = 1000
    model = quantize(floats, given, Scheme(method, True, symmetric, percentile=99))
    equal(model, count=1)
    scale = next(onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "x_scale")
    widest = 1000 / (127 if symmetric else 255)
    assert float(scale) < widest / 3 if method != "minmax" else float(scale) == pytest.approx(widest, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [*map(slow, SCHEMES[:2]), SCHEMES[2]], ids=["per channel", "zero points", "both"])
def test_products(scheme: Scheme) -> None:
    net = Net(6)
    a, b = net.input("a", 2, 3, 5, 16), net.input("b", 2, 3, 16, 7)
    y = net.node("MatMul", [net.node("MatMul", [a, b], "scores"), net.weight("w", 7, 9)], "project")
    flat = net.node("Reshape", [y, net.constant("shape", [30, 9], np.int64)], "flat")
    floats = net.model(net.dense(flat, "dense", 9, 9))
    ops = equal(quantize(floats, samples(floats, 4), scheme))
    assert all(op.endswith("+int32") for op in ops) or scheme.symmetric


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [
    slow(Scheme(float_results=True)), Scheme("minmax", True, False, float_results=True)])
def test_float_results(scheme: Scheme) -> None:
    """Sums are exact; onnxruntime may add the bias after scaling them."""
    net = Net(6)
    y = net.node("Softmax", [net.dense(net.input("x", 20, 50), "dense", 50, 12)], "softmax")
    floats = net.model(net.node("MatMul", [y, net.weight("w", 12, 9)], "project"))
    ops = equal(quantize(floats, samples(floats, 4), scheme), atol=1e-5)
    assert all(op.endswith("+int32") for op in ops)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "weights"), [
    (QuantFormat.QDQ, QuantType.QInt8), (QuantFormat.QOperator, QuantType.QUInt8),
    slow(QuantFormat.QDQ, QuantType.QUInt8), slow(QuantFormat.QOperator, QuantType.QInt8)])
def test_unsigned_bytes(form: QuantFormat, weights: QuantType, tmp_path: Path) -> None:
    """onnxruntime's own defaults: activations are uint8 with zero points, bounds of ReLU are those of the range."""
    net = Net(5)
    x = net.node("Relu", [net.conv(net.input("x", 1, 4, 6, 6), "conv", 4, 8, pads=[1] * 4)], "relu")
    y = net.conv(x, "second", 8, 5, 3, pads=[0, 1, 1, 0])
    floats = net.model(net.dense(net.node("Flatten", [y], "flatten"), "dense", 125, 7))
    onnx.save(prepare(floats), tmp_path / "float.onnx")
    quantize_static(tmp_path / "float.onnx", tmp_path / "int8.onnx", SampleReader(samples(floats, 4)),
                    quant_format=form, activation_type=QuantType.QUInt8, weight_type=weights)
    model = onnx.load(tmp_path / "int8.onnx")
    part, _, _ = split(model)
    exe, session = executable(model), integer_session(model)
    for sample in samples(floats, 3, seed=7):
        found, expected = exe.run(sample, executor=ReferenceExecutor()), run(session, sample)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-6)
    if weights == QuantType.QInt8:
        assert part.offloaded_macs_share == 1.0


@pytest.mark.slow
def test_streams_artifact_and_check(tmp_path: Path) -> None:
    """The streams store sums that the interpreter stores, too; an artifact keeps what the host does with them."""
    floats = residual_cnn()
    model = quantize(floats, samples(floats, 4), Scheme(per_channel=True, symmetric=False))
    result = archloom.check(model, options={"dim": 8}, inputs=samples(floats, 1, seed=3)[0], reference=floats)
    without = archloom.check(model, options={"dim": 8}, inputs=samples(floats, 1, seed=3)[0])
    assert result.passed and without.passed and result.first_difference is None
    assert all((layer.snr_db or 0) > 15 for layer in without.layers)
    assert all(layer.bit_exact and layer.differing == 0 and (layer.snr_db or 0) > 15 for layer in result.layers)
    network = archloom.compile(model, options={"dim": 8})
    again = archloom.load_compiled(network.save(tmp_path / "net.loom"))
    x = samples(floats, 1, seed=4)[0]["image"]
    np.testing.assert_array_equal(network(x), again(x))


def test_unsigned_bytes_become_signed() -> None:
    x = np.arange(256, dtype=np.uint8)
    assert as_int8(x).dtype == np.int8
    np.testing.assert_array_equal(as_int8(x), np.arange(-128, 128))
    np.testing.assert_array_equal(np.asarray(as_int8(jax.numpy.asarray(x))), np.arange(-128, 128))


def exact(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[str]:
    """Demand onnxruntime's results; gives the layers."""
    part, _, _ = split(model)
    assert part.offloaded_macs_share == 1
    found = executable(model).run(given, executor=ReferenceExecutor())
    for name, expected in run(integer_session(model), given).items():
        np.testing.assert_array_equal(found[name], expected)
    return [step.op for step in part.steps()]


@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("zeros", [slow("none"), slow("constant"), "computed"])
def test_integer_operators(op: str, zeros: str) -> None:
    """Sums of up to 2048 products of bytes, beyond what float32 holds exactly."""
    net, rng = Net(), np.random.default_rng(2)
    conv = op == "ConvInteger"
    shape, weights = ((1, 230, 5, 4), (6, 230, 3, 3)) if conv else ((7, 2048), (2048, 9))
    dynamic = zeros == "computed"
    x = net.input("x", *shape, dtype=onnx.TensorProto.FLOAT if dynamic else onnx.TensorProto.UINT8)
    inputs = [x, net.constant("w", rng.integers(-128, 128, weights), np.int8)]
    if zeros == "constant":
        inputs += [net.constant("xz", 131, np.uint8), net.constant("wz", 0, np.int8)]
    if dynamic:
        net.nodes.append(onnx.helper.make_node("DynamicQuantizeLinear", [x], ["q", "scale", "zero"], "dynamic"))
        inputs = ["q", inputs[1], "zero"]
    attributes = {"pads": [1, 0, 1, 2], "strides": [2, 1]} if conv else {}
    model = net.model(net.node(op, inputs, "product", **attributes))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    given = rng.standard_normal(shape).astype(np.float32) if dynamic else rng.integers(0, 256, shape, np.uint8)
    (layer,) = exact(model, {"x": given})
    assert layer.startswith("conv2d" if conv else "dense") and layer.endswith("+int32")
