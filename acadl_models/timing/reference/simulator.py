"""The clock of the step-by-step simulator: the four phases of each cycle, until every instruction is finished."""

from __future__ import annotations

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing.log import RunLog
from archloom.acadl_models.timing.machine import MOST_LISTED, bind, more_faults
from archloom.acadl_models.timing.reference.accounting import count_cycle, result
from archloom.acadl_models.timing.reference.completing import complete
from archloom.acadl_models.timing.reference.fetching import fetch
from archloom.acadl_models.timing.reference.forwarding import forward
from archloom.acadl_models.timing.reference.reordering import what_is_missing
from archloom.acadl_models.timing.reference.starting import blocker, start
from archloom.acadl_models.timing.reference.state import Instance, Machine, State
from archloom.acadl_models.timing.result import TimingResult
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedStream


def simulate_reference(graph: ArchitectureGraph, resolved: ResolvedStream) -> TimingResult:
    """Simulate ``resolved`` on ``graph`` cycle by cycle.

    Raises GraphError for a stream that the graph cannot process, a latency below its least value, or a deadlock.
    """
    return _run(Machine(bind(graph, resolved)))


def log_reference(graph: ArchitectureGraph, resolved: ResolvedStream) -> RunLog:
    """The log of the whole run, step by step; raises as :func:`simulate_reference`."""
    machine = Machine(bind(graph, resolved))
    machine.events = []
    cycles = _run(machine).cycles
    return RunLog(machine.program, 0, cycles, tuple(machine.events), 0, cycles)


def _run(m: Machine) -> TimingResult:
    while True:
        m.changed = False
        complete(m)
        if m.done == m.total and not any(storage.slots for storage in m.storages.values()):
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


def deadlock(m: Machine) -> list[str]:
    """What is said about a machine in which nothing can happen any more: what each instruction waits for."""
    faults = [f"deadlock in cycle {m.now}: {m.total - m.done} of {m.total} instructions are left"]
    faults += [f"{instance} waits for {_waits_for(m, instance)}" for instance in m.alive[:MOST_LISTED]]
    return faults + more_faults(len(m.alive))


def _waits_for(m: Machine, instance: Instance) -> str:
    if instance.state is State.WAITING:
        return f"{blocker(m, instance)} to finish, in {instance.unit.spec}"
    if instance.state is State.FINISHED:
        return f"{m.alive[0]} to commit, in {m.program.fetch}"
    if instance.taken_by is not None:
        return f"{instance.state} to end, in {instance.unit.spec}"
    stage = next((s.spec for s in m.stages.values() if instance in s.held), m.program.fetch)
    if instance.number >= m.decoded:
        return f"{what_is_missing(m, instance)}, in {m.program.fetch}"
    if stage is m.program.fetch and m.semantics.issue == "in_order" and instance is not m.fetcher.buffer[0]:
        return f"{m.fetcher.buffer[0]} to be issued, in {stage}"
    after = [s for s in m.graph.successors(stage) if s.name in instance.static.routed]
    return f"room in {' or '.join(str(s) for s in after) or 'no stage at all'}, in {stage}"
