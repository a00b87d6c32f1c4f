"""Quantized networks in operator form (``QLinearConv`` and others) as QDQ networks: the same integers.

An operator of this form takes integers with their scales and zero points and gives integers. In QDQ form that is
dequantize, the float operator, quantize; both are defined to give the same integers, up to the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

OPSET = 13
"""The first in which scales may go by channels."""
Quantized = tuple[str, str, str]
"""A tensor of integers with its scale and zero point, by their names."""


def to_qdq(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace the operators of :data:`OPERATORS`, in place; the operator set becomes one with QDQ."""
    from onnx import version_converter

    if not is_in_operator_form(model):
        return model
    rewriting = _Rewriting(model.graph)
    for node in model.graph.node:
        rule = OPERATORS.get(node.op_type)
        if rule is None:
            rewriting.nodes.append(node)
        else:
            rule(node, rewriting)
    del model.graph.node[:]
    model.graph.node.extend(rewriting.nodes)
    domains = {node.domain for node in model.graph.node} | {"", "ai.onnx"}
    kept = [o for o in model.opset_import if o.domain in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    version = next((o.version for o in kept if o.domain in ("", "ai.onnx")), OPSET)
    return version_converter.convert_version(model, OPSET) if version < OPSET else model


def is_in_operator_form(model: "onnx.ModelProto") -> bool:
    """Whether the network has operators of :data:`OPERATORS`."""
    return any(node.op_type in OPERATORS for node in model.graph.node)


@dataclass
class _Rewriting:
    """The nodes so far; new tensors and nodes are called after the result they are for."""

    graph: "onnx.GraphProto"
    nodes: list[Any] = field(default_factory=list)

    def add(self, op: str, inputs: list[str], name: str, label: str = "", **attributes: Any) -> str:
        """A node with the one result ``name``."""
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [name], label or name, **attributes))
        return name

    def real(self, tensor: Quantized, name: str, axis: int | None = None) -> str:
        """The numbers that a quantized tensor stands for."""
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.add("DequantizeLinear", [part for part in tensor if part], name, **attributes)

    def finish(self, node: "onnx.NodeProto", source: str, scale: str, zero: str) -> None:
        """The node's result: ``source`` quantized."""
        self.add("QuantizeLinear", [source, scale, zero] if zero else [source, scale], node.output[0],
                 f"{node.output[0]}.quantized")

    def array(self, name: str) -> np.ndarray:
        """Value of an initializer; ModelError where it is none."""
        from onnx import numpy_helper

        from archloom.oracle.errors import ModelError

        found = next((t for t in self.graph.initializer if t.name == name), None)
        if found is None:
            raise ModelError(f"{self.graph.name}: {name!r} is a scale or zero point, expected a constant")
        return numpy_helper.to_array(found)

    def constant(self, name: str, value: np.ndarray) -> str:
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def bias(self, node: "onnx.NodeProto", x_scale: str, w_scale: str, name: str) -> str:
        """The int32 bias ``name`` of a node as a float tensor: its unit is the product of both scales."""
        label = f"{node.output[0]}.bias"
        scale = (self.array(x_scale) * self.array(w_scale)).astype(np.float32)
        zero = self.constant(f"{label}.zero", np.zeros(scale.shape, np.int32))
        axis = 0 if scale.ndim else None
        return self.real((name, self.constant(f"{label}.scale", scale), zero), label, axis)


def _attributes(node: "onnx.NodeProto") -> dict[str, Any]:
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _channels(graph: _Rewriting, scale: str, axis: int) -> int | None:
    return axis if graph.array(scale).size > 1 else None


def _conv(node: "onnx.NodeProto", graph: _Rewriting) -> None:
    x, xs, xz, w, ws, wz, ys, yz, *bias = node.input
    name = node.output[0]
    inputs = [graph.real((x, xs, xz), f"{name}.x"), graph.real((w, ws, wz), f"{name}.w", _channels(graph, ws, 0))]
    if bias and bias[0]:
        inputs.append(graph.bias(node, xs, ws, bias[0]))
    sums = graph.add("Conv", inputs, f"{name}.sums", node.name, **_attributes(node))
    graph.finish(node, sums, ys, yz)


def _matmul(node: "onnx.NodeProto", graph: _Rewriting) -> None:
    a, a_s, az, b, bs, bz, ys, yz = node.input
    name = node.output[0]
    inputs = [graph.real((a, a_s, az), f"{name}.a"), graph.real((b, bs, bz), f"{name}.b", _channels(graph, bs, -1))]
    graph.finish(node, graph.add("MatMul", inputs, f"{name}.sums", node.name), ys, yz)


def _gemm(node: "onnx.NodeProto", graph: _Rewriting) -> None:
    """``com.microsoft.QGemm``: A, B, C and their scales; without a result's scale the result is float."""
    names = [*node.input, "", "", ""]
    a, a_s, az, b, bs, bz, c, ys, yz = names[:9]
    name, attributes = node.output[0], _attributes(node)
    axis = (0 if attributes.get("transB") else 1) if graph.array(bs).size > 1 else None
    inputs = [graph.real((a, a_s, az), f"{name}.a"), graph.real((b, bs, bz), f"{name}.b", axis)]
    if c:
        inputs.append(graph.bias(node, a_s, bs, c))
    label = f"{name}.sums" if ys else name
    sums = graph.add("Gemm", inputs, label, node.name, **attributes)
    if ys:
        graph.finish(node, sums, ys, yz)


def _elementwise(op: str) -> "Callable[[onnx.NodeProto, _Rewriting], None]":
    """``com.microsoft.QLinearAdd`` and ``QLinearMul``."""
    def rule(node: "onnx.NodeProto", graph: _Rewriting) -> None:
        a, a_s, az, b, bs, bz, ys, *rest = node.input
        name = node.output[0]
        inputs = [graph.real((a, a_s, az), f"{name}.a"), graph.real((b, bs, bz), f"{name}.b")]
        graph.finish(node, graph.add(op, inputs, f"{name}.sums", node.name), ys, rest[0] if rest else "")

    return rule


def _unary(op: str, *kept: str, **fixed: Any) -> "Callable[[onnx.NodeProto, _Rewriting], None]":
    """Operators of one tensor: its scale and zero point, then those of the result; ``kept`` attributes stay."""
    def rule(node: "onnx.NodeProto", graph: _Rewriting) -> None:
        x, xs, xz, ys, *rest = node.input
        name, attributes = node.output[0], _attributes(node)
        passed = {key: value for key, value in attributes.items() if key in kept}
        y = graph.add(op, [graph.real((x, xs, xz), f"{name}.x")], f"{name}.real", node.name, **passed, **fixed)
        graph.finish(node, y, ys, rest[0] if rest else "")

    return rule


def _concat(node: "onnx.NodeProto", graph: _Rewriting) -> None:
    """``com.microsoft.QLinearConcat``: the result's scale and zero point, then three names for each part."""
    ys, yz, *parts = node.input
    name = node.output[0]
    inputs = [graph.real((parts[i], parts[i + 1], parts[i + 2]), f"{name}.part{i // 3}")
              for i in range(0, len(parts), 3)]
    graph.finish(node, graph.add("Concat", inputs, f"{name}.real", node.name, **_attributes(node)), ys, yz)


OPERATORS: "dict[str, Callable[[onnx.NodeProto, _Rewriting], None]]" = {
    "QLinearConv": _conv, "QLinearMatMul": _matmul, "QGemm": _gemm, "QLinearAdd": _elementwise("Add"),
    "QLinearMul": _elementwise("Mul"), "QLinearConcat": _concat, "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"), "QLinearSoftmax": _unary("Softmax", "axis"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearAveragePool": _unary(
        "AveragePool", "kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad"),
}
"""What each operator becomes; all but the first two are of domain ``com.microsoft``."""
