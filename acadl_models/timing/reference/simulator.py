"""The clock of the step-by-step simulator: the four phases of each cycle, until every instruction is finished."""

from __future__ import annotations

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing.log import RunLog
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.reference.accounting import count_cycle, result
from archloom.acadl_models.timing.reference.completing import complete
from archloom.acadl_models.timing.reference.deadlock import deadlock
from archloom.acadl_models.timing.reference.fetching import fetch
from archloom.acadl_models.timing.reference.forwarding import forward
from archloom.acadl_models.timing.reference.recording import InstanceLog
from archloom.acadl_models.timing.reference.starting import start
from archloom.acadl_models.timing.reference.state import Machine, State
from archloom.acadl_models.timing.result import TimingResult
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedStream


def simulate_reference(
    graph: ArchitectureGraph, resolved: ResolvedStream, log: list[InstanceLog] | None = None
) -> TimingResult:
    """Simulate ``resolved`` on ``graph`` cycle by cycle; appends one entry per finished instance to ``log``.

    Raises GraphError for a stream that the graph cannot process, a latency below its least value, or a deadlock.
    """
    machine = Machine(bind(graph, resolved))
    machine.log = log
    return _run(machine)


def log_reference(graph: ArchitectureGraph, resolved: ResolvedStream) -> RunLog:
    """The log of the whole run, step by step; raises as :func:`simulate_reference`."""
    machine = Machine(bind(graph, resolved))
    machine.events = []
    cycles = _run(machine).cycles
    return RunLog(machine.program, 0, cycles, tuple(machine.events), 0, cycles)


def _run(m: Machine) -> TimingResult:
    while m.finished < m.total:
        m.changed = False
        complete(m)
        if m.finished == m.total:
            break
        forward(m)
        start(m)
        fetch(m)
        if not m.changed and not _waits_for_time(m):
            raise GraphError(m.graph.name, deadlock(m))
        count_cycle(m)
        m.now += 1
    return result(m)


def _waits_for_time(m: Machine) -> bool:
    """Whether a time lies ahead at which something changes by itself."""
    return (
        bool(m.fetcher.under_way)
        or any(s.slots for s in m.storages.values())
        or any(
            u.ready_from > m.now or any(i.state is State.PROCESSING for i in u.inside) for u in m.units.values()
        )
        or any(s.incoming or (s.held and s.held[0].leave > m.now) for s in m.stages.values())
    )
