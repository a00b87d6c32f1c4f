"""``Einsum`` by products of matrices: the numbers of NumPy's, and all products offloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend.frontends.onnx.einsum import einsum_as_products
from tests.support.tvm_backend.networks import Net, quantized, split

Case: TypeAlias = tuple[str, list[tuple[int, ...]], list[bool]]
"""An equation, shapes of the operands, and which of them are constants."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
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


def network(
    equation: str, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """One ``Einsum``, of constants and inputs; the result's shape is left open."""
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
             for name, shape in shapes.items() if name not in constants]
    y = onnx.helper.make_empty_tensor_value_info("y")
    y.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Einsum", [*shapes], ["y"], "einsum", equation=equation)], "graph", infos, [y],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@given(cases(), st.integers(0, 99))
def test_numbers_are_those_of_numpy(case: Case, seed: int) -> None:
    equation, sizes, is_constant = case
    rng = np.random.default_rng(seed)
    values = {f"x{i}": rng.integers(-3, 4, shape).astype(np.float32) for i, shape in enumerate(sizes)}
    constants = {name: value for (name, value), fixed in zip(values.items(), is_constant) if fixed}
    model = einsum_as_products(network(equation, {name: value.shape for name, value in values.items()}, constants))
    assert not any(node.op_type == "Einsum" for node in model.graph.node)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, {name: value for name, value in values.items() if name not in constants})
    np.testing.assert_array_equal(found, np.einsum(equation, *values.values()))


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk->ik", [(2, 3), (4, 5)]), ("ij,jk->ik", [(2, 3, 4), (3, 5)]), ("ij,jk->il", [(2, 3), (3, 5)]),
    ("ij->i", [(2, 3), (3, 5)]),
])
def test_an_equation_that_does_not_fit_is_refused(equation: str, shapes: list[tuple[int, ...]]) -> None:
    model = network(equation, {f"x{i}": shape for i, shape in enumerate(shapes)}, {})
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
