"""Phase 1: requests end, instructions move on in their units, fetches arrive."""

from __future__ import annotations

from archloom.acadl_models.timing import log
from archloom.acadl_models.timing.reference.fetching import arrive
from archloom.acadl_models.timing.reference.reordering import commit, decode, retire
from archloom.acadl_models.timing.reference.requests import end_requests, fill_slots, issue
from archloom.acadl_models.timing.reference.state import Instance, Machine, State


def complete(m: Machine) -> None:
    """Phase 1."""
    end_requests(m)
    for storage in m.storages.values():
        fill_slots(m, storage)
    for instance in [each for each in m.alive if each.taken_by is not None]:
        _move_on(m, instance)
    arrive(m)
    commit(m)
    decode(m)


def process(m: Machine, instance: Instance) -> None:
    """From reading to processing; through it where it takes no time."""
    unit = instance.unit.spec
    least = 0 if any(plan.place.banks for plan in instance.static.plans) else 1
    latency = m.latency(f"{unit}: latency", unit.latency_of(instance.mnemonic), instance, least)
    instance.state, instance.end = State.PROCESSING, m.now + latency
    m.note(log.PROCESSING, unit.name, instance.number)
    m.changed = True
    if latency == 0:
        _write(m, instance)


def _move_on(m: Machine, instance: Instance) -> None:
    """Phase 1b."""
    if instance.state is State.READING and not instance.waits_for_requests:
        process(m, instance)
    elif instance.state is State.PROCESSING and instance.end == m.now:
        _write(m, instance)
    elif instance.state is State.WRITING and not instance.pending:
        _finish(m, instance)


def _write(m: Machine, instance: Instance) -> None:
    instance.state = State.WRITING
    m.note(log.WRITING, instance.unit.spec.name, instance.number)
    issue(m, instance, instance.writes)
    if not instance.waits_for_requests:
        _finish(m, instance)


def _finish(m: Machine, instance: Instance) -> None:
    instance.state = State.FINISHED
    m.note(log.FINISHED, instance.unit.spec.name, instance.number)
    instance.unit.inside.remove(instance)
    m.changed = True
    if m.fetcher.stage.reorder_entries is None:
        retire(m, instance)
