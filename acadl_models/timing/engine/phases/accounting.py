"""Jitted: what fetch, stages, units and storages were doing, counted when it changes.

A counter is complete up to the time in its record (``SINCE``); what holds at the end of a cycle counts for the cycle.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.marks import mark
from archloom.acadl_models.timing.engine.phases.transfers import change_rate


@jit
def doing(t, m, unit, now):
    """The counter of what a unit does; a unit that idles is ready (phase 1c): it would take an instruction."""
    if m[unit + U_WAITING] != NONE:
        return U_DEPENDENCY
    if t[m[unit + U_RECORD] + TU_PIPELINED] == 1:
        if now < m[unit + U_READY]:
            return U_BUSY
        free = m[unit + U_UNGRANTED] == 0 and m[unit + U_COUNT] < t[m[unit + U_RECORD] + TU_CAPACITY]
        return U_IDLE if free else U_STORAGE
    if m[unit + U_COUNT] == 0:
        return U_IDLE
    return U_STORAGE if m[unit + U_QUEUED] > 0 else U_BUSY


@jit_inline
def note_unit(t, m, unit, now):
    """Something about a unit that is not ready has changed; its stage may take something if it has become ready."""
    found = doing(t, m, unit, now)
    if found != m[unit + U_DOING]:
        change_doing(m, unit, found, now)


@jit
def change_doing(m, unit, found, now):
    """A unit that was not ready does something else from now on."""
    m[unit + m[unit + U_DOING]] += now - m[unit + U_SINCE]
    m[unit + U_SINCE] = now
    m[unit + U_DOING] = found
    if found == U_IDLE:
        m[unit + U_FED] = starved(m, now)
        stage = m[unit + U_STAGE]
        m[stage + S_UNREADY] -= 1
        if m[stage + S_UNREADY] == 0:
            mark(m, m[stage + S_NUMBER])


@jit
def leave_idle(m, unit, now):
    """A unit that was ready has taken an instance."""
    settle_idle(m, unit, now)
    m[unit + U_DOING] = U_DEPENDENCY
    m[m[unit + U_STAGE] + S_UNREADY] += 1


@jit
def starved(m, now):
    """Cycles so far in which the issue buffer was empty although instructions were left."""
    return m[M_STARVED] + m[M_HUNGRY] * (now - m[M_HUNGRY_SINCE])


@jit
def settle_idle(m, unit, now):
    hungry = starved(m, now)
    gained = hungry - m[unit + U_FED]
    m[unit + U_FED] = hungry
    m[unit + U_STARVED] += gained
    m[unit + U_IDLE] += now - m[unit + U_SINCE] - gained
    m[unit + U_SINCE] = now


@jit
def settle_unit(m, unit, now):
    if m[unit + U_DOING] == U_IDLE:
        settle_idle(m, unit, now)
    else:
        m[unit + m[unit + U_DOING]] += now - m[unit + U_SINCE]
        m[unit + U_SINCE] = now


@jit
def note_hunger(t, m, now):
    """The issue buffer has become empty, or instructions have arrived."""
    hungry = int(m[M_ISSUED] == 0 and m[M_FETCHED] < t[H_TOTAL])
    if hungry != m[M_HUNGRY]:
        settle_hunger(m, now)
        m[M_HUNGRY] = hungry


@jit
def settle_hunger(m, now):
    m[M_STARVED] += m[M_HUNGRY] * (now - m[M_HUNGRY_SINCE])
    m[M_HUNGRY_SINCE] = now


@jit
def note_front(t, m, now):
    """The oldest instruction is another one: count the cycles for the loop in which the last one lies."""
    if m[M_OLDEST] != NONE:
        static = m[m[M_OLDEST] + I_STATIC]
    elif t[t[H_PROGRAM] + 2 * m[M_PC]] == OP_INSTRUCTION:
        static = t[t[H_PROGRAM] + 2 * m[M_PC] + 1]
    else:
        return
    site = t[static + TI_SITE]
    if site != m[M_FRONT]:
        settle_front(m, now)
        m[M_FRONT] = site


@jit
def settle_front(m, now):
    m[m[M_SPENT] + m[M_FRONT]] += now - m[M_FRONT_SINCE]
    m[M_FRONT_SINCE] = now


@jit
def settle_stage(m, stage, now):
    """Count what the head of a stage did: it could have left, or not yet."""
    if m[stage + S_OFFERS] == 1:
        m[stage + S_STALL] += now - m[stage + S_SINCE]
    elif m[stage + S_COUNT] > 0:
        m[stage + S_BUSY] += now - m[stage + S_SINCE]
    m[stage + S_SINCE] = now


@jit
def settle_queue(m, store, now):
    """Count the waiting requests of a storage before their number changes."""
    m[store + D_QUEUE_CYCLES] += m[store + D_QUEUED] * (now - m[store + D_SINCE])
    m[store + D_SINCE] = now


@jit
def settle(t, m):
    """Complete all counters."""
    now = m[M_TIME]
    settle_hunger(m, now)
    settle_front(m, now)
    for stage in range(m[M_STAGES], m[M_STAGES] + t[H_STAGES] * S_SIZE, S_SIZE):
        settle_stage(m, stage, now)
    for unit in range(m[M_UNITS], m[M_UNITS] + t[H_UNITS] * U_SIZE, U_SIZE):
        settle_unit(m, unit, now)
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        settle_queue(m, store, now)
        change_rate(m, store + D_PORTS, 0, now)
        change_rate(m, store + D_PORTS + P_SIZE, 0, now)
