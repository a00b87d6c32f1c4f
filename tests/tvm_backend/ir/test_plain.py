"""Plain expressions give the partition that TVM's give: the same rules over two importers and two matchers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

import archloom
from archloom.models import catalogue, digits
from archloom.models.data import random_images
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.frontends.onnx import load as onnx_networks
from archloom.tvm_backend.frontends.onnx import skeleton as onnx_skeleton
from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton
from archloom.tvm_backend.ir import expressions
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.sources import named_networks
from archloom.tvm_backend.sources.operator_network import onnx_model as operator_model
from archloom.tvm_backend.sources.operators import parse
from examples import digits_onnx, nas_space, resnet_onnx
from examples.nas_space import Architecture, Space, Stage
from examples.onnx_graph import OnnxGraph
from tests.support.examples import examples, often
from tests.support.tvm_backend.networks import residual_cnn
from tests.support.tvm_backend.partitions import facts
from tests.support.tvm_backend.small_networks import float_cnn, int8_cnn

TARGETS = ("gemmini", "tpu_v1")
"""Convolutions and products; products alone."""
FLOATS = ("plasticine", "qkv")
"""Convolutions as products; attention as well."""
OVERLAPPING = "mte"
"""Forms that overlap, of which the order of matching decides which are taken."""

SMALL = Space(
    images=(16, 24), multipliers=(0.25, 0.5), stages=(Stage(16, 2, (1, 2)), Stage(24, 2, (1,))), stem=8, first=8,
    head=16, classes=5,
)


INT8 = int8_cnn().SerializeToString()


def plain(proto: onnx.ModelProto) -> Any:
    skeleton = onnx_skeleton.parse(onnx_skeleton.of_proto(proto))
    return onnx_networks.load_skeleton(skeleton, "net", "net", None)


def assert_same(proto: onnx.ModelProto, *targets: str) -> None:
    ours, theirs = plain(proto), archloom.load(proto, name="net")
    for target in targets or TARGETS:
        with patch.object(expressions, "_relax", side_effect=AssertionError("TVM is asked about a plain network")):
            found = facts(partition_model(ours, target))
        compared = unnamed if target == OVERLAPPING else dict
        assert compared(found) == compared(facts(partition_model(theirs, target)))


def unnamed(found: dict[str, Any]) -> dict[str, Any]:
    """Facts of a partition without names and order of layers: where several operators are one layer, importers differ
    in which of them it is named after."""
    regions = [(inputs, outputs, sorted(
        (op, repr(replace(workload, name="")), shape) for op, workload, shape, _, _ in steps.values()))
        for _, inputs, outputs, steps in found["regions"]]
    return {**found, "regions": regions}


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    blocks = st.tuples(st.sampled_from(SMALL.kernels), st.sampled_from(SMALL.expansions))
    choices = tuple(
        tuple(draw(st.lists(blocks, min_size=min(s.depths), max_size=max(s.depths)))) for s in SMALL.stages
    )
    return Architecture(draw(st.sampled_from(SMALL.images)), draw(st.sampled_from(SMALL.multipliers)), choices, SMALL)


@pytest.mark.slow
@given(architectures())
@examples(2, 40, phases=[Phase.generate])
def test_random_networks_of_the_search_space(architecture: Architecture) -> None:
    model = nas_space.onnx_model(architecture, seed=0)
    assert_same(model, *TARGETS, *FLOATS)
    assert_same(quantize(model, random_images(1, architecture.image)[:, None]), "gemmini", "tpu_v1")


@pytest.mark.first_case
@pytest.mark.parametrize("make", [
    float_cnn, int8_cnn, residual_cnn, lambda: digits_onnx.onnx_model(digits.DigitsNet(8)),
    lambda: resnet_onnx.onnx_model(resnet_onnx.tiny()),
])
def test_networks(make: Any) -> None:
    assert_same(make(), *TARGETS, *FLOATS)


@pytest.mark.parametrize(("op", "weight", "image"), [
    ("Conv", (96, 64, 5), (1, 64, 12)), ("ConvTranspose", (64, 48, 3, 4), (1, 64, 5, 6)),
])
def test_convolutions_whose_weights_change_their_shapes(
    op: str, weight: tuple[int, ...], image: tuple[int, ...]
) -> None:
    graph = OnnxGraph("changed")
    kernel = np.random.default_rng(0).standard_normal(weight).astype(np.float32)
    bias = np.ones(weight[0 if op == "Conv" else 1], np.float32)
    inputs = [graph.input("x", image), graph.weight("w", kernel), graph.weight("b", bias)]
    rank = len(weight) - 2
    y = graph.relu(graph.node(op, inputs, "y", kernel_shape=weight[2:], strides=[2] * rank), "out")
    result = (1, len(bias), 4) if op == "Conv" else (1, len(bias), 11, 14)
    proto = graph.model(y, result)
    assert_same(proto, *FLOATS)
    sample = {"x": np.random.default_rng(1).standard_normal(image).astype(np.float32)}
    assert_same(quantize(proto, [sample]), "gemmini")


LIGHT = ("bert_base",)
"""Gathers, masks, normalizations."""


@pytest.mark.parametrize("name", often(catalogue.BY_NAME, LIGHT))
def test_the_catalogue(name: str) -> None:
    """Quantized on Gemmini, as it is on a target of floats."""
    built = catalogue.build(catalogue.tiny(name))
    proto = named_networks.float_onnx(built)
    assert_same(proto, "oma", *(() if name == "gpt2_decode" else FLOATS))  # names of equal products
    assert_same(quantize(proto, built.samples(1)), *TARGETS, OVERLAPPING)


@pytest.mark.first_case
@pytest.mark.parametrize("text", [
    "gemm(m=3,n=5,k=7,bias=1,relu=1)", "gemm(m=3,n=5,k=7,batch=2,bias=1)", "add(size=12,relu=1)",
    "conv2d(c=3,h=9,w=8,o=5,k=3,stride=2,pad=1,bias=1,relu=1,pool=2,pool_stride=2)",
])
def test_single_operators(text: str) -> None:
    assert_same(operator_model(parse(text)))
    assert_same(operator_model(parse(text), numbers="float32"))


@given(st.sampled_from(("Max", "Min")), st.lists(st.sampled_from([(1, 8, 4, 4), (8, 1, 1), (4,), ()]), max_size=3),
       st.integers(0, 3))
@examples(3, 40)
def test_extremes_of_any_number_of_tensors(op: str, constants: list[tuple[int, ...]], place: int) -> None:
    """Of constants of all shapes that broadcast, and of what is computed, at any place; of constants alone."""
    graph = small_graph()
    known = [graph.weight(f"k{i}", np.full(shape, i, np.float32)) for i, shape in enumerate(constants)]
    read = [*known[:place], "conv/a", *known[place:]]
    y = graph.node(op, read, "y")
    if known:
        y = graph.node("Mul", [y, graph.node(op, known, "folded")], "product")
    assert_same(graph.model(y, (1, 8, 4, 4)), "gemmini", "plasticine")


def small_graph(**attributes: Any) -> OnnxGraph:
    graph = OnnxGraph("ops")
    x = graph.input("x.1", (1, 4, 6, 6))
    weight = np.ones((8, 4, 3, 3), np.float32)
    graph.node("Conv", [x, graph.weight("w", weight)], "conv/a", kernel_shape=[3, 3], **attributes)
    return graph


def test_names_that_repeat_padding_by_name_and_many_operators() -> None:
    graph = small_graph(auto_pad="SAME_UPPER", strides=[2, 2])
    y = graph.node("HardSwish", ["conv/a"], "act")
    pooled = graph.node("AveragePool", [y], "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    z = graph.node("Mul", [pooled, graph.node("Sigmoid", [y], "gate")], "mul")
    z = graph.node("Concat", [z, y], "cat", axis=1)
    z = graph.node("Transpose", [z], "t", perm=[0, 2, 3, 1])
    z = graph.node("Reshape", [z, graph.weight("shape", np.array([0, -1, 16], np.int64))], "r")
    z = graph.node("Softmax", [graph.node("MatMul", [z, graph.weight("m", np.ones((16, 7), np.float32))], "r.a")], "s")
    proto = graph.model(z, (1, 9, 7))
    for node in proto.graph.node[-2:]:
        node.name = "r"
    assert_same(proto)


@pytest.mark.parametrize(("op", "attributes"), [("Loop", {}), ("Cast", {"to": onnx.TensorProto.INT32})])
def test_what_is_not_known_exactly_is_left_to_tvm(op: str, attributes: dict[str, Any]) -> None:
    graph = small_graph()
    graph.node(op, ["conv/a"], "y", **attributes)
    with pytest.raises(Unsupported):
        plain(graph.model("y", (1, 8, 2, 2), check=False))


def test_open_dimensions_are_refused_in_the_same_words() -> None:
    proto = digits_onnx.onnx_model(digits.DigitsNet(8), batch="n")
    with pytest.raises(ModelError) as ours:
        plain(proto)
    with pytest.raises(ModelError) as theirs:
        archloom.load(proto, name="net")
    assert str(ours.value) == str(theirs.value).replace("digits", "net")


# skeletons


def test_a_file_and_the_network_in_memory_have_one_skeleton(tmp_path: Path) -> None:
    proto = nas_space.onnx_model(nas_space.draw(np.random.default_rng(0)), seed=0)
    onnx.save(proto, tmp_path / "a.onnx")
    skeleton = onnx_skeleton.of_file(tmp_path / "a.onnx")
    assert skeleton == onnx_skeleton.of_proto(proto) and len(skeleton) < proto.ByteSize() / 10
    assert onnx_skeleton.parse(skeleton).graph.node == proto.graph.node


def test_weights_do_not_show_but_small_constants_do() -> None:
    arch = nas_space.draw(np.random.default_rng(0))
    one, other = (nas_space.onnx_model(arch, seed=s) for s in (0, 1))
    for proto in (one, other):  # biases are small constants
        biases = [t for t in proto.graph.initializer if t.name.endswith("bias")]
        for tensor in biases:
            tensor.raw_data = bytes(len(tensor.raw_data))
    small = [t for t in one.graph.initializer if not onnx_skeleton.is_weight(t.data_type, tuple(t.dims))]
    for tensor in small:
        next(t for t in other.graph.initializer if t.name == tensor.name).CopyFrom(tensor)
    assert onnx_skeleton.of_proto(one) == onnx_skeleton.of_proto(other)
    small[0].raw_data = small[0].raw_data[:-1] + b"\x01"
    assert onnx_skeleton.of_proto(one) != onnx_skeleton.of_proto(other)


@given(st.binary(max_size=200), st.integers(0, 5000))
@examples(20, 200)
def test_damaged_files_have_no_skeleton_or_one_that_parses(tmp_path: Path, junk: bytes, at: int) -> None:
    data = bytearray(INT8)
    at %= len(data)
    data[at:at + len(junk)] = junk
    (tmp_path / "a.onnx").write_bytes(data)
    try:
        proto = onnx_skeleton.parse(onnx_skeleton.of_file(tmp_path / "a.onnx"))
        onnx_networks.load_skeleton(proto, "net", "net", None)
    except (NoSkeleton, Unsupported, ModelError):
        pass
