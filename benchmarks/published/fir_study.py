"""The FIR filter of the EQueue paper (section VII) on four machines, by simulation.

32 complex coefficients, 512 outputs (128 groups of 4). Conventions:

* Cycle 0 is the one in which the loop over groups begins: fetch and prologue (coefficients and first samples) are
  over, and the first stream transfers and operations start.
* ``cycles`` is when the last operation ends; the transfer of the last result comes after it.
* ``warm_up`` is when the last core starts its first operation.
* With unlimited bandwidth, EQueue's reads take no time. Here a transfer takes at least a cycle, so sums go over the
  cascade, and a core whose first operation needs the group's own samples reads them a group ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.ai_engine import ai_engine, core_path
from archloom.acadl_models.timing.engine.window import log_window
from archloom.acadl_models.timing.log import FINISHED, STARTED, RunLog
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import Loop, Stream
from benchmarks.published.fir import GROUP, Fir, fir

Logger: TypeAlias = Callable[[ArchitectureGraph, ResolvedStream], RunLog]
"""Simulates a stream and logs all of it."""


def whole_run(graph: ArchitectureGraph, resolved: ResolvedStream) -> RunLog:
    """The log of the fast engine."""
    return log_window(graph, resolved, 0, _LONGEST)


_LONGEST = 1 << 30


@dataclass(frozen=True)
class Case:
    """A filter on as many cores as it takes, whose streams are ``stream_bits`` wide (0: no limit)."""

    name: str
    filter: Fir
    stream_bits: int

    def graph(self) -> ArchitectureGraph:
        return ai_engine(columns=self.filter.cores, stream_bits=self.stream_bits)

    def stream(self) -> Stream:
        """The filter as a stream for the case's graph."""
        return fir(self.filter, self.graph().parameters, name=self.name)


CASES = (
    Case("1 core, unlimited", Fir(32, 512, 1, cascade=True, read_after=12), 0),
    Case("16 cores, unlimited", Fir(32, 512, 16, cascade=True, ahead=1), 0),
    Case("16 cores, 32-bit streams", Fir(32, 512, 16), 32),
    Case("4 cores, 32-bit streams", Fir(32, 512, 4), 32),
)
"""The paper's cases 1 to 4; in the first one the read follows the 12th operation, as in its listing."""


@dataclass(frozen=True)
class Measured:
    """Cycles of a case; ``makespan`` is that of the whole stream, with fetch, prologue and the last transfer."""

    case: Case
    cycles: int
    warm_up: int
    makespan: int

    @property
    def utilization(self) -> float:
        """The share of its cycles in which the last core computes, once it has begun."""
        return self.case.filter.groups * self.case.filter.operations / (self.cycles - self.warm_up)


def measure(case: Case, logger: Logger = whole_run) -> Measured:
    """Simulate a case; see the module for what is counted."""
    found = operations(case, logger)
    last = max(op.end for core in found.cores for op in core)
    return Measured(case, last, found.cores[-1][0].start, found.makespan)


@dataclass(frozen=True)
class Operation:
    """An operation of a vector unit in the cycles ``start .. end - 1``, counted from the beginning of the loop."""

    mnemonic: str
    start: int
    end: int


@dataclass(frozen=True)
class Operations:
    """The operations of each core in the order of time, and the makespan of the stream."""

    cores: tuple[tuple[Operation, ...], ...]
    makespan: int


def operations(case: Case, logger: Logger = whole_run) -> Operations:
    """What the vector units do, from the log of the simulation."""
    graph, stream = case.graph(), case.stream()
    log = logger(graph, resolve(stream, taidl.load(stream.isa, **dict(stream.parameters))))
    assert log.cycles is not None
    before = next(i for i, node in enumerate(stream.body) if isinstance(node, Loop) and node.var == GROUP)
    begin = max(e.time for e in log.events if e.step == FINISHED and e.number < before)
    units = {f"{core_path(graph, core)}.vector": core for core in range(case.filter.cores)}
    starts = {e.number: e.time for e in log.events if e.step == STARTED and e.place in units}
    cores: list[list[Operation]] = [[] for _ in units]
    for e in log.events:
        if e.step == FINISHED and e.place in units:
            mnemonic = log.program.names.find(e.number)[0].node.mnemonic
            cores[units[e.place]].append(Operation(mnemonic, starts[e.number] - begin, e.time - begin))
    return Operations(tuple(map(tuple, cores)), log.cycles)
