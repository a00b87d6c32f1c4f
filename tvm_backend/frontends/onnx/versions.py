"""Networks of old and new operator sets, brought to one that quantizes and has the types that importers know."""

from __future__ import annotations

import onnx
from onnx import version_converter

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import opset_of
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
