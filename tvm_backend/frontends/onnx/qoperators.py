"""Quantized networks in operator form (``QLinearConv`` and others) as QDQ networks: the same integers.

An operator of this form takes integers with their scales and zero points and gives integers. In QDQ form that is
dequantize, the float operator, quantize; both are defined to give the same integers, up to the rounding of sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.editor import (
    OWN_DOMAINS,
    Editor,
    Rule,
    attributes_of,
    has_operators,
    opset_of,
    rewrite,
)

if TYPE_CHECKING:
    import onnx

OPSET = 13
"""The first in which scales may go by channels."""
Quantized = tuple[str, str, str]
"""A tensor of integers with its scale and zero point, by their names."""


def to_qdq(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace the operators of :data:`OPERATORS`; the operator set becomes one with QDQ."""
    from onnx import version_converter

    if not is_in_operator_form(model):
        return model
    model = rewrite(model, OPERATORS, any_domain=True)
    domains = {node.domain for node in model.graph.node} | {"", "ai.onnx"}
    kept = [o for o in model.opset_import if o.domain in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    own = any(o.domain in OWN_DOMAINS for o in kept)
    return version_converter.convert_version(model, OPSET) if own and opset_of(model) < OPSET else model


def is_in_operator_form(model: "onnx.ModelProto") -> bool:
    """Whether the network has operators of :data:`OPERATORS`."""
    return has_operators(model, OPERATORS)


def _real(tensor: Quantized, name: str, editor: Editor, axis: int | None = None) -> str:
    """The numbers that a quantized tensor stands for."""
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    return editor.node("DequantizeLinear", [part for part in tensor if part], name, **attributes)


def _quantized(node: "onnx.NodeProto", source: str, scale: str, zero: str, editor: Editor) -> bool:
    """The node's result: ``source`` quantized."""
    name = node.output[0]
    editor.node("QuantizeLinear", [source, scale, zero] if zero else [source, scale], name, f"{name}.quantized")
    return True


def _array(name: str, editor: Editor) -> np.ndarray:
    """Value of an initializer; ModelError where it is none."""
    if name not in editor.constants:
        raise ModelError(f"{editor.graph.name}: {name!r} is a scale or zero point, expected a constant")
    return editor.value(name)


def _bias(node: "onnx.NodeProto", x_scale: str, w_scale: str, name: str, editor: Editor) -> str:
    """The int32 bias ``name`` of a node as a float tensor: its unit is the product of both scales."""
    label = f"{node.output[0]}.bias"
    scale = (_array(x_scale, editor) * _array(w_scale, editor)).astype(np.float32)
    zero = editor.constant(f"{label}.zero", np.zeros(scale.shape, np.int32))
    axis = 0 if scale.ndim else None
    return _real((name, editor.constant(f"{label}.scale", scale), zero), label, editor, axis)


def _channels(scale: str, axis: int, editor: Editor) -> int | None:
    return axis if _array(scale, editor).size > 1 else None


def _conv(node: "onnx.NodeProto", editor: Editor) -> bool:
    x, xs, xz, w, ws, wz, ys, yz, *bias = node.input
    name = node.output[0]
    inputs = [_real((x, xs, xz), f"{name}.x", editor),
              _real((w, ws, wz), f"{name}.w", editor, _channels(ws, 0, editor))]
    if bias and bias[0]:
        inputs.append(_bias(node, xs, ws, bias[0], editor))
    sums = editor.node("Conv", inputs, f"{name}.sums", node.name or None, **attributes_of(node))
    return _quantized(node, sums, ys, yz, editor)


def _matmul(node: "onnx.NodeProto", editor: Editor) -> bool:
    a, a_s, az, b, bs, bz, ys, yz = node.input
    name = node.output[0]
    inputs = [_real((a, a_s, az), f"{name}.a", editor),
              _real((b, bs, bz), f"{name}.b", editor, _channels(bs, -1, editor))]
    sums = editor.node("MatMul", inputs, f"{name}.sums", node.name or None)
    return _quantized(node, sums, ys, yz, editor)


def _gemm(node: "onnx.NodeProto", editor: Editor) -> bool:
    """``com.microsoft.QGemm``: A, B, C and their scales; without a result's scale the result is float."""
    names = [*node.input, "", "", ""]
    a, a_s, az, b, bs, bz, c, ys, yz = names[:9]
    name, attributes = node.output[0], attributes_of(node)
    axis = (0 if attributes.get("transB") else 1) if _array(bs, editor).size > 1 else None
    inputs = [_real((a, a_s, az), f"{name}.a", editor), _real((b, bs, bz), f"{name}.b", editor, axis)]
    if c:
        inputs.append(_bias(node, a_s, bs, c, editor))
    label = f"{name}.sums" if ys else name
    sums = editor.node("Gemm", inputs, label, node.name or None, **attributes)
    return _quantized(node, sums, ys, yz, editor) if ys else True


def _elementwise(op: str) -> Rule:
    """``com.microsoft.QLinearAdd`` and ``QLinearMul``."""
    def rule(node: "onnx.NodeProto", editor: Editor) -> bool:
        a, a_s, az, b, bs, bz, ys, *rest = node.input
        name = node.output[0]
        inputs = [_real((a, a_s, az), f"{name}.a", editor), _real((b, bs, bz), f"{name}.b", editor)]
        sums = editor.node(op, inputs, f"{name}.sums", node.name or None)
        return _quantized(node, sums, ys, rest[0] if rest else "", editor)

    return rule


def _unary(op: str, *kept: str) -> Rule:
    """Operators of one tensor: its scale and zero point, then those of the result; ``kept`` attributes stay."""
    def rule(node: "onnx.NodeProto", editor: Editor) -> bool:
        x, xs, xz, ys, *rest = node.input
        name, attributes = node.output[0], attributes_of(node)
        passed = {key: value for key, value in attributes.items() if key in kept}
        x = _real((x, xs, xz), f"{name}.x", editor)
        y = editor.node(op, [x], f"{name}.real", node.name or None, **passed)
        return _quantized(node, y, ys, rest[0] if rest else "", editor)

    return rule


def _concat(node: "onnx.NodeProto", editor: Editor) -> bool:
    """``com.microsoft.QLinearConcat``: the result's scale and zero point, then three names for each part."""
    ys, yz, *parts = node.input
    name = node.output[0]
    inputs = [_real((parts[i], parts[i + 1], parts[i + 2]), f"{name}.part{i // 3}", editor)
              for i in range(0, len(parts), 3)]
    y = editor.node("Concat", inputs, f"{name}.real", node.name or None, **attributes_of(node))
    return _quantized(node, y, ys, yz, editor)


OPERATORS: dict[str, Rule] = {
    "QLinearConv": _conv, "QLinearMatMul": _matmul, "QGemm": _gemm, "QLinearAdd": _elementwise("Add"),
    "QLinearMul": _elementwise("Mul"), "QLinearConcat": _concat, "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"), "QLinearSoftmax": _unary("Softmax", "axis"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearAveragePool": _unary(
        "AveragePool", "kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad"),
}
"""What each operator becomes; all but the first two are of domain ``com.microsoft``."""
