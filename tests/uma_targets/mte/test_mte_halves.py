"""Networks of float16 on the vector core alone: products with float32 sums, the rest in float32 between its borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import archloom
from archloom.tvm_backend.compile import partition_model
from tests.support.examples import slow

TILES, VECTORS = {"vlen": 1024, "rlen": 256}, {"vlen": 512, "rlen": 512}


def weights(*shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 4).astype(np.float16)


def network() -> onnx.ModelProto:
    """A convolution, one of each channel by itself, pooling, a product with a bias, and a softmax."""
    nodes = [make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), make_node("Relu", ["c"], ["d"]),
             make_node("Conv", ["d", "v"], ["e"], group=4), make_node("Add", ["e", "e"], ["f"]),
             make_node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2]), make_node("GlobalAveragePool", ["g"], ["h"]),
             make_node("Flatten", ["h"], ["i"]), make_node("Gemm", ["i", "m", "n"], ["j"]),
             make_node("Softmax", ["j"], ["z"])]
    shapes = {"w": (4, 3, 3, 3), "b": (4,), "v": (4, 1, 2, 2), "m": (4, 5), "n": (5,)}
    constants = {name: weights(*shape) for name, shape in shapes.items()}
    half = TensorProto.FLOAT16
    graph = make_graph(nodes, "network", [make_tensor_value_info("x", half, (1, 3, 6, 5))],
                       [make_tensor_value_info("z", half, (1, 5))],
                       [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("options", [TILES, slow(VECTORS)])
def test_nothing_is_left_to_the_host(options: dict[str, int]) -> None:
    """Where there are tiles, products are of float16 with float32 sums."""
    partition = partition_model(archloom.load(network()), "mte", options)
    assert {op.op for op in partition.host.ops} <= {"reshape"}
    products = [step.workload for step in partition.steps() if step.workload.kind == "gemm"]
    assert {work.output.dtype for work in products} == {"float32"}
    assert {work.inputs[0].dtype for work in products} == {"float16" if options is TILES else "float32"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [TILES, VECTORS])
def test_networks_of_halves_are_right(options: dict[str, int]) -> None:
    """Bit for bit by both oracles, and next to onnxruntime."""
    found = archloom.check(network(), "mte", options, quiet=True)
    assert found.passed, str(found)


@pytest.mark.slow
def test_a_half_module_of_torch() -> None:
    import torch

    module: Any = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.GELU(), torch.nn.LayerNorm(30)).half().eval()
    x = torch.randn(4, 20, generator=torch.Generator().manual_seed(1)).half()
    model = archloom.load(module, example_inputs=(x,))
    assert {op.op for op in partition_model(model, "mte", TILES).host.ops} <= {"reshape"}
    with torch.no_grad():
        wanted = module(x).numpy()
    found = np.asarray(archloom.compile(model, "mte", TILES)(x.numpy())).reshape(wanted.shape)
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), atol=1e-2)
