"""onnxruntime as the reference of a network: in integers for QDQ networks, in floats otherwise, which are float32 where
the network has bfloat16, of which onnxruntime has no operators. Constants of types that it does not have are the floats
that ONNX's reference makes of them (:mod:`archloom.tvm_backend.frontends.onnx.narrow`, as for the import)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.joined import WRONG
from archloom.tvm_backend.frontends.onnx.versions import for_onnxruntime

TYPES = frozenset({"to", "dtype", "output_dtype"})
"""Attributes that are types of elements."""

FOREIGN = frozenset({23, 27, 28})
"""Types that onnxruntime has no kernels of: FLOAT4E2M1, FLOAT6E2M3, FLOAT6E3M2."""


def has_foreign(model: "onnx.ModelProto") -> bool:
    """Whether any constant of the network has a type that onnxruntime does not have."""
    return any(kept.data_type in FOREIGN for kept in _constants(model))


def known(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The network with floats in place of such constants; itself where there are none."""
    if not has_foreign(model):
        return model
    from archloom.tvm_backend.frontends.onnx.narrow import widened

    return widened(model, "reference")


def has_bfloat16(model: "onnx.ModelProto") -> bool:
    """Whether any tensor of the network is declared, or made, as bfloat16."""
    return any(kept.data_type == TensorProto.BFLOAT16 for kept in _constants(model)) or any(
        shown.type.tensor_type.elem_type == TensorProto.BFLOAT16 for graph in _graphs(model.graph) for shown in (
            *graph.input, *graph.output, *graph.value_info)) or any(
        a.i == TensorProto.BFLOAT16 for graph in _graphs(model.graph) for node in graph.node for a in node.attribute
        if a.name in TYPES)


def in_float32(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The network with float32 in place of bfloat16, nothing rounded on the way; itself where it has none."""
    if not has_bfloat16(model):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for kept in _constants(made):
        if kept.data_type == TensorProto.BFLOAT16:
            kept.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(kept).astype(np.float32), kept.name))
    for graph in _graphs(made.graph):
        for shown in (*graph.input, *graph.output, *graph.value_info):
            if shown.type.tensor_type.elem_type == TensorProto.BFLOAT16:
                shown.type.tensor_type.elem_type = TensorProto.FLOAT
        for attribute in (a for node in graph.node for a in node.attribute):
            if attribute.name in TYPES and attribute.i == TensorProto.BFLOAT16:
                attribute.i = TensorProto.FLOAT
    return made


def _graphs(graph: "onnx.GraphProto") -> "Iterator[onnx.GraphProto]":
    """A graph and those within its nodes."""
    yield graph
    for attribute in (a for node in graph.node for a in node.attribute):
        for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield from _graphs(inner)


def _constants(model: "onnx.ModelProto") -> "Iterator[onnx.TensorProto]":
    for graph in _graphs(model.graph):
        yield from graph.initializer
        yield from (a.t for node in graph.node for a in node.attribute if a.HasField("t"))


def integer_session(model: "onnx.ModelProto", threads: int = 0, *, fused: bool = True) -> Any:
    """An onnxruntime session that runs the QDQ pieces of ``model`` with its integer kernels.

    onnxruntime computes convolutions of int8 activations in float on x86, unless ``session.qdqisint8allowed`` is set.
    Without ``fused`` it computes each operator as it is written: its fused kernels for softmax, sigmoid and others
    round in places where the network does not.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    model = for_onnxruntime(in_float32(known(model)), "reference")
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=[*WRONG])
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ModelError(f"onnxruntime cannot run the network: {error}") from error


def run(session: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All outputs by name; :class:`ModelError` where a kernel of onnxruntime refuses the network."""
    names: Sequence[str] = [output.name for output in session.get_outputs()]
    try:
        results = session.run(None, {
            name: np.asarray(a, np.float32) if str(a.dtype) == "bfloat16" else a for name, a in inputs.items()})
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ModelError(f"onnxruntime cannot run the network: {error}") from error
    return dict(zip(names, results, strict=True))
