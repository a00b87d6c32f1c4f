"""What is said about a machine in which nothing can happen any more."""

from __future__ import annotations

from archloom.acadl_models.timing.machine import MOST_LISTED, more_faults
from archloom.acadl_models.timing.reference.starting import blocker
from archloom.acadl_models.timing.reference.state import Instance, Machine, State


def deadlock(m: Machine) -> list[str]:
    """The instructions that are left, and what each waits for."""
    faults = [f"deadlock in cycle {m.now}: {m.total - m.finished} of {m.total} instructions are left"]
    faults += [f"{instance} waits for {_waits_for(m, instance)}" for instance in m.alive[:MOST_LISTED]]
    return faults + more_faults(len(m.alive))


def _waits_for(m: Machine, instance: Instance) -> str:
    if instance.state is State.WAITING:
        return f"{blocker(m, instance)} to finish, in {instance.unit.spec}"
    if instance.taken_by is not None:
        return f"{instance.state} to end, in {instance.unit.spec}"
    stage = next((s.spec for s in m.stages.values() if instance in s.held), m.program.fetch)
    if stage is m.program.fetch and m.semantics.issue == "in_order" and instance is not m.fetcher.buffer[0]:
        return f"{m.fetcher.buffer[0]} to be issued, in {stage}"
    after = [s for s in m.graph.successors(stage) if s.name in instance.static.routed]
    return f"room in {' or '.join(str(s) for s in after) or 'no stage at all'}, in {stage}"
