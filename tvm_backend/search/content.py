"""What networks, functions and targets are told by: their content, as text that is equal in every process."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from archloom.mapper.cache import key_of
from archloom.models import catalogue
from archloom.oracle.errors import InputError, ModelError
from archloom.oracle.reading import data_bytes, file_size
from archloom.tvm_backend.frontends.onnx.files import meant
from archloom.tvm_backend.sources.source import Source, is_network

_PLAIN = (int, float, str, bool, bytes, type(None))


def is_builder(network: Any) -> bool:
    """Whether it is a function that makes a network: modules of torch can be called, too."""
    return callable(network) and not is_network(network)


def split(network: Any) -> tuple[Any, Any]:
    """A network and its example inputs, if it comes as a pair."""
    if isinstance(network, tuple) and len(network) == 2:
        return network
    return network, None


def of_network(network: Any) -> str:
    """The content of a network that is given in any of the ways that a candidate takes."""
    if is_builder(network):
        return key_of(["built", of_function(network)])
    given, inputs = split(network)
    source = Source.of(given, example_inputs=inputs)
    if isinstance(source.given, Path):
        return _of_file(source.given, *_state(source.given))
    if source.kind in ("name", "operator"):
        return key_of([source.kind, str(given)])
    return key_of([source.kind, *_OF_OBJECTS[source.kind](source)])


def refuse_unreadable(network: Any) -> None:
    """ModelError or InputError for a text or path that names no network, before a search of it begins."""
    if not isinstance(network, str | Path):
        return
    source = Source.of(network)
    if isinstance(source.given, Path):
        of_network(network)
    elif source.kind == "name" and "(" in source.given:
        catalogue.parse(source.given)
    else:
        _ = source.operator


def title(network: Any) -> str:
    """What a network is called in tables."""
    if is_builder(network):
        inner = network.func if isinstance(network, partial) else network
        words = [*map(repr, network.args), *(f"{k}={v!r}" for k, v in network.keywords.items())] if isinstance(
            network, partial) else []
        return f"{getattr(inner, '__qualname__', type(inner).__name__)}({', '.join(words)})"
    given, _ = split(network)
    if isinstance(given, str | Path):
        return str(given)
    return str(getattr(given, "name", "") or type(given).__name__)


def of_target(name: str) -> str:
    """A target by its name; the files of its code count, where it is one of the user's."""
    from archloom.mapper.cache import origin_fingerprint
    from archloom.tvm_backend.cache import PACKAGES
    from archloom.tvm_backend.targets import registry

    return name if name in registry.BUILT_IN else key_of([
        name, origin_fingerprint(registry.get(name).accelerator.functions, PACKAGES)])


# files and objects ----------------------------------------------------------------------------------------------------


def _state(path: Path) -> tuple[int, int]:
    if not os.path.exists(path):
        raise ModelError(f"{path}: no such file{meant(path)}")
    return file_size(path, data_bytes()), path.stat().st_mtime_ns


@lru_cache(maxsize=1024)
def _of_file(path: Path, size: int, changed: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return key_of(["file", path.suffix, digest.hexdigest()])


def _of_proto(source: Source) -> list[str]:
    return [hashlib.sha256(source.given.SerializeToString(deterministic=True)).hexdigest(), source.given.graph.name]


def _of_module(source: Source) -> list[str]:
    module, inputs = source.given, source.example_inputs
    kinds = {type(part) for part in module.modules()}
    own = (kind for kind in kinds if not kind.__module__.startswith("torch."))
    sources = sorted(_source(kind) for kind in own)  # type: ignore[arg-type]  # a class is hashable
    return [repr(module), *sources, _of_tensors(module.state_dict()), repr([
        (tuple(t.shape), str(t.dtype)) for t in _listed(inputs)])]


def _of_program(source: Source) -> list[str]:
    return [str(source.given), _of_tensors(source.given.state_dict)]


def _of_model(source: Source) -> list[str]:
    model = source.given
    if model.given is not None:
        return [of_network((model.given.given, model.given.example_inputs))]
    if (proto := model.floats or model.onnx) is not None:
        return _of_proto(Source(proto, "onnx"))
    raise InputError(f"{model.name}: a loaded module of Relax has no content that a search could tell it by; give a "
                     "function that makes it")


def _refused(source: Source) -> list[str]:
    raise InputError(f"a candidate takes no network of kind {source.kind!r}; give a function that makes it")


_OF_OBJECTS: Mapping[str, Callable[[Source], list[str]]] = {
    "onnx": _of_proto, "module": _of_module, "program": _of_program, "model": _of_model, "relax": _refused,
    "dynamic": _refused}


def _listed(inputs: Any) -> list[Any]:
    return [] if inputs is None else list(inputs) if isinstance(inputs, list | tuple) else [inputs]


def _of_tensors(tensors: Mapping[str, Any]) -> str:
    """Names, shapes, types and numbers; of tensors without numbers (torch's ``meta`` device) the rest."""
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype};".encode())
        if tensor.device.type != "meta":
            digest.update(tensor.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


# functions ------------------------------------------------------------------------------------------------------------


def of_function(function: Any) -> str:
    """A function by its text and by the values that it is called with or sees around it, which must be plain."""
    if isinstance(function, partial):
        return key_of(["partial", of_function(function.func), _plain(function.args, function),
                       _plain(function.keywords, function)])
    if not inspect.isfunction(function):
        raise InputError(f"{function!r}: expected a function, or a functools.partial of one")
    seen = inspect.getclosurevars(function).nonlocals
    defaults = (function.__defaults__, function.__kwdefaults__)
    return key_of([function.__qualname__, _source(function), _plain(seen, function), _plain(defaults, function)])


@lru_cache(maxsize=1024)
def _source(thing: Any) -> str:
    """Its text, or, of what was typed in, its code. Most candidates have the same functions."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        if code is None:
            raise InputError(f"{thing!r}: its text cannot be read, by which a search would tell it") from None
        return repr((code.co_code, code.co_names, [c for c in code.co_consts if isinstance(c, _PLAIN)]))


def _plain(value: Any, function: Any) -> str:
    """Text of plain values, and of functions among them."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return key_of(part for k in sorted(value) for part in (str(k), _plain(value[k], function)))
    if isinstance(value, list | tuple):
        return key_of([type(value).__name__, *(_plain(one, function) for one in value)])
    if isinstance(value, Path):
        return repr(str(value))
    if inspect.isfunction(value) or isinstance(value, partial):
        return of_function(value)
    inner = function.func if isinstance(function, partial) else function
    raise InputError(f"{inner.__qualname__}: expected numbers, texts, tuples and functions as its arguments, by which "
                     f"a search knows it again; found {type(value).__name__}")
