"""What a layer did in the accelerator, as tables: bytes of memories and links, stalls of units and stages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from archloom.tvm_backend.report.data import Layer
from archloom.tvm_backend.report.table import Column, count, figures, percent, render
from archloom.tvm_backend.report.uses import LinkUse, PortUse, StorageUse


def details(layer: Layer) -> str:
    """Tables of the layer's storages and links, and of its units and stages; empty for a layer of the host."""
    return "\n\n".join(filter(None, [_traffic(layer), _stalls(layer)]))


def _traffic(layer: Layer) -> str:
    columns = Column("memory"), *figures("bytes read", "at peak", "bytes written", "at peak", "cycles waited")
    rows = [_ports(name, use, use.queue_cycles) for name, use in layer.storages.items()]
    rows += [_ports(name, use, use.wait_cycles) for name, use in layer.links.items()]
    return render(columns, _rows_by_array(rows)) if rows else ""


def _ports(name: str, use: StorageUse | LinkUse, waited: int) -> list[str]:
    return [name, *_port(use.read), *_port(use.write), count(waited)]


def _port(use: PortUse) -> list[str]:
    return [count(use.bytes), percent(use.peak_share) if use.bytes else "–"]


def _stalls(layer: Layer) -> str:
    columns = Column("unit or stage"), *figures(
        "instructions", "busy", "on operands", "on memories", "no room after", "nothing to do")
    rows = [[name, count(u.instructions), *_shares(layer, u.busy_cycles, u.dependency_stall_cycles,
                                                   u.storage_stall_cycles, None, u.idle_cycles + u.starved_cycles)]
            for name, u in layer.units.items()]
    rows += [[name, count(s.instructions), *_shares(layer, s.busy_cycles, None, None, s.stall_cycles, s.idle_cycles)]
             for name, s in layer.stages.items()]
    return render(columns, _rows_by_array(rows)) if rows else ""


def _rows_by_array(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """One row for objects of an array that did the same: their names differ in numbers only."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, *cells in rows:
        groups.setdefault((re.sub(r"\d+", "", name), *cells), []).append(name)
    return [[names[0] if len(names) == 1 else f"{_between(names[0], names[-1])} ({len(names)})", *cells]
            for (_, *cells), names in groups.items()]


def _between(first: str, last: str) -> str:
    """Both names, with the parts between dots that they share once: ``array.pe[0] … pe[7].unit``."""
    pairs = list(zip(first.split("."), last.split("."), strict=True))
    differing = [k for k, (a, b) in enumerate(pairs) if a != b]
    begin, end = (differing[0], differing[-1] + 1) if differing else (0, 0)
    shown = " … ".join(".".join(part) for part in zip(*pairs[begin:end]))
    return ".".join(filter(None, [*[a for a, _ in pairs[:begin]], shown, *[a for a, _ in pairs[end:]]]))


def _shares(layer: Layer, *cycles: int | None) -> list[str]:
    return [percent(None if c is None or not layer.cycles else c / layer.cycles) for c in cycles]
