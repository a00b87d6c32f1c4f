"""Networks that are trained when they run: refused, as they are compiled to be asked.

Normalization takes the statistics of its batch then, and dropout draws which numbers it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx
from onnx import numpy_helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.editor import OWN_DOMAINS, attributes_of, every_node, inlined, opset_of, within

Constants = Mapping[str, onnx.TensorProto]


def refuse_training(proto: onnx.ModelProto, label: str) -> None:
    """ModelError for a node in training mode, in the network's inner graphs, too, and in its functions as they are
    called: modes may be their attributes and operands."""
    proto = inlined(proto)
    version, nodes = opset_of(proto), list(every_node(proto.graph.node))
    if not any(node.op_type in MODES for node in nodes):
        return
    constants = {tensor.name: tensor for graph in within(proto.graph) for tensor in graph.initializer}
    constants |= {node.output[0]: a.t for node in nodes if node.op_type == "Constant" for a in node.attribute}
    for node in nodes:
        mode = MODES.get(node.op_type) if node.domain in OWN_DOMAINS else None
        if mode is not None and (why := mode(node, version, constants)):
            raise ModelError(f"{label}: node {node.name or node.output[0]!r} ({node.op_type}): expected a network for "
                             f"inference, found training mode ({why}): export it in evaluation mode")


def _normalization(node: onnx.NodeProto, version: int, constants: Constants) -> str:
    """Since operator set 14 an attribute says it, from 7 on statistics that are results, before that a test mode."""
    given = attributes_of(node)
    if version >= 14:
        return "training_mode=1" if given.get("training_mode", 0) else ""
    if version >= 7:
        return "it gives statistics" if any(node.output[1:]) else ""
    return "" if given.get("is_test", 0) else "is_test=0"


def _dropout(node: onnx.NodeProto, version: int, constants: Constants) -> str:
    """Since operator set 12 an input says it, before 7 a test mode; between them it is for inference only."""
    if version < 7:
        return "" if attributes_of(node).get("is_test", 0) else "is_test=0"
    if version < 12 or len(node.input) < 3 or not node.input[2]:
        return ""
    stated = constants.get(node.input[2])
    if stated is None:
        return f"{node.input[2]!r} is computed"
    return f"{node.input[2]!r} is true" if numpy_helper.to_array(stated).any() else ""


MODES: Mapping[str, Callable[[onnx.NodeProto, int, Constants], str]] = {
    "BatchNormalization": _normalization, "Dropout": _dropout}
"""By operator, why a node is in training mode; empty where it is not."""
