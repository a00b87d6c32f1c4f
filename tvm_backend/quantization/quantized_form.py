"""A float ONNX network in the form that quantization would give it, without numbers: for estimates.

Which layers run on an int8 accelerator, and how long they take, follows from where a network is quantized and which
tensors share a scale, not from the scales themselves. So no calibration is needed, and no weight is looked at:
quantize and dequantize stand where :mod:`archloom.tvm_backend.quantization.quantize` puts them, with scales of no
meaning, equal where that makes them equal.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import Editor, copied, has_operators, known_shapes, read_counts
from archloom.tvm_backend.frontends.onnx.functions import DRAWN, with_known_shapes
from archloom.tvm_backend.ir.conversion import blank
from archloom.tvm_backend.quantization import quantize
from archloom.tvm_backend.quantization.scheme import ACTIVATIONS, FLOAT, KEEP_INPUT_SCALE, OPERATORS

WITH_BIAS = frozenset({"Conv", "Gemm"})
SMALLEST_SCALE = 1 / 256
UNKNOWN = 0
"""of ``onnx.TensorProto``, as :data:`FLOAT`"""


def quantized_form(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with int8 quantization around its operators; weights of the result have no data where those of
    ``model`` have none, else numbers of no meaning, which differ."""
    model = _without_factors(_folded(quantize.applied(quantize.BEFORE_FOLDING, model)))
    return _Form(quantize.applied(quantize.AFTER_FOLDING, _with_shapes(model))).model()


def _folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with constants for what follows from constants alone, as onnxruntime computes it before it quantizes;
    the numbers of floats that are made of weights are not known."""
    constants = {tensor.name for tensor in model.graph.initializer}
    if not any(_is_constant(node, constants) for node in model.graph.node):
        return model
    editor = Editor(with_known_shapes(model))
    constants = set(editor.constants)
    for node in editor.graph.node:
        shapes = [editor.inferred.get(name) for name in node.output]
        kinds = [editor.type_of(name) for name in node.output]
        if _is_constant(node, constants) and None not in shapes and skeleton.FLOAT_TYPES.issuperset(kinds):
            for name, shape, kind in zip(node.output, shapes, kinds, strict=True):
                editor.constant(name, blank(shape or (), helper.tensor_dtype_to_np_dtype(kind or FLOAT)))
            constants.update(node.output)
        else:
            editor.keep(node)
    return editor.done()


def _is_constant(node: onnx.NodeProto, constants: Container[str]) -> bool:
    """Whether a node's results are always the same: of constants, and not drawn."""
    return len(node.input) > 0 and node.op_type not in DRAWN and all(name in constants for name in node.input if name)


def _without_factors(model: onnx.ModelProto) -> onnx.ModelProto:
    """Take ``BatchNormalization``, and factors and summands for each channel, into the convolution that only they read,
    as onnxruntime does: where a summand is taken in, the convolution then has a bias."""
    if not has_operators(model, frozenset({"BatchNormalization", "Mul", "Add"})):
        return model
    readers, editor = read_counts(model), Editor(model)
    taken: dict[str, onnx.NodeProto] = {}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        source = next((name for name in node.input if name in taken and readers[name] == 1), None)
        if source is not None and (row := _taken_in(node, source, taken[source], editor)) is not None:
            convolution = taken[node.output[0]] = taken.pop(source)
            convolution.output[0] = node.output[0]
            if node.op_type != "Mul" and len(convolution.input) < 3:
                convolution.input.append(row)
            continue
        if node.op_type == "Conv":
            node = taken[node.output[0]] = copied(node)
        nodes.append(node)
    for node in nodes:
        editor.write(node)
    return editor.done() if len(nodes) < len(model.graph.node) else model


def _taken_in(node: onnx.NodeProto, source: str, convolution: onnx.NodeProto, editor: Editor) -> str | None:
    """A constant of the shape of a bias, where a convolution can do what ``node`` does with its result; else None."""
    if node.op_type == "BatchNormalization":
        return node.input[2]
    weight, other = editor.constant_shape(convolution.input[1]), [name for name in node.input if name != source]
    if node.op_type not in ("Mul", "Add") or weight is None or len(other) != 1 or other[0] not in editor.constants:
        return None
    dims, channels = tuple(editor.constants[other[0]].dims), (weight[0], *[1] * (len(weight) - 2))
    if dims in (channels, (1, *channels)) or (node.op_type == "Mul" and not dims):
        return editor.constant(f"{node.output[0]}.row", np.zeros(weight[:1], np.float32))
    return None


def _with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with shapes of the operands of products and additions, which decide how these are quantized."""
    shapes = known_shapes(model)
    operators = ("MatMul", "Add")
    if all(name in shapes for node in model.graph.node if node.op_type in operators for name in node.input):
        return model
    return skeleton.inferred(model)


class _Form:
    def __init__(self, source: onnx.ModelProto) -> None:
        self.source = source
        self.editor = Editor(source)
        self.constants = self.editor.constants
        self.outputs = {o.name for o in source.graph.output}
        self.in_floats = quantize.float_additions(source)
        graph = source.graph
        self.others = {info.name for info in [*graph.input, *graph.value_info, *graph.output]
                       if info.type.tensor_type.elem_type not in (UNKNOWN, FLOAT)}
        self.nodes: list[onnx.NodeProto] = []
        self.read_as: dict[str, str] = {}
        self.biases = set[str]()
        self.place = {name: number for number, name in enumerate(self.constants)}

    def model(self) -> onnx.ModelProto:
        quantized = self._quantized()
        self._scales(quantized)
        for info in self.source.graph.input:
            if info.name in quantized and info.name not in self.constants:
                self._pair(info.name, info.name, f"{info.name}_DequantizeLinear_Output")
        for node in self.source.graph.node:
            self._node(node, quantized)
        for node in self.nodes:  # behind the weights, as onnxruntime has them
            self.editor.write(node)
        result = self.editor.done()
        graph = result.graph
        used = {name for node in graph.node for name in node.input}
        inputs = [i for i in graph.input if i.name not in self.constants]
        tensors = [t for t in graph.initializer if t.name in used]
        for field, kept in ((graph.input, inputs), (graph.initializer, tensors), (graph.value_info, [])):
            del field[:]
            field.extend(kept)
        return result

    def _is_quantized(self, node: onnx.NodeProto) -> bool:
        return node.op_type in OPERATORS and node.output[0] not in self.in_floats

    def _quantized(self) -> dict[str, str]:
        """The activations that are quantized, each with the tensor whose scale it has."""
        found: dict[str, str] = {}
        for node in self.source.graph.node:
            if not self._is_quantized(node):
                continue
            if node.op_type in KEEP_INPUT_SCALE:
                if node.input[0] in found:
                    found.setdefault(node.output[0], found[node.input[0]])
                continue
            if node.op_type in ACTIVATIONS and node.input[0] not in found:
                continue
            operands = node.input[:1] if node.op_type in ACTIVATIONS else node.input[:2]
            for name in (*operands, node.output[0]):
                if name not in self.constants and name not in self.others:
                    found.setdefault(name, name)
        return found

    def _scales(self, quantized: Iterable[str]) -> None:
        """One value for each group of tensors that share a scale."""
        names = list(quantized)
        value = {name: SMALLEST_SCALE * (1 + i / (4 * len(names))) for i, name in enumerate(names)}
        for members, _ in quantize.scale_groups(self.source):
            known = [name for name in members if name in value]
            value.update((name, value[known[0]]) for name in known)
        self.value = value

    def _node(self, node: onnx.NodeProto, quantized: dict[str, str]) -> None:
        inputs = [self.read_as.get(name, name) for name in node.input]
        if self._is_quantized(node) and node.op_type not in ACTIVATIONS | KEEP_INPUT_SCALE:
            for position, name in enumerate(node.input):
                tensor = self.constants.get(name)
                if tensor is not None and tensor.data_type == FLOAT:
                    inputs[position] = self._constant(tensor, position, node)
        copy = helper.make_node(node.op_type, inputs, list(node.output), node.name)
        copy.attribute.extend(node.attribute)
        self.nodes.append(copy)
        for position, name in enumerate(node.output):
            if name in quantized and name in self.outputs:
                copy.output[position] = f"{name}_QuantizeLinear_Input"
                self._pair(name, copy.output[position], name)
            elif name in quantized:
                self._pair(name, name, f"{name}_DequantizeLinear_Output")

    def _pair(self, name: str, source: str, result: str) -> None:
        """``source`` through quantize and dequantize: whoever reads ``name`` reads ``result``."""
        parameters = [self._number(f"{name}_scale", np.float32(self.value[name])),
                      self._number(f"{name}_zero_point", np.int8(0))]
        self.nodes += [
            self._call("QuantizeLinear", name, [source, *parameters], f"{name}_QuantizeLinear_Output"),
            self._call("DequantizeLinear", name, [f"{name}_QuantizeLinear_Output", *parameters], result)]
        self.read_as[name] = result

    def _constant(self, tensor: onnx.TensorProto, position: int, node: onnx.NodeProto) -> str:
        """A dequantized weight, or a bias in units of the sums: each reader of a bias has other units, and one of its
        own."""
        name, scale = tensor.name, SMALLEST_SCALE
        dtype: np.dtype[Any] = np.dtype(np.int8)
        if position == 2 and node.op_type in WITH_BIAS:
            name = f"{name}.{node.output[0]}" if tensor.name in self.biases else name
            self.biases.add(tensor.name)
            dtype, scale = np.dtype(np.int32), self.value.get(node.input[0], 1.0) * SMALLEST_SCALE
        result = f"{name}_DequantizeLinear_Output"
        if self.read_as.get(name) == result:
            return result
        numbers = self.editor.constant(f"{name}_quantized", self._numbers(tensor, dtype))
        parameters = [self._number(f"{name}_scale", np.float32(scale)),
                      self._number(f"{name}_zero_point", np.zeros((), dtype))]
        self.editor.write(self._call("DequantizeLinear", name, [numbers, *parameters], result))
        self.read_as[name] = result
        return result

    def _numbers(self, tensor: onnx.TensorProto, dtype: np.dtype[Any]) -> np.ndarray:
        """Those of no other weight, lest products of one tensor are taken for the same; of a blank one nothing."""
        if skeleton.is_blank(tensor):
            return blank(tuple(tensor.dims), dtype)
        place = self.place[tensor.name]
        digits = [1 + place % 100, 1 + place // 100 % 100, 1 + place // 10_000 % 100]
        return np.resize(np.array(digits, dtype), tuple(tensor.dims))

    def _call(self, op: str, name: str, inputs: list[str], output: str) -> onnx.NodeProto:
        return helper.make_node(op, inputs, [output], f"{name}_{op}")

    def _number(self, name: str, value: np.generic | np.ndarray) -> str:
        if name not in self.read_as:
            self.read_as[name] = self.editor.constant(name, value)
        return name
