"""Control flow of ONNX networks (``If``, ``Loop``, ``Scan``), written out where it follows from constants and shapes.

What is known is found while nodes are written, in their order: types of results, and the values of small ones whose
operands are known. A branch takes the place of its ``If``; the iterations of a ``Loop`` or a ``Scan`` come one after
the other, each with its number as a constant. What depends on the network's inputs is refused by name: accelerators
here run one program, whatever the data are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.editor import OWN_DOMAINS, attributes_of, copied, every_node, inlined, opset_of
from archloom.tvm_backend.frontends.onnx.functions import DRAWN, by_reference, without_unread
from archloom.tvm_backend.frontends.onnx.guard import MAX_FRAMES, MAX_NODES
from archloom.tvm_backend.frontends.onnx.skeleton import is_blank

MOST_KNOWN = 1 << 10
"""Elements of the largest tensor whose values are followed: conditions and shapes have few."""
TAKEN = "only control flow that follows from constants and shapes can be compiled"

Names: TypeAlias = dict[str, str]
"""What tensors of a graph are called in the network that is written."""


def straight(model: onnx.ModelProto, label: str = "network") -> onnx.ModelProto:
    """The network without control flow; itself where it has none. ModelError where that depends on its inputs."""
    everywhere = every_node([*model.graph.node, *(node for function in model.functions for node in function.node)])
    if not any(_is_control(node) for node in everywhere):
        return model
    return _Writer(inlined(model), label).done()


class _Writer:
    """The nodes of the network so far, and what is known of their results."""

    def __init__(self, model: onnx.ModelProto, label: str) -> None:
        self.model, self.label = model, label
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.makers: dict[str, onnx.NodeProto] = {}
        self.values: dict[str, np.ndarray] = {}
        graph = model.graph
        self.types: dict[str, onnx.TypeProto] = {info.name: info.type for info in (*graph.value_info, *graph.input)}
        self.taken = {*(info.name for info in graph.input), *(name for node in graph.node for name in node.output)}
        self.titles = {node.name for node in graph.node}
        for tensor in graph.initializer:
            self._know(tensor)

    def done(self) -> onnx.ModelProto:
        names: Names = {}
        for node in self.model.graph.node:
            self.take(node, names, None)
        made = [names.get(output.name, output.name) for output in self.model.graph.output]
        result = copied(self.model)
        del result.graph.node[:]
        result.graph.initializer.extend(self.constants)
        result.graph.node.extend(self._called(made, [output.name for output in result.graph.output]))
        return without_unread(result)

    def _called(self, made: Sequence[str], outputs: Sequence[str]) -> Iterator[onnx.NodeProto]:
        """The nodes that results ``made`` depend on, which become the network's ``outputs``."""
        called: Names = {}
        copies = []
        for name, output in zip(made, outputs):
            if name in self.makers and name not in called:
                called[name] = output
            elif name != output:
                copies.append(helper.make_node("Identity", [called.get(name, name)], [output], output))
        for node in _needed(self.nodes, made):
            node = _renamed(node, called)
            node.output[:] = [called.get(name, name) for name in node.output]
            yield node
        yield from copies

    # --- what is written ----------------------------------------------------------------------------------------------
    def take(self, node: onnx.NodeProto, names: Names, prefix: str | None) -> None:
        """Write a node, or what it stands for. Names of nodes in bodies get a ``prefix``, those of the network, for
        which it is None, are kept."""
        given, node = list(node.output), _renamed(node, names)
        if prefix is not None and node.name:
            node.name = _fresh(prefix + node.name, self.titles)
        if _is_control(node):
            node.name = node.name or (prefix or "") + next(filter(None, given), "")
            made = WAYS[node.op_type](self, node)
        else:
            made = given if prefix is None else [name and _fresh(prefix + name, self.taken) for name in given]
            node.output[:] = made
            self._write(node)
        names.update((name, result) for name, result in zip(given, made) if name)

    def body(self, graph: onnx.GraphProto, names: Names, prefix: str) -> list[str]:
        """Write a body whose inputs and constants have ``names``; what its outputs are called."""
        names = dict(names)
        for node in graph.node:
            self.take(node, names, prefix)
        return [names.get(output.name, output.name) for output in graph.output]

    def constants_of(self, graph: onnx.GraphProto, prefix: str) -> Names:
        """Make those of a body constants of the network, once for all iterations."""
        return {tensor.name: self._constant(tensor, prefix + tensor.name) for tensor in graph.initializer}

    def number(self, value: int | bool, name: str) -> str:
        """A constant without axes."""
        return self._constant(numpy_helper.from_array(np.array(value)), name)

    def stacked(self, parts: Sequence[str], axis: int, output: str) -> str:
        """The results of all iterations along a new axis."""
        rows = [self._node("Unsqueeze", [part], f"{output}.{i}", axes=[axis]) for i, part in enumerate(parts)]
        return self._node("Concat", rows, f"{output}.all", axis=axis)

    def slice_of(self, source: str, axis: int, at: int, name: str) -> str:
        """One of the tensors that lie along an axis."""
        return self._node("Gather", [source, self.number(at, f"{name}.at")], name, axis=axis)

    def _node(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        name, inputs = _fresh(name, self.taken), list(inputs)
        if operator == "Unsqueeze" and opset_of(self.model) >= 13:  # since then axes are an operand
            axes = numpy_helper.from_array(np.array(attributes.pop("axes")))
            inputs.append(self._constant(axes, f"{name}.axes"))
        self._write(helper.make_node(operator, inputs, [name], _fresh(name, self.titles), **attributes))
        return name

    def _constant(self, tensor: onnx.TensorProto, name: str) -> str:
        tensor = _called(tensor, _fresh(name, self.taken))
        self.constants.append(tensor)
        self._know(tensor)
        return tensor.name

    def _write(self, node: onnx.NodeProto) -> None:
        if len(self.nodes) >= MAX_NODES:
            raise ModelError(f"{self.label}: expected at most {MAX_NODES} operators, found more when loops are written "
                             "out")
        self.nodes.append(node)
        self.makers.update((name, node) for name in node.output if name)
        self._follow(node)

    # --- what is known ------------------------------------------------------------------------------------------------
    def known(self, name: str, node: onnx.NodeProto, what: str) -> np.ndarray:
        """The value of what a ``node`` is controlled by; ModelError where it depends on the network's inputs."""
        if name in self.values:
            return self.values[name]
        raise ModelError(f"{self.label}: node {node.name!r} ({node.op_type}): {what} ({name!r}) depends on "
                         f"{self._origin(name)}; {TAKEN}")

    def extent(self, name: str, axis: int, node: onnx.NodeProto) -> int:
        shape = _shape(self.types.get(name))
        if shape is None or not -len(shape) <= axis < len(shape):
            raise ModelError(f"{self.label}: node {node.name!r} ({node.op_type}): the shape of {name!r}, whose axis "
                             f"{axis} says how many iterations there are, is not known; {TAKEN}")
        return shape[axis]

    def _origin(self, name: str) -> str:
        """An input of the network, or an operator, from which a value comes that is not known."""
        while (node := self.makers.get(name)) is not None:
            unknown = [n for n in node.input if n and n not in self.values]
            if not unknown:
                return f"node {node.name or node.output[0]!r} ({node.op_type})"
            name = unknown[0]
        return f"input {name!r}" if any(i.name == name for i in self.model.graph.input) else f"constant {name!r}"

    def _know(self, tensor: onnx.TensorProto) -> None:
        self.taken.add(tensor.name)
        self.types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        if math.prod(tensor.dims) <= MOST_KNOWN and not is_blank(tensor) and not tensor.external_data:
            self.values[tensor.name] = numpy_helper.to_array(tensor)

    def _follow(self, node: onnx.NodeProto) -> None:
        """Find types and values of a node's results, as far as these are known."""
        self.types.update(self._inferred(node))
        shapes = [_shape(self.types.get(name)) for name in node.output]
        if any(shape is None or math.prod(shape) > MOST_KNOWN for shape in shapes):
            return
        if node.op_type in ("Shape", "Size") and (whole := _shape(self.types.get(node.input[0]))) is not None:
            given = {a.name: a.i for a in node.attribute}
            part = whole[given.get("start", 0):given.get("end")]
            self.values[node.output[0]] = np.array(part if node.op_type == "Shape" else math.prod(whole), np.int64)
        elif all(name in self.values for name in node.input if name) and node.op_type not in DRAWN:
            self._compute(node)

    def _inferred(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        types = {name: self.types[name] for name in node.input if name in self.types}
        values = {name: numpy_helper.from_array(self.values[name]) for name in node.input if name in self.values}
        try:
            schema = defs.get_schema(node.op_type, opset_of(self.model), node.domain)
            return dict(onnx.shape_inference.infer_node_outputs(
                schema, node, types, values, opset_imports=list(self.model.opset_import),
                ir_version=self.model.ir_version))
        except (defs.SchemaError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError,
                LookupError, ValueError):
            return {}  # what the network states is known

    def _compute(self, node: onnx.NodeProto) -> None:
        found = by_reference(node, self.model, {name: self.values[name] for name in node.input if name})
        if found is not None:
            self.values.update((name, x) for name, x in zip(node.output, found) if name)


# control flow ---------------------------------------------------------------------------------------------------------


def _if(writer: _Writer, node: onnx.NodeProto) -> list[str]:
    condition = writer.known(node.input[0], node, "its condition")
    graph = attributes_of(node)["then_branch" if condition.any() else "else_branch"]
    return writer.body(graph, writer.constants_of(graph, ""), "")


def _loop(writer: _Writer, node: onnx.NodeProto) -> list[str]:
    graph, (limit, condition, *states) = attributes_of(node)["body"], [*node.input, "", ""][:max(2, len(node.input))]
    most = int(writer.known(limit, node, "its number of iterations").max()) if limit else MAX_FRAMES + 1
    goes_on = not condition or bool(writer.known(condition, node, "its condition").all())
    constants, held = writer.constants_of(graph, f"{node.name}."), len(states)
    rows: list[list[str]] = [[] for _ in graph.output[1 + held:]]
    index, true, *given = [info.name for info in graph.input]
    for i in range(most):
        if not goes_on:
            break
        _refuse_many(writer, node, i)
        prefix = f"{node.name}.{i}."
        names = {**constants, index: writer.number(i, prefix + index), true: writer.number(True, prefix + true),
                 **dict(zip(given, states))}
        condition, *found = writer.body(graph, names, prefix)
        goes_on = bool(writer.known(condition, node, f"its condition after iteration {i}").all())
        states = found[:held]
        for row, part in zip(rows, found[held:]):
            row.append(part)
    return [*states, *_stacked(writer, node, held, rows, [0] * len(rows))]


def _scan(writer: _Writer, node: onnx.NodeProto) -> list[str]:
    if opset_of(writer.model) < 9:
        raise ModelError(f"{writer.label}: node {node.name!r} (Scan): expected the form of operator set 9 and "
                         f"later, found that of {opset_of(writer.model)}")
    attributes = attributes_of(node)
    graph, count = attributes["body"], attributes["num_scan_inputs"]
    held = len(node.input) - count
    states, sources = list(node.input[:held]), node.input[held:]
    axes = attributes.get("scan_input_axes", [0] * count)
    backwards = attributes.get("scan_input_directions", [0] * count)
    outputs = len(graph.output) - held
    constants, given = writer.constants_of(graph, f"{node.name}."), [info.name for info in graph.input]
    rows: list[list[str]] = [[] for _ in range(outputs)]
    most = writer.extent(sources[0], axes[0], node)
    for i in range(most):
        _refuse_many(writer, node, i)
        prefix = f"{node.name}.{i}."
        parts = [writer.slice_of(source, axis, most - 1 - i if back else i, prefix + name) for source, axis, back, name
                 in zip(sources, axes, backwards, given[held:])]
        found = writer.body(graph, {**constants, **dict(zip(given, [*states, *parts]))}, prefix)
        states = found[:held]
        for row, part in zip(rows, found[held:]):
            row.append(part)
    for row, back in zip(rows, attributes.get("scan_output_directions", [0] * outputs)):
        row[:] = row[::-1] if back else row
    return [*states, *_stacked(writer, node, held, rows, attributes.get("scan_output_axes", [0] * outputs))]


WAYS: Mapping[str, Callable[[_Writer, onnx.NodeProto], list[str]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""How each is written out; what its results are called then."""


def _is_control(node: onnx.NodeProto) -> bool:
    return node.op_type in WAYS and node.domain in OWN_DOMAINS


def _refuse_many(writer: _Writer, node: onnx.NodeProto, number: int) -> None:
    if number >= MAX_FRAMES:
        raise ModelError(f"{writer.label}: node {node.name!r} ({node.op_type}): expected at most {MAX_FRAMES} "
                         "iterations, which are written out, found more")


def _stacked(
    writer: _Writer, node: onnx.NodeProto, held: int, rows: Sequence[Sequence[str]], axes: Sequence[int]
) -> list[str]:
    """What iterations give, one after the other along an axis; "" for what nobody reads."""
    made = []
    for output, row, axis in zip([*node.output, *[""] * len(rows)][held:], rows, axes):
        if output and not row:
            raise ModelError(f"{writer.label}: node {node.name!r} ({node.op_type}): expected an iteration that gives a "
                             f"part of {output!r}, found none")
        made.append(writer.stacked(row, axis, output) if output else "")
    return made


# nodes and names ------------------------------------------------------------------------------------------------------


def _fresh(name: str, taken: set[str]) -> str:
    """A name that is not taken yet, and is from now on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy whose operands have other names, in the bodies of a node, too."""
    copy = copied(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            _rename_within(attribute.g, names)
    return copy


def _rename_within(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename what a body reads of what is around it, in place."""
    own = {*(i.name for i in graph.input), *(t.name for t in graph.initializer), *(
        name for node in graph.node for name in node.output)}
    outer = {name: new for name, new in names.items() if name not in own}
    nodes = [_renamed(node, outer) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for output in graph.output:
        output.name = outer.get(output.name, output.name)


def _needed(nodes: Sequence[onnx.NodeProto], results: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that results depend on, in their order."""
    read, found = set(results), []
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            read.update(name for inner in every_node([node]) for name in inner.input)
            found.append(node)
    return found[::-1]


def _called(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


def _shape(kind: onnx.TypeProto | None) -> tuple[int, ...] | None:
    """A tensor's shape, if all of it is known."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.WhichOneof("value") == "dim_value" for d in dims) else None
