"""What a timing simulation reports: the same object from the step-by-step simulator and from the fast engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from archloom.oracle.records import plain, typed

Heard: TypeAlias = Callable[[int, int, int], None]
"""Hears how far a run is: instructions that were stepped through, that are finished, and of how many."""

@dataclass(frozen=True)
class UnitTiming:
    """How a functional unit spent the cycles ``0 .. cycles - 1``; the classes add up to ``cycles``.

    An instruction that the unit took at ``r``, that started at ``s`` and finished at ``f`` counts

    * ``dependency_stall_cycles``: ``r .. s - 1``, waiting for earlier instructions;
    * ``busy_cycles``: with an ``interval``, ``s .. s + interval - 1``; without one, the cycles of ``s .. f - 1`` in
      which no request of it waits in the FIFO of a storage;
    * ``storage_stall_cycles``: with an ``interval``, from ``s + interval`` until the unit is ready again (read requests
      without a slot, or ``in_flight`` instructions not yet finished); without one, the cycles of ``s .. f - 1`` in
      which a request of it waits in a FIFO.

    The rest of the cycles, in which the unit is ready and has nothing to do, are ``starved_cycles`` where the issue
    buffer is empty although instructions are left to fetch, and ``idle_cycles`` otherwise. Cycles from the makespan on
    do not count.
    """

    name: str
    instructions: int
    busy_cycles: int
    dependency_stall_cycles: int
    storage_stall_cycles: int
    idle_cycles: int
    starved_cycles: int = 0

    @property
    def cycles(self) -> int:
        """All cycles of the run."""
        stalls = self.dependency_stall_cycles + self.storage_stall_cycles + self.starved_cycles
        return self.busy_cycles + stalls + self.idle_cycles

    @property
    def utilization(self) -> float:
        """The share of the run in which the unit is busy."""
        return _share(self.busy_cycles, self.cycles)


@dataclass(frozen=True)
class StageTiming:
    """How many instructions entered a stage, and how it spent the cycles; busy, stall and idle add up to them.

    ``stall_cycles`` of a pipeline stage adds ``left - max(available, time the instruction became the head)`` over its
    instructions (``available`` is arrival plus latency): nothing downstream had room for it. ``busy_cycles`` are those
    in which the head is held for the stage's latency, ``idle_cycles`` those in which the stage buffers nothing;
    instructions that a contained unit takes are counted there and not here. For the fetch stage ``instructions`` are
    those fetched; it is busy while a fetch is under way, and stalled in the cycles at whose end none is although
    instructions are left: the issue buffer has no room.
    """

    name: str
    instructions: int
    stall_cycles: int
    busy_cycles: int = 0
    idle_cycles: int = 0


@dataclass(frozen=True)
class PortTiming:
    """What one direction of a storage or of a link carries, cycle by cycle.

    A request moves its bytes in its last ``beats`` cycles, ``finish - beats .. finish - 1``, as evenly as whole bytes
    allow: the first ``bytes % beats`` of them carry one byte more. A link carries ``bandwidth`` bytes in each cycle of
    a request and the rest in the last. Where misses of a cache end without the latency of a hit (``after_miss`` of the
    semantics), each of its requests counts as if no other moved bytes at the same time. ``busy_cycles``: cycles in
    which anything is moved; ``peak_bytes_per_cycle``: the most in one cycle; ``peak_cycles``: cycles that reach it.
    """

    bytes: int = 0
    busy_cycles: int = 0
    peak_bytes_per_cycle: int = 0
    peak_cycles: int = 0

    def mean_bytes_per_cycle(self, cycles: int) -> float:
        """Bytes per cycle over a run of ``cycles``."""
        return _share(self.bytes, cycles)

    def peak_share(self, cycles: int) -> float:
        """The share of a run of ``cycles`` that is spent at the peak."""
        return _share(self.peak_cycles, cycles)


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
    words_read: int = 0
    words_written: int = 0
    read: PortTiming = PortTiming()
    write: PortTiming = PortTiming()


@dataclass(frozen=True)
class LinkTiming:
    """Traffic of a link, and the cycles that requests waited for one of its channels."""

    name: str
    read: PortTiming
    write: PortTiming
    wait_cycles: int


@dataclass(frozen=True)
class CacheTiming:
    """What happened in a cache: look-ups of lines by outcome, and its traffic with the storage behind it.

    Every line that a request touches is looked up once, and one that is on its way when that is over: it is a hit then.
    So each miss that loads a line is one refill. In a cache behind a cache the lines that the one in front loads
    count as reads, those that it writes back or through as writes. ``evictions`` are lines that gave way to another,
    ``write_backs`` those of them that were dirty. ``bytes_from_backing`` are whole lines; ``bytes_to_backing`` are the
    whole lines of write-backs and the bytes that are written through.
    """

    name: str
    read_hits: int
    read_misses: int
    write_hits: int
    write_misses: int
    evictions: int
    write_backs: int
    bytes_from_backing: int
    bytes_to_backing: int

    @property
    def hits(self) -> int:
        return self.read_hits + self.write_hits

    @property
    def misses(self) -> int:
        return self.read_misses + self.write_misses

    @property
    def hit_rate(self) -> float:
        """Share of the look-ups that hit; 1 where there were none."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 1.0


@dataclass(frozen=True)
class DramTiming:
    """How the rows stood that the segments of requests to a DRAM wanted.

    Open (``row_hits``), no row of the bank open (``row_misses``), or another one (``row_conflicts``).
    """

    name: str
    row_hits: int
    row_misses: int
    row_conflicts: int


@dataclass(frozen=True)
class LoopTiming:
    """What a loop of the stream adds to the run.

    The run is at every moment at the oldest instruction in program order that is not finished; ``cycles`` are those at
    whose end this one lies in the loop. So ``cycles`` is the time from the moment at which everything before the loop
    is finished to the moment at which everything up to its end is, summed over ``executions``; the loops and the
    instructions of one body add up to the cycles of the body. ``source`` is the number of the loop in the stream, in
    the order of the text; ``path`` names its variable after those of the loops around it. ``iterations`` are those of
    all executions; ``stepped_iterations``, which takes no part in comparisons, were not multiplied out.
    """

    source: int
    path: tuple[str, ...]
    executions: int
    iterations: int
    cycles: int
    stepped_iterations: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The path in one word, such as ``i/j``."""
        return "/".join(self.path)


@dataclass(frozen=True)
class Patience:
    """From when on a run is not waited for, in questions to caches; stepping an instruction takes as long as some
    dozen, and a second has 30 million or so.

    ``whole``: a run that would take more is long, as can be said when it has taken ``begin``. ``part``: the rest of a
    loop is taken in proportion where it would take more, and where ``seen`` was taken to judge by, or ``parts`` where
    accesses have moved by parts of lines since. From ``late`` on less is enough. The first is from what is asked of
    estimates of single operators, less than ten seconds; the others are free choices, made with products and
    convolutions of up to 16,384 on six targets in view.
    """

    whole: int = 5 << 25
    begin: int = 1 << 24
    part: int = 1 << 22
    seen: int = 1 << 19
    parts: int = 1 << 22
    late: int = 5 << 25


@dataclass(frozen=True)
class TimingResult:
    """Cycles of one stream on one graph, with where they went.

    ``cycles`` is the makespan. ``units``, ``stages`` and ``storages`` are in the graph's order of creation; register
    files and storages of no buffer (but the instruction memory) do not appear; ``loops`` are in the order of the text,
    those without iterations left out. ``exact`` says that nothing was
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
    links: tuple[LinkTiming, ...] = ()
    caches: tuple[CacheTiming, ...] = ()
    drams: tuple[DramTiming, ...] = ()
    loops: tuple[LoopTiming, ...] = ()
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

    def cache(self, name: str) -> CacheTiming:
        """The look-ups and the traffic of the cache ``name``; KeyError if there is none."""
        return _named(self.caches, name)

    def dram(self, name: str) -> DramTiming:
        """The row hits, misses and conflicts of the DRAM ``name``; KeyError if it has no bank state."""
        return _named(self.drams, name)

    def link(self, name: str) -> LinkTiming:
        """The figures of the link ``name``; KeyError if there is none."""
        return _named(self.links, name)

    def loop(self, name: str) -> LoopTiming:
        """The figures of the first loop with this path, such as ``"i/j"``; KeyError if there is none."""
        return _named(self.loops, name)

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields of this class."""
        data: dict[str, Any] = plain(self)
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "TimingResult":
        """The result that ``data`` holds; TypeError if it holds none."""
        found: TimingResult = typed(data, TimingResult)
        return found


@dataclass(frozen=True)
class EnergyUse:
    """Joules of a run, and of each object that spends some; None: not known without the figures that are
    ``missing``. ``clock_joules``: of clocks that are not gated; ``kinds``: joules by kind of event over all objects."""

    joules: float | None
    dynamic_joules: float | None
    leakage_joules: float | None
    objects: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    clock_joules: float = 0.0
    kinds: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "EnergyUse":
        """What ``data`` holds, a JSON object with the fields of this class; TypeError if it holds none."""
        found: EnergyUse = typed(data, EnergyUse)
        return found


T = TypeVar("T", UnitTiming, StageTiming, StorageTiming, LinkTiming, LoopTiming, CacheTiming, DramTiming)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _named(items: tuple[T, ...], name: str) -> T:
    for item in items:
        if item.name == name:
            return item
    raise KeyError(f"{name!r} is none of {', '.join(i.name for i in items)}")
