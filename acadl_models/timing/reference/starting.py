"""Phase 3: instructions start when those earlier ones with which they conflict are finished."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from archloom.acadl_models.timing.log import STARTED
from archloom.acadl_models.timing.program import AccessPlan, StaticInstruction
from archloom.acadl_models.timing.reference.completing import process
from archloom.acadl_models.timing.reference.reordering import producer
from archloom.acadl_models.timing.reference.requests import issue
from archloom.acadl_models.timing.reference.state import Instance, Machine, State, Unit
from archloom.acadl_models.timing.reference.streaming import flow, streamed


def start(m: Machine) -> None:
    """Phase 3."""
    waiting = [(u.waiting, u) for u in m.units.values() if u.waiting is not None]
    for instance, unit in sorted(waiting, key=lambda entry: entry[0].number):
        if blocker(m, instance) is None:
            _begin(m, unit, instance)


def blocker(m: Machine, instance: Instance) -> Instance | None:
    """The first earlier instruction that ``instance`` has to wait for."""
    earlier = (o for o in m.alive if o.number < instance.number and o.state is not State.FINISHED)
    return next((other for other in earlier if _holds_back(other, instance)), None) or producer(m, instance)


def _begin(m: Machine, unit: Unit, instance: Instance) -> None:
    unit.waiting = None
    unit.inside.append(instance)
    unit.last = instance
    interval = unit.spec.interval_of(instance.mnemonic)
    if interval is not None:
        unit.ready_from = m.now + m.latency(f"{unit.spec}: interval", interval, instance, 1)
    instance.state, instance.stream = State.READING, streamed(m, instance)
    m.note(STARTED, unit.spec.name, instance.number)
    issue(m, instance, instance.reads)
    m.changed = True
    if instance.waits_for_requests:
        return
    if instance.stream is None:
        process(m, instance)
    else:
        flow(m, instance, instance.stream)


def _holds_back(earlier: Instance, later: Instance) -> bool:
    """Whether a conflict with an ``earlier``, unfinished instruction keeps ``later`` from starting."""
    has_started = earlier.state in (State.READING, State.PROCESSING, State.WRITING)
    return any(
        _meet(a, earlier.values, b, later.values)
        for a, b in _ordered(earlier.static, later.static)
        if not (a.is_read and has_started and a.place.write_after_read == "started")
    )


@lru_cache(maxsize=4096)
def _ordered(earlier: StaticInstruction, later: StaticInstruction) -> list[tuple[AccessPlan, AccessPlan]]:
    """The accesses that must keep their order where they meet."""
    return [
        (a, b) for a in earlier.plans for b in later.plans
        if a.place.tracked and b.place.tracked and a.buffer.name == b.buffer.name
        and (a.kind != b.kind or a.kind == "write") and not (a.is_read and a.place.write_after_read == "ignored")
    ]


def _meet(a: AccessPlan, a_values: Mapping[str, int], b: AccessPlan, b_values: Mapping[str, int]) -> bool:
    """Whether the two windows have an element in common."""
    return _overlap(a, b, b.element_offset.evaluate(b_values) - a.element_offset.evaluate(a_values))


@lru_cache(maxsize=1 << 14)
def _overlap(a: AccessPlan, b: AccessPlan, shift: int) -> bool:
    """Whether two windows have an element in common if the second begins ``shift`` elements behind the first."""
    mine, theirs = a.elements, b.elements
    if mine[-1] < theirs[0] + shift or theirs[-1] + shift < mine[0]:
        return False
    return bool(np.isin(mine, theirs + shift, assume_unique=True).any())
