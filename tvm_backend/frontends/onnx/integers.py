"""Quantized operators of ONNX (``QLinearConv``, ``MatMulInteger`` and others) as QDQ networks: the same integers.

An operator of integers with their scales and zero points that gives integers is, in QDQ form, dequantize, the float
operator, quantize; both are defined to give the same integers, up to the rounding of sums.

``MatMulInteger`` and ``ConvInteger``, which give int32 sums, take the form of products that targets recognize:
dequantize by a scale of 1, the float operator, and a conversion to int32. The sums are exact on a target that adds
integers. A zero point that is computed (of ``DynamicQuantizeLinear``) is taken apart: ``Σ(x - z)·w`` is
``Σx·w - z·Σw``, where the last sum is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx import editor as edit
from archloom.tvm_backend.frontends.onnx.editor import OWN_DOMAINS, Editor, Rule, attributes_of
from archloom.tvm_backend.frontends.onnx.versions import renewed

INTEGER_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
INT32 = 6
"""of ``onnx.TensorProto``"""


def to_qdq(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace the operators of :data:`OPERATORS`; the operator set becomes one with QDQ."""
    if not edit.has_operators(model, OPERATORS):
        return model
    model = edit.rewrite(model, OPERATORS, any_domain=True)
    domains = {node.domain for node in model.graph.node} | {"", "ai.onnx"}
    kept = [o for o in model.opset_import if o.domain in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return renewed(model) if any(o.domain in OWN_DOMAINS for o in kept) else model


def _operands(node: onnx.NodeProto, labels: str, editor: Editor, axis: int | None = None) -> list[str]:
    """The numbers that the first operands stand for, each a tensor of integers with its scale and zero point. ``axis``:
    that along which the second has a scale for each channel, where there are several."""
    found = []
    for i, label in enumerate(labels):
        tensor = node.input[3 * i:3 * i + 3]
        channels = i == 1 and axis is not None and _array(tensor[1], editor).size > 1
        found.append(_real(tensor, f"{node.output[0]}.{label}", editor, axis if channels else None))
    return found


def _real(tensor: Sequence[str], name: str, editor: Editor, axis: int | None = None) -> str:
    """The numbers that a quantized tensor stands for: its integers, their scale and zero point, by their names."""
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    return editor.node("DequantizeLinear", [part for part in tensor if part], name, **attributes)


def _computed(
    node: onnx.NodeProto, operator: str, inputs: list[str], quantized: Sequence[str], editor: Editor,
    label: str = "sums", **attributes: Any,
) -> bool:
    """The node's result: that of a float operator, ``quantized`` by a scale and a zero point, which may be left out."""
    name, parameters = node.output[0], [part for part in quantized if part]
    result = editor.node(operator, inputs, f"{name}.{label}" if parameters else name, node.name or None, **attributes)
    if parameters:
        editor.node("QuantizeLinear", [result, *parameters], name, f"{name}.quantized")
    return True


def _array(name: str, editor: Editor) -> np.ndarray:
    """Value of an initializer; ModelError where it is none."""
    if name not in editor.constants:
        raise ModelError(f"{editor.graph.name}: {name!r} is a scale or zero point, expected a constant")
    return editor.value(name)


def _bias(node: onnx.NodeProto, name: str, editor: Editor) -> str:
    """The int32 bias ``name`` of a node as a float tensor: its unit is the product of both operands' scales."""
    label = f"{node.output[0]}.bias"
    scale = (_array(node.input[1], editor) * _array(node.input[4], editor)).astype(np.float32)
    zero = editor.constant(f"{label}.zero", np.zeros(scale.shape, np.int32))
    return _real((name, editor.constant(f"{label}.scale", scale), zero), label, editor, 0 if scale.ndim else None)


def _conv(node: onnx.NodeProto, editor: Editor) -> bool:
    inputs = _operands(node, "xw", editor, 0)
    if any(node.input[8:]):
        inputs.append(_bias(node, node.input[8], editor))
    return _computed(node, "Conv", inputs, node.input[6:8], editor, **attributes_of(node))


def _matmul(node: onnx.NodeProto, editor: Editor) -> bool:
    return _computed(node, "MatMul", _operands(node, "ab", editor, -1), node.input[6:8], editor)


def _gemm(node: onnx.NodeProto, editor: Editor) -> bool:
    """``com.microsoft.QGemm``: A, B, C and their scales; without a result's scale the result is float."""
    attributes = attributes_of(node)
    inputs = _operands(node, "ab", editor, 0 if attributes.get("transB") else 1)
    if any(node.input[6:7]):
        inputs.append(_bias(node, node.input[6], editor))
    return _computed(node, "Gemm", inputs, node.input[7:9], editor, **attributes)


def _elementwise(op: str) -> Rule:
    """``com.microsoft.QLinearAdd`` and ``QLinearMul``."""
    return lambda node, editor: _computed(node, op, _operands(node, "ab", editor), node.input[6:8], editor)


def _unary(op: str, *kept: str) -> Rule:
    """Operators of one tensor: its scale and zero point, then those of the result; ``kept`` attributes stay."""
    def rule(node: onnx.NodeProto, editor: Editor) -> bool:
        passed = {key: value for key, value in attributes_of(node).items() if key in kept}
        return _computed(node, op, _operands(node, "x", editor), node.input[3:5], editor, "real", **passed)

    return rule


def _concat(node: onnx.NodeProto, editor: Editor) -> bool:
    """``com.microsoft.QLinearConcat``: the result's scale and zero point, then three names for each part."""
    inputs = [_real(node.input[i:i + 3], f"{node.output[0]}.part{i // 3}", editor)
              for i in range(2, len(node.input), 3)]
    return _computed(node, "Concat", inputs, node.input[:2], editor, "real", **attributes_of(node))


OPERATORS: dict[str, Rule] = {
    "QLinearConv": _conv, "QLinearMatMul": _matmul, "QGemm": _gemm, "QLinearAdd": _elementwise("Add"),
    "QLinearMul": _elementwise("Mul"), "QLinearConcat": _concat, "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"), "QLinearSoftmax": _unary("Softmax", "axis"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearAveragePool": _unary(
        "AveragePool", "kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad"),
}
"""What each operator becomes; all but the first two are of domain ``com.microsoft``."""


@edit.rewriting(*INTEGER_PRODUCTS)
def integer_products(node: onnx.NodeProto, editor: Editor) -> bool:
    """Replace the operators of :data:`INTEGER_PRODUCTS`, but for those whose second operand has a zero point that is
    computed or differs from channel to channel."""
    x, w, x_zero, w_zero = [*node.input, "", ""][:4]
    constant = {name for name in (x, w, x_zero, w_zero) if name in editor.constants}
    if w_zero and (w_zero not in constant or np.unique(editor.value(w_zero)).size > 1):
        return False
    computed = bool(x_zero) and x_zero not in constant
    if computed and (w not in constant or x not in editor.shapes):
        return False
    if not computed and x_zero and editor.value(x_zero).size > 1:
        return False
    name = node.output[0]
    operands = [_less_zero(x, "" if computed else x_zero, f"{name}.x", editor),
                _less_zero(w, w_zero, f"{name}.w", editor)]
    operator = INTEGER_PRODUCTS[node.op_type]
    sums = editor.node(operator, operands, f"{name}.real", node.name or None, **attributes_of(node))
    result = editor.node("Cast", [sums], f"{name}.sums" if computed else name, to=INT32)
    if computed:
        of_weights = editor.constant(f"{name}.weights", _sums(node, w, w_zero, editor))
        zero = editor.node("Cast", [x_zero], f"{name}.zero", to=INT32)
        editor.node("Sub", [result, editor.node("Mul", [zero, of_weights], f"{name}.moved")], name)
    return True


def _sums(node: onnx.NodeProto, w: str, w_zero: str, editor: Editor) -> np.ndarray:
    """Sums of the weights that each result has seen: over the rows, or over the taps that meet the image."""
    weights = editor.value(w).astype(np.int64) - (int(editor.value(w_zero).reshape(-1)[0]) if w_zero else 0)
    if node.op_type == "MatMulInteger":
        return weights.sum(-2, keepdims=weights.ndim > 2).astype(np.int32)
    from onnx.reference import ReferenceEvaluator

    shape = (1, *editor.shapes[node.input[0]][1:])
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    conv.attribute.extend(node.attribute)
    (found,) = ReferenceEvaluator(conv).run(None, {"x": np.ones(shape, np.float32), "w": weights.astype(np.float32)})
    return np.rint(found).astype(np.int32)


def _less_zero(tensor: str, zero: str, name: str, editor: Editor) -> str:
    """The integers of a tensor, less their zero point, as floats."""
    inputs = [tensor, editor.constant(f"{name}.scale", np.ones((), np.float32))]
    if zero:
        inputs.append(editor.constant(f"{name}.zero", editor.value(zero).reshape(-1)[0]))
    return editor.node("DequantizeLinear", inputs, name)
