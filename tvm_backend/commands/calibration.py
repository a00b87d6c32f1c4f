"""``--calibrate``: quantize a float network before it is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.errors import InputError, suggest
from tvm_backend.files import read_arrays

if TYPE_CHECKING:
    import onnx

Shapes = dict[str, tuple[int, ...]]
_RANDOM_SAMPLES = 8


def quantized(path: Path, input_shapes: Shapes, spec: str) -> "onnx.ModelProto":
    """The float network in ``path`` as int8 QDQ, calibrated with ``spec``: an array file, or ``random[:N]``."""
    from tvm_backend.frontends import with_static_inputs
    from tvm_backend.onnx_files import read_onnx
    from tvm_backend.quantize import quantize

    proto = with_static_inputs(read_onnx(path), str(path), input_shapes)
    return quantize(proto, samples(proto, spec))


def samples(proto: "onnx.ModelProto", spec: str) -> list[dict[str, np.ndarray]]:
    """Calibration inputs of the network's own shapes."""
    shapes = _inputs(proto)
    word, _, number = spec.partition(":")
    if word == "random" and not Path(spec).exists():
        if number and not (number.isascii() and number.isdecimal() and int(number)):
            raise InputError(f"--calibrate {spec!r}: expected random:N with N at least 1")
        rng = np.random.default_rng(0)
        return [{name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
                for _ in range(int(number or _RANDOM_SAMPLES))]
    arrays = read_arrays(Path(spec))
    if isinstance(arrays, np.ndarray):
        if len(shapes) != 1:
            raise InputError(f"{spec}: one array for {len(shapes)} inputs; use an .npz with {', '.join(shapes)}")
        arrays = {next(iter(shapes)): arrays}
    return batches(arrays, shapes, spec)


def batches(arrays: dict[str, np.ndarray], shapes: Shapes, origin: str) -> list[dict[str, np.ndarray]]:
    """Cut arrays of many samples into batches of the network's shapes; what does not fill a batch is left out."""
    for name in arrays:
        if name not in shapes:
            raise InputError(f"{origin}: no input is named {name!r}{suggest(name, list(shapes))}")
    counts = set()
    for name, shape in shapes.items():
        if name not in arrays:
            raise InputError(f"{origin}: the array for input {name!r} is missing (it has: {', '.join(arrays) or 'none'})")
        found = arrays[name].shape
        if found[1:] != shape[1:] or not shape or found[0] < shape[0]:
            raise InputError(f"{origin}: {name!r}: expected samples of shape {shape}, found {found}")
        counts.add(found[0] // shape[0])
    if len(counts) != 1:
        raise InputError(f"{origin}: the inputs have different numbers of samples")
    return [{name: np.ascontiguousarray(arrays[name][i * shape[0]:(i + 1) * shape[0]]) for name, shape in shapes.items()}
            for i in range(counts.pop())]


def _inputs(proto: "onnx.ModelProto") -> Shapes:
    weights = {t.name for t in proto.graph.initializer}
    return {i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim)
            for i in proto.graph.input if i.name not in weights}
