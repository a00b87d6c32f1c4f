"""Products rewritten before they are quantized: the same numbers, and all of them offloaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from archloom.tvm_backend.frontends.onnx.rewrites import (
    constants_second,
    equal_batches,
    plain_gemms,
    products_of_matrices,
)
from archloom.tvm_backend.frontends.torch.export import load_module
from archloom.tvm_backend.targets import registry
from tests.support.tvm_backend.networks import Net, quantized, samples, split


def same(model: onnx.ModelProto, rewritten: onnx.ModelProto) -> None:
    onnx.checker.check_model(rewritten, full_check=True)
    (x,) = samples(model, 1)
    expected, found = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, x) for m in (model, rewritten))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


@pytest.mark.parametrize("shape", [(8, 5), (2, 8, 5), (2, 3, 8, 5)])
def test_a_constant_that_comes_first(shape: tuple[int, ...]) -> None:
    net = Net()
    x = net.input("x", *shape)
    model = net.model(net.node("MatMul", [net.weight("w", 6, 8), net.node("Relu", [x], "relu")], "product"))
    same(model, constants_second(copied(model)))
    (step,) = split(quantized(model))[0].steps()
    assert step.constants["B"].shape[-2:] == (8, 6)


def test_a_constant_that_comes_first_in_a_float_network() -> None:
    class Mixing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.matmul(self.weight, torch.relu(x))

    model = load_module(Mixing(), torch.ones(2, 4, 5), "mixing")
    assert split(model, registry.get("qkv"))[0].offloaded_macs_share == 1


@pytest.mark.parametrize(
    ("x", "w"), [((3, 6), (6,)), ((2, 3, 6), (6,)), ((6,), (6, 4)), ((6,), (6,)), ((6,), (2, 6, 4))])
def test_products_of_vectors(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    net = Net()
    relu = net.node("Relu", [net.input("x", *x)], "relu")
    model = net.model(net.node("MatMul", [relu, net.weight("w", *w)], "product"))
    same(model, products_of_matrices(copied(model)))
    assert split(quantized(model))[0].offloaded_macs_share == 1


@pytest.mark.parametrize("added", [(), (7,), (1, 7), (4, 7), (1,)])
@pytest.mark.parametrize("attributes", [
    {}, {"alpha": 0.5}, {"beta": 2.0}, {"alpha": 3.0, "beta": 0.25, "transB": 1}, {"transA": 1},
])
def test_forms_of_gemm(attributes: dict[str, Any], added: tuple[int, ...]) -> None:
    net = Net()
    x = net.input("x", *((5, 4) if attributes.get("transA") else (4, 5)))
    inputs = [x, net.weight("w", *((7, 5) if attributes.get("transB") else (5, 7)))]
    if added:
        inputs.append(net.constant("c", net.rng.standard_normal(added)))
    model = net.model(net.node("Gemm", inputs, "gemm", **attributes))
    rewritten = plain_gemms(copied(model))
    for node in rewritten.graph.node:
        if node.op_type == "Gemm":
            assert {a.name for a in node.attribute} <= {"transB"}
    same(model, rewritten)


@pytest.mark.parametrize("attributes", [{"alpha": 0.5, "beta": 2.0}, {"transA": 1}])
def test_gemm_with_a_tensor_that_is_no_constant_is_offloaded(attributes: dict[str, Any]) -> None:
    net = Net()
    x, y = net.input("x", 5, 5), net.input("y", 5, 5)
    model = net.model(net.node("Gemm", [x, net.weight("w", 5, 5), y], "gemm", **attributes))
    same(model, plain_gemms(copied(model)))
    assert split(quantized(model))[0].offloaded_macs_share == 1


@pytest.mark.parametrize(("a", "b"), [
    ((2, 3, 5, 4), (1, 1, 4, 6)), ((2, 3, 5, 4), (2, 1, 4, 6)), ((1, 3, 5, 4), (2, 3, 4, 6)), ((5, 4), (2, 4, 6)),
])
def test_batches_of_which_one_is_shared(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    net = Net()
    model = net.model(net.node("MatMul", [net.input("a", *a), net.input("b", *b)], "product"))
    same(model, equal_batches(copied(model)))
    assert split(quantized(model))[0].offloaded_macs_share == 1
