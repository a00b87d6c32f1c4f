"""Networks of versions that the installed onnxruntime does not take yet run in it where nothing of them has changed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import archloom
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx import versions


def _network(ir: int, operators: int, activation: str = "Relu") -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n]) for name, n in (("x", 8), ("y", 4)))
    w = numpy_helper.from_array(np.eye(8, 4, dtype=np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "fc"), helper.make_node(activation, ["h"], ["y"], "act")]
    graph = helper.make_graph(nodes, "network", [x], [y], [w])
    return helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", operators)])


NEWEST = (onnx.IR_VERSION, onnx.defs.onnx_opset_version())


def test_what_onnxruntime_takes_stays_as_it_is() -> None:
    network = _network(8, 17)
    assert versions.for_onnxruntime(network) is network


@pytest.mark.parametrize(("ir", "operators"), [(NEWEST[0], 17), (8, NEWEST[1]), NEWEST])
def test_the_newest_versions_run_in_onnxruntime_and_are_checked(ir: int, operators: int) -> None:
    network, x = _network(ir, operators), np.arange(-4, 4, dtype=np.float32)[None]
    assert (run(integer_session(network), {"x": x})["y"] == np.maximum(x[:, :4], 0)).all()
    assert (network.ir_version, network.opset_import[0].version) == (ir, operators)
    assert archloom.check(network, "qkv", inputs=x).passed


def test_networks_of_the_newest_versions_are_quantized() -> None:
    int8 = archloom.quantize(_network(*NEWEST), [np.ones((1, 8), np.float32)])
    assert any(node.op_type == "QuantizeLinear" for node in int8.graph.node)


def test_an_operator_that_onnx_cannot_convert_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_newest_operator_set", lambda: 14)
    assert versions.for_onnxruntime(_network(8, 17)).opset_import[0].version == 14  # Relu is of 14
    with pytest.raises(ModelError, match="network: Mish of operator set 18: onnxruntime .* takes .* up to 14"):
        versions.for_onnxruntime(_network(8, 18, "Mish"))
