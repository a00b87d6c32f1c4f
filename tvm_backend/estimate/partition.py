"""The partition of a network as estimates read it: no weights are made, read or quantized for it."""

from __future__ import annotations

from dataclasses import replace

from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.compile import partition_among
from archloom.tvm_backend.compiled import Partition
from archloom.tvm_backend.estimate.network import OnnxNetwork, slower
from archloom.tvm_backend.estimate.request import Request, in_floats
from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.ir.numbers import is_quantized
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.sources.source import Source


def partition_of(source: Source, request: Request) -> Partition | Fallback | None:
    """Which operators go where, with the names of the layers that an estimate's report has; the reason for a network
    that has to be read with its weights, None for what is never read without. Errors are those of
    :func:`~archloom.tvm_backend.estimate.network.report_of`."""
    try:
        model = _without_weights(*in_floats(source, request))
        return None if model is None else partition_among(model, request.chosen())
    except (NoSkeleton, Unsupported) as error:
        return slower(error)


def _without_weights(source: Source, request: Request) -> Model | None:
    if source.kind == "onnx" or (request.as_int8 and source.kind not in ("name", "operator")):
        return OnnxNetwork.of(source, request).model()
    if source.kind == "name" and (request.as_int8 or is_quantized(source.numbers_for(request.target))):
        return OnnxNetwork.named(source, replace(request, as_int8=True)).model()
    return source.outlined()
