"""Products rewritten before they are quantized: the same numbers, and all of them offloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend.frontends.onnx.einsum import einsum_as_products
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


# Einsum ---------------------------------------------------------------------------------------------------------------

Case: TypeAlias = tuple[str, list[tuple[int, ...]], list[bool]]
"""An equation, shapes of the operands, and which of them are constants."""


@st.composite
def equations(draw: st.DrawFn) -> Case:
    extents = {index: draw(st.integers(1, 4)) for index in "aBcde"}
    open_axes = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes = [], list[tuple[int, ...]]()
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.lists(st.sampled_from("aBcde"), max_size=4))
        dots = draw(st.integers(0, len(letters))) if draw(st.booleans()) else None
        shape = [extents[index] for index in letters]
        if dots is not None:
            taken = open_axes[len(open_axes) - draw(st.integers(0, len(open_axes))):]
            shape[dots:dots] = [draw(st.sampled_from((1, extent))) for extent in taken]
            letters.insert(dots, "...")
        terms.append("".join(letters))
        shapes.append(tuple(shape))
    equation = ",".join(terms)
    if draw(st.booleans()):
        result = draw(st.permutations(sorted({*equation} - {*",."})))
        result = result[:draw(st.integers(0, len(result)))]
        if "..." in equation:
            result.insert(draw(st.integers(0, len(result))), "...")
        equation += "->" + "".join(result)
    return equation, shapes, [draw(st.booleans()) for _ in shapes]


def einsum(
    equation: str, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, np.ndarray], dtype: str = "float32"
) -> onnx.ModelProto:
    """One ``Einsum``, of constants and inputs; the result's shape is left open."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    infos = [onnx.helper.make_tensor_value_info(name, kind, shape)
             for name, shape in shapes.items() if name not in constants]
    y = onnx.helper.make_empty_tensor_value_info("y")
    y.type.tensor_type.elem_type = kind
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Einsum", [*shapes], ["y"], "einsum", equation=equation)], "graph", infos, [y],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@given(equations(), st.integers(0, 99), st.sampled_from(["float32", "float64", "int32", "int64"]))
def test_numbers_are_those_of_numpy(case: Case, seed: int, dtype: str) -> None:
    equation, sizes, is_constant = case
    rng = np.random.default_rng(seed)
    values = {f"x{i}": rng.integers(-3, 4, shape).astype(dtype) for i, shape in enumerate(sizes)}
    constants = {name: value for (name, value), fixed in zip(values.items(), is_constant) if fixed}
    model = einsum_as_products(einsum(equation, {name: x.shape for name, x in values.items()}, constants, dtype))
    assert not any(node.op_type == "Einsum" for node in model.graph.node)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, {name: value for name, value in values.items() if name not in constants})
    np.testing.assert_array_equal(found, np.einsum(equation, *values.values()))


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk->ik", [(2, 3), (4, 5)]), ("ij,jk->ik", [(2, 3, 4), (3, 5)]), ("ij,jk->il", [(2, 3), (3, 5)]),
    ("ij->i", [(2, 3), (3, 5)]),
])
def test_an_equation_that_does_not_fit_is_refused(equation: str, shapes: list[tuple[int, ...]]) -> None:
    model = einsum(equation, {f"x{i}": shape for i, shape in enumerate(shapes)}, {})
    assert einsum_as_products(model) is model
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "open"
    with pytest.raises(archloom.ArchloomError, match="einsum|Einsum"):
        archloom.load(model)


def test_products_are_offloaded() -> None:
    """Experts of which each sees all rows: a product by one matrix, then one for each expert."""
    net = Net()
    x = net.input("x", 1, 7, 32)
    hidden = net.node("Einsum", [x, net.weight("up", 4, 32, 24)], "hidden", equation="btd,ndh->btnh")
    model = net.model(net.node("Einsum", [net.node("Relu", [hidden], "relu"), net.weight("down", 4, 24, 32)], "out",
                               equation="btnh,nhd->btnd"))
    partition, *_ = split(quantized(model))
    assert partition.offloaded_macs_share == 1 and partition.macs == 2 * 7 * 32 * 24 * 4
