"""Networks of :mod:`models.catalogue` by name, in the form that a target computes: as they are, or quantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models import catalogue
from oracle.errors import InputError

if TYPE_CHECKING:
    import onnx

    from models.catalogue import Built
    from tvm_backend.model import Model
    from tvm_backend.uma.match import Numbers

CALIBRATION = 4
"""Random inputs by which a network of the catalogue is quantized."""


def is_named(source: object) -> bool:
    """Whether ``source`` is the name of a network of the catalogue, with or without sizes."""
    return catalogue.is_spelled(source)


def load_named(text: str, numbers: "Numbers", name: str | None = None) -> "Model":
    """The network that ``text`` names, such as ``"mobilenet_v2(image=96)"``: for int8, quantized to QDQ."""
    from tvm_backend.frontends import load

    built = catalogue.build(text)
    if numbers == "float32":
        from tvm_backend.torch_frontend import load_module

        return load_module(built.module, tuple(built.inputs.values()), name or built.name, list(built.inputs))
    return load(quantized(built), name=name or built.name)


def float_onnx(built: "Built") -> "onnx.ModelProto":
    """A network of the catalogue as float ONNX, its inputs named as the catalogue names them."""
    from tvm_backend.torch_frontend import to_onnx

    return to_onnx(built.module, tuple(built.inputs.values()), built.name, list(built.inputs))


def quantized(built: "Built") -> "onnx.ModelProto":
    """A network of the catalogue in QDQ form, calibrated on random inputs."""
    from tvm_backend.quantize import quantize

    return quantize(float_onnx(built), built.samples(CALIBRATION))


def refuse_options(text: str, **given: object) -> None:
    """A network by name takes its sizes in parentheses, not options of files."""
    for option, value in given.items():
        if value:
            raise InputError(f"{text}: {option} is for files; give sizes in parentheses, such as {text.split('(')[0]}"
                             "(batch=1)")
