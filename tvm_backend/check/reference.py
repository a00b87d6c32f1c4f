"""onnxruntime as the reference of a network: in integers for QDQ networks, in floats otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from archloom.oracle.errors import ModelError


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
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ModelError(f"onnxruntime cannot run the network: {error}") from error


def run(session: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All outputs by name; :class:`ModelError` where a kernel of onnxruntime refuses the network."""
    names: Sequence[str] = [output.name for output in session.get_outputs()]
    try:
        results = session.run(None, dict(inputs))
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ModelError(f"onnxruntime cannot run the network: {error}") from error
    return dict(zip(names, results, strict=True))
