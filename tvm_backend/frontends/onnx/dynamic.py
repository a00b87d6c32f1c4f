"""Open dimensions of ONNX networks."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.dynamic.extents import Extent, OpenInput, OpenShapes, symbols_of
from archloom.tvm_backend.frontends.onnx.editor import inputs_of


def open_shapes(proto: onnx.ModelProto, label: str) -> OpenShapes:
    """The inputs with the names that the network gives its open dimensions; a nameless one is ``INPUT.AXIS``.

    A sum of names that also stand alone (``past + 1`` beside ``past``) is one; any other text is a name as a whole.
    ModelError for inputs that are no tensors, or of which not even the number of dimensions is known.
    """
    infos = inputs_of(proto.graph)
    for info in infos:
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            raise ModelError(f"{label}: input {info.name!r}: expected a tensor, found {kind}")
        if not info.type.tensor_type.HasField("shape"):
            raise ModelError(f"{label}: input {info.name!r} has no shape; expected one whose number of dimensions is "
                             "known: give it with input_shapes")
    alone = {dim.dim_param for info in infos for dim in info.type.tensor_type.shape.dim}
    inputs = []
    for info in infos:
        kind = info.type.tensor_type
        dims = tuple(dim.dim_value if dim.dim_value > 0 else _extent(dim.dim_param or f"{info.name}.{axis}", alone)
                     for axis, dim in enumerate(kind.shape.dim))
        inputs.append(OpenInput(info.name, dtype_of(kind.elem_type, f"{label}: input {info.name!r}"), dims))
    return OpenShapes(label, tuple(inputs), symbols_of(inputs))


def dtype_of(number: int, where: str) -> str:
    """The NumPy name of an element type by its number; ModelError naming ``where`` for a number that is none."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number)).name
    except KeyError as error:
        raise ModelError(f"{where}: expected an element type of ONNX, found {number}") from error


def _extent(text: str, alone: set[str]) -> Extent:
    try:
        extent = Extent.parse(text)
    except ValueError:
        return Extent.symbol(text)
    return extent if isinstance(extent, Extent) and set(extent.names) <= alone else Extent.symbol(text)
