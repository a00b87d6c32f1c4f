"""Networks cut into pieces, wherever a single tensor is all that operators hand on to those after them.

A float network that is estimated as if quantized is cut between convolutions; what is not certainly cut without a
change is :class:`Undivided`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from archloom.tvm_backend.ir.conversion import rename
from archloom.tvm_backend.quantization.scheme import ACTIVATIONS, FLOAT, KEEP_INPUT_SCALE, OPERATORS

MAKERS = frozenset({"Conv", "Relu", "Clip", "Add"})
"""Operators behind whose results a network may be cut."""
READERS = frozenset({"Conv", "Add"})
"""Operators that may read the tensor at a cut; one of them is a convolution."""
WEIGHTS = frozenset(OPERATORS) - ACTIVATIONS - KEEP_INPUT_SCALE
"""Operators of whose constants the quantized form only has the shapes."""
GIVEN = "tensor0x"
"""What a segment calls its input."""
NAME = re.compile(r"(step|tensor)(\d+)x(.*)")
"""What operators and tensors are called in a segment: a number, and what TVM adds for parts of an operator."""
_GRAPHS = (5, 10)
"""Attributes of these types hold graphs (``onnx.AttributeProto``)."""

Key = tuple[Any, ...]
Shape = tuple[int, ...]


class Undivided(Exception):
    """Why a network has to be looked at as a whole."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Nodes of a network between two cuts; ``structure`` says what they compute, whatever they are called."""

    nodes: "Sequence[onnx.NodeProto]"
    tensors: Mapping[str, int]
    """The numbers of the tensors that are no constants, from the one that comes in"""
    constants: "Mapping[str, onnx.TensorProto]"
    structure: Key

    @property
    def result(self) -> str:
        """What its result is called in the segment."""
        return f"tensor{len(self.tensors) - 1}x"

    def named(self, name: str) -> str:
        """What is called ``name`` in the segment, in the network; dots join the names of who gives and who reads."""
        return ".".join([self._part(part) for part in name.split(".")])

    def _part(self, name: str) -> str:
        found = NAME.fullmatch(name)
        if found is None:
            return name
        number = int(found[2])
        own = self.nodes[number].name if found[1] == "step" else list(self.tensors)[number]
        return (rename(own) + found[3] if found[1] == "step" else rename(own + found[3])).replace(".", "_")


def input_shape(proto: "onnx.ModelProto") -> Shape:
    return tuple(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim)


def pieces_of(proto: "onnx.ModelProto") -> list[Piece]:
    """The network cut wherever it can be; Undivided for one of a form that is not cut."""
    graph = proto.graph
    constants = {t.name: t for t in graph.initializer}
    if len(graph.input) != 1 or len(graph.output) != 1 or graph.input[0].name in constants:
        raise Undivided("it has several inputs or results")
    kind = graph.input[0].type.tensor_type
    if kind.elem_type != FLOAT or len(kind.shape.dim) != 4 or min(input_shape(proto)) < 1:
        raise Undivided("its input is no image of floats of known size")
    nodes = [_Read.of(node) for node in graph.node]
    _refuse_irregular(nodes, graph, constants)
    last = {name: i for i, node in enumerate(nodes) for name in node.inputs}
    last[graph.output[0].name] = len(nodes)
    readers: dict[str, list[_Read]] = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    pieces: list[Piece] = []
    live: set[str] = {graph.input[0].name}
    source, first = graph.input[0].name, 0
    for i, node in enumerate(nodes):
        live.update(node.outputs)
        live.difference_update([name for name in (*node.inputs, *node.outputs) if last.get(name, i) <= i])
        name = node.outputs[0]
        if live == {name} and node.op in MAKERS and _is_cut(name, readers.get(name, ())):
            pieces.append(_piece(nodes[first:i + 1], source, constants))
            source, first = name, i + 1
    return [*pieces, _piece(nodes[first:], source, constants)]


@dataclass(frozen=True, eq=False)
class _Read:
    """What a node says, read once: fields of protocol buffers are slow."""

    proto: "onnx.NodeProto"
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[bytes, ...]

    @staticmethod
    def of(node: "onnx.NodeProto") -> "_Read":
        return _Read(node, node.op_type, tuple(node.input), tuple(node.output),
                     tuple([a.SerializeToString(deterministic=True) for a in node.attribute]))


def _is_cut(name: str, readers: "Sequence[_Read]") -> bool:
    ops = {node.op for node in readers}
    return "Conv" in ops and ops <= READERS and all(
        node.op != "Conv" or (node.inputs[0] == name and name not in node.inputs[1:]) for node in readers)


def _refuse_irregular(nodes: "Sequence[_Read]", graph: "onnx.GraphProto", constants: Mapping[str, Any]) -> None:
    """Undivided unless operators stand in order, under names that stay as they are, and share no weights."""
    defined = {graph.input[0].name, *constants}
    known = {info.name: tuple(d.dim_value for d in info.type.tensor_type.shape.dim) for info in graph.value_info}
    weights: set[str] = set()
    names = set[str]()
    tensors = {rename(name).replace(".", "_") for name in defined}
    for node in nodes:
        if node.proto.domain not in ("", "ai.onnx") or not node.proto.name or not node.outputs:
            raise Undivided(f"operator {node.op} has no name, no result, or is not of ONNX's own")
        if any(a.type in _GRAPHS for a in node.proto.attribute):
            raise Undivided(f"node {node.proto.name!r} has a graph inside")
        given = [name for name in node.inputs if name]
        if any(name not in defined for name in given) or any(not o or o in defined for o in node.outputs):
            raise Undivided(f"node {node.proto.name!r} reads what is not there yet, or writes what is")
        defined.update(node.outputs)
        if node.op in WEIGHTS:
            own = [name for name in given if name in constants]
            if len({*own}) < len(own) or not weights.isdisjoint(own):
                raise Undivided(f"node {node.proto.name!r} shares a weight")
            weights.update(own)
            if node.op == "Add" and (own or len({known.get(name) for name in given}) > 1):
                raise Undivided(f"node {node.proto.name!r} adds no two tensors of one known shape")
        else:
            weights.update(name for name in given if name in constants and constants[name].data_type == FLOAT
                           and node.op not in ACTIVATIONS)
        names.add(rename(node.proto.name).replace(".", "_"))
        tensors.update(rename(name).replace(".", "_") for name in node.outputs)
    # TVM's importer numbers equal names, and what a name of its own ends with is read by it
    if len(names) < len(nodes) or len(tensors) < len(defined) or any(name.endswith("Linear") for name in names):
        raise Undivided("its operators or tensors are not called apart")


def _piece(nodes: "Sequence[_Read]", source: str, constants: Mapping[str, Any]) -> Piece:
    tensors = {source: 0}
    own: dict[str, int] = {}
    structure: list[Key] = []
    for node in nodes:
        operands: list[Any] = []
        for position, name in enumerate(node.inputs):
            tensor = constants.get(name)
            if tensor is None:
                operands.append(tensors[name] if name else None)
                continue
            kind = tensor.data_type
            operands.append((
                own.setdefault(name, len(own)), kind, tuple(tensor.dims),
                b"" if node.op in WEIGHTS and kind == FLOAT else _content(tensor), position))
        for name in node.outputs:
            tensors[name] = len(tensors)
        structure.append((node.op, tuple(operands), len(node.outputs), node.attributes))
    return Piece([node.proto for node in nodes], tensors, {name: constants[name] for name in own}, tuple(structure))


def _content(tensor: "onnx.TensorProto") -> bytes:
    if tensor.raw_data:
        return bytes(tensor.raw_data)
    return b"\0" + tensor.SerializeToString(deterministic=True)  # with its name: shared only by the network's own
