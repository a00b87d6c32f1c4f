"""Jitted: what fetch, stages, units and storages were doing, counted when it changes.

A counter is complete up to the time in its record (``SINCE``); what holds at the end of a cycle counts for the cycle.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import Code, H, Instruction, UnitSpec
from archloom.acadl_models.timing.engine.phases.agenda import mark
from archloom.acadl_models.timing.engine.phases.transfers import change_rate
from archloom.acadl_models.timing.engine.state import Instance, M, Port, Stage, Store, Unit


@jit
def doing(t, m, unit, now):
    """The counter of what a unit does; a unit that idles is ready (phase 1c): it would take an instruction."""
    if m[unit + Unit.WAITING] != NONE:
        return Unit.DEPENDENCY
    if t[m[unit + Unit.SPEC] + UnitSpec.PIPELINED] == 1:
        if now < m[unit + Unit.READY]:
            return Unit.BUSY
        free = m[unit + Unit.UNGRANTED] == 0 and m[unit + Unit.COUNT] < t[m[unit + Unit.SPEC] + UnitSpec.CAPACITY]
        return Unit.IDLE if free else Unit.STORAGE
    if m[unit + Unit.COUNT] == 0:
        return Unit.IDLE
    return Unit.STORAGE if m[unit + Unit.QUEUED] > 0 else Unit.BUSY


@jit_inline
def note_unit(t, m, unit, now):
    """Something about a unit that is not ready has changed; its stage may take something if it has become ready."""
    found = doing(t, m, unit, now)
    if found != m[unit + Unit.DOING]:
        change_doing(m, unit, found, now)


@jit
def change_doing(m, unit, found, now):
    """A unit that was not ready does something else from now on."""
    m[unit + m[unit + Unit.DOING]] += now - m[unit + Unit.SINCE]
    m[unit + Unit.SINCE] = now
    m[unit + Unit.DOING] = found
    if found == Unit.IDLE:
        m[unit + Unit.FED] = starved(m, now)
        stage = m[unit + Unit.STAGE]
        m[stage + Stage.UNREADY] -= 1
        if m[stage + Stage.UNREADY] == 0:
            mark(m, m[stage + Stage.NUMBER])


@jit
def leave_idle(m, unit, now):
    """A unit that was ready has taken an instance."""
    settle_idle(m, unit, now)
    m[unit + Unit.DOING] = Unit.DEPENDENCY
    m[m[unit + Unit.STAGE] + Stage.UNREADY] += 1


@jit
def starved(m, now):
    """Cycles so far in which the issue buffer was empty although instructions were left."""
    return m[M.STARVED] + m[M.HUNGRY] * (now - m[M.HUNGRY_SINCE])


@jit
def settle_idle(m, unit, now):
    hungry = starved(m, now)
    gained = hungry - m[unit + Unit.FED]
    m[unit + Unit.FED] = hungry
    m[unit + Unit.STARVED] += gained
    m[unit + Unit.IDLE] += now - m[unit + Unit.SINCE] - gained
    m[unit + Unit.SINCE] = now


@jit
def settle_unit(m, unit, now):
    if m[unit + Unit.DOING] == Unit.IDLE:
        settle_idle(m, unit, now)
    else:
        m[unit + m[unit + Unit.DOING]] += now - m[unit + Unit.SINCE]
        m[unit + Unit.SINCE] = now


@jit
def note_hunger(t, m, now):
    """The issue buffer has become empty, or instructions have arrived."""
    hungry = int(m[M.ISSUED] + m[M.UNDECODED] == 0 and m[M.FETCHED] < t[H.TOTAL])
    if hungry != m[M.HUNGRY]:
        settle_hunger(m, now)
        m[M.HUNGRY] = hungry


@jit
def settle_hunger(m, now):
    m[M.STARVED] += m[M.HUNGRY] * (now - m[M.HUNGRY_SINCE])
    m[M.HUNGRY_SINCE] = now


@jit
def note_front(t, m, now):
    """The oldest instruction is another one: count the cycles for the loop in which the last one lies."""
    site = t[H.SITES]  # no loop, where nothing is left but requests
    if m[M.OLDEST_LEFT] != NONE:
        site = t[m[m[M.OLDEST_LEFT] + Instance.STATIC] + Instruction.SITE]
    elif t[t[H.PROGRAM] + 2 * m[M.PC]] == Code.INSTRUCTION:
        site = t[t[t[H.PROGRAM] + 2 * m[M.PC] + 1] + Instruction.SITE]
    if site != m[M.FRONT]:
        settle_front(m, now)
        m[M.FRONT] = site


@jit
def settle_front(m, now):
    m[m[M.SPENT] + m[M.FRONT]] += now - m[M.FRONT_SINCE]
    m[M.FRONT_SINCE] = now


@jit
def settle_stage(m, stage, now):
    """Count what the head of a stage did: it could have left, or not yet."""
    if m[stage + Stage.OFFERS] == 1:
        m[stage + Stage.STALL] += now - m[stage + Stage.SINCE]
    elif m[stage + Stage.COUNT] > 0:
        m[stage + Stage.BUSY] += now - m[stage + Stage.SINCE]
    m[stage + Stage.SINCE] = now


@jit
def settle_queue(m, store, now):
    """Count the waiting requests of a storage before their number changes."""
    m[store + Store.QUEUE_CYCLES] += m[store + Store.QUEUED] * (now - m[store + Store.SINCE])
    m[store + Store.SINCE] = now


@jit
def settle(t, m):
    """Complete all counters."""
    now = m[M.TIME]
    settle_hunger(m, now)
    settle_front(m, now)
    for stage in range(m[M.STAGES], m[M.STAGES] + t[H.STAGES] * Stage.SIZE, Stage.SIZE):
        settle_stage(m, stage, now)
    for unit in range(m[M.UNITS], m[M.UNITS] + t[H.UNITS] * Unit.SIZE, Unit.SIZE):
        settle_unit(m, unit, now)
    for store in range(m[M.STORES], m[M.STORES] + t[H.STORES] * Store.SIZE, Store.SIZE):
        settle_queue(m, store, now)
        change_rate(m, store + Store.PORTS, 0, now)
        change_rate(m, store + Store.PORTS + Port.SIZE, 0, now)
