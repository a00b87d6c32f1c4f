"""Rewriting of ONNX networks, node by node.

What holds for every rewrite of this package and of :mod:`archloom.tvm_backend.quantization`: the network that it is
given stays as it is. It gives another one, or the same where nothing is to be rewritten. Weights may have been left out
(:mod:`.skeleton`); of what is made of them only the shape is known then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton, is_blank, is_weight
from archloom.tvm_backend.ir.conversion import blank

Shape: TypeAlias = tuple[int, ...]
Message = TypeVar("Message", onnx.ModelProto, onnx.NodeProto)
Rule: TypeAlias = "Callable[[onnx.NodeProto, Editor], bool]"
"""Writes what takes the place of a node, True; or writes nothing and leaves the node as it is, False."""
OWN_DOMAINS = ("", "ai.onnx")
MOST_BLANK = 1 << 28
"""Elements of a weight that was left out whose new shape is worked out; larger ones are read."""


def rewrite(model: onnx.ModelProto, rules: Mapping[str, Rule], any_domain: bool = False) -> onnx.ModelProto:
    """The network with each node of an operator in ``rules`` as its rule writes it."""
    if not has_operators(model, rules):
        return model
    editor = Editor(model)
    for node in model.graph.node:
        rule = rules.get(node.op_type) if any_domain or node.domain in OWN_DOMAINS else None
        if rule is None or not rule(node, editor):
            editor.keep(node)
    return editor.done()


def rewriting(*operators: str) -> Callable[[Rule], Callable[[onnx.ModelProto], onnx.ModelProto]]:
    """Makes of a rule the rewrite of a network by it, at all nodes of these operators."""
    return lambda rule: wraps(rule)(lambda model: rewrite(model, dict.fromkeys(operators, rule)))


def has_operators(model: onnx.ModelProto, operators: "Mapping[str, Any] | frozenset[str]") -> bool:
    """Whether any node is of one of these operators."""
    return any(node.op_type in operators for node in model.graph.node)


def within(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and those inside of it, however deep."""
    yield graph
    for node in every_node(graph.node):
        yield from _bodies(node)


def every_node(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph or a function, and those of the graphs inside of it, however deep."""
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting += [body.node for body in _bodies(node)]


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from [attribute.g] * attribute.HasField("g")
        yield from attribute.graphs


def copied(message: Message) -> Message:
    """A network or a node of its own."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's operator set."""
    return next((o.version for o in model.opset_import if o.domain in OWN_DOMAINS), 1)


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with its own functions written out; ModelError where ONNX cannot do it."""
    import onnx.inliner

    if not model.functions:
        return model
    try:
        return skeleton.apart(_with_defaults(model), onnx.inliner.inline_local_functions)
    except RuntimeError as error:
        names = ", ".join(function.name for function in model.functions)
        raise ModelError(f"the network's own functions ({names}) cannot be written out: {error}") from error


def _with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network whose calls of its own functions state all attributes that these have defaults for: ONNX's inliner
    leaves defaults out."""
    defaults = {(f.domain, f.name): f.attribute_proto for f in model.functions if f.attribute_proto}
    if not defaults:
        return model
    copy = copied(model)
    for node in every_node([*copy.graph.node, *(node for f in copy.functions for node in f.node)]):
        given = {a.name for a in node.attribute}
        node.attribute.extend(a for a in defaults.get((node.domain, node.op_type), ()) if a.name not in given)
    return copy


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def with_attributes(node: onnx.NodeProto, without: Sequence[str] = (), **attributes: Any) -> onnx.NodeProto:
    """A copy of a node with some attributes left out and others added."""
    copy = copied(node)
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if a.name not in without and a.name not in attributes)
    copy.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    return copy


def known_shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """Static shapes of tensors by name, as far as the network states or has inferred them."""
    graph = model.graph
    shapes = {i.name: tuple(i.dims) for i in graph.initializer}
    for info in [*graph.input, *graph.value_info, *graph.output]:
        tensor = info.type.tensor_type
        dims = [d.dim_value if d.WhichOneof("value") == "dim_value" else 0 for d in tensor.shape.dim]
        if tensor.HasField("shape") and all(d > 0 for d in dims):
            shapes[info.name] = tuple(dims)
    return shapes


def inputs_of(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """A graph's inputs, but for those that only name its constants."""
    constants = {tensor.name for tensor in graph.initializer}
    return [info for info in graph.input if info.name not in constants]


def read_counts(model: onnx.ModelProto) -> Counter[str]:
    """How often each tensor is read, by nodes and as a result."""
    return Counter([*(name for node in model.graph.node for name in node.input), *(o.name for o in model.graph.output)])


class Editor:
    """The nodes of a rewritten network so far, and the constants that were added."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.graph = model.graph
        self.constants: dict[str, onnx.TensorProto] = {t.name: t for t in model.graph.initializer}
        self._nodes: list[onnx.NodeProto] = []
        self._added: list[onnx.TensorProto] = []
        self._changed = False

    # what is there

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Static shapes of tensors, as the network states them."""
        return known_shapes(self.model)

    @cached_property
    def inferred_model(self) -> onnx.ModelProto:
        """The network with the shapes and types of its tensors, inferred when it is first asked for."""
        return skeleton.inferred(self.model)

    @cached_property
    def infos(self) -> dict[str, onnx.ValueInfoProto]:
        """What is stated and inferred of tensors that are no constants."""
        graph = self.inferred_model.graph
        return {info.name: info for info in (*graph.input, *graph.value_info, *graph.output)}

    @cached_property
    def inferred(self) -> dict[str, Shape]:
        """Static shapes of tensors, as far as they can be inferred."""
        return known_shapes(self.inferred_model)

    def type_of(self, name: str) -> int | None:
        """The type of a tensor's numbers, where it is known."""
        if name in self.constants:
            return int(self.constants[name].data_type)
        return int(self.infos[name].type.tensor_type.elem_type) if name in self.infos else None

    @cached_property
    def version(self) -> int:
        """Of ONNX's operator set."""
        return opset_of(self.model)

    @cached_property
    def dequantized(self) -> dict[str, onnx.NodeProto]:
        """The nodes that dequantize constants, by their results."""
        return {node.output[0]: node for node in self.graph.node
                if node.op_type == "DequantizeLinear" and all(name in self.constants for name in node.input)}

    def constant_shape(self, name: str) -> Shape | None:
        """Shape of a constant, or of a dequantized one."""
        source = self.dequantized[name].input[0] if name in self.dequantized else name
        return tuple(self.constants[source].dims) if source in self.constants else None

    def value(self, name: str) -> np.ndarray:
        """The numbers of a constant; one zero seen in its shape where it was left out."""
        tensor = self.constants[name]
        if is_blank(tensor):
            return blank(tensor.dims, helper.tensor_dtype_to_np_dtype(tensor.data_type))
        return numpy_helper.to_array(tensor)

    # what is written

    def keep(self, node: onnx.NodeProto) -> None:
        """Take a node over."""
        self._nodes.append(node)

    def write(self, node: onnx.NodeProto) -> None:
        """Add a node."""
        self._nodes.append(node)
        self._changed = True

    def node(
        self, operator: str, inputs: Sequence[str], output: str, name: str | None = None, **attributes: Any
    ) -> str:
        """A new node of one result, called as that unless a name is given."""
        self.write(helper.make_node(operator, list(inputs), [output], output if name is None else name, **attributes))
        return output

    def reshaped(self, source: str, output: str, shape: Sequence[int]) -> str:
        """``source`` in another shape."""
        return self.node("Reshape", [source, self.constant(f"{output}.dims", np.array(shape, np.int64))], output)

    def constant(self, name: str, value: Any) -> str:
        """A new constant; without data where the numbers that it was made of were left out."""
        array = np.asarray(value)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        if not any(array.strides) and is_weight(kind, array.shape) and any(
                map(is_blank, self.graph.initializer)):
            return self._blank(name, kind, array.shape)
        self._added.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def changed(self, name: str, label: str, change: Callable[[np.ndarray], np.ndarray]) -> str:
        """A constant, perhaps dequantized, with its values changed; called ``label``."""
        node = self.dequantized.get(name)
        if node is None:
            return self._changed_constant(self.constants[name], label, change)
        copy = copied(node)
        copy.input[0] = self._changed_constant(self.constants[node.input[0]], f"{label}.integers", change)
        copy.output[0] = copy.name = label
        self.write(copy)
        return label

    def done(self) -> onnx.ModelProto:
        """The network of what was written; the one that was given if nothing was."""
        if not self._changed and len(self._nodes) == len(self.graph.node):
            return self.model
        result = copied(self.model)
        del result.graph.node[:]
        result.graph.node.extend(self._nodes)
        result.graph.initializer.extend(self._added)
        return result

    def _changed_constant(
        self, tensor: onnx.TensorProto, label: str, change: Callable[[np.ndarray], np.ndarray]
    ) -> str:
        if not is_blank(tensor):
            return self.constant(label, np.ascontiguousarray(change(self.value(tensor.name))))
        if math.prod(tensor.dims) > MOST_BLANK:
            raise NoSkeleton(f"a weight of shape {'x'.join(map(str, tensor.dims))} that was not read")
        zeros = np.zeros(tuple(tensor.dims), self.value(tensor.name).dtype)
        return self._blank(label, tensor.data_type, change(zeros).shape)

    def _blank(self, name: str, kind: int, shape: Shape) -> str:
        self._added.append(onnx.TensorProto(name=name, data_type=kind, dims=shape))
        return name
