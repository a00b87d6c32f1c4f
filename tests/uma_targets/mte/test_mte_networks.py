"""Float networks that run on the vector core alone: each operator by both oracles, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import archloom
from archloom.models import catalogue
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.sources.named_networks import load_named
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
    "turns": network([make_node("Cos", ["x"], ["a"]), make_node("Sin", ["x"], ["b"]),
                      make_node("Mul", ["a", "b"], ["z"])], {"x": (3, 40)}, (3, 40)),
    "truths": network(
        [make_node("Less", ["x", "y"], ["a"]), make_node("Not", ["a"], ["b"]),
         make_node("Greater", ["x", "low"], ["c"]), make_node("And", ["b", "c"], ["d"]),
         make_node("Where", ["d", "x", "y"], ["e"]),
         make_node("Cast", ["d"], ["f"], to=TensorProto.FLOAT), make_node("Add", ["e", "f"], ["z"])],
        {"x": (3, 40), "y": (40,)}, (3, 40), low=np.float32(-0.5)),
    "sums up to each": network([make_node("CumSum", ["x", "axis"], ["z"])], {"x": (2, 23, 5)}, (2, 23, 5),
                               axis=np.array(1)),
    "power": network([make_node("Abs", ["x"], ["a"]), make_node("Add", ["a", "one"], ["b"]),
                      make_node("Pow", ["b", "by"], ["z"])], {"x": (3, 40)}, (3, 40), one=np.float32(1),
                     by=np.float32(-0.75)),
    "added to a product": network(
        [make_node("Gemm", ["x", "w", "y"], ["a"], alpha=0.5, beta=1.0), make_node("Relu", ["a"], ["z"])],
        {"x": (7, 9), "y": (7, 18)}, (7, 18), w=weights(9, 18)),
    "alpha and beta": network(
        [make_node("Gemm", ["x", "y", "c"], ["z"], alpha=0.5, beta=-2.0, transB=1)],
        {"x": (7, 9), "y": (18, 9), "c": (7, 18)}, (7, 18)),
    "softmax of rows": network([make_node("Softmax", ["x"], ["z"], axis=-1)], {"x": (2, 3, 70)}, (2, 3, 70)),
}
LONG = {"turns", "sums up to each", "power", "truths", "transposed", "functions", "softmax of rows",
        "softmax of columns", "convolution", "grouped", "depthwise", "pooling", "norm"}
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


def test_what_is_added_to_a_product_is_no_pass_of_its_own(tmp_path: Path) -> None:
    """A product with a bias, to which a tensor is added, is one layer, and takes fewer cycles than two."""
    def found(*nodes: Any, **inputs: tuple[int, ...]) -> Any:
        path = tmp_path / "network.onnx"
        onnx.save(network(nodes, inputs, (20, 40), w=weights(24, 40), b=weights(40)), path)
        return archloom.estimate(path, "mte", OPTIONS)

    product, addition = make_node("Gemm", ["x", "w", "b"], ["a"]), make_node("Add", ["y", "a"], ["z"])
    whole = found(product, addition, x=(20, 24), y=(20, 40))
    assert [layer.op for layer in whole.layers] == ["dense+bias+residual"]
    parts = found(make_node("Gemm", ["x", "w", "b"], ["z"]), x=(20, 24)), found(addition, y=(20, 40), a=(20, 40))
    assert whole.cycles < sum(part.cycles for part in parts)


@pytest.mark.slow
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
    assert steps[-1].endswith("take") and not partition_model(archloom.load(path), "mte", OPTIONS).host.ops


FAR = np.array([0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**32 - 1, 2**63 - 1, -(2**63), 2**24 + 1,
                2**40 + 1, -(2**53) - 1, 2**62 + 2**38 + 1, 2**62 + 2**38, 6_700_417 * 641, -(2**37) + 1], np.int64)
"""Whole numbers at the ends of what words, floats and pairs of words have."""


def whole_network(nodes: Sequence[Any], result: int) -> onnx.ModelProto:
    """Of two inputs of int64, each of so many numbers as there are pairs of :data:`FAR`, to ``z``."""
    shape = (len(FAR) ** 2,)
    graph = make_graph(list(nodes), "network", [make_tensor_value_info(n, TensorProto.INT64, shape) for n in "xy"],
                       [make_tensor_value_info("z", result, shape)], [numpy_helper.from_array(np.array(0), "axis")])
    return make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=9)


WHOLE: dict[str, tuple[Sequence[Any], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "add": ([make_node("Add", ["x", "y"], ["z"])], np.add),
    "subtract": ([make_node("Sub", ["x", "y"], ["z"])], np.subtract),
    "multiply": ([make_node("Mul", ["x", "y"], ["z"])], np.multiply),
    "chosen": ([make_node("Less", ["x", "y"], ["a"]), make_node("Equal", ["x", "y"], ["b"]),
                make_node("Or", ["a", "b"], ["c"]), make_node("Where", ["c", "y", "x"], ["z"])],
               lambda x, y: np.where(x <= y, y, x)),
    "to float": ([make_node("Add", ["x", "y"], ["a"]), make_node("Cast", ["a"], ["z"], to=TensorProto.FLOAT)],
                 lambda x, y: (x + y).astype(np.float32)),
    "to int32": ([make_node("Sub", ["x", "y"], ["a"]), make_node("Cast", ["a"], ["z"], to=TensorProto.INT32)],
                 lambda x, y: (x - y).astype(np.int32)),
    "sums": ([make_node("Add", ["x", "y"], ["a"]),
              make_node("CumSum", ["a", "axis"], ["z"])], lambda x, y: np.cumsum(x + y)),
}
RESULTS = {"to float": TensorProto.FLOAT, "to int32": TensorProto.INT32}


@pytest.mark.parametrize("name", [n if n in ("multiply", "subtract") else slow(n) for n in WHOLE])
def test_whole_numbers_of_64_bits_are_exact(name: str, tmp_path: Path) -> None:
    """By both oracles, with nothing on the host."""
    nodes, true = WHOLE[name]
    path = tmp_path / "network.onnx"
    onnx.save(whole_network(nodes, RESULTS.get(name, TensorProto.INT64)), path)
    x, y = (np.ascontiguousarray(a).reshape(-1) for a in np.meshgrid(FAR, FAR))
    assert not partition_model(archloom.load(path), "mte", OPTIONS).host.ops
    found = archloom.check(path, "mte", OPTIONS, inputs={"x": x, "y": y}, quiet=True)  # fails where the oracles differ
    with np.errstate(over="ignore"):
        wanted = true(x, y)
    np.testing.assert_array_equal(np.asarray(archloom.compile(path, "mte", OPTIONS)(x, y)).reshape(-1), wanted)
    assert found.passed, str(found)


@pytest.mark.slow
def test_operators_of_torch_on_the_core_alone() -> None:
    """Norms of groups, and elements and tensors that stand in a row."""
    import torch

    class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.GroupNorm(2, 6)

        def forward(self, x: Any) -> Any:
            return self.norm(x).repeat(1, 2, 1, 3).repeat_interleave(2, 2)

    module, x = Module().eval(), torch.randn(2, 6, 3, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        module.norm.weight.copy_(torch.arange(6) + 0.5)
        module.norm.bias.copy_(torch.arange(6) - 2.5)
        wanted = module(x).numpy()
    model = archloom.load(module, example_inputs=(x,))
    assert {op.op for op in partition_model(model, "mte", OPTIONS).host.ops} <= {"reshape"}
    found = archloom.check(model, "mte", OPTIONS, inputs={model.inputs[0].name: x.numpy()}, quiet=True)
    assert found.passed, str(found)
    compiled = archloom.compile(model, "mte", OPTIONS)
    np.testing.assert_allclose(np.asarray(compiled(x.numpy())).reshape(wanted.shape), wanted, atol=2e-5)


@pytest.mark.parametrize("name", [n if n == "gpt2" else slow(n) for n in sorted(catalogue.BY_NAME)])
def test_networks_by_name_leave_nothing_to_the_host(name: str) -> None:
    """But reshapes of results, which move nothing; in small sizes, with all kinds of layers, and on few registers."""
    model = load_named(catalogue.tiny(name), "float32")
    for options in (OPTIONS, {"architecture": "mte8s"}):
        assert {op.op for op in partition_model(model, "mte", options).host.ops} <= {"reshape"}


def test_rows_of_large_tables_are_timed_as_misses(tmp_path: Path) -> None:
    """A line for each word, at places that no other has, so that a larger table takes no more."""
    def cycles(rows: int) -> int:
        graph = make_graph(
            [make_node("Gather", ["table", "x"], ["z"], axis=0)], "network",
            [make_tensor_value_info("x", TensorProto.INT64, (6,))],
            [make_tensor_value_info("z", TensorProto.FLOAT, (6, 256))],
            [numpy_helper.from_array(np.zeros((rows, 256), np.float32), "table")])
        path = tmp_path / f"{rows}.onnx"
        onnx.save(make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=9), path)
        return archloom.estimate(path, "mte", OPTIONS).accelerator_cycles

    found = [cycles(rows) for rows in (1 << 12, 1 << 13)]
    assert abs(found[1] - found[0]) < 0.1 * found[0] and found[0] > 6 * 256 * 128 / (191.25 / 2)  # bytes of lines
