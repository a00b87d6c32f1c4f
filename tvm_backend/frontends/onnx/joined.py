"""Operators that a network writes several times, or in parts, as one.

onnxruntime does so where it folds constants. It is done here instead (:data:`LEFT_OUT`), for networks that are
quantized and for those that are estimated without their weights as if they were: both have the same operators then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from archloom.tvm_backend.frontends.onnx.editor import Editor, copied, every_node, has_operators, read_counts
from archloom.tvm_backend.frontends.onnx.functions import DRAWN

WRONG = ("Pad_Fusion",)
"""Optimizers of onnxruntime that give other results: zeros around an image go into the search of maxima, where they may
be the largest."""
LEFT_OUT = (
    *WRONG,
    "CommonSubexpressionElimination", "ReshapeFusion", "GeluFusionL1", "LayerNormFusionL1",
    "NotWhereFusion", "DivMulFusion", "ConcatSliceElimination", "SliceConcatToSpaceToDepthFusion",
    "CastChainElimination", "ConstantSharing", "TransposeOptimizer",
)
"""Optimizers of onnxruntime that change operators otherwise than estimates do."""
RESHAPING = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten"})
WITH_LAYER_NORM, WITH_GELU = 17, 20
"""Versions of ONNX's operator set."""


def equal_nodes_once(model: onnx.ModelProto) -> onnx.ModelProto:
    """Compute what is the same once: ``a = f(x), b = f(x)`` is ``a = f(x)``, which is read as ``b``, too."""
    editor, first, same = Editor(model), dict[object, onnx.NodeProto](), dict[str, str]()
    kept = {output.name for output in model.graph.output} | _read_within(model)
    for node in model.graph.node:
        if any(name in same for name in node.input):
            node = copied(node)
            node.input[:] = [same.get(name, name) for name in node.input]
        key = _work(node)
        found = first.setdefault(key, node) if key is not None and kept.isdisjoint(node.output) else node
        if found is node:
            editor.write(node)
        else:
            same.update(zip(node.output, found.output, strict=True))
    return editor.done() if same else model


def _read_within(model: onnx.ModelProto) -> set[str]:
    """What bodies of operators read, of whatever network."""
    inner = (attribute.g for node in model.graph.node for attribute in node.attribute if attribute.HasField("g"))
    return {name for body in inner for node in every_node(body.node) for name in node.input}


def _work(node: onnx.NodeProto) -> object | None:
    """Equal for nodes that compute the same; None for one that is computed each time: it draws, or has a body."""
    if node.op_type in DRAWN or any(a.HasField("g") or a.graphs for a in node.attribute):
        return None
    given = sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
    return node.domain, node.op_type, tuple(node.input), tuple(given), tuple(map(bool, node.output))


def reshapes_at_once(model: onnx.ModelProto) -> onnx.ModelProto:
    """Write a chain of new shapes, of which only the last is read, as one, where that is known."""
    if not has_operators(model, RESHAPING):
        return model
    editor, readers = Editor(model), read_counts(model)
    source: dict[str, str] = {}
    for node in model.graph.node:
        name = node.output[0] if node.output else ""
        if node.op_type not in RESHAPING:
            editor.keep(node)
            continue
        before, shape = source.get(node.input[0]), editor.inferred.get(name)
        source[name] = node.input[0] if before is None or shape is None or readers[node.input[0]] > 1 else before
        if source[name] == node.input[0] or shape is None:
            editor.keep(node)
        else:
            dims = editor.constant(f"{name}.at_once", np.array(shape, np.int64))
            editor.node("Reshape", [source[name], dims], name, node.name)
    return without_unread_nodes(editor.done())


def without_unread_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network without nodes whose results nothing reads."""
    read = {output.name for output in model.graph.output} | _read_within(model)
    kept: list[onnx.NodeProto] = []
    for node in reversed(model.graph.node):  # readers come behind what they read
        if not read.isdisjoint(node.output):
            kept.append(node)
            read.update(node.input)
    if len(kept) == len(model.graph.node):
        return model
    editor = Editor(model)
    for node in reversed(kept):
        editor.keep(node)
    return editor.done()


def whole_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Write GELU, ``x / 2 * (1 + erf(x / sqrt(2)))``, and layer norm of the last axis, ``(x - mean) / sqrt(mean((x -
    mean)^2) + e) * gamma + beta``, as the one operator that each of them is, where the operator set has it."""
    if not has_operators(model, frozenset({"Erf", "Sqrt"})):
        return model
    parts = _Parts(model)
    for node in model.graph.node:
        if not parts.gelu(node) and not parts.layer_norm(node):
            parts.editor.keep(node)
    return without_unread_nodes(parts.editor.done())


class _Parts:
    """What tensors are made of, and the network as it is written anew."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.editor = Editor(model)
        self.maker: Mapping[str, onnx.NodeProto] = {name: node for node in model.graph.node for name in node.output}

    def gelu(self, node: onnx.NodeProto) -> bool:
        """Write the product that ``node`` is the end of as GELU, if it is that."""
        if node.op_type != "Mul" or self.editor.version < WITH_GELU:
            return False
        for factor in self._factors(node.output[0], ""):
            wave = self._other(factor, "Add", 1.0)
            inner = None if wave is None else self._operand(wave, "Erf")
            x = None if inner is None else (
                self._other(inner, "Mul", math.sqrt(0.5)) or self._other(inner, "Div", math.sqrt(2)))
            if x is None:
                continue
            factors = self._factors(node.output[0], x)
            numbers = [number for name in factors if (number := self._number(name)) is not None]
            names = sorted(name for name in factors if self._number(name) is None)
            if names == sorted((x, factor)) and math.isclose(math.prod(numbers), 0.5):
                self.editor.node("Gelu", [x], node.output[0], node.name)
                return True
        return False

    def layer_norm(self, node: onnx.NodeProto) -> bool:
        """Write the sum that ``node`` is the end of as a layer norm, if it is that."""
        if node.op_type != "Add" or self.editor.version < WITH_LAYER_NORM:
            return False
        for product, beta in self._with_row(node):
            scaled = self.maker.get(product)
            for normal, gamma in self._with_row(scaled) if scaled is not None and scaled.op_type == "Mul" else ():
                found = self._normal(normal)
                if found is not None:
                    self.editor.node("LayerNormalization", [found[0], gamma, beta], node.output[0], node.name,
                                     axis=-1, epsilon=found[1])
                    return True
        return False

    def _normal(self, name: str) -> tuple[str, float] | None:
        """Of ``(x - mean) / sqrt(mean((x - mean)^2) + e)``: x and e."""
        quotient = self.maker.get(name)
        below = None if quotient is None or quotient.op_type != "Div" else self._operand(quotient.input[1], "Sqrt")
        added = None if below is None else self.maker.get(below)
        if quotient is None or added is None or added.op_type != "Add":
            return None
        centred, difference = quotient.input[0], self.maker.get(quotient.input[0])
        if difference is None or difference.op_type != "Sub":
            return None
        x, mean = difference.input
        for variance, epsilon in (added.input, added.input[::-1]):
            number, square = self._number(epsilon), self._mean_of(variance)
            if number is not None and square is not None and self._is_square(square, centred) and (
                    self._mean_of(mean) == x):
                return x, number
        return None

    def _factors(self, name: str, leaf: str, depth: int = 3) -> list[str]:
        """What a product is of; ``leaf`` is not looked into."""
        node = self.maker.get(name)
        if name == leaf or node is None or node.op_type != "Mul" or not depth:
            return [name]
        return [factor for operand in node.input for factor in self._factors(operand, leaf, depth - 1)]

    def _operand(self, name: str, operator: str) -> str | None:
        """The first operand of the ``operator`` that makes a tensor."""
        node = self.maker.get(name)
        return node.input[0] if node is not None and node.op_type == operator else None

    def _other(self, name: str, operator: str, number: float) -> str | None:
        """The other operand of the ``operator`` that makes a tensor of it and a number."""
        node = self.maker.get(name)
        if node is None or node.op_type != operator:
            return None
        sides = [tuple(node.input)] if operator == "Div" else [tuple(node.input), tuple(node.input)[::-1]]
        for one, other in sides:
            found = self._number(other)
            if found is not None and math.isclose(found, number, rel_tol=1e-5):
                return one
        return None

    def _number(self, name: str) -> float | None:
        """A constant of one number."""
        tensor = self.editor.constants.get(name)
        return None if tensor is None or math.prod(tensor.dims) != 1 else float(self.editor.value(name).reshape(()))

    def _with_row(self, node: onnx.NodeProto) -> Iterator[tuple[str, str]]:
        """An operand and the other one, a constant row of as many numbers as it has columns."""
        for one, row in (node.input, node.input[::-1]):
            shape = self.editor.inferred.get(one)
            if row in self.editor.constants and shape and tuple(self.editor.constants[row].dims) == shape[-1:]:
                yield one, row

    def _mean_of(self, name: str) -> str | None:
        """What a mean of the last axis, which stays, is of."""
        node = self.maker.get(name)
        shape = self.editor.inferred.get(node.input[0]) if node is not None else None
        if node is None or node.op_type != "ReduceMean" or not shape:
            return None
        given = {a.name: a for a in node.attribute}
        if len(node.input) > 1 and node.input[1] in self.editor.constants:
            axes = self.editor.value(node.input[1]).reshape(-1).tolist()
        else:
            axes = list(given["axes"].ints) if "axes" in given else []
        stays = given["keepdims"].i if "keepdims" in given else 1
        return node.input[0] if stays and [axis % len(shape) for axis in axes] == [len(shape) - 1] else None

    def _is_square(self, name: str, of: str) -> bool:
        node = self.maker.get(name)
        if node is None or node.input[0] != of:
            return False
        return (node.op_type == "Mul" and node.input[1] == of) or (
            node.op_type == "Pow" and self._number(node.input[1]) == 2.0)
