"""``--calibrate``: quantize a float network before it is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from archloom.oracle.errors import InputError
from archloom.tvm_backend import datasets, samples
from archloom.tvm_backend.compiled import TensorSpec

if TYPE_CHECKING:
    import onnx

    from archloom.tvm_backend.quantization.scheme import Scheme

_RANDOM_SAMPLES, _DATA_SET_SAMPLES = 8, 128


def quantized(
    path: Path, input_shapes: dict[str, tuple[int, ...]], spec: str, scheme: "Scheme"
) -> "tuple[onnx.ModelProto, onnx.ModelProto]":
    """The float network in ``path`` as int8 QDQ, and as it is.

    ``spec`` says what it is calibrated with: an array file, a data set (``digits[:N]``) or ``random[:N]``.
    """
    from archloom.tvm_backend.frontends.onnx.files import read_onnx
    from archloom.tvm_backend.frontends.onnx.load import with_static_inputs
    from archloom.tvm_backend.quantization.quantize import quantize

    proto = with_static_inputs(read_onnx(path), str(path), input_shapes)
    return quantize(proto, _batches(_inputs(proto), spec), scheme), proto


def _batches(inputs: list[TensorSpec], spec: str) -> list[samples.Batch]:
    word, colon, number = spec.partition(":")
    if (word != "random" and not datasets.is_named(word)) or Path(spec).exists():
        return samples.batches(samples.read(Path(spec), inputs), inputs, spec)
    if colon and not (number.isascii() and number.isdecimal() and int(number)):
        raise InputError(f"--calibrate {spec!r}: expected {word}:N with N at least 1")
    if word == "random":
        return samples.random(inputs, int(number or _RANDOM_SAMPLES))
    return samples.batches(datasets.training(word, inputs, int(number or _DATA_SET_SAMPLES)).inputs, inputs, spec)


def _inputs(proto: "onnx.ModelProto") -> list[TensorSpec]:
    from onnx import helper

    from archloom.tvm_backend.frontends.onnx.editor import inputs_of

    kinds = {info.name: info.type.tensor_type for info in inputs_of(proto.graph)}
    return [TensorSpec(name, tuple(d.dim_value for d in kind.shape.dim),
                       np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)).name) for name, kind in kinds.items()]
