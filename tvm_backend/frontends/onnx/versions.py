"""Networks of old and new operator sets, brought to one that quantizes and has the types that importers know, or to
what the installed onnxruntime takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import onnx
from onnx import TensorProto, helper, version_converter

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import OWN_DOMAINS, copied, every_node, opset_of
from archloom.tvm_backend.frontends.onnx.narrow import widened
from archloom.tvm_backend.frontends.onnx.training import refuse_training

LEAST_OPERATOR_SET = 13
"""Of ONNX: the first that quantizes by channels; older networks are converted."""
UNCONVERTED = (version_converter.ConvertError, onnx.shape_inference.InferenceError, RuntimeError, ValueError)
"""What ONNX raises where it cannot convert a network."""


def renewed(model: onnx.ModelProto, label: str = "network") -> onnx.ModelProto:
    """The network in :data:`LEAST_OPERATOR_SET`, if it is older, and with floats in place of constants of types that
    came later (:func:`~.narrow.widened`).

    ModelError where ONNX cannot convert it, and for training modes, which converting would leave out.
    """
    version, model = opset_of(model), widened(model, label)
    if version >= LEAST_OPERATOR_SET:
        return model
    refuse_training(model, label)
    try:
        return skeleton.apart(model, lambda bare: version_converter.convert_version(bare, LEAST_OPERATOR_SET))
    except UNCONVERTED as error:
        raise ModelError(f"{label}: expected operator set {LEAST_OPERATOR_SET} or newer, found {version}, which cannot "
                         f"be converted: {' '.join(str(error).split())[:300]}") from error


def for_onnxruntime(model: onnx.ModelProto, label: str = "network") -> onnx.ModelProto:
    """The network in versions that the installed onnxruntime takes; itself where it is in such.

    A later IR version brings types and annotations, no other meaning of what was there before: its number is lowered,
    and types that onnxruntime does not have it refuses itself. So is the number of the operator set where none of the
    network's operators has changed since. ModelError that names those that have, where ONNX cannot convert them.
    """
    newest_ir, newest = _newest_ir(), _newest_operator_set()
    if model.ir_version <= newest_ir and opset_of(model) <= newest:
        return model
    changed = sorted(_changed_since(model, newest)) if opset_of(model) > newest else []
    made = _converted(model, newest, changed, label) if changed else copied(model)
    made.ir_version = min(made.ir_version, newest_ir)
    for imported in (made.opset_import, *(function.opset_import for function in made.functions)):
        for own in (o for o in imported if o.domain in OWN_DOMAINS):
            own.version = min(own.version, newest)
    return made


def _changed_since(model: onnx.ModelProto, version: int) -> set[str]:
    """ONNX's operators in a network that are of a later version than ``version``."""
    found = set()
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in every_node(nodes):
            if node.domain in OWN_DOMAINS and onnx.defs.has(node.op_type):
                schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset_of(model), domain="")
                if schema.since_version > version:
                    found.add(str(node.op_type))
    return found


def _converted(model: onnx.ModelProto, version: int, changed: list[str], label: str) -> onnx.ModelProto:
    import onnxruntime

    try:
        return skeleton.apart(model, lambda bare: version_converter.convert_version(bare, version))
    except UNCONVERTED as error:
        raise ModelError(
            f"{label}: {', '.join(changed)} of operator set {opset_of(model)}: onnxruntime {onnxruntime.__version__}, "
            f"the reference, takes operator sets up to {version}, and ONNX cannot convert them: "
            f"{' '.join(str(error).split())[:300]}") from error


@cache
def _newest_ir() -> int:
    """The latest IR version that onnxruntime takes."""
    return _newest(range(onnx.IR_VERSION, 3, -1), lambda version: (version, LEAST_OPERATOR_SET))


@cache
def _newest_operator_set() -> int:
    """The latest operator set of ONNX that onnxruntime takes."""
    return _newest(range(onnx.defs.onnx_opset_version(), LEAST_OPERATOR_SET, -1),
                   lambda version: (_newest_ir(), version))


def _newest(versions: range, of: Callable[[int], tuple[int, int]]) -> int:
    """The first of ``versions``, or the last, of which onnxruntime takes a network of one node: it says it of no other
    way. ``of`` gives IR version and operator set."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "probe", [x], [y])
    for version in versions:
        ir, operators = of(version)
        probe = helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", operators)])
        try:
            onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # onnxruntime's exceptions have no common base
            continue
        return version
    return versions[-1]
