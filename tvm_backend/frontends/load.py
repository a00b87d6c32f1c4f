"""Networks in: ONNX files and protos, torch modules, exported programs and Relax modules become a Model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from archloom.tvm_backend.frontends.source import Shapes, Source
from archloom.tvm_backend.model import Model

if TYPE_CHECKING:
    from archloom.tvm_backend.ir.numbers import Numbers


def load(
    source: Any, *, input_shapes: Shapes | None = None, example_inputs: Sequence[Any] | None = None,
    name: str | None = None, numbers: "Numbers" = "int8",
) -> Model:
    """Import a network: see :class:`~archloom.tvm_backend.frontends.source.Source`.

    ``source`` is the path of an ONNX file or of an exported program (``.pt2``), the name of a network of
    :mod:`archloom.models.catalogue` (``"mobilenet_v2"``), one operator as text (``"gemm(m=4,n=4,k=4)"``), an
    ``onnx.ModelProto``, a ``torch.nn.Module`` (with ``example_inputs``, a tensor or a sequence of tensors),
    a ``torch.export.ExportedProgram`` or a Relax ``IRModule``. ``input_shapes`` gives
    inputs of dynamic shape a static one; ``numbers`` says what an operator or a name becomes a network of. Raises
    :class:`~archloom.oracle.errors.ModelError` with the file and the node.
    """
    return Source.of(source, input_shapes=input_shapes, example_inputs=example_inputs, name=name).load(numbers)
