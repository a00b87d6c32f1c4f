"""Float networks that run on the vector core alone: each operator by both oracles, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import archloom
from archloom.tvm_backend.compile import partition_model
from tests.support.examples import slow

OPTIONS = {"vlen": 1024, "rlen": 256}
Shapes = Mapping[str, tuple[int, ...]]


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def network(nodes: Sequence[Any], inputs: Shapes, result: tuple[int, ...], **constants: Any) -> onnx.ModelProto:
    """Float nodes from inputs to ``z``."""
    def told(name: str, shape: tuple[int, ...]) -> Any:
        return make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = make_graph(
        list(nodes), "network", [told(*i) for i in inputs.items()], [told("z", result)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])
    return make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=9)


CASES = {
    "broadcast": network([make_node("Add", ["x", "y"], ["z"])], {"x": (3, 40), "y": (40,)}, (3, 40)),
    "chain": network([make_node("Mul", ["x", "x"], ["a"]), make_node("Sqrt", ["a"], ["b"]),
                      make_node("Relu", ["b"], ["z"])], {"x": (3, 40)}, (3, 40)),
    "softmax of columns": network([make_node("Softmax", ["x"], ["z"], axis=1)], {"x": (2, 5, 40)}, (2, 5, 40)),
    "norm": network([make_node("LayerNormalization", ["x", "g", "b"], ["z"], axis=-1)], {"x": (3, 40)}, (3, 40),
                    g=weights(40), b=weights(40)),
    "convolution": network(
        [make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]), make_node("Relu", ["a"], ["z"])],
        {"x": (1, 3, 7, 7)}, (1, 5, 4, 4), w=weights(5, 3, 3, 3), b=weights(5)),
    "depthwise": network(
        [make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], group=6),
         make_node("Clip", ["a", "low", "high"], ["z"])],
        {"x": (1, 6, 5, 5)}, (1, 6, 5, 5), w=weights(6, 1, 3, 3), low=np.float32(0), high=np.float32(6)),
    "grouped": network([make_node("Conv", ["x", "w"], ["z"], group=2)], {"x": (2, 6, 4, 4)}, (2, 4, 2, 2),
                       w=weights(4, 3, 3, 3)),
    "one place": network([make_node("Conv", ["x", "w"], ["z"])], {"x": (1, 3, 3, 4)}, (1, 5, 1, 2),
                         w=weights(5, 3, 3, 3)),
    "transposed": network([make_node("ConvTranspose", ["x", "w"], ["z"], strides=[2, 2])], {"x": (1, 3, 3, 3)},
                          (1, 4, 6, 6), w=weights(3, 4, 2, 2)),
    "pooling": network(
        [make_node("MaxPool", ["x"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3]),
         make_node("AveragePool", ["a"], ["b"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
         make_node("GlobalAveragePool", ["b"], ["c"]), make_node("Flatten", ["c"], ["z"])],
        {"x": (1, 6, 7, 7)}, (1, 6)),
    "channels": network([make_node("Concat", ["x", "y"], ["a"], axis=1), make_node("Relu", ["a"], ["z"])],
                        {"x": (1, 6, 3, 3), "y": (1, 3, 3, 3)}, (1, 9, 3, 3)),
    "transpose": network([make_node("Transpose", ["x"], ["z"], perm=[0, 2, 1, 3])], {"x": (2, 5, 3, 8)}, (2, 3, 5, 8)),
    "split": network([make_node("Split", ["x"], ["a", "b"], axis=-1, num_outputs=2),
                      make_node("Mul", ["a", "b"], ["z"])], {"x": (2, 20)}, (2, 10)),
    "mean": network([make_node("ReduceMean", ["x", "axes"], ["a"], keepdims=1), make_node("Sub", ["x", "a"], ["z"])],
                    {"x": (2, 7, 20)}, (2, 7, 20), axes=np.array([1])),
    "functions": network([make_node("Sigmoid", ["x"], ["a"]), make_node("Erf", ["a"], ["b"]),
                          make_node("Tanh", ["b"], ["z"])], {"x": (3, 40)}, (3, 40)),
    "softmax of rows": network([make_node("Softmax", ["x"], ["z"], axis=-1)], {"x": (2, 3, 70)}, (2, 3, 70)),
}
LONG = {"transposed", "functions", "softmax of rows", "softmax of columns", "convolution", "grouped", "depthwise",
        "pooling", "norm"}
"""Cases of which the oracle's programs take seconds to compile."""


@pytest.mark.parametrize("name", [slow(n) if n in LONG else n for n in CASES])
def test_operators_on_the_core_alone(name: str, tmp_path: Path) -> None:
    """Bit for bit by both oracles (``check`` fails otherwise), next to onnxruntime, with nothing on the host."""
    path = tmp_path / "network.onnx"
    onnx.save(CASES[name], path)
    found = archloom.check(path, "mte", OPTIONS, quiet=True)
    assert found.passed, str(found)
    assert found.outputs[0].max_abs_error < 2e-5
    left = {op.op for op in partition_model(archloom.load(path), "mte", OPTIONS).host.ops}
    assert left <= {"reshape"}  # the result's bytes under another shape


def test_places_are_read_from_memory(tmp_path: Path) -> None:
    """An embedding: rows of a table by numbers that are known when it runs."""
    graph = make_graph(
        [make_node("Gather", ["table", "x"], ["z"], axis=0)], "network",
        [make_tensor_value_info("x", TensorProto.INT64, (2, 3))],
        [make_tensor_value_info("z", TensorProto.FLOAT, (2, 3, 20))],
        [numpy_helper.from_array(weights(9, 20), "table")])
    path = tmp_path / "network.onnx"
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=9), path)
    found = archloom.check(path, "mte", OPTIONS, inputs={"x": np.array([[0, 8, 3], [2, 2, -1]])}, quiet=True)
    assert found.passed and found.outputs[0].max_abs_error == 0
    steps = [s.op for s in partition_model(archloom.load(path), "mte", OPTIONS).steps()]
    assert steps == ["take"]


@pytest.mark.parametrize("operator", ["Mul", slow("Add"), slow("Max")])
def test_numbers_of_more_than_32_bits_are_left_to_the_host(operator: str, tmp_path: Path) -> None:
    nodes = [make_node("Cast", ["x"], ["a"], to=TensorProto.INT32),
             make_node("Cast", ["a"], ["b"], to=TensorProto.INT64), make_node(operator, ["b", "far"], ["c"]),
             make_node("Cast", ["c"], ["z"], to=TensorProto.FLOAT)]
    path = tmp_path / "network.onnx"
    onnx.save(network(nodes, {"x": (3, 2)}, (3, 2), far=np.array([3, 1 << 40])), path)
    numbers = np.array([[2**30, 5], [-7, 2**20], [2**31 - 128, 0]], np.float32)
    compiled = archloom.compile(path, "mte", OPTIONS)
    kept = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum}[operator](numbers.astype(np.int64), [3, 1 << 40])
    np.testing.assert_array_equal(np.asarray(compiled(numbers)).reshape(3, 2), kept.astype(np.float32))
