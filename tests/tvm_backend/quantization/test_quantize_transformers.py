"""What quantization leaves in floats, and what it joins, in transformers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx.rewrites import biased_products
from archloom.tvm_backend.quantization.quantize import float_additions, prepare
from tests.support.tvm_backend.networks import (
    ROWS,
    WIDTH,
    attention,
    executable,
    quantized,
    residual_cnn,
    split,
)
from tests.support.tvm_backend.reference import ReferenceExecutor


@pytest.mark.slow
def test_masks_and_sums_that_are_normalized_stay_in_floats() -> None:
    prepared = prepare(attention())
    assert sorted(float_additions(prepared)) == ["masked.out", "sum.out"]
    model = quantized(attention())
    part, _, _ = split(model)
    assert part.offloaded_macs_share == 1.0
    assert sum(step.op == "dense+bias" for step in part.steps()) == 4
    x = np.random.default_rng(3).standard_normal((1, ROWS, WIDTH)).astype(np.float32)
    other = x.copy()
    other[0, -1] += 100  # the barred position must not reach the others
    found, moved = (
        next(iter(executable(model).run({"x": value}, executor=ReferenceExecutor()).values())) for value in (x, other))
    np.testing.assert_array_equal(found[0, :-1], moved[0, :-1])
    (expected,) = run(integer_session(model), {"x": x}).values()
    np.testing.assert_allclose(found, expected, atol=2e-2)


def test_nodes_without_names_are_told_apart() -> None:
    model = attention()
    for node in model.graph.node:
        node.name = ""
    kinds = [sorted(node.op_type for node in q.graph.node) for q in (quantized(attention()), quantized(model))]
    assert kinds[0] == kinds[1]
    model.graph.node[0].name = model.graph.node[1].name = "twice"
    assert len({node.name for node in prepare(model).graph.node}) == len(prepare(model).graph.node)


def test_residual_sums_of_convolutions_are_integers() -> None:
    assert float_additions(prepare(residual_cnn())) == set()


def test_biased_products_compute_the_same() -> None:
    model = attention()
    joined = onnx.ModelProto()
    joined.CopyFrom(model)
    joined = biased_products(onnx.shape_inference.infer_shapes(joined))
    onnx.checker.check_model(joined)
    assert sum(node.op_type == "Gemm" for node in joined.graph.node) == 4
    x = {"x": np.random.default_rng(4).standard_normal((1, ROWS, WIDTH)).astype(np.float32)}
    for found, expected in zip(run(integer_session(joined), x).values(), run(integer_session(model), x).values()):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
