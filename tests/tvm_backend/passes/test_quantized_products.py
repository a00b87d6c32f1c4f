"""Quantized convolutions as products: all of them on targets that only multiply matrices, onnxruntime's bytes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend.ir.conversion import blank, is_blank
from archloom.tvm_backend.passes.gathered import matrices, merged
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.quantization.scheme import Scheme
from archloom.tvm_backend.targets import registry
from archloom.uma_targets.kit import KitTarget
from examples.onnx_graph import OnnxGraph
from tests.support.examples import examples, often

TARGETS = [name for name in sorted(registry.BUILT_IN)
           if isinstance(target := registry.get(name), KitTarget) and target.numbers == "int8"]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def quantized(graph: OnnxGraph, result: str, shape: tuple[int, ...], image: tuple[int, ...]) -> onnx.ModelProto:
    return quantize(graph.model(result, shape), [{"x": normal(*image)}])


SCHEMES = (Scheme(), Scheme(per_channel=True), Scheme(symmetric=False), Scheme(per_channel=True, symmetric=False))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[onnx.ModelProto, Scheme, int]:
    """One convolution of any form, with or without bias and activation, and the addition of its own image if it fits,
    quantized by a scheme; and its groups.
    """
    scheme = draw(st.sampled_from(SCHEMES))
    images, groups, c, o = (draw(st.integers(1, most)) for most in (2, 3, 3, 3))
    kernel, strides, dilations = ([draw(st.integers(1, most)) for _ in range(2)] for most in (3, 2, 2))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    size = [(k - 1) * d + 1 + draw(st.integers(0, 3)) for k, d in zip(kernel, dilations)]
    graph, image = OnnxGraph("random"), (images, groups * c, *size)
    inputs = [graph.input("x", image), graph.weight("w", normal(groups * o, c, *kernel))]
    if draw(st.booleans()):
        inputs.append(graph.weight("b", normal(groups * o)))
    y = graph.node("Conv", inputs, "conv", kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads,
                   group=groups)
    if kind := draw(st.sampled_from(("", "relu", "relu6"))):
        y = graph.relu(y, "act") if kind == "relu" else graph.clip(y, "act", 0, 6)
    out = [(extent + pads[i] + pads[i + 2] - (k - 1) * d - 1) // s + 1
           for i, (extent, k, d, s) in enumerate(zip(size, kernel, dilations, strides))]
    shape = (images, groups * o, *out)
    if shape == image and draw(st.booleans()):
        y = graph.add(y, "x", "sum")
    return quantize(graph.model(y, shape), [{"x": normal(*image)}], scheme), scheme, groups


def model_shapes(model: onnx.ModelProto) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the kernel OIHW, and of the convolution's result."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
              for v in (*inferred.value_info, *inferred.output)}
    node, = (node for node in inferred.node if node.op_type == "Conv")
    return shapes[node.input[1]], shapes[node.output[0]]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_groups_that_become_one_have_the_same_sums(blocks: int, apart: int, c: int, o: int) -> None:
    groups = blocks * apart
    weights, rows = np.rint(9 * normal(groups * o, c, 2, 3)), np.rint(9 * normal(groups, 5, c * 6))
    one_by_one = rows @ matrices(weights, groups, 1).reshape(groups, c * 6, o)
    wide = rows.reshape(apart, blocks, 5, -1).transpose(0, 2, 1, 3).reshape(apart, 5, -1)
    together = wide @ matrices(merged(weights, groups, blocks), apart, 1).reshape(apart, blocks * c * 6, blocks * o)
    expected = one_by_one.reshape(apart, blocks, 5, o).transpose(0, 2, 1, 3).reshape(apart, 5, -1)
    np.testing.assert_array_equal(together, expected)
    blank_one = merged(blank(weights.shape, "float32"), groups, blocks)
    assert blank_one.shape == merged(weights, groups, blocks).shape and is_blank(blank_one)


def test_a_depthwise_convolution_is_few_products_of_many_channels() -> None:
    """Where the array is wide: a scalar core takes each channel by itself."""
    graph = OnnxGraph("deep")
    y = graph.conv(graph.input("x", (1, 24, 9, 9)), normal(24, 1, 3, 3), normal(24), "deep", padding=1, groups=24)
    model = quantized(graph, y, (1, 24, 9, 9), (1, 24, 9, 9))
    wide, scalar = (archloom.estimate(model, target).accelerator_layers[0] for target in ("amx", "oma"))
    assert wide.macs == scalar.macs == 24 * 81 * 9
    assert scalar.shape == (24, 81, 1) and wide.shape[-1] * np.prod(wide.shape[:-2]) == 24 and wide.shape[-1] > 4


@pytest.mark.slow
@examples(10, 200)
@given(convolutions(), st.sampled_from((("systolic_array", {"rows": 4, "columns": 4}), ("amx", {}), ("oma", {}),
                                         ("eyeriss", {}))))
def test_every_convolution_is_a_product_with_the_same_bytes(
    made: tuple[onnx.ModelProto, Scheme, int], target: tuple[str, dict[str, int]]
) -> None:
    """But for scales of the channels of several groups, and all that one factor does not say, where it is asked for."""
    model, scheme, groups = made
    partly = (groups > 1 and scheme.per_channel) or (target[0] == "eyeriss" and scheme != Scheme())
    report = archloom.estimate(model, *target)
    kernel, image = model_shapes(model)
    assert report.macs == int(np.prod(kernel[1:])) * int(np.prod(image)), "zeros beside the diagonal are no work"
    assert report.offloaded_macs_share == 1 or partly
    if report.accelerator_layers:
        result = archloom.check(model, *target)
        assert result.passed and result.layers and all(layer.bit_exact for layer in result.layers)
        assert result.outputs[0].max_error_in_steps == 0


def separable() -> onnx.ModelProto:
    """As in MobileNet: a stem, a depthwise and a pointwise convolution, with a shortcut."""
    graph = OnnxGraph("separable")
    x = graph.input("x", (1, 3, 9, 9))
    stem = graph.relu(graph.conv(x, normal(8, 3, 3, 3), normal(8), "stem", stride=2, padding=1), "stem_relu")
    deep = graph.clip(graph.conv(stem, normal(8, 1, 3, 3), normal(8), "deep", padding=1, groups=8), "clip", 0, 6)
    point = graph.conv(deep, normal(8, 8, 1, 1), normal(8), "point")
    return quantized(graph, graph.add(point, stem, "sum"), (1, 8, 5, 5), (1, 3, 9, 9))


@pytest.mark.slow
@pytest.mark.parametrize("target", often(TARGETS, ("amx", "tpu_v1")))
def test_all_products_of_a_network_are_offloaded(target: str) -> None:
    report = archloom.estimate(separable(), target)
    assert report.offloaded_macs_share == 1 and len(report.accelerator_layers) == 3
    result = archloom.check(separable(), target)
    assert result.passed and all(layer.bit_exact for layer in result.layers)
    assert result.outputs[0].max_error_in_steps == 0


def test_what_no_product_has_stays_a_convolution() -> None:
    """Scales by channel are refused by a store with one factor, whatever the windows."""
    graph = OnnxGraph("channels")
    y = graph.conv(graph.input("x", (1, 3, 5, 5)), normal(4, 3, 3, 3), None, "conv", padding=1)
    model = quantize(graph.model(y, (1, 4, 5, 5)), [{"x": normal(1, 3, 5, 5)}], Scheme(per_channel=True))
    report = archloom.estimate(model, "gamma")
    assert not report.accelerator_layers
    (refused,) = [host for host in report.host if host.op == "nn.conv2d"]
    assert "one per channel" in refused.reason
