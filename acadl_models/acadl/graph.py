"""Architecture graphs: the checked result of a description, and what tools ask of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from functools import cached_property, wraps
from typing import Any, TypeVar

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.components import Overrides, Technology
from archloom.acadl_models.acadl.edges import ACADLEdge, EdgeKind
from archloom.acadl_models.acadl.semantics import Semantics
from archloom.acadl_models.acadl.stages import InstructionFetchStage, PipelineStage
from archloom.acadl_models.acadl.storages import CacheInterface, DataStorage, Link, MemoryInterface, RegisterFile
from archloom.acadl_models.acadl.units import FunctionalUnit, InstructionMemoryAccessUnit
from archloom.oracle.memory import Remembered

R = TypeVar("R")
_KEPT = 1 << 13
"""Results of a function that are kept with a graph: those of some streams, and of one that has many places."""

HBM = "hbm"
"""The buffer of every ISA in which the tensors of programs lie."""


def per_graph(function: Callable[..., R]) -> Callable[..., R]:
    """Decorator of a function of a graph and hashable arguments: the last results are kept with the graph, and go with
    it."""

    @wraps(function)
    def remembered(graph: ArchitectureGraph, *key: Hashable) -> R:
        try:
            found: R = graph.derived[remembered][key]
        except KeyError:
            found = function(graph, *key)
            graph.derived.setdefault(remembered, Remembered(_KEPT))[key] = found
        return found

    return remembered


@dataclass(frozen=True)
class Bank:
    """The rows ``start <= row < stop`` of a buffer lie in ``storage`` (``stop`` None: all, in one register file)."""

    storage: str
    start: int
    stop: int | None


@dataclass(frozen=True, eq=False)
class ArchitectureGraph:
    """Objects by name in order of creation, edges, buffers and the facts of the ISA that the structure fixes.

    ``clock_hz`` in hertz; ``parameters`` of the ISA; ``buffers``: tensor buffer → banks by ascending rows without
    gaps; ``dims``: cores by dimension. ``technology`` and ``overrides``: what energies and areas follow from, beside
    the objects (:mod:`archloom.acadl_models.energy`).
    """

    name: str
    clock_hz: float
    parameters: Mapping[str, int]
    objects: Mapping[str, ACADLObject]
    edges: tuple[ACADLEdge, ...]
    buffers: Mapping[str, tuple[Bank, ...]]
    dims: Mapping[str, int]
    semantics: Semantics = field(default_factory=Semantics)
    technology: Technology | None = None
    overrides: Overrides = field(default_factory=Overrides)

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

    @cached_property
    def register_files(self) -> tuple[RegisterFile, ...]:
        return tuple(o for o in self.objects.values() if isinstance(o, RegisterFile))

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

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All links, in order of creation."""
        return tuple(o for o in self.objects.values() if isinstance(o, Link))

    @cached_property
    def _links(self) -> dict[tuple[str, str, EdgeKind], Link]:
        return {(e.source.name, e.target.name, e.kind): e.link for e in self.edges if e.link is not None}

    def link(self, storage: DataStorage, unit: FunctionalUnit, kind: EdgeKind) -> Link | None:
        """The link over which the READ_DATA or WRITE_DATA edge between ``storage`` and ``unit`` runs, if any."""
        ends = (storage.name, unit.name) if kind is EdgeKind.READ_DATA else (unit.name, storage.name)
        return self._links.get((*ends, kind))

    @cached_property
    def tensor_memories(self) -> tuple[MemoryInterface, ...]:
        """The memories that hold the tensors of programs, by ascending addresses."""
        names = dict.fromkeys(bank.storage for bank in self.buffers.get(HBM, ()))
        return tuple(place for name in names if isinstance(place := self[name], MemoryInterface))

    def burst_bytes(self, storage: DataStorage, unit: FunctionalUnit, kind: EdgeKind) -> int:
        """Of how many bytes the bursts are that a request of ``unit`` asks for; 0: it asks for any words."""
        link = self.link(storage, unit, kind)
        own, over = getattr(storage, "burst_bytes", 0), 0 if link is None else link.burst_bytes
        return math.lcm(own or over, over or own)

    @cached_property
    def caches(self) -> tuple[CacheInterface, ...]:
        """All caches, in order of creation."""
        return tuple(o for o in self.objects.values() if isinstance(o, CacheInterface))

    def backing(self, cache: CacheInterface) -> DataStorage:
        """The storage behind ``cache``: a memory or another cache."""
        storage: DataStorage = self._out[EdgeKind.BACKED_BY][cache.name][0]
        return storage

    def path(self, storage: DataStorage) -> tuple[DataStorage, ...]:
        """The storages from ``storage`` on to the memory behind it: itself alone, if it is no cache."""
        found = [storage]
        while isinstance(found[-1], CacheInterface):
            found.append(self.backing(found[-1]))
        return tuple(found)

    def instruction_memory(self, stage: InstructionFetchStage) -> tuple[InstructionMemoryAccessUnit, DataStorage]:
        """The access unit of a fetch stage and the memory that it reads."""
        unit = next(u for u in self.units(stage) if isinstance(u, InstructionMemoryAccessUnit))
        return unit, next(s for s in self.reads(unit) if isinstance(s, DataStorage))

    def bytes_of(self, buffer: str) -> int:
        """Size of a tensor buffer's place in bytes (0 for a buffer without one)."""
        total_bits = 0
        for bank in self.buffers.get(buffer, ()):
            place = self.objects[bank.storage]
            if isinstance(place, RegisterFile) and bank.stop is None:
                total_bits += place.data_width * len(place.registers)
            elif isinstance(place, (DataStorage, RegisterFile)) and bank.stop is not None:
                total_bits += place.data_width * (bank.stop - bank.start)
        return total_bits // 8

    def total(self, attribute: str) -> float | None:
        """The sum over the objects that state a physical figure themselves; None if none does."""
        known = [v for o in self.objects.values() if (v := getattr(o, attribute)) is not None]
        return sum(known) if known else None

    @cached_property
    def derived(self) -> dict[Callable[..., Any], Remembered[tuple[Hashable, ...], Any]]:
        """What functions derive from the graph (:func:`per_graph`), by their arguments."""
        return {}

    @cached_property
    def first_rows(self) -> Mapping[str, tuple[int, ...]]:
        """Of each buffer the first row in each bank, ascending."""
        return {name: tuple(bank.start for bank in banks) for name, banks in self.buffers.items()}

    def facts(self) -> dict[str, Any]:
        """Everything that the graph states, in JSON's types."""
        return {
            "name": self.name,
            "clock_hz": self.clock_hz,
            "parameters": dict(self.parameters),
            "objects": [[type(o).__name__, {f.name: plain(getattr(o, f.name)) for f in fields(o)}]
                        for o in self.objects.values()],
            "edges": [[e.kind.name, e.source.name, e.target.name, e.link.name if e.link else None] for e in self.edges],
            "buffers": {k: [[b.storage, b.start, b.stop] for b in banks] for k, banks in self.buffers.items()},
            "dims": dict(self.dims),
            "semantics": asdict(self.semantics),
            "energy": [repr(self.technology), repr(self.overrides)],
        }

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that the graph states: a key for caches."""
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """``value`` in JSON's types, canonically."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, Enum):
        return value.name
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
