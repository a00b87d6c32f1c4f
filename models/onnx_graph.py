"""A small builder of ONNX graphs, for networks whose weights are at hand as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 9


class OnnxGraph:
    """Collects nodes and weights; each method returns the name of the tensor that it makes (NCHW, float32)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str]) -> str:
        """A float32 input; a string in ``shape`` leaves that dimension open under this name."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def weight(self, name: str, value: np.ndarray) -> str:
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, op: str, inputs: Sequence[str], name: str, **attributes: object) -> str:
        """A node with one output, which is called ``name`` as the node itself is."""
        self._nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def conv(
        self, x: str, weight: np.ndarray, bias: np.ndarray | None, name: str, *, stride: int = 1, padding: int = 0,
        groups: int = 1,
    ) -> str:
        """Convolution with ``weight`` [o, c / groups, kh, kw] and the same stride and padding on all sides."""
        inputs = [x, self.weight(f"{name}.weight", weight)]
        if bias is not None:
            inputs.append(self.weight(f"{name}.bias", bias))
        return self.node(
            "Conv", inputs, name, kernel_shape=list(weight.shape[2:]), strides=[stride] * 2, pads=[padding] * 4,
            group=groups,
        )

    def batch_norm(self, x: str, parts: Mapping[str, np.ndarray], name: str) -> str:
        """``parts`` are scale, shift, mean and variance, [c] each and in this order."""
        weights = [self.weight(f"{name}.{key}", value) for key, value in parts.items()]
        return self.node("BatchNormalization", [x, *weights], name)

    def relu(self, x: str, name: str) -> str:
        return self.node("Relu", [x], name)

    def clip(self, x: str, name: str, low: float, high: float) -> str:
        """``min(max(x, low), high)``; ReLU6 is a clip to 0..6."""
        bounds = [self.weight(f"{name}.{key}", np.array(value, np.float32)) for key, value in
                  (("low", low), ("high", high))]
        return self.node("Clip", [x, *bounds], name)

    def add(self, a: str, b: str, name: str) -> str:
        return self.node("Add", [a, b], name)

    def max_pool(self, x: str, name: str, *, size: int, stride: int, padding: int = 0) -> str:
        return self.node("MaxPool", [x], name, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[padding] * 4)

    def global_average(self, x: str, name: str) -> str:
        """[n, c, h, w] → [n, c]."""
        return self.node("Flatten", [self.node("GlobalAveragePool", [x], f"{name}.mean")], name, axis=1)

    def dense(self, x: str, weight: np.ndarray, bias: np.ndarray, name: str) -> str:
        """[n, k] · weight[o, k]ᵀ + bias[o]."""
        inputs = [x, self.weight(f"{name}.weight", weight), self.weight(f"{name}.bias", bias)]
        return self.node("Gemm", inputs, name, transB=1)

    def model(self, output: str, shape: Sequence[int | str], *, check: bool = True) -> onnx.ModelProto:
        """The model with ``output`` of ``shape`` as its only output, with a ``check`` of its form."""
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape))
        model = onnx.ModelProto(
            ir_version=IR_VERSION, opset_import=[helper.make_opsetid("", OPSET)], producer_name="archloom")
        graph = model.graph  # filled in place: ONNX's helpers would copy all weights twice more
        graph.name = self.name
        for field, values in ((graph.node, self._nodes), (graph.initializer, self._weights),
                              (graph.input, self._inputs), (graph.output, [result])):
            field.extend(values)
        if check:
            onnx.checker.check_model(model)
        return model
