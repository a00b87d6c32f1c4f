"""Operators of ONNX networks that stand for several: their own functions, and those that TVM 0.27 does not know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import (
    OWN_DOMAINS,
    Shape,
    copied,
    every_node,
    inlined,
    known_shapes,
    opset_of,
    within,
)
from archloom.tvm_backend.frontends.onnx.guard import GROWING

MOST_FOLDED = 1 << 16
"""Elements of the largest constant that is computed."""
KEPT = frozenset({"DequantizeLinear"})
"""Operators that are not computed: weights stay the integers that they are."""
DRAWN = frozenset({"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                   "RandomUniformLike"})
"""Operators whose results are others each time."""
HIDING_PRODUCTS = frozenset({"Attention"})
"""Operators that hide matrix products from onnxruntime's quantizer; TVM 0.27 takes them for those of another domain."""


def without_functions(model: onnx.ModelProto, also: Iterable[str] = ()) -> onnx.ModelProto:
    """The network with its own functions written out, and operators that TVM lacks or that are in ``also``, where ONNX
    defines them by others (``Swish``, ``Celu``, ``RotaryEmbedding``); itself, if there are none."""
    import onnx.inliner

    from archloom.tvm_backend.frontends.onnx import by_tvm

    model = inlined(model)
    version = opset_of(model)
    unknown = {(domain, name) for domain, name, _ in by_tvm.unsupported_onnx_operators(model.graph)}
    unknown |= {(node.domain, node.op_type) for node in model.graph.node if node.op_type in also}
    defined = sorted(key for key in unknown if key[0] in OWN_DOMAINS and _is_function(key[1], version))
    if not defined:
        return model
    try:
        whole = skeleton.apart(_stated(model), partial(
            onnx.inliner.inline_selected_functions, function_ids=defined, inline_schema_functions=True))
    except RuntimeError as error:
        names = ", ".join(name for _, name in defined)
        raise ModelError(f"{names}: ONNX's definition by other operators cannot be written out: {error}") from error
    left = {(node.domain, node.op_type) for node in whole.graph.node}
    if not left.isdisjoint(defined):  # not written out, and never will be: it is refused by name where it is not known
        return with_known_shapes(whole)
    return without_functions(with_known_shapes(whole), also)


def _stated(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that states what definitions of functions depend on: types of constants, attributes' defaults."""
    copy = copied(model)
    stated = {info.name for info in [*copy.graph.input, *copy.graph.value_info]}
    copy.graph.value_info.extend(helper.make_tensor_value_info(t.name, t.data_type, t.dims)
                                 for t in copy.graph.initializer if t.name not in stated)
    version = opset_of(model)
    for node in copy.graph.node:
        if node.domain in OWN_DOMAINS and _is_function(node.op_type, version):
            given = {a.name for a in node.attribute}
            schema = defs.get_schema(node.op_type, version)
            node.attribute.extend(a.default_value for name, a in schema.attributes.items()
                                  if name not in given and a.default_value.type)
    _state_masks(copy)
    return copy


def _state_masks(model: onnx.ModelProto) -> None:
    """Give ``Attention`` that leaves out its mask before keys and values of the past, which definitions cannot be
    written out with, one that masks nothing; in place."""
    without = [node for node in model.graph.node if node.op_type == "Attention" and not node.domain
               and len(node.input) > 4 and node.input[4] and not node.input[3]]
    shapes = known_shapes(skeleton.inferred(model)) if without else {}
    for node in without:
        query, key, past = (shapes.get(node.input[i], ()) for i in (0, 1, 4))
        if not (query and key and past):
            continue
        seen = np.ones((query[-2], past[-2] + key[-2]), np.bool_)
        node.input[3] = f"{node.output[0]}.mask"
        model.graph.initializer.append(numpy_helper.from_array(seen, node.input[3]))
        model.graph.value_info.append(
            onnx.helper.make_tensor_value_info(node.input[3], onnx.TensorProto.BOOL, seen.shape))


def with_known_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Compute what depends on shapes and constants alone: bodies of functions are written for any shape."""
    while True:
        model = skeleton.inferred(model)
        shapes = known_shapes(model)
        values = {t.name: t for t in model.graph.initializer
                  if math.prod(t.dims) <= MOST_FOLDED and not skeleton.is_blank(t)}
        kept: list[onnx.NodeProto] = []
        for node in model.graph.node:
            found: list[np.ndarray] | None = None
            if node.op_type == "Shape" and node.input[0] in shapes:
                asked = {a.name: a.i for a in node.attribute}
                found = [np.array(shapes[node.input[0]][asked.get("start", 0):asked.get("end")], np.int64)]
            elif _is_computed(node, shapes) and all(name in values for name in node.input if name):
                found = by_reference(
                    node, model, {name: numpy_helper.to_array(values[name]) for name in node.input if name})
            if found is None or any(x is None or np.size(x) > MOST_FOLDED for x in found):
                kept.append(node)
                continue
            for name, x in zip(node.output, found, strict=True):
                values[name] = numpy_helper.from_array(np.asarray(x), name)
                model.graph.initializer.append(values[name])
        if len(kept) == len(model.graph.node):
            return without_unread(model)
        del model.graph.node[:]
        model.graph.node.extend(kept)


def by_reference(
    node: onnx.NodeProto, model: onnx.ModelProto, given: Mapping[str, np.ndarray]
) -> list[np.ndarray] | None:
    """Results of one node, as ONNX's reference computes them; None where it does not, and for what are no tensors:
    sequences, which are lists there, and what is left out."""
    from onnx.reference import ReferenceEvaluator

    try:
        found = ReferenceEvaluator(alone(node, model)).run(None, dict(given))
    except Exception:  # whatever its operators raise
        return None
    return None if any(x is None or isinstance(x, list) for x in found) else [np.asarray(x) for x in found]


def _is_computed(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> bool:
    """Whether a node of known operands is computed: it has results, of which none may be large, and no body."""
    if node.op_type in KEPT | DRAWN or not len(node.output) or any(a.HasField("g") for a in node.attribute):
        return False
    return node.op_type not in GROWING or all(
        name in shapes and math.prod(shapes[name]) <= MOST_FOLDED for name in node.output)


def without_unread(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network, in place, without constants that nothing reads."""
    graph = model.graph
    read = {name for node in every_node(graph.node) for name in node.input}
    read |= {output.name for each in within(graph) for output in each.output}
    gone = {t.name for t in graph.initializer} - read
    for field in (graph.initializer, graph.input):  # old networks name their constants among the inputs
        kept = [each for each in field if each.name not in gone]
        del field[:]
        field.extend(kept)
    return model


def alone(node: onnx.NodeProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """A network of one node on tensors of any type."""
    names = list(dict.fromkeys(name for name in node.input if name))
    graph = helper.make_graph([node], "node", [helper.make_empty_tensor_value_info(n) for n in names],
                              [helper.make_empty_tensor_value_info(n) for n in node.output])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _is_function(name: str, version: int) -> bool:
    try:
        schema = defs.get_schema(name, version)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
