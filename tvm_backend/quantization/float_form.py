"""A quantized network without the quantization of its activations: the floats that its layers stand for.

Weights keep the values that they were quantized to, so that what differs from the quantized network is what rounding
activations does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx


def without_activation_quantization(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """A copy of a QDQ network in which activations pass ``QuantizeLinear`` and ``DequantizeLinear`` unchanged."""
    import onnx
    from onnx import helper

    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    values = {t.name: t for t in graph.initializer}
    constants = set(values)
    real: set[str] = set()
    nodes = []
    for node in graph.node:
        first = node.input[0] if node.input else ""
        if node.op_type == "QuantizeLinear" and first not in constants:
            real.add(node.output[0])
            # quantizers drop a ReLU where the range begins with 0
            passing = "Relu" if _begins_with_zero(node, values) else "Identity"
            node = helper.make_node(passing, [first], [node.output[0]], node.name)
        elif node.op_type == "DequantizeLinear" and first in real:
            node = helper.make_node("Identity", [first], [node.output[0]], node.name)
        elif any(name in real for name in node.input):  # operators that pass integers on
            real.update(node.output)
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return result


def _begins_with_zero(node: "onnx.NodeProto", values: "Mapping[str, onnx.TensorProto]") -> bool:
    """Whether the least number of a quantization is 0."""
    from onnx import numpy_helper

    zero = numpy_helper.to_array(values[node.input[2]]) if len(node.input) > 2 and node.input[2] in values else None
    return zero is not None and bool((zero == np.iinfo(zero.dtype).min).all())


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
