"""The networks of calls that take a network and, by name, how it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

from archloom.oracle.errors import InputError
from archloom.tvm_backend.sources.source import Source

if TYPE_CHECKING:
    from archloom.tvm_backend.model import Model


def source_of(model: Any, load_options: Mapping[str, Any]) -> Source:
    """What is given; a network with open dimensions is read."""
    options, taken = dict(load_options), [*signature(Source.of).parameters][1:]
    if unknown := options.keys() - {*taken, "dynamic"}:
        name = min(unknown)
        value = repr(options[name]) if isinstance(options[name], str | int | float) else "…"
        hint = f"an option of the target is given by options={{{name!r}: {value}}}"
        if name.startswith("calibrat"):
            hint = "archloom.quantize(network, calibration=samples) gives the network in int8"
        raise InputError(f"{name}: expected one of {', '.join((*taken, 'dynamic'))}; {hint}")
    dynamic, source = options.pop("dynamic", False), Source.of(model, **options)
    if not dynamic:
        return source
    from archloom.tvm_backend.sources.dynamic import load_dynamic

    return Source.of(load_dynamic(source))


def model_of(
    model: Any, load_options: Mapping[str, Any], target: str, symbols: Mapping[str, int] | None,
) -> "Model":
    """What is given, loaded for a target; of open dimensions, with these extents."""
    source = source_of(model, load_options)
    if symbols is None:
        return source.load_for(target)
    from archloom.tvm_backend.sources.dynamic import load_dynamic

    return load_dynamic(source).at(symbols)
