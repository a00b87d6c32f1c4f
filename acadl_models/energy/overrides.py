"""A user's own figures, from a TOML file or a table: they go before those of the graph and of the tables.

``[technology]`` states the process anew. ``[objects."PATTERN"]`` has the physical attributes of the objects whose names
match (``*`` and ``?`` as in a shell; of several patterns the last): ``joules_per_access`` and what :data:`FIGURES`
lists; ``[operations]`` has joules of scalar operations, as ``"multiply i8" = 0.1e-12``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from archloom.acadl_models.acadl.base import figure
from archloom.acadl_models.acadl.components import Overrides, Technology
from archloom.oracle.errors import InputError, suggest
from archloom.oracle.reading import TEXT_BYTES, read_bytes

ENERGIES = {
    "joules_per_access": ("read", "write"), "joules_per_byte": ("read", "write"), "joules_per_read": ("read",),
    "joules_per_write": ("write",), "joules_per_activation": ("activation",),
    "joules_per_operation": ("operation", "instruction"),
}
"""The kinds of events that an attribute is for; of two attributes for one kind, the later goes before."""

FIGURES = (*ENERGIES, "leakage_watts", "area_mm2")
_TABLES = ("technology", "objects", "operations")


def read_overrides(path: str | Path) -> Overrides:
    """The figures of a file; InputError that lists all that is wrong in it."""
    content = read_bytes(path, TEXT_BYTES)
    try:
        found = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"energies of {path}: {error}") from error
    return overrides(found, str(path))


def overrides(found: Mapping[str, Any], origin: str) -> Overrides:
    """The figures of a table as TOML gives it; InputError that names ``origin`` and lists all that is wrong."""
    faults = _unknown("", found, _TABLES)
    tables = {name: found.get(name, {}) for name in _TABLES}
    faults += [f"{name} must be a table, not {table!r}" for name, table in tables.items()
               if not isinstance(table, Mapping)]
    if not faults:
        technology, objects, operations = tables.values()
        names = [f.name for f in fields(Technology)]
        faults += _unknown("technology: ", technology, names)
        if technology and not faults:
            faults += ["technology: node_nm is missing"] if "node_nm" not in technology else Technology(
                **technology).faults()
        for pattern, table in objects.items():
            faults += _table(f"objects.{pattern!r}", table)
        faults += [f for name, value in operations.items() for f in figure(f"operations: {name!r}", value)]
    if faults:
        raise InputError(f"energies of {origin}: " + "; ".join(faults))
    return Overrides(Technology(**technology) if technology else None, dict(objects), dict(operations))


def _table(where: str, table: object) -> list[str]:
    if not isinstance(table, Mapping):
        return [f"{where} must be a table, not {table!r}"]
    return _unknown(f"{where}: ", table, FIGURES) + [
        f for name, value in table.items() if name in FIGURES for f in figure(f"{where}: {name}", value)]


def _unknown(where: str, table: Mapping[str, object], known: "tuple[str, ...] | list[str]") -> list[str]:
    return [f"{where}unknown {name!r}{suggest(name, list(known))}" for name in table
            if name not in known]
