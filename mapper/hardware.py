"""What a mapper knows about an accelerator, read off its architecture graph: memories, routes, queues, rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from archloom.acadl_models.acadl import READ_DATA, WRITE_DATA, ArchitectureGraph, CacheInterface, MemoryInterface
from archloom.acadl_models.acadl.graph import HBM
from archloom.acadl_models.acadl.storages import DataStorage
from archloom.acadl_models.acadl.units import FunctionalUnit
from archloom.mapper.places import role_of, rooms
from archloom.mapper.workload import Workload
from archloom.oracle.errors import TargetError


@dataclass(frozen=True)
class Port:
    """How a storage is reached: ``words_per_cycle`` of ``word_bytes`` in each of ``streams``, late by ``latency``
    cycles (None: it depends on the request). ``channels`` share what a stream moves."""

    word_bytes: float
    words_per_cycle: int
    streams: int
    latency: int | None
    channels: int = 1

    @property
    def bytes_per_cycle(self) -> int:
        """What one stream moves."""
        return max(1, int(self.word_bytes * self.words_per_cycle))

    @staticmethod
    def of(place: "DataStorage") -> "Port":
        latency = getattr(place, "read_latency", None)
        return Port(
            place.data_width / 8, place.port_width, 1 if place.shared_port else place.max_concurrent_requests,
            latency if isinstance(latency, int) else None, getattr(place, "channels", 1))


@dataclass(frozen=True)
class Memory:
    """A tensor buffer's place: ``rows`` words of ``row_bytes`` in ``banks``; what one bank moves and how late.

    ``storage``: the first bank; ``roles``: of the tensors that lie there, where a buffer's memories have some.
    """

    buffer: str
    rows: int
    row_bytes: float
    banks: int
    words_per_cycle: int
    slots: int
    shared_port: bool
    read_latency_cycles: int
    storage: str
    roles: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        return int(self.rows * self.row_bytes)

    @property
    def bytes_per_cycle(self) -> float:
        """What a bank moves."""
        return self.words_per_cycle * self.row_bytes


@dataclass(frozen=True)
class Way:
    """How a unit reaches a memory of tensors: the ``link``'s name ("" without one), bytes that it carries in a cycle,
    cycles of latency of both, and of how many bytes the bursts are (1: it moves any words)."""

    memory: Memory
    link: str
    link_bytes: float
    latency: int
    burst_bytes: int

    @property
    def bytes_per_cycle(self) -> float:
        """What passes."""
        return min(self.memory.bytes_per_cycle, self.link_bytes)

    def whole(self, size: Any) -> Any:
        """Bytes of a piece, or a column of them, with what its bursts have beside it."""
        return -(-size // self.burst_bytes) * self.burst_bytes if self.burst_bytes > 1 else size


@dataclass(frozen=True)
class Unit:
    """A functional unit: what it processes, which buffers it reads and writes, how many instructions at a time.

    ``queue``: instructions that the stages between the fetch stage and the unit hold.
    """

    name: str
    mnemonics: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    in_flight: int
    queue: int


@dataclass(frozen=True)
class Hardware:
    """The view of one architecture graph. ``issue_entries``: instructions that the fetch stage holds;
    ``fetched_per_cycle``: as many instructions as come to it.

    What it says is what the costs of single cores are made from; the whole graph as ``df`` text is made by
    :func:`archloom.mapper.spatial.machines.view.described`.
    """

    name: str
    clock_hz: float
    memories: tuple[Memory, ...]
    units: tuple[Unit, ...]
    issue_entries: int
    fetched_per_cycle: float
    fingerprint: str
    _graph: "ArchitectureGraph"

    @staticmethod
    def from_graph(graph: "ArchitectureGraph") -> "Hardware":
        return Hardware(
            graph.name, graph.clock_hz, _memories(graph), _units(graph),
            sum(s.issue_buffer_size for s in graph.fetch_stages), _fetched_per_cycle(graph), graph.fingerprint, graph,
        )

    @property
    def dim(self) -> int:
        """Rows and columns of the array; TargetError for a graph that does not state ``dim``."""
        if "dim" not in self._graph.parameters:
            raise TargetError(f"graph {self.name!r} has no parameter 'dim': the size of its array is not known")
        return self._graph.parameters["dim"]

    def memory(self, buffer: str, role: str = "") -> Memory:
        """The memory that holds ``buffer``, or of its tensors those of a role.

        TargetError if none does, or several without a role to tell them apart.
        """
        found = [m for m in self.memories if m.buffer == buffer and (not role or not m.roles or role in m.roles)]
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(f"{m.storage} with {' and '.join(m.roles)}" for m in found)
            raise TargetError(f"{self.name}: several memories hold {buffer!r} ({several}): state a role")
        known = ", ".join(dict.fromkeys(m.buffer for m in self.memories))
        of = f" of {role}" if role else ""
        raise TargetError(f"{self.name}: no memory holds {buffer!r}{of} (there are: {known})")

    def memory_of(self, workload: Workload, tensor: str) -> Memory:
        """The memory in which a tensor of a workload lies."""
        return self.memory(HBM, role_of(workload, tensor, rooms(self._graph)))

    def unit(self, mnemonic: str) -> Unit:
        """The unit that processes ``mnemonic``, the first of several; TargetError if none does."""
        found = self._processing.get(mnemonic)
        if found is None:
            raise TargetError(f"{self.name}: no unit processes {mnemonic!r}")
        return found[0]

    def units_of(self, mnemonic: str) -> int:
        """How many units process ``mnemonic``."""
        return len(self._processing.get(mnemonic, ()))

    @cached_property
    def queues(self) -> Mapping[str, int]:
        """What the stages before each unit hold, by its name."""
        return {unit.name: unit.queue for unit in self.units}

    @cached_property
    def _processing(self) -> dict[str, list[Unit]]:
        found: dict[str, list[Unit]] = {}
        for unit in self.units:
            for mnemonic in dict.fromkeys(unit.mnemonics):
                found.setdefault(mnemonic, []).append(unit)
        return found

    @property
    def caches(self) -> "tuple[CacheInterface, ...]":
        """All caches, those at units first, those at memory last."""
        return tuple(sorted(self._graph.caches, key=lambda cache: -len(self._graph.path(cache))))

    def way(self, mnemonic: str, role: str = "") -> Way:
        """How the unit that processes ``mnemonic`` reaches tensors of a role; without one the slowest of its ways."""
        found = self._ways.get((mnemonic, role))
        if found is None:
            found = self._ways[mnemonic, role] = self._slowest(mnemonic, role)
        return found

    @cached_property
    def _ways(self) -> dict[tuple[str, str], Way]:
        """Those that were asked for."""
        return {}

    def _slowest(self, mnemonic: str, role: str) -> Way:
        unit: FunctionalUnit = self._graph[self.unit(mnemonic).name]  # type: ignore[assignment]
        memories = [m for m in self.memories if m.buffer == HBM and (not role or not m.roles or role in m.roles)]
        reached = {self._graph.path(s)[-1].name for s in (*self._graph.reads(unit), *self._graph.writes(unit))
                   if isinstance(s, DataStorage)}
        near = [memory for memory in memories if memory.storage in reached] or memories
        return min((self._way(unit, memory) for memory in near), key=lambda way: way.bytes_per_cycle)

    def _way(self, unit: FunctionalUnit, memory: Memory) -> Way:
        storage: DataStorage = self._graph[memory.storage]  # type: ignore[assignment]
        burst = max(self._graph.burst_bytes(storage, unit, kind) for kind in (READ_DATA, WRITE_DATA))
        for kind in (READ_DATA, WRITE_DATA):
            link = self._graph.link(storage, unit, kind)
            if link is not None:
                return Way(memory, link.name, link.bandwidth, memory.read_latency_cycles + link.latency, max(1, burst))
        return Way(memory, "", memory.bytes_per_cycle, memory.read_latency_cycles, max(1, burst))

    def interval_columns(self, mnemonic: str, values: Mapping[str, Any]) -> Any:
        """Cycles after which the unit takes the next instruction after ``mnemonic``, for columns of attributes."""
        unit: FunctionalUnit = self._graph[self.unit(mnemonic).name]  # type: ignore[assignment]
        expression = unit.interval_of(mnemonic) or unit.latency_of(mnemonic)
        return expression.evaluate_columns({**self._graph.parameters, **values})

    def first_latency_columns(self, mnemonic: str, values: Mapping[str, Any]) -> Any:
        """Cycles to the first result of ``mnemonic``; None where its unit stores and forwards."""
        unit: FunctionalUnit = self._graph[self.unit(mnemonic).name]  # type: ignore[assignment]
        first = unit.first_latency_of(mnemonic)
        return None if first is None else first.evaluate_columns({**self._graph.parameters, **values})

    def latency_columns(self, mnemonic: str, values: Mapping[str, Any]) -> Any:
        """Cycles of processing of ``mnemonic`` for columns of attributes, without its reads and writes."""
        unit: FunctionalUnit = self._graph[self.unit(mnemonic).name]  # type: ignore[assignment]
        return unit.latency_of(mnemonic).evaluate_columns({**self._graph.parameters, **values})


def _fetched_per_cycle(graph: "ArchitectureGraph") -> float:
    """Instructions of a fetch over the cycles that it takes, of fetches that may overlap more."""
    found = 0.0
    for stage in graph.fetch_stages:
        unit, memory = graph.instruction_memory(stage)
        words = memory.port_width
        names = {"words": words, "bytes": words * memory.data_width // 8, **graph.parameters}
        latency = unit.latency_of("*").evaluate(names)
        cycles = latency + memory.latencies()["read_latency"].evaluate(names)
        found += words * min(graph.semantics.fetches_in_flight, max(1, cycles)) / max(1, cycles)
    return found


def _memories(graph: "ArchitectureGraph") -> tuple[Memory, ...]:
    found = []
    for buffer, banks in graph.buffers.items():
        places = [p for b in banks if isinstance(p := graph[b.storage], MemoryInterface)]  # not register files
        if not places:
            continue
        apart = [[place] for place in places] if any(place.roles for place in places) else [places]
        found += [_memory(graph, buffer, mine) for mine in apart]
    return tuple(found)


def _memory(graph: "ArchitectureGraph", buffer: str, places: list[MemoryInterface]) -> Memory:
    """Some banks of a buffer as one memory; all have the figures of the first."""
    first, port = places[0], Port.of(places[0])
    held = {place.name for place in places}
    rows = sum((b.stop or 0) - b.start for b in graph.buffers[buffer] if b.storage in held)
    names = {"words": 1, "bytes": max(1, first.data_width // 8), **graph.parameters}
    return Memory(
        buffer, rows, port.word_bytes, len(places), port.words_per_cycle, first.max_concurrent_requests,
        first.shared_port, first.latencies()["read_latency"].evaluate(names), first.name, first.roles)


def _units(graph: "ArchitectureGraph") -> tuple[Unit, ...]:
    buffer_of = {bank.storage: buffer for buffer, banks in graph.buffers.items() for bank in banks}
    found = []
    for unit in graph.functional_units:
        reads = dict.fromkeys(buffer_of[s.name] for s in graph.reads(unit) if s.name in buffer_of)
        writes = dict.fromkeys(buffer_of[s.name] for s in graph.writes(unit) if s.name in buffer_of)
        found.append(Unit(
            unit.name, tuple(sorted(unit.to_process)), tuple(reads), tuple(writes), unit.in_flight,
            _queue(graph, unit),
        ))
    return tuple(found)


def _queue(graph: "ArchitectureGraph", unit: "FunctionalUnit") -> int:
    """Places in the stages on the way from a fetch stage to the unit."""
    total, stage = 0, graph.stage_of(unit)
    while True:
        before = [s for s in graph.predecessors(stage) if s not in graph.fetch_stages]
        if not before:
            return total
        stage = before[0]
        total += stage.depth
