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
from dataclasses import dataclass, replace

from acadl_models.acadl import ArchitectureGraph
from acadl_models.ai_engine import ai_engine, core_path, isa_parameters
from acadl_models.timing import TimingResult, simulate
from acadl_models.timing.reference import InstanceLog, simulate_reference
from oracle import taidl
from oracle.resolve import resolve
from oracle.resolved import ResolvedStream
from oracle.stream import Loop, Stream
from uma_targets.ai_engine.fir import GROUP, Fir, fir

Simulator = Callable[[ArchitectureGraph, ResolvedStream], TimingResult]


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
        return fir(self.filter, isa_parameters(self.graph()), name=self.name)


CASES = (
    Case("1 core, unlimited", Fir(32, 512, 1, cascade=True, read_after=12), 0),
    Case("16 cores, unlimited", Fir(32, 512, 16, cascade=True, ahead=1), 0),
    Case("16 cores, 32-bit streams", Fir(32, 512, 16), 32),
    Case("4 cores, 32-bit streams", Fir(32, 512, 4), 32),
)
"""The paper's cases 1 to 4; in the first one the read follows the 12th operation, as in its listing."""


@dataclass(frozen=True)
class Measured:
    """Cycles of a case, and what share of them the last core computes once it has begun."""

    case: Case
    cycles: int
    warm_up: int

    @property
    def utilization(self) -> float:
        return self.case.filter.groups * self.case.filter.operations / (self.cycles - self.warm_up)


def measure(case: Case, simulator: Simulator = simulate) -> Measured:
    """Simulate a case; see the module for what is counted."""
    graph, stream = case.graph(), case.stream()

    def makespan(body: tuple[object, ...]) -> int:
        return simulator(graph, _resolved(replace(stream, body=body))).cycles  # type: ignore[arg-type]

    return Measured(case, makespan(stream.body[:-1]) - makespan(prologue(stream)), warm_up(case))


def prologue(stream: Stream) -> tuple[object, ...]:
    """What precedes the loop over groups."""
    return stream.body[:next(i for i, n in enumerate(stream.body) if isinstance(n, Loop) and n.var == GROUP)]


def warm_up(case: Case) -> int:
    """From the log of the step-by-step simulator on the first group: when the last core's vector unit first starts."""
    one = replace(case, filter=replace(case.filter, outputs=4))
    graph, stream = one.graph(), one.stream()
    log: list[InstanceLog] = []
    simulate_reference(graph, _resolved(stream), log)
    begin = max(entry.finished for entry in log if entry.number < len(prologue(stream)))
    unit = f"{core_path(graph, case.filter.cores - 1)}.vector"
    return min(entry.started for entry in log if entry.unit == unit) - begin


def _resolved(stream: Stream) -> ResolvedStream:
    return resolve(stream, taidl.load(stream.isa, **dict(stream.parameters)))
