"""A small builder of ONNX graphs, for networks whose weights are at hand as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET = 17
IR_VERSION = 9


class OnnxGraph:
    """Collects nodes and weights; each method returns the name of the tensor that it makes (NCHW, float32)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._model = onnx.ModelProto()  # weights are written where they stay: copies take longer than all else
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str]) -> str:
        """A float32 input; a string in ``shape`` leaves that dimension open under this name."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def weight(self, name: str, value: np.ndarray) -> str:
        """A constant; one number seen in its shape is never written out as an array."""
        value = value if value.ndim else value.reshape(1)
        little = value.astype(value.dtype.newbyteorder("<"), copy=False) if value.dtype.itemsize > 1 else value
        data = little.tobytes() if any(value.strides) else little.reshape(-1)[:1].tobytes() * value.size
        self._model.graph.initializer.add(
            name=name, data_type=helper.np_dtype_to_tensor_dtype(value.dtype), dims=value.shape, raw_data=data)
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
        """The model with ``output`` of ``shape`` as its only output, with a ``check`` of its form; made once."""
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape))
        model = self._model
        model.ir_version, model.producer_name = IR_VERSION, "archloom"
        model.opset_import.append(helper.make_opsetid("", OPSET))
        graph = model.graph
        graph.name = self.name
        for field, values in ((graph.node, self._nodes), (graph.input, self._inputs), (graph.output, [result])):
            field.extend(values)
        if check:
            onnx.checker.check_model(model)
        return model
