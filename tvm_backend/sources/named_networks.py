"""Networks by name, in the form that a target computes: as they are, or quantized.

They are those of :mod:`archloom.models.catalogue`, the light test networks of the package ``onnx``
(:mod:`archloom.models.zoo`) as ``light_squeezenet`` and the like, and those of :mod:`archloom.models.trained`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from archloom.models import catalogue, trained
from archloom.oracle.errors import InputError
from archloom.tvm_backend.ir.numbers import Numbers, is_quantized

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from archloom.models.catalogue import Built
    from archloom.tvm_backend.model import Model

LIGHT = "light_"
"""What the names of the light test networks begin with."""
CALIBRATION = 4
"""Random inputs by which a network of the catalogue is quantized."""


def is_named(source: object) -> bool:
    """Whether ``source`` is the name of a network, with or without sizes."""
    return catalogue.is_spelled(source) or _is_light(source) or _is_trained(source)


def _is_trained(source: object) -> bool:
    return isinstance(source, str) and source in trained.NAMES


def _is_light(source: object) -> bool:
    if not isinstance(source, str) or not source.startswith(LIGHT):
        return False
    from archloom.models import zoo

    return source.removeprefix(LIGHT) in zoo.names()


def light_names() -> list[str]:
    """The light test networks of the package ``onnx``."""
    from archloom.models import zoo

    return [f"{LIGHT}{name}" for name in zoo.names()]


def light_onnx(name: str) -> "onnx.ModelProto":
    """A light test network in floats, with seeded random weights."""
    from archloom.models import zoo

    return zoo.load(name.removeprefix(LIGHT))


def light_samples(proto: "onnx.ModelProto", count: int, seed: int = 1) -> "list[dict[str, np.ndarray]]":
    """Random inputs of a light test network, which takes one image."""
    from archloom.models.data import random_images

    (image,) = proto.graph.input
    batch, channels, size, _ = (d.dim_value for d in image.type.tensor_type.shape.dim)
    return [{image.name: random_images(batch, size, channels, seed + i)} for i in range(count)]


def load_named(text: str, numbers: Numbers, name: str | None = None) -> "Model":
    """The network that ``text`` names, such as ``"mobilenet_v2(image=96)"``: for int8, quantized to QDQ."""
    if _is_light(text):
        proto = light_onnx(text)
        if not is_quantized(numbers):
            return _load(proto, name or text)
        return _load_quantized(proto, light_samples(proto, CALIBRATION), name or text)
    if _is_trained(text):
        return _load_trained(text, numbers, name or text)
    built = catalogue.build(text)
    if not is_quantized(numbers):
        from archloom.tvm_backend.frontends.torch.export import load_module

        return load_module(built.module, tuple(built.inputs.values()), name or built.name, list(built.inputs))
    return _load_quantized(float_onnx(built), built.samples(CALIBRATION), name or built.name)


def _load(proto: "onnx.ModelProto", name: str) -> "Model":
    from archloom.tvm_backend.frontends.onnx.load import load_proto

    return load_proto(proto, name)


def _load_quantized(floats: "onnx.ModelProto", samples: "list[dict[str, np.ndarray]]", name: str) -> "Model":
    from archloom.tvm_backend.quantization.quantize import quantize

    return replace(_load(quantize(floats, samples), name), floats=floats)


def _load_trained(text: str, numbers: Numbers, name: str) -> "Model":
    from archloom.tvm_backend.frontends.torch.export import load_module, to_onnx

    found = trained.build(text)
    example = found.calibration[0]["image"]
    if not is_quantized(numbers):
        return load_module(found.module, example, name, ["image"])
    return _load_quantized(to_onnx(found.module, example, name, ["image"]), found.calibration, name)


def float_onnx(built: "Built") -> "onnx.ModelProto":
    """A network of the catalogue as float ONNX, its inputs named as the catalogue names them."""
    from archloom.tvm_backend.frontends.torch.export import to_onnx

    return to_onnx(built.module, tuple(built.inputs.values()), built.name, list(built.inputs))


def quantized(built: "Built") -> "onnx.ModelProto":
    """A network of the catalogue in QDQ form, calibrated on random inputs."""
    from archloom.tvm_backend.quantization.quantize import quantize

    return quantize(float_onnx(built), built.samples(CALIBRATION))


def refuse_options(text: str, **given: object) -> None:
    """A network by name takes its sizes in parentheses, not options of files."""
    for option, value in given.items():
        if value:
            raise InputError(f"{text}: {option} is for files; give sizes in parentheses, such as {text.split('(')[0]}"
                             "(batch=1)")
