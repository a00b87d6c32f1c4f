"""Networks of float16 and bfloat16 on the vector core alone: products with float32 sums, the rest in float32 between
its borders."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import archloom
from archloom.tvm_backend.check.reference import has_bfloat16, in_float32, integer_session, run
from archloom.tvm_backend.compile import partition_model
from tests.support.examples import slow

TILES, VECTORS = {"vlen": 1024, "rlen": 256}, {"vlen": 512, "rlen": 512}
TYPES: dict[str, Any] = {"float16": (np.float16, TensorProto.FLOAT16),
                         "bfloat16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16)}
CASES = [("float16", TILES), slow("float16", VECTORS), ("bfloat16", TILES), slow("bfloat16", VECTORS)]


def weights(*shape: int, dtype: Any) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 4).astype(dtype)


def network(name: str) -> onnx.ModelProto:
    """A convolution, one of each channel by itself, pooling, a product with a bias, and a softmax."""
    nodes = [make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), make_node("Relu", ["c"], ["d"]),
             make_node("Conv", ["d", "v"], ["e"], group=4), make_node("Add", ["e", "e"], ["f"]),
             make_node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2]), make_node("GlobalAveragePool", ["g"], ["h"]),
             make_node("Flatten", ["h"], ["i"]), make_node("Gemm", ["i", "m", "n"], ["j"]),
             make_node("Softmax", ["j"], ["z"])]
    shapes = {"w": (4, 3, 3, 3), "b": (4,), "v": (4, 1, 2, 2), "m": (4, 5), "n": (5,)}
    dtype, half = TYPES[name]
    constants = {n: weights(*shape, dtype=dtype) for n, shape in shapes.items()}
    graph = make_graph(nodes, "network", [make_tensor_value_info("x", half, (1, 3, 6, 5))],
                       [make_tensor_value_info("z", half, (1, 5))],
                       [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_nothing_is_left_to_the_host(name: str, options: dict[str, int]) -> None:
    """Where there are tiles, products are of 16 bits with float32 sums."""
    partition = partition_model(archloom.load(network(name)), "mte", options)
    assert {op.op for op in partition.host.ops} <= {"reshape"}
    products = [step.workload for step in partition.steps() if step.workload.kind in ("gemm", "conv2d")]
    assert {work.output.dtype for work in products} == {"float32"}
    assert {work.inputs[0].dtype for work in products} == {name if options is TILES else "float32"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("options", [TILES, VECTORS])
def test_networks_of_halves_are_right(name: str, options: dict[str, int]) -> None:
    """Bit for bit by both oracles, and next to onnxruntime, which takes bfloat16 as float32."""
    found = archloom.check(network(name), "mte", options, quiet=True)
    assert found.passed, str(found)
    assert found.reference == ("onnxruntime" if name == "float16" else "onnxruntime, in float32")


def test_bfloat16_is_made_float32_for_the_reference() -> None:
    """Constants, inputs, results, conversions, and what lies in branches."""
    float_, brain = TensorProto.FLOAT, TensorProto.BFLOAT16
    branch = make_graph([make_node("Cast", ["x"], ["y"], to=brain)], "branch", [],
                        [make_tensor_value_info("y", brain, (2,))])
    nodes = [make_node("If", ["yes"], ["z"], then_branch=branch, else_branch=branch),
             make_node("Mul", ["z", "w"], ["v"])]
    inputs = [make_tensor_value_info("x", float_, (2,)), make_tensor_value_info("yes", TensorProto.BOOL, ())]
    graph = make_graph(
        nodes, "network", inputs,
        [make_tensor_value_info("v", brain, (2,))],
        [numpy_helper.from_array(np.array([0.5, 3], ml_dtypes.bfloat16), "w")])
    model = make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=9)
    assert has_bfloat16(model) and not has_bfloat16(in_float32(model)) and has_bfloat16(model)
    (found,) = run(integer_session(model), {"x": np.array([1.001, 2], np.float32), "yes": np.array(True)}).values()
    np.testing.assert_array_equal(found, np.array([1.001, 2], np.float32) * np.array([0.5, 3], np.float32))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bound"), [("float16", 1e-2), ("bfloat16", 8e-2)])
def test_a_half_module_of_torch(name: str, bound: float) -> None:
    import torch

    module: Any = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.GELU(), torch.nn.LayerNorm(30)).eval()
    module = module.to(getattr(torch, name))
    x = torch.randn(4, 20, generator=torch.Generator().manual_seed(1)).to(getattr(torch, name))
    model = archloom.load(module, example_inputs=(x,))
    assert {op.op for op in partition_model(model, "mte", TILES).host.ops} <= {"reshape"}
    with torch.no_grad():
        wanted = module(x).float().numpy()
    made = archloom.compile(model, "mte", TILES)(x.float().numpy().astype(TYPES[name][0]))
    found = np.asarray(made).reshape(wanted.shape)
    assert found.dtype == TYPES[name][0]
    np.testing.assert_allclose(found.astype(np.float32), wanted, atol=bound)
