"""Networks whose constants are in a file beside them: estimates do not read the weights, which may be absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import archloom
from archloom.oracle.errors import ModelError

SIZE = 160
"""Of a square weight."""


def network(path: Path) -> onnx.ModelProto:
    """A product, an addition and a reshape, with every constant in ``w.bin``; as it was in memory."""
    constants = [numpy_helper.from_array(np.full((SIZE, SIZE), 0.5, np.float32), "w"),
                 numpy_helper.from_array(np.ones(SIZE, np.float32), "b"),
                 numpy_helper.from_array(np.array([4, -1], np.int64), "shape")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "product"),
             helper.make_node("Add", ["h", "b"], ["s"], "sum"),
             helper.make_node("Reshape", ["s", "shape"], ["y"], "flat")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", 1, [2, SIZE])],
                              [helper.make_tensor_value_info("y", 1, [4, SIZE // 2])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return whole


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("target", ["gemmini", "plasticine"])
def test_weights_beside_a_network_are_not_read(tmp_path: Path, target: str) -> None:
    wanted = archloom.estimate(network(tmp_path / "net.onnx"), target, as_int8=target == "gemmini", name="net")
    model = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    (weight,) = [t for t in model.graph.initializer if t.name == "w"]
    next(e for e in weight.external_data if e.key == "offset").value = str(1 << 40)  # far behind the end
    onnx.save(model, tmp_path / "net.onnx")
    assert archloom.estimate(tmp_path / "net.onnx", target, as_int8=target == "gemmini") == wanted


def absent(path: Path, *kept: str) -> None:
    """Leave out the file of the constants, but for those that are put into the network."""
    model = onnx.load(path)
    found = {t.name: t for t in model.graph.initializer}
    bare = onnx.load(path, load_external_data=False)
    for tensor in bare.graph.initializer:
        if tensor.name in kept:
            tensor.CopyFrom(found[tensor.name])
    onnx.save(bare, path)
    path.with_name("w.bin").unlink()


def test_absent_weights_are_needed_by_whoever_builds(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    wanted = archloom.estimate(network(path), "plasticine", name="net")
    absent(path, "shape")
    assert archloom.estimate(path, "plasticine") == wanted
    for build in (archloom.compile, archloom.check):
        with pytest.raises(ModelError, match=r"net\.onnx: .*'?w'? ?\)?.*w\.bin"):
            build(path, "plasticine")


def test_absent_shapes_are_needed_by_all(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    network(path)
    absent(path)
    with pytest.raises(ModelError, match=r"net\.onnx: constant 'shape': expected its numbers in .*w\.bin"):
        archloom.estimate(path, "plasticine")
