"""What a timing simulation reports: the same object from the step-by-step simulator and from the fast engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar


@dataclass(frozen=True)
class UnitTiming:
    """How a functional unit spent the cycles ``0 .. cycles - 1``; the four classes add up to ``cycles``.

    An instruction that the unit took at ``r``, that started at ``s`` and finished at ``f`` counts

    * ``dependency_stall_cycles``: ``r .. s - 1``, waiting for earlier instructions;
    * ``busy_cycles``: with an ``interval``, ``s .. s + interval - 1``; without one, the cycles of ``s .. f - 1`` in
      which no request of it waits in the FIFO of a storage;
    * ``storage_stall_cycles``: with an ``interval``, from ``s + interval`` until the unit is ready again (read requests
      without a slot, or ``in_flight`` instructions not yet finished); without one, the cycles of ``s .. f - 1`` in
      which a request of it waits in a FIFO.

    ``idle_cycles`` is the rest: the unit is ready and has nothing to do. Cycles from the makespan on do not count.
    """

    name: str
    instructions: int
    busy_cycles: int
    dependency_stall_cycles: int
    storage_stall_cycles: int
    idle_cycles: int


@dataclass(frozen=True)
class StageTiming:
    """How many instructions entered a stage, and for how many cycles its head could have left and was not taken.

    ``stall_cycles`` of a pipeline stage adds ``left - max(available, time the instruction became the head)`` over its
    instructions (``available`` is arrival plus latency); instructions that a contained unit takes are not counted. For
    the fetch stage ``instructions`` are those fetched, and ``stall_cycles`` are the cycles at whose end no fetch is
    under way although instructions are left: the issue buffer has no room.
    """

    name: str
    instructions: int
    stall_cycles: int


@dataclass(frozen=True)
class StorageTiming:
    """Traffic of a storage: requests, bytes (whole words), beats moved, and cycles that requests waited for a slot.

    Accumulations count as writes. For the instruction memory: one read request and one beat for each fetch, one word
    for each instruction.
    """

    name: str
    read_requests: int
    write_requests: int
    bytes_read: int
    bytes_written: int
    busy_beats: int
    queue_cycles: int


@dataclass(frozen=True)
class TimingResult:
    """Cycles of one stream on one graph, with where they went.

    ``cycles`` is the makespan. ``units``, ``stages`` and ``storages`` are in the graph's order of creation; register
    files and storages of no buffer (but the instruction memory) do not appear. ``exact`` says that nothing was
    estimated. ``stepped_instructions`` and ``skipped_share`` (of ``instructions``) tell how much of the run was
    multiplied out; they do not take part in comparisons.
    """

    graph: str
    stream: str
    clock_hz: float
    cycles: int
    instructions: int
    units: tuple[UnitTiming, ...]
    stages: tuple[StageTiming, ...]
    storages: tuple[StorageTiming, ...]
    exact: bool = True
    stepped_instructions: int = field(default=0, compare=False)
    skipped_share: float = field(default=0.0, compare=False)

    @property
    def seconds(self) -> float:
        """``cycles`` at the graph's clock."""
        return self.cycles / self.clock_hz

    def unit(self, name: str) -> UnitTiming:
        """The figures of the unit ``name``; KeyError if there is none."""
        return _named(self.units, name)

    def stage(self, name: str) -> StageTiming:
        """The figures of the stage ``name``; KeyError if there is none."""
        return _named(self.stages, name)

    def storage(self, name: str) -> StorageTiming:
        """The figures of the storage ``name``; KeyError if there is none."""
        return _named(self.storages, name)


T = TypeVar("T", UnitTiming, StageTiming, StorageTiming)


def _named(items: tuple[T, ...], name: str) -> T:
    for item in items:
        if item.name == name:
            return item
    raise KeyError(f"{name!r} is none of {', '.join(i.name for i in items)}")
