"""Architecture graphs: the checked result of a description, and what tools ask of it."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property
from typing import Any

from acadl_models.acadl.edges import ACADLEdge, EdgeKind
from acadl_models.acadl.objects import (
    ACADLObject,
    DataStorage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryInterface,
    PipelineStage,
    RegisterFile,
)


@dataclass(frozen=True)
class Bank:
    """The rows ``start <= row < stop`` of a buffer lie in ``storage`` (``stop`` None: all rows, a register file)."""

    storage: str
    start: int
    stop: int | None


@dataclass(frozen=True, eq=False)
class ArchitectureGraph:
    """Objects by name in order of creation, edges, buffers and the facts of the ISA that the structure fixes.

    ``clock_hz`` in hertz; ``parameters`` of the ISA; ``buffers``: tensor buffer → banks; ``dims``: cores by dimension.
    """

    name: str
    clock_hz: float
    parameters: Mapping[str, int]
    objects: Mapping[str, ACADLObject]
    edges: tuple[ACADLEdge, ...]
    buffers: Mapping[str, tuple[Bank, ...]]
    dims: Mapping[str, int]

    @cached_property
    def _out(self) -> dict[EdgeKind, dict[str, list[Any]]]:
        return self._adjacency("source", "target")

    @cached_property
    def _in(self) -> dict[EdgeKind, dict[str, list[Any]]]:
        return self._adjacency("target", "source")

    def _adjacency(self, here: str, there: str) -> dict[EdgeKind, dict[str, list[Any]]]:
        table: dict[EdgeKind, dict[str, list[Any]]] = {kind: {} for kind in EdgeKind}
        for edge in self.edges:
            table[edge.kind].setdefault(getattr(edge, here).name, []).append(getattr(edge, there))
        return table

    def __getitem__(self, name: str) -> ACADLObject:
        return self.objects[name]

    @cached_property
    def stages(self) -> tuple[PipelineStage, ...]:
        """All stages, the fetch stages included, in order of creation."""
        return tuple(o for o in self.objects.values() if isinstance(o, PipelineStage))

    @cached_property
    def fetch_stages(self) -> tuple[InstructionFetchStage, ...]:
        return tuple(s for s in self.stages if isinstance(s, InstructionFetchStage))

    @cached_property
    def functional_units(self) -> tuple[FunctionalUnit, ...]:
        """All functional units that process instructions, in order of creation."""
        units = (o for o in self.objects.values() if isinstance(o, FunctionalUnit))
        return tuple(u for u in units if not isinstance(u, InstructionMemoryAccessUnit))

    @cached_property
    def storages(self) -> tuple[DataStorage, ...]:
        return tuple(o for o in self.objects.values() if isinstance(o, DataStorage))

    def successors(self, stage: PipelineStage) -> list[PipelineStage]:
        """Stages to which ``stage`` forwards, in order of the edges."""
        return list(self._out[EdgeKind.FORWARD].get(stage.name, []))

    def predecessors(self, stage: PipelineStage) -> list[PipelineStage]:
        """Stages that forward to ``stage``."""
        return list(self._in[EdgeKind.FORWARD].get(stage.name, []))

    def units(self, stage: PipelineStage) -> list[FunctionalUnit]:
        """Units that ``stage`` contains, in order of the edges."""
        return list(self._out[EdgeKind.CONTAINS].get(stage.name, []))

    def stage_of(self, unit: FunctionalUnit) -> PipelineStage:
        """The stage that contains ``unit``."""
        stage: PipelineStage = self._in[EdgeKind.CONTAINS][unit.name][0]
        return stage

    def reads(self, unit: FunctionalUnit) -> list[RegisterFile | DataStorage]:
        """Register files and storages that ``unit`` reads."""
        return list(self._in[EdgeKind.READ_DATA].get(unit.name, []))

    def writes(self, unit: FunctionalUnit) -> list[RegisterFile | DataStorage]:
        """Register files and storages that ``unit`` writes."""
        return list(self._out[EdgeKind.WRITE_DATA].get(unit.name, []))

    def readers(self, storage: RegisterFile | DataStorage) -> list[FunctionalUnit]:
        return list(self._out[EdgeKind.READ_DATA].get(storage.name, []))

    def writers(self, storage: RegisterFile | DataStorage) -> list[FunctionalUnit]:
        return list(self._in[EdgeKind.WRITE_DATA].get(storage.name, []))

    def instruction_memory(self, stage: InstructionFetchStage) -> tuple[InstructionMemoryAccessUnit, DataStorage]:
        """The access unit of a fetch stage and the memory that it reads."""
        unit = next(u for u in self.units(stage) if isinstance(u, InstructionMemoryAccessUnit))
        return unit, next(s for s in self.reads(unit) if isinstance(s, DataStorage))

    def bytes_of(self, buffer: str) -> int:
        """Size of a tensor buffer's place in bytes (0 for a buffer without one)."""
        total_bits = 0
        for bank in self.buffers.get(buffer, ()):
            place = self.objects[bank.storage]
            if isinstance(place, RegisterFile):
                total_bits += place.data_width * len(place.registers)
            elif isinstance(place, DataStorage) and bank.stop is not None:
                total_bits += place.data_width * (bank.stop - bank.start)
        return total_bits // 8

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that the graph states: a key for caches."""
        facts = {
            "name": self.name,
            "clock_hz": self.clock_hz,
            "parameters": dict(self.parameters),
            "objects": [[type(o).__name__, {f.name: _plain(getattr(o, f.name)) for f in fields(o)}]
                        for o in self.objects.values()],
            "edges": [[e.kind.name, e.source.name, e.target.name] for e in self.edges],
            "buffers": {k: [[b.storage, b.start, b.stop] for b in banks] for k, banks in self.buffers.items()},
            "dims": dict(self.dims),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """``value`` in JSON's types, canonically."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    if isinstance(value, Enum):
        return value.name
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def place_buffers(
    places: Mapping[str, Any], objects: Sequence[ACADLObject]
) -> tuple[dict[str, tuple[Bank, ...]], list[str]]:
    """The ``buffers`` table in canonical form, and its faults."""
    known = {id(o) for o in objects}
    table: dict[str, tuple[Bank, ...]] = {}
    faults: list[str] = []
    for buffer, place in places.items():
        banks: list[Bank] = []
        for item in place if isinstance(place, (list, tuple)) else [place]:
            obj, *rows = item if isinstance(item, tuple) and item else (item,)
            if not isinstance(obj, (RegisterFile, MemoryInterface)) or id(obj) not in known:
                what = "a RegisterFile, SRAM or DRAM of the graph"
                faults.append(f"buffer {buffer!r} must lie in {what}, not in {obj!s}")
            elif rows and not (len(rows) == 2 and all(isinstance(r, int) for r in rows) and 0 <= rows[0] < rows[1]):
                what = "(start, stop) with 0 <= start < stop"
                faults.append(f"buffer {buffer!r}: rows in {obj.name} must be {what}, not {rows}")
            elif rows:
                banks.append(Bank(obj.name, rows[0], rows[1]))
            elif isinstance(obj, RegisterFile):
                banks.append(Bank(obj.name, 0, None))
            elif not obj.faults():
                banks += [Bank(obj.name, start, stop) for start, stop in obj.address_ranges]
        table[buffer] = tuple(banks)
        faults += _bank_faults(buffer, banks)
    return table, faults


def _bank_faults(buffer: str, banks: list[Bank]) -> list[str]:
    if len(banks) > 1 and any(b.stop is None for b in banks):
        return [f"buffer {buffer!r}: a register file holds a buffer alone, not beside other banks"]
    ordered = sorted(banks, key=lambda b: b.start)
    faults = []
    for a, b in itertools.pairwise(ordered):
        if a.stop != b.start:
            what = "overlap" if (a.stop or 0) > b.start else "leave a gap"
            faults.append(
                f"buffer {buffer!r}: rows {a.start}..{a.stop} in {a.storage} "
                f"and {b.start}..{b.stop} in {b.storage} {what}"
            )
    if ordered and ordered[0].start != 0:
        faults.append(f"buffer {buffer!r}: its first row in {ordered[0].storage} is {ordered[0].start}, expected 0")
    return faults
