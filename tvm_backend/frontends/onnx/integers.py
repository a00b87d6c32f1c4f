"""``MatMulInteger`` and ``ConvInteger``, which give int32 sums, in the form of products that targets recognize.

That form is dequantize (by a scale of 1), the float operator, and a conversion to int32: the sums are exact on a target
that adds integers. A zero point that is computed (of ``DynamicQuantizeLinear``) is taken apart: ``Σ(x - z)·w`` is
``Σx·w - z·Σw``, where the last sum is a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archloom.tvm_backend.frontends.onnx.editor import Editor, attributes_of, has_operators, rewrite

if TYPE_CHECKING:
    import onnx

OPERATORS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
INT32 = 6
"""of ``onnx.TensorProto``"""


def has_integer_products(model: "onnx.ModelProto") -> bool:
    """Whether the network has operators that :func:`integer_products` rewrites."""
    return has_operators(model, OPERATORS)


def integer_products(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace the operators, but for those whose second operand has a zero point that is computed or differs from
    channel to channel."""
    return rewrite(model, dict.fromkeys(OPERATORS, _product))


def _product(node: "onnx.NodeProto", editor: Editor) -> bool:
    """Write a product as others; False where that cannot be."""
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
    operands = [_real(x, "" if computed else x_zero, f"{name}.x", editor), _real(w, w_zero, f"{name}.w", editor)]
    sums = editor.node(OPERATORS[node.op_type], operands, f"{name}.real", node.name or None, **attributes_of(node))
    result = editor.node("Cast", [sums], f"{name}.sums" if computed else name, to=INT32)
    if computed:
        of_weights = editor.constant(f"{name}.weights", _sums(node, w, w_zero, editor))
        zero = editor.node("Cast", [x_zero], f"{name}.zero", to=INT32)
        editor.node("Sub", [result, editor.node("Mul", [zero, of_weights], f"{name}.moved")], name)
    return True


def _sums(node: "onnx.NodeProto", w: str, w_zero: str, editor: Editor) -> np.ndarray:
    """Sums of the weights that each result has seen: over the rows, or over the taps that meet the image."""
    weights = editor.value(w).astype(np.int64) - (int(editor.value(w_zero).reshape(-1)[0]) if w_zero else 0)
    if node.op_type == "MatMulInteger":
        return weights.sum(-2, keepdims=weights.ndim > 2).astype(np.int32)
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    shape = (1, *editor.shapes[node.input[0]][1:])
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    conv.attribute.extend(node.attribute)
    graph = helper.make_graph(
        [conv], "sums", [helper.make_tensor_value_info("x", 1, shape)], [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(weights.astype(np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (found,) = ReferenceEvaluator(model).run(None, {"x": np.ones(shape, np.float32)})
    return np.rint(found).astype(np.int32)


def _real(tensor: str, zero: str, name: str, editor: Editor) -> str:
    """The integers of a tensor, less their zero point, as floats."""
    inputs = [tensor, editor.constant(f"{name}.scale", np.ones((), np.float32))]
    if zero:
        inputs.append(editor.constant(f"{name}.zero", editor.value(zero).reshape(-1)[0]))
    return editor.node("DequantizeLinear", inputs, name)
