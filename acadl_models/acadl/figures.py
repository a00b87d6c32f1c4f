"""The figures of objects for people to read: the attributes that are shown, sizes and physical units."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.graph import plain
from archloom.acadl_models.acadl.storages import DRAM, MemoryInterface, RegisterFile
from archloom.acadl_models.acadl.units import FunctionalUnit

ALWAYS = frozenset((
    "latency", "data_width", "port_width", "read_latency", "write_latency", "hit_latency", "miss_latency",
    "cache_line_size", "replacement_policy", "bandwidth", "mode", "issue_buffer_size",
))
"""Attributes that are shown even where they have their defaults."""

_HIDDEN = frozenset(("name", "component", "to_process", "data", "address_ranges", "bank_address_ranges", "registers"))


def figures(obj: ACADLObject) -> dict[str, Any]:
    """The attributes that differ from their defaults or matter always, in JSON's types; sizes instead of contents."""
    shown: dict[str, Any] = {}
    if isinstance(obj, RegisterFile):
        shown["registers"] = len(obj.registers)
    if isinstance(obj, MemoryInterface):
        shown["bytes"] = obj.size_bytes
    for name, default in _attributes(type(obj)):
        value = getattr(obj, name)
        if name in ALWAYS or (value != default and value not in ({}, (), None)):
            shown[name] = plain(value)
    if isinstance(obj, DRAM) and obj.has_bank_state:
        shown["banks"] = len(obj.banks)
    if isinstance(obj, FunctionalUnit) and obj.to_process:
        shown["to_process"] = sorted(obj.to_process)
    return shown


@lru_cache(maxsize=64)
def _attributes(cls: type[ACADLObject]) -> tuple[tuple[str, object], ...]:
    return tuple((f.name, None if f.default is MISSING else f.default) for f in fields(cls) if f.name not in _HIDDEN)


def size_text(size: int) -> str:
    """``size`` bytes in binary units where they divide it: ``256 KiB``."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.6g} {unit}"
    return f"{size} bytes"


def si_text(value: float, unit: str) -> str:
    """``value`` with an SI prefix: ``1 GHz``, ``2.5 mW``."""
    for prefix, power in (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9)):
        if value >= power:
            return f"{value / power:.6g} {prefix}{unit}"
    return f"{value / 1e-12:.6g} p{unit}" if value else f"0 {unit}"
