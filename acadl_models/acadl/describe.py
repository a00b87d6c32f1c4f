"""Architecture graphs as text: a tree of what forwards to what, with the figures of every object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from acadl_models.acadl.graph import ArchitectureGraph
from acadl_models.acadl.objects import (
    ACADLObject,
    DataStorage,
    InstructionMemoryAccessUnit,
    MemoryInterface,
    PipelineStage,
    RegisterFile,
)


def describe(graph: ArchitectureGraph) -> str:
    """The graph as text: head, buffers, stages from the fetch stages on with their units, storages."""
    return "\n".join([*_head(graph), "", *_stages(graph), "", *_storages(graph)])


def _head(graph: ArchitectureGraph) -> Iterator[str]:
    kinds: dict[str, int] = {}
    for obj in graph.objects.values():
        kinds[type(obj).__name__] = kinds.get(type(obj).__name__, 0) + 1
    yield f"{graph.name}: {len(graph.objects)} objects, {len(graph.edges)} edges, clock {_si(graph.clock_hz)}Hz"
    yield "  " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    if graph.parameters:
        yield "parameters: " + ", ".join(f"{k}={v}" for k, v in graph.parameters.items())
    if graph.dims:
        yield "cores: " + " x ".join(f"{k}={v}" for k, v in graph.dims.items())
    for name, banks in graph.buffers.items():
        where = ", ".join(b.storage + ("" if b.stop is None else f" rows {b.start}..{b.stop - 1}") for b in banks)
        yield f"buffer {name}: {size_text(graph.bytes_of(name))} in {where}"


def _stages(graph: ArchitectureGraph) -> Iterator[str]:
    shown: set[str] = set()
    for stage in graph.fetch_stages:
        yield from _stage(graph, stage, "", shown)


def _stage(graph: ArchitectureGraph, stage: PipelineStage, indent: str, shown: set[str]) -> Iterator[str]:
    again = " (see above)" if stage.name in shown else ""
    yield f"{indent}{stage}{again}{_figures(stage)}"
    if again:
        return
    shown.add(stage.name)
    for unit in graph.units(stage):
        yield f"{indent}  * {unit}{_figures(unit)}"
        if not isinstance(unit, InstructionMemoryAccessUnit):
            yield f"{indent}      processes {', '.join(sorted(unit.to_process))}"
        for label, places in (("reads", graph.reads(unit)), ("writes", graph.writes(unit))):
            if places:
                yield f"{indent}      {label} {', '.join(p.name for p in places)}"
    for after in graph.successors(stage):
        yield from _stage(graph, after, indent + "  ", shown)


def _storages(graph: ArchitectureGraph) -> Iterator[str]:
    for obj in graph.objects.values():
        if isinstance(obj, (RegisterFile, DataStorage)):
            size = f" {size_text(obj.size_bytes)}" if isinstance(obj, MemoryInterface) else ""
            yield f"{obj}{size}{_figures(obj)}"


_HIDDEN = frozenset(("name", "to_process", "data", "address_ranges", "registers"))


def _figures(obj: ACADLObject) -> str:
    """The attributes that differ from their defaults, or matter always."""
    shown = []
    for f in fields(obj):
        value = getattr(obj, f.name)
        always = f.name in ("latency", "data_width", "port_width", "read_latency", "write_latency")
        if f.name not in _HIDDEN and (always or value != f.default) and not (value == {} or value == ()):
            shown += _entries(f.name, value)
    return "".join(f"\n{'':>8}{entry}" for entry in shown) if any(len(e) > 40 for e in shown) else _inline(shown)


def _inline(entries: list[str]) -> str:
    return f"  [{', '.join(entries)}]" if entries else ""


def _entries(name: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}[{key}] = {entry}" for key, entry in value.items()]
    return [f"{name} = {value}"]


def size_text(size: int) -> str:
    """``size`` bytes in binary units where they divide it: ``256 KiB``."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.6g} {unit}"
    return f"{size} bytes"


def _si(value: float) -> str:
    for prefix, power in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= power:
            return f"{value / power:g} {prefix}"
    return f"{value:g} "
