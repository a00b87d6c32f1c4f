"""Tools of ONNX that take a network as bytes get it without its weights, and the weights come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import helper, numpy_helper

from archloom.tvm_backend.frontends.onnx.load import load_proto
from archloom.tvm_backend.frontends.onnx.skeleton import apart, inferred
from archloom.tvm_backend.host.network import whole
from archloom.tvm_backend.ir.conversion import WEIGHT_ELEMENTS

SIZE = 160
"""Of a square weight, which is larger than what is left in place."""
TOOLS = ((onnx.shape_inference, "infer_shapes"), (onnx.inliner, "inline_selected_functions"))


def network(dtype: type = np.float32) -> onnx.ModelProto:
    """A product and an operator that ONNX defines by others."""
    weight = (np.arange(SIZE * SIZE).reshape(SIZE, SIZE) % 7 - 3).astype(dtype)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Celu", ["h"], ["y"], alpha=1.0)]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shape = [2, SIZE]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", kind, shape)],
                              [helper.make_tensor_value_info("y", kind, shape)], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, doc_string="kept")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_weights_come_back(dtype: type) -> None:
    model = network(dtype)
    assert SIZE * SIZE > WEIGHT_ELEMENTS
    found = apart(model, lambda bare: bare)
    assert found == model and model == network(dtype)


def test_shapes_are_inferred_as_with_weights() -> None:
    model = network()
    assert inferred(model, strict_mode=True) == onnx.shape_inference.infer_shapes(model, strict_mode=True)


def test_no_tool_gets_the_weights_of_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def measured(tool: Callable[..., Any]) -> Callable[..., Any]:
        def run(model: onnx.ModelProto, *args: Any, **options: Any) -> Any:
            sizes.append(model.ByteSize())
            return tool(model, *args, **options)

        return run

    for module, name in TOOLS:
        monkeypatch.setattr(module, name, measured(getattr(module, name)))
    proto = network()
    loaded = load_proto(proto, "net")
    assert sizes and max(sizes) < SIZE * SIZE
    x = np.ones((2, SIZE), np.float32)
    weight = numpy_helper.to_array(proto.graph.initializer[0])
    product = x @ weight
    expected = np.maximum(product, 0) + np.minimum(0, np.exp(np.minimum(product, 0)) - 1)
    np.testing.assert_allclose(np.asarray(whole(loaded.module["main"])([x])[0]), expected, rtol=1e-5)


def test_a_network_of_two_gigabytes_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from google.protobuf.message import EncodeError

    def too_large(model: Any, **options: Any) -> None:
        raise EncodeError("Failed to serialize proto")

    monkeypatch.setattr(onnx.checker, "check_model", too_large)
    assert load_proto(network(), "net").outputs[0].shape == (2, SIZE)
