"""A quantized network without the quantization of its activations: the floats that its layers stand for.

Weights keep the values that they were quantized to, so that what differs from the quantized network is what rounding
activations does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from archloom.tvm_backend.frontends.onnx.editor import Editor


def without_activation_quantization(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a QDQ network in which activations pass ``QuantizeLinear`` and ``DequantizeLinear`` unchanged."""
    editor = Editor(model)
    real: set[str] = set()
    for node in model.graph.node:
        first = node.input[0] if node.input else ""
        if node.op_type == "QuantizeLinear" and first not in editor.constants:
            real.add(node.output[0])
            # quantizers drop a ReLU where the range begins with 0
            passing = "Relu" if _begins_with_zero(node, editor) else "Identity"
            editor.node(passing, [first], node.output[0], node.name)
        elif node.op_type == "DequantizeLinear" and first in real:
            editor.node("Identity", [first], node.output[0], node.name)
        else:
            if any(name in real for name in node.input):  # operators that pass integers on
                real.update(node.output)
            editor.keep(node)
    result = editor.done()
    if result is not model:
        del result.graph.value_info[:]  # types that were of integers
    return result


def _begins_with_zero(node: onnx.NodeProto, editor: Editor) -> bool:
    """Whether the least number of a quantization is 0."""
    if len(node.input) < 3 or node.input[2] not in editor.constants:
        return False
    zero = editor.value(node.input[2])
    return bool((zero == np.iinfo(zero.dtype).min).all())


def plain_floats(function: Any, names: list[str]) -> Any:
    """A Relax function whose results are the variables ``names``, with activations that are not quantized."""
    from archloom.tvm_backend.ir import expressions as ir

    replaced: dict[Any, Any] = {}
    real: dict[Any, Any] = {}
    body, found = [], {}
    for binding in ir.bindings(function):
        var, value, op = binding.var, binding.value, ir.op_name(binding.value)
        if op == "dequantize" and ir.is_var(value.args[0]) and value.args[0] in real:
            replaced[var] = real[value.args[0]]
        else:
            value = ir.substitute(value, replaced)
            body.append(ir.bind(var, value))
            if op == "quantize" and ir.is_var(value.args[0]):
                real[var] = value.args[0]
            elif op == "clip" and ir.is_var(value.args[0]) and value.args[0] in real:
                real[var] = real[value.args[0]]  # a narrower range of integers
        if var.name in names:
            found[var.name] = replaced.get(var, real.get(var, var))
    results = [found[name] for name in names] or [
        replaced.get(r, r) if ir.is_var(r) else r for r in ir.outputs_of(function)]
    return ir.rebuild(function, body, results)
