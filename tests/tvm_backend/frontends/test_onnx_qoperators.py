"""Quantized networks in operator form: imported, on Gemmini, and equal to onnxruntime's integer kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

from archloom import load
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx.integers import OPERATORS
from tests.support.tvm_backend.networks import Net, executable, residual_cnn, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor
from tests.support.tvm_backend.sample_reader import SampleReader

MICROSOFT = "com.microsoft"


def in_operator_form(model: onnx.ModelProto, folder: Path, per_channel: bool) -> onnx.ModelProto:
    onnx.save(model, folder / "float.onnx")
    quantize_static(
        folder / "float.onnx", folder / "int8.onnx", SampleReader(samples(model)),
        quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, per_channel=per_channel,
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True})
    return onnx.load(folder / "int8.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_network_that_onnxruntime_quantized(tmp_path: Path, per_channel: bool) -> None:
    model = in_operator_form(residual_cnn(), tmp_path, per_channel)
    assert {"QLinearConv", "QLinearAdd"} <= {node.op_type for node in model.graph.node}
    imported = load(model)
    assert imported.onnx is not None and any(n.op_type == "QLinearConv" for n in imported.onnx.graph.node)
    part, _, _ = split(imported)
    assert part.offloaded_macs_share == 1.0
    x = samples(residual_cnn(), 1, seed=9)[0]
    found = executable(imported).run(x, executor=ReferenceExecutor())
    for name, expected in run(integer_session(model), x).items():
        step = np.abs(expected).max() / 127
        assert np.abs(found[name] - expected).max() <= 1.01 * step


def every_operator() -> onnx.ModelProto:
    """Operators that quantizers of images do not emit, one after another, from a float input to floats."""
    net = Net()
    rng = net.rng

    def numbers(name: str, scale: float, zero: int = 0) -> list[str]:
        return [net.constant(f"{name}.scale", scale), net.constant(f"{name}.zero", zero, np.int8)]

    def made(op: str, inputs: list[str], name: str, domain: str = MICROSOFT, **attributes: Any) -> str:
        net.nodes.append(helper.make_node(op, inputs, [name], name, domain=domain, **attributes))
        return name

    xs, ys, zs = numbers("x", 0.03), numbers("y", 0.05, 3), numbers("z", 0.004, -128)
    x = made("QuantizeLinear", [net.input("input", 2, 4, 4, 4), *xs], "q", "")
    x = made("QLinearLeakyRelu", [x, *xs, *ys], "leaky", alpha=0.1)
    x = made("QLinearAveragePool", [x, *ys, *ys], "pool", kernel_shape=[2, 2], strides=[1, 1])
    x = made("QLinearMul", [x, *ys, x, *ys, *xs], "square")
    x = made("QLinearConcat", [*xs, x, *xs, x, *xs], "twice", axis=1)
    x = made("QLinearSigmoid", [x, *xs, *zs], "gate")
    x = made("QLinearGlobalAveragePool", [x, *zs, *zs], "mean", channels_last=0)
    x = made("Flatten", [x], "flat", "", axis=1)
    bias = net.constant("bias", rng.integers(-500, 500, 5), np.int32)
    weight = [net.constant("w", rng.integers(-127, 127, (5, 8)), np.int8), *numbers("w", 0.01)]
    x = made("QGemm", [x, *zs, *weight, bias, *ys], "gemm", transB=1)
    matrix = [net.constant("m", rng.integers(-127, 127, (5, 3)), np.int8), *numbers("m", 0.002)]
    x = made("QLinearMatMul", [x, *ys, *matrix, *xs], "product", "")
    x = made("QLinearSoftmax", [x, *xs, *zs], "softmax", axis=1, opset=13)
    x = made("QLinearAdd", [x, *zs, x, *zs, *ys], "sum")
    model = net.model(made("DequantizeLinear", [x, *ys], "out", ""), domain=MICROSOFT)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("out", TensorProto.FLOAT, [2, 3]))
    return model


def test_every_operator() -> None:
    model = every_operator()
    assert {node.op_type for node in model.graph.node} | {"QLinearConv"} >= set(OPERATORS)
    x = {"input": np.random.default_rng(5).standard_normal((2, 4, 4, 4)).astype(np.float32)}
    (expected,) = run(integer_session(model), x).values()
    (found,) = executable(load(model)).run(x, executor=ReferenceExecutor()).values()
    assert len(np.unique(expected)) > 2
    np.testing.assert_allclose(found, expected, atol=0.051)


def test_scales_must_be_constants() -> None:
    net = Net()
    x, scale = net.input("x", 1, 4, dtype=TensorProto.INT8), net.input("s", 1)
    zero, weight = net.constant("z", 0, np.int8), net.constant("w", np.ones((4, 2)), np.int8)
    net.nodes.append(helper.make_node("QLinearMatMul", [x, scale, zero, weight, "s", zero, "s", zero], ["y"], "y"))
    with pytest.raises(ModelError, match="'s' is a scale or zero point, expected a constant"):
        load(net.model("y"))
