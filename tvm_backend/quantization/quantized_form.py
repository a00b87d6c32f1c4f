"""A float ONNX network in the form that quantization would give it, without numbers: for estimates.

Which layers run on an int8 accelerator, and how long they take, follows from where a network is quantized and which
tensors share a scale, not from the scales themselves. So no calibration is needed, and no weight is looked at:
quantize and dequantize stand where :mod:`archloom.tvm_backend.quantization.quantize` puts them, with scales of no
meaning, equal where that makes them equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.tvm_backend.frontends.onnx.skeleton import is_weight
from archloom.tvm_backend.quantization.quantize import INT8_SYMMETRIC, Scheme, scale_groups

if TYPE_CHECKING:
    import onnx

KEEP_INPUT_SCALE = frozenset({"MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})
"""Their result has the scale of their input, where that is quantized; else they stay as they are."""
ACTIVATIONS = frozenset({"Relu", "Clip"})
WITH_BIAS = frozenset({"Conv", "Gemm"})
SMALLEST_SCALE = 1 / 256
FLOAT, INT8, INT32 = 1, 3, 6
"""of ``onnx.TensorProto``"""


def quantized_form(model: "onnx.ModelProto", scheme: Scheme = INT8_SYMMETRIC) -> "onnx.ModelProto":
    """``model`` with int8 quantization around its operators; weights of the result have no data, or zeros.

    The model itself is changed: batch normalization becomes part of the convolution before it.
    """
    _fold_normalization(model)
    return _Writer(model, scheme).model()


def _fold_normalization(model: "onnx.ModelProto") -> None:
    """Take ``BatchNormalization`` into the convolution that only it reads: the convolution then has a bias."""
    graph = model.graph
    makers = {node.output[0]: node for node in graph.node}
    readers: dict[str, int] = {}
    for name in [i for node in graph.node for i in node.input] + [o.name for o in graph.output]:
        readers[name] = readers.get(name, 0) + 1
    for node in [n for n in graph.node if n.op_type == "BatchNormalization"]:
        conv = makers.get(node.input[0])
        if conv is None or conv.op_type != "Conv" or readers[node.input[0]] != 1:
            continue
        if len(conv.input) < 3:
            conv.input.append(node.input[2])  # the shift has the shape of a bias
        conv.output[0] = node.output[0]
        graph.node.remove(node)


@dataclass
class _Writer:
    source: "onnx.ModelProto"
    scheme: Scheme
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    parameters: list[Any] = field(default_factory=list)
    read_as: dict[str, str] = field(default_factory=dict)

    def model(self) -> "onnx.ModelProto":
        import onnx

        graph = self.source.graph
        self.constants = {t.name: t for t in graph.initializer}
        self.outputs = {o.name for o in graph.output}
        quantized = self._quantized()
        self._scales(quantized)
        for info in graph.input:
            if info.name in quantized and info.name not in self.constants:
                self._pair(info.name, info.name, f"{info.name}_DequantizeLinear_Output")
        for node in graph.node:
            self._node(node, quantized)
        result = onnx.ModelProto(ir_version=self.source.ir_version, opset_import=self.source.opset_import)
        target = result.graph
        target.name = graph.name
        target.input.extend(i for i in graph.input if i.name not in self.constants)
        target.output.extend(graph.output)
        used = {name for node in self.nodes for name in node.input}
        target.initializer.extend(t for t in graph.initializer if t.name in used)
        target.initializer.extend(self.weights)
        target.node.extend([*self.parameters, *self.nodes])
        return result

    def _quantized(self) -> dict[str, str]:
        """The activations that are quantized, each with the tensor whose scale it has."""
        found: dict[str, str] = {}
        for node in self.source.graph.node:
            if node.op_type not in self.scheme.operators:
                continue
            if node.op_type in KEEP_INPUT_SCALE:
                if node.input[0] in found:
                    found.setdefault(node.output[0], found[node.input[0]])
                continue
            if node.op_type in ACTIVATIONS and node.input[0] not in found:
                continue
            operands = node.input[:1] if node.op_type in ACTIVATIONS else node.input[:2]
            for name in (*operands, node.output[0]):
                if name not in self.constants:
                    found.setdefault(name, name)
        return found

    def _scales(self, quantized: Iterable[str]) -> None:
        """One value for each group of tensors that share a scale."""
        names = list(quantized)
        value = {name: SMALLEST_SCALE * (1 + i / (4 * len(names))) for i, name in enumerate(names)}
        for members, _ in scale_groups(self.source):
            known = [name for name in members if name in value]
            value.update((name, value[known[0]]) for name in known)
        self.value = value

    def _node(self, node: "onnx.NodeProto", quantized: dict[str, str]) -> None:
        from onnx import helper

        inputs = [self.read_as.get(name, name) for name in node.input]
        if node.op_type in self.scheme.operators and node.op_type not in ACTIVATIONS | KEEP_INPUT_SCALE:
            for position, name in enumerate(node.input):
                tensor = self.constants.get(name)
                if tensor is not None and tensor.data_type == FLOAT:
                    inputs[position] = self._constant(tensor, position, node, quantized)
        copy = helper.make_node(node.op_type, inputs, list(node.output), node.name)
        copy.attribute.extend(node.attribute)
        self.nodes.append(copy)
        name = node.output[0] if node.output else ""
        if name in quantized:
            if name in self.outputs:
                copy.output[0] = f"{name}_QuantizeLinear_Input"
                self._pair(name, copy.output[0], name)
            else:
                self._pair(name, name, f"{name}_DequantizeLinear_Output")

    def _pair(self, name: str, source: str, result: str) -> None:
        """``source`` through quantize and dequantize: whoever reads ``name`` reads ``result``."""
        parameters = [self._number(f"{name}_scale", FLOAT, self.value[name]), self._number(f"{name}_zero_point", INT8)]
        self._call("QuantizeLinear", name, [source, *parameters], f"{name}_QuantizeLinear_Output", self.nodes)
        self._call("DequantizeLinear", name, [f"{name}_QuantizeLinear_Output", *parameters], result, self.nodes)
        self.read_as[name] = result

    def _constant(
        self, tensor: "onnx.TensorProto", position: int, node: "onnx.NodeProto", quantized: dict[str, str]
    ) -> str:
        """A dequantized weight, or a bias in units of the sums."""
        bias = position == 2 and node.op_type in WITH_BIAS
        result = f"{tensor.name}_DequantizeLinear_Output"
        if self.read_as.get(tensor.name) == result:
            return result
        kind, scale = INT8, np.float32(SMALLEST_SCALE)
        if bias:
            kind, scale = INT32, np.float32(self.value.get(node.input[0], 1.0)) * scale
        shape = tuple(tensor.dims)
        data = b"" if is_weight(kind, shape) else bytes(int(np.prod(shape)) * (4 if bias else 1))
        import onnx

        self.weights.append(onnx.TensorProto(
            name=f"{tensor.name}_quantized", data_type=kind, dims=shape, raw_data=data or None))
        parameters = [
            self._number(f"{tensor.name}_scale", FLOAT, float(scale)), self._number(f"{tensor.name}_zero_point", kind)]
        self._call("DequantizeLinear", tensor.name, [f"{tensor.name}_quantized", *parameters], result, self.parameters)
        self.read_as[tensor.name] = result
        return result

    def _call(self, op: str, name: str, inputs: list[str], output: str, nodes: list[Any]) -> None:
        from onnx import helper

        nodes.append(helper.make_node(op, inputs, [output], f"{name}_{op}"))

    def _number(self, name: str, kind: int, value: float = 0) -> str:
        import onnx

        dtype = {FLOAT: np.float32, INT8: np.int8, INT32: np.int32}[kind]
        if name not in self.read_as:
            data = np.asarray(value, dtype).tobytes()
            self.weights.append(onnx.TensorProto(name=name, data_type=kind, raw_data=data))
            self.read_as[name] = name
        return name
