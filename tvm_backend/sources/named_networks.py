"""Networks by name, in the form that a target computes: as they are, or quantized.

They are those of :mod:`archloom.models.catalogue`, and the light test networks of the package ``onnx``
(:mod:`archloom.models.zoo`) as ``light_squeezenet`` and the like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from archloom.mapper import disk
from archloom.models import catalogue
from archloom.oracle.errors import InputError
from archloom.oracle.memory import room_bytes
from archloom.oracle.records import plain, typed
from archloom.tvm_backend import cache
from archloom.tvm_backend.compiled import TensorSpec
from archloom.tvm_backend.ir.nodes import Module
from archloom.tvm_backend.ir.numbers import Numbers, is_quantized
from archloom.tvm_backend.ir.written import function_of, written
from archloom.tvm_backend.sources import shipped
from archloom.tvm_backend.sources.shipped import Form

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from archloom.models.catalogue import Built
    from archloom.tvm_backend.frontends.onnx.skeleton import Skeleton
    from archloom.tvm_backend.model import Model

CALIBRATION = 4
"""Random inputs by which a network of the catalogue is quantized."""

KEPT_BYTES = 64 * 2**20
"""How large a network by name is at most that is kept quantized on disk, with its floats: a free choice, a thirtieth of
what the file of results may take."""
QUANTIZED = ("quantized", "floats")
"""The kinds under which it is kept."""


def is_named(source: str) -> bool:
    """Whether ``source`` begins with the name of a network: what is wrong with its sizes is said where they are read.

    InputError for sizes of a network that has none.
    """
    name, bracket, _ = source.partition("(")
    if bracket and (name.strip() in catalogue.TRAINED or _is_light(name.strip())):
        raise InputError(f"{source}: {name.strip()} is of one size: expected its name alone")
    return catalogue.is_spelled(source) or _is_light(source) or (bool(bracket) and name.strip() in catalogue.BY_NAME)


def _is_light(source: str) -> bool:
    if not source.startswith("light_"):
        return False
    from archloom.models import zoo

    return source in zoo.names()


def load_named(text: str, numbers: Numbers, name: str | None = None) -> "Model":
    """The network that ``text`` names, such as ``"mobilenet_v2(image=96)"``: for int8, quantized to QDQ."""
    from archloom.tvm_backend.frontends.onnx.load import load_proto

    if is_quantized(numbers):
        quantized, floats = _kept_quantized(text)
        return replace(load_proto(quantized, name or title(text)), floats=floats)
    if _is_light(text):
        from archloom.models import zoo

        return load_proto(zoo.load(text), name or text)
    from archloom.tvm_backend.frontends.torch.export import load_module

    built = catalogue.build(text)
    return load_module(built.module, tuple(built.inputs.values()), name or built.name, list(built.inputs))


def _kept_quantized(text: str) -> "tuple[onnx.ModelProto, onnx.ModelProto]":
    """As :func:`_quantized`, which is made once where it is no larger than :data:`KEPT_BYTES`: training or drawing,
    exporting and quantizing take longer than all that ``check`` does after."""
    import onnx

    key = cache.key(["quantized", title(text), *map(version, (*shipped.ONNX.packages, "onnxruntime"))])
    kept = [disk.load(kind, key) for kind in QUANTIZED]
    if None not in kept:
        first, second = (onnx.ModelProto.FromString(content) for content in kept if content is not None)
        return first, second
    made = _quantized(text)
    if sum(proto.ByteSize() for proto in made) <= KEPT_BYTES:
        for kind, proto in zip(QUANTIZED, made, strict=True):
            disk.store(kind, key, proto.SerializeToString())
    return made


def _quantized(text: str) -> "tuple[onnx.ModelProto, onnx.ModelProto]":
    """The network that ``text`` names, quantized, and that of floats which it is made of."""
    from archloom.tvm_backend.quantization.quantize import quantize

    made, samples = _in_floats(text)
    return quantize(made, samples(CALIBRATION)), made


def floats(text: str) -> "onnx.ModelProto":
    """The network of floats that ``text`` names, as ONNX with its weights."""
    return _in_floats(text)[0]


def _in_floats(text: str) -> "tuple[onnx.ModelProto, Callable[[int], Sequence[Mapping[str, np.ndarray]]]]":
    """See :func:`floats`, and what makes so many samples for it."""
    if _is_light(text):
        from archloom.models import zoo

        made = zoo.load(text)
        return made, partial(zoo.samples, made)
    built = catalogue.build(text)
    return float_onnx(built), built.samples


def outline(text: str, form: Form = shipped.ONNX) -> "Skeleton":
    """The float network that ``text`` names without its weights, which are not made: as it is shipped, or else
    exported and kept on disk, unless it was made in another way than meant."""
    from archloom.tvm_backend.frontends.onnx.skeleton import Skeleton

    if (known := shipped.outline(title(text), form)) is not None:
        return Skeleton(known)
    key = cache.key(["outline", form.folder.name, text, *map(version, form.packages)])
    content = disk.load("outlines", key)
    if content is not None:
        return Skeleton(content)
    found = exported(text, form)
    if not found.fallbacks:
        disk.store("outlines", key, found.content)
    return found


def exported(text: str, form: Form = shipped.ONNX) -> "Skeleton":
    """See :func:`outline`. ``light_`` networks are drawn for it, as their files have no weights of their own."""
    from archloom.tvm_backend.frontends.onnx.skeleton import Skeleton, of_proto

    if _is_light(text):
        from archloom.models import zoo

        return Skeleton(of_proto(zoo.load(text)))
    built = catalogue.outline(text)
    size, room = sum(tensor.numel() * tensor.element_size() for tensor in built.inputs.values()), room_bytes()
    if 2 * size > room:  # torch traces with them at hand, and what follows is no smaller
        raise InputError(f"{text}: its inputs take {size:,} bytes; expected at most half of the {room:,} there are")
    if form is shipped.ONNX:
        from archloom.tvm_backend.frontends.torch.skeletons import skeleton_of

        return skeleton_of(built.module, tuple(built.inputs.values()), built.name, list(built.inputs))
    from archloom.tvm_backend.frontends.torch.export import load_module

    model = load_module(
        built.module, tuple(built.inputs.values()), built.name, list(built.inputs), with_weights=False)
    return Skeleton(_written(model), model.fallbacks)


def load_outline(text: str, name: str | None = None) -> "Model":
    """The float network that ``text`` names without its weights, as :func:`load_named` imports it."""
    if _is_light(text):
        from archloom.tvm_backend.frontends.onnx import load, skeleton

        return load.load_skeleton(skeleton.parse(outline(text).content), text, name or text, None)
    found = outline(text, shipped.FLOATS)
    return replace(_read(found.content, name or title(text)), fallbacks=found.fallbacks)


def _written(model: "Model") -> bytes:
    """A network of plain expressions from torch as bytes, but for its name."""
    (main,) = model.module.named.values()  # type: ignore[attr-defined]
    tensors = {"inputs": plain(model.inputs), "outputs": plain(model.outputs)}
    return json.dumps({**tensors, "main": written(main)}, separators=(",", ":")).encode()


def _read(content: bytes, name: str) -> "Model":
    """The network that :func:`_written` wrote."""
    from archloom.tvm_backend.model import Model

    data = json.loads(content)
    inputs, outputs = (typed(data[key], tuple[TensorSpec, ...]) for key in ("inputs", "outputs"))
    return Model(name, Module({"main": function_of(data["main"])}), inputs, outputs, "torch")


def title(text: str) -> str:
    """What a network by name is called: sizes that are the defaults are left out."""
    return text if _is_light(text) or text in catalogue.TRAINED else catalogue.spelled(*catalogue.parse(text))


def version(package: str) -> str:
    """The version of an installed package, which decides how networks are exported; empty for one that is not there."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def float_onnx(built: "Built") -> "onnx.ModelProto":
    """A network as float ONNX, its inputs named as they are there."""
    from archloom.tvm_backend.frontends.torch.export import to_onnx

    return to_onnx(built.module, tuple(built.inputs.values()), built.name, list(built.inputs))


def refuse_options(text: str, **given: object) -> None:
    """A network by name takes its sizes in parentheses, not options of files."""
    for option, value in given.items():
        if value:
            raise InputError(f"{text}: {option} is for files; give sizes in parentheses, such as {text.split('(')[0]}"
                             "(batch=1)")
