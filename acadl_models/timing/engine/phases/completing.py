"""Jitted, phase 1: requests, processing steps and fetches end (docs/timing_semantics.md)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.accounting import note_front, note_hunger, note_unit
from archloom.acadl_models.timing.engine.phases.conflicts import leave_classes
from archloom.acadl_models.timing.engine.phases.forwarding import arrive, deliver, offer
from archloom.acadl_models.timing.engine.phases.log import note, note_step
from archloom.acadl_models.timing.engine.phases.memories import has_steps
from archloom.acadl_models.timing.engine.phases.order import note_candidate, note_mover, sort, unpacked
from archloom.acadl_models.timing.engine.phases.program import advance, make_instance
from archloom.acadl_models.timing.engine.phases.requests import end_request, grant_freed, issue, note_look, take_steps
from archloom.acadl_models.timing.engine.phases.timers import LINK, due, schedule
from archloom.acadl_models.timing.engine.phases.transfers import end_transfer, pass_edge
from archloom.acadl_models.timing.engine.phases.values import latency_of


@jit
def complete(t, m):
    """What is due now: requests end, instances in units move on, stages offer their heads, a fetch ends."""
    now = m[M_TIME]
    m[M_MOVERS] = 0
    m[M_ORIGIN] = m[M_SEQ] - MOST_IN_FLIGHT
    timer = due(m)
    while timer != NONE:
        record, tag = timer >> 3, timer & 7
        timer = m[record + LINK]
        if tag == TAG_REQUEST:
            if t[H_CACHES] > 0 and has_steps(t, m, record):
                note_look(m, record)
            else:
                end_request(m, record)
                end_transfer(t, m, record, now)
            m[M_CHANGED] = now
        elif tag == TAG_INSTANCE:
            note_mover(m, record)
        elif tag == TAG_EDGE:
            pass_edge(m, record - R_EDGE, now)
        elif tag == TAG_UNIT:
            note_unit(t, m, record, now)
        else:
            if t[H_LATENCY_ADDED] == 1 and t[m[m[record + S_HEAD] + I_ROUTE] + TR_UNIT] != NONE:
                deliver(t, m, record, now)
            else:
                offer(t, m, record, now)
    if m[M_STEPS] > 0:
        take_steps(t, m, now)
    if m[M_FREES] > 0:
        grant_freed(t, m, now)
    if m[M_MOVERS] > 0:
        m[M_CHANGED] = now
        first, count = m[M_MOVING], m[M_MOVERS]
        if count > 2:
            sort(m, first, count)
        elif count == 2 and m[first] > m[first + 1]:
            m[first], m[first + 1] = m[first + 1], m[first]
        k = 0
        while k < m[M_MOVERS]:
            progress(t, m, unpacked(m[first + k]), now)
            k += 1
    if m[M_FETCH_END] == now:
        append_fetched(t, m, now)


@jit
def progress(t, m, slot, now):
    """Phase 1b: an instance whose step ended goes to the next step, through steps of no cycles."""
    phase = m[slot + I_PHASE]
    if phase == READING:
        process(t, m, slot, now)
    elif phase == PROCESSING:
        write(t, m, slot, now)
    else:
        finish(t, m, slot, now)


@jit_inline
def process(t, m, slot, now):
    """All reads have ended: process for the latency of the unit."""
    latency = latency_of(t, m, slot, t[m[slot + I_ROUTE] + TR_LATENCY])
    m[slot + I_PHASE] = PROCESSING
    note_step(m, G_PROCESSING, slot)
    if latency == 0:
        write(t, m, slot, now)
    else:
        schedule(m, slot, TAG_INSTANCE, now + latency)


@jit_inline
def write(t, m, slot, now):
    """Processing has ended: issue the writes."""
    note_step(m, G_WRITING, slot)
    reads, requests = m[slot + I_READS], m[slot + I_REQUESTS]
    if reads == requests:
        finish(t, m, slot, now)
        return
    m[slot + I_PHASE] = WRITING
    m[slot + I_PENDING] = requests - reads
    if issue(t, m, slot, reads, requests, now) > 0:
        note_unit(t, m, m[slot + I_UNIT], now)


@jit_inline
def finish(t, m, slot, now):
    """Release the conflicts and the slot of an instance and take it out of its unit."""
    note_step(m, G_FINISHED, slot)
    leave_classes(t, m, slot)
    if m[slot + I_WAITERS] != NONE:
        wake(m, slot)
    older, younger = m[slot + I_OLDER], m[slot + I_YOUNGER]
    if older == NONE:
        m[M_OLDEST] = younger
        note_front(t, m, now)
    else:
        m[older + I_YOUNGER] = younger
    if younger == NONE:
        m[M_YOUNGEST] = older
    else:
        m[younger + I_OLDER] = older
    m[slot + I_SEQ] = NONE
    m[slot + I_LINK] = m[M_FREE]
    m[M_FREE] = slot
    m[M_FINISHED] += 1
    m[M_LATEST] = now
    unit = m[slot + I_UNIT]
    m[unit + U_COUNT] -= 1
    if t[m[unit + U_RECORD] + TU_PIPELINED] == 0 or m[unit + U_DOING] == U_STORAGE:
        note_unit(t, m, unit, now)


@jit
def wake(m, slot):
    """The instances that wait for this one are judged again in phase 3."""
    unit = m[slot + I_WAITERS]
    m[slot + I_WAITERS] = NONE
    while unit != NONE:
        note_candidate(m, m[unit + U_WAITING])
        unit = m[unit + U_NEXT]


@jit
def append_fetched(t, m, now):
    """Phase 1d: the fetched instructions enter the issue buffer."""
    first = m[M_FETCH_FIRST]
    count = m[m[M_FLIGHTS] + first * F_SIZE + F_COUNT]
    first = first + 1 if first + 1 < t[H_FETCH_FLIGHTS] else 0
    m[M_FETCH_FIRST] = first
    m[M_FETCHING] -= 1
    m[M_FETCH_END] = m[m[M_FLIGHTS] + first * F_SIZE + F_END] if m[M_FETCHING] > 0 else FOREVER
    for _ in range(count):
        slot = make_instance(t, m)
        if m[M_STATUS] != RUNNING:
            return
        note(m, G_FETCHED, NONE, m[slot + I_SEQ], 0, 0, 0)
        arrive(t, m, slot)
        advance(t, m)
    m[M_FETCHED] += count
    m[M_STEPPED] += count
    m[M_CHANGED] = now
    if m[M_HUNGRY] == 1:
        note_hunger(t, m, now)
