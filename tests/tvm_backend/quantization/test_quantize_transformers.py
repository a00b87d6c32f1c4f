"""What quantization leaves in floats, and what it joins, in transformers."""

from __future__ import annotations

import numpy as np
import onnx

from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx.products import biased_products
from archloom.tvm_backend.quantization.quantize import float_additions, prepare
from tests.support.tvm_backend.networks import Net, executable, quantized, residual_cnn, split
from tests.support.tvm_backend.reference import ReferenceExecutor

ROWS, WIDTH, BARRED = 6, 8, -3e38


def attention() -> onnx.ModelProto:
    """A layer of biased products, attention whose mask bars the last position, and a residual sum; no batch of rows."""
    net = Net()
    x = net.input("x", 1, ROWS, WIDTH)

    def dense(source: str, name: str) -> str:
        product = net.node("MatMul", [source, net.weight(f"{name}.w", WIDTH, WIDTH)], name)
        return net.node("Add", [product, net.constant(f"{name}.b", net.rng.standard_normal(WIDTH))], f"{name}.biased")

    q, k, v = (dense(x, name) for name in "qkv")
    scores = net.node("MatMul", [q, net.node("Transpose", [k], "kt", perm=[0, 2, 1])], "scores")
    mask = net.constant("mask", np.where(np.arange(ROWS) == ROWS - 1, BARRED, 0.0)[None, None])
    weights = net.node("Softmax", [net.node("Add", [scores, mask], "masked")], "weights", axis=-1)
    y = net.node("Add", [x, dense(net.node("MatMul", [weights, v], "mixed"), "out")], "sum")
    scale, shift = net.constant("g", np.ones(WIDTH)), net.constant("h", np.zeros(WIDTH))
    return net.model(net.node("LayerNormalization", [y, scale, shift], "norm"))


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
