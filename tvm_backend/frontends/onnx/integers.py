"""``MatMulInteger`` and ``ConvInteger``, which give int32 sums, in the form of products that targets recognize.

That form is dequantize (by a scale of 1), the float operator, and a conversion to int32: the sums are exact on a target
that adds integers. A zero point that is computed (of ``DynamicQuantizeLinear``) is taken apart: ``Σ(x - z)·w`` is
``Σx·w - z·Σw``, where the last sum is a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.tvm_backend.frontends.onnx.rewrites import known_shapes

if TYPE_CHECKING:
    import onnx

OPERATORS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
INT32 = 6
"""of ``onnx.TensorProto``"""


def has_integer_products(model: "onnx.ModelProto") -> bool:
    """Whether the network has operators that :func:`integer_products` rewrites."""
    return any(node.op_type in OPERATORS for node in model.graph.node)


def integer_products(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace the operators, in place, but for those whose second operand has a zero point that is computed or differs
    from channel to channel."""
    writer = _Writer(model)
    for node in model.graph.node:
        if node.op_type not in OPERATORS or not writer.product(node):
            writer.nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(writer.nodes)
    return model


@dataclass
class _Writer:
    model: "onnx.ModelProto"
    nodes: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        from onnx import numpy_helper

        self.shapes = known_shapes(self.model)
        self.values = {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer
                       if t.data_type in (2, 3)}  # bytes: weights and zero points

    def product(self, node: "onnx.NodeProto") -> bool:
        """Write a product as others; False where that cannot be."""
        x, w, x_zero, w_zero = [*node.input, "", ""][:4]
        if w_zero and (w_zero not in self.values or np.unique(self.values[w_zero]).size > 1):
            return False
        computed = bool(x_zero) and x_zero not in self.values
        if computed and (w not in self.values or x not in self.shapes):
            return False
        if not computed and x_zero and self.values[x_zero].size > 1:
            return False
        name = node.output[0]
        operands = [self.real(x, "" if computed else x_zero, f"{name}.x"), self.real(w, w_zero, f"{name}.w")]
        sums = self.add(OPERATORS[node.op_type], operands, f"{name}.real", node.name, attributes=node.attribute)
        result = self.add("Cast", [sums], f"{name}.sums" if computed else name, to=INT32)
        if computed:
            of_weights = self.constant(f"{name}.weights", self._sums(node, w, w_zero))
            zero = self.add("Cast", [x_zero], f"{name}.zero", to=INT32)
            self.add("Sub", [result, self.add("Mul", [zero, of_weights], f"{name}.moved")], name)
        return True

    def _sums(self, node: "onnx.NodeProto", w: str, w_zero: str) -> np.ndarray:
        """Sums of the weights that each result has seen: over the rows, or over the taps that meet the image."""
        weights = self.values[w].astype(np.int64) - (int(self.values[w_zero].reshape(-1)[0]) if w_zero else 0)
        if node.op_type == "MatMulInteger":
            return weights.sum(-2, keepdims=weights.ndim > 2).astype(np.int32)
        from onnx import helper, numpy_helper
        from onnx.reference import ReferenceEvaluator

        shape = (1, *self.shapes[node.input[0]][1:])
        conv = helper.make_node("Conv", ["x", "w"], ["y"])
        conv.attribute.extend(node.attribute)
        graph = helper.make_graph(
            [conv], "sums", [helper.make_tensor_value_info("x", 1, shape)], [helper.make_empty_tensor_value_info("y")],
            [numpy_helper.from_array(weights.astype(np.float32), "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        (found,) = ReferenceEvaluator(model).run(None, {"x": np.ones(shape, np.float32)})
        return np.rint(found).astype(np.int32)

    def real(self, tensor: str, zero: str, name: str) -> str:
        """The integers of a tensor, less their zero point, as floats."""
        inputs = [tensor, self.constant(f"{name}.scale", np.ones((), np.float32))]
        if zero:
            inputs.append(self.constant(f"{name}.zero", self.values[zero].reshape(-1)[0]))
        return self.add("DequantizeLinear", inputs, name)

    def add(self, op: str, inputs: list[str], name: str, label: str = "", attributes: Any = (), **more: Any) -> str:
        from onnx import helper

        node = helper.make_node(op, inputs, [name], label or name, **more)
        node.attribute.extend(attributes)
        self.nodes.append(node)
        return name

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name
