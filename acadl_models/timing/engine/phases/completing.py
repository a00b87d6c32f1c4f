"""Jitted, phase 1: requests, processing steps and fetches end (docs/timing_semantics.md)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine import state
from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import H, Holds, Route, UnitSpec
from archloom.acadl_models.timing.engine.phases import agenda
from archloom.acadl_models.timing.engine.phases.accounting import note_hunger, note_unit
from archloom.acadl_models.timing.engine.phases.conflicts import leave_classes
from archloom.acadl_models.timing.engine.phases.forwarding import arrive, deliver, offer
from archloom.acadl_models.timing.engine.phases.log import note, note_step
from archloom.acadl_models.timing.engine.phases.memories import has_steps
from archloom.acadl_models.timing.engine.phases.program import advance, make_instance
from archloom.acadl_models.timing.engine.phases.reordering import reorder, retire, wait_for_decoding
from archloom.acadl_models.timing.engine.phases.requests import end_request, grant_freed, issue, note_look, take_steps
from archloom.acadl_models.timing.engine.phases.transfers import end_transfer, pass_edge
from archloom.acadl_models.timing.engine.phases.values import latency_of
from archloom.acadl_models.timing.engine.state import Flight, Instance, Logged, M, Phase, Request, Stage, Tag, Unit


@jit
def complete(t, m):
    """What is due now: requests end, instances in units move on, stages offer their heads, a fetch ends; commits and
    decoding."""
    now = m[M.TIME]
    m[M.MOVERS] = m[M.AGAIN] = 0
    m[M.ORIGIN] = m[M.SEQ] - state.MOST_IN_FLIGHT
    timer = agenda.due(m)
    while timer != NONE:
        record, tag = timer >> 3, timer & 7
        timer = m[record + agenda.LINK]
        if tag == Tag.REQUEST:
            if t[H.CACHES] > 0 and has_steps(t, m, record):
                note_look(m, record)
            else:
                end_request(m, record, now)
                end_transfer(t, m, record, now)
            m[M.CHANGED] = now
        elif tag == Tag.INSTANCE:
            agenda.note_mover(m, record)
        elif tag == Tag.EDGE:
            pass_edge(m, record - Request.EDGE, now)
        elif tag == Tag.UNIT:
            note_unit(t, m, record, now)
        else:
            if t[H.LATENCY_ADDED] == 1 and t[m[m[record + Stage.HEAD] + Instance.ROUTE] + Route.UNIT] != NONE:
                deliver(t, m, record, now)
            else:
                offer(t, m, record, now)
    if m[M.STEPS] > 0:
        take_steps(t, m, now)
    if m[M.FREES] > 0:
        grant_freed(t, m, now)
    if m[M.MOVERS] > 0:
        m[M.CHANGED] = now
        first, count = m[M.MOVING], m[M.MOVERS]
        if count > 2:
            agenda.sort(m, first, count)
        elif count == 2 and m[first] > m[first + 1]:
            m[first], m[first + 1] = m[first + 1], m[first]
        k = 0
        while k < m[M.MOVERS]:
            progress(t, m, agenda.unpacked(m[first + k]), now)
            k += 1
    if m[M.FETCH_END] == now:
        append_fetched(t, m, now)
    if t[H.REORDER_ENTRIES] > 0:
        reorder(t, m, now)


@jit
def progress(t, m, slot, now):
    """Phase 1b: an instance whose step ended goes to the next step, through steps of no cycles."""
    phase = m[slot + Instance.PHASE]
    if phase == Phase.READING:
        process(t, m, slot, now)
    elif phase == Phase.PROCESSING:
        write(t, m, slot, now)
    else:
        finish(t, m, slot, now)


@jit_inline
def process(t, m, slot, now):
    """All reads have ended: process for the latency of the unit."""
    latency = latency_of(t, m, slot, t[m[slot + Instance.ROUTE] + Route.LATENCY])
    m[slot + Instance.PHASE] = Phase.PROCESSING
    note_step(m, Logged.PROCESSING, slot)
    if latency == 0:
        write(t, m, slot, now)
    else:
        agenda.schedule(m, slot, Tag.INSTANCE, now + latency)


@jit_inline
def write(t, m, slot, now):
    """Processing has ended: issue the writes."""
    note_step(m, Logged.WRITING, slot)
    reads, requests = m[slot + Instance.READS], m[slot + Instance.REQUESTS]
    if reads == requests:
        finish(t, m, slot, now)
        return
    m[slot + Instance.PHASE] = Phase.WRITING
    m[slot + Instance.PENDING] += requests - reads  # of reads there are some left where it streams
    if issue(t, m, slot, reads, requests, now) > 0:
        note_unit(t, m, m[slot + Instance.UNIT], now)


@jit_inline
def finish(t, m, slot, now):
    """Release the conflicts of an instance and take it out of its unit; without a reorder buffer, it is done."""
    note_step(m, Logged.FINISHED, slot)
    leave_classes(t, m, slot, Holds.UNTIL_FINISH)
    if m[slot + Instance.WAITERS] != NONE:
        wake(m, slot)
    if t[H.REORDER_ENTRIES] == 0:
        retire(t, m, slot, now)
    else:
        m[slot + Instance.PHASE] = Phase.FINISHED
    unit = m[slot + Instance.UNIT]
    m[unit + Unit.COUNT] -= 1
    if t[m[unit + Unit.SPEC] + UnitSpec.PIPELINED] == 0 or m[unit + Unit.DOING] == Unit.STORAGE:
        note_unit(t, m, unit, now)


@jit
def wake(m, slot):
    """The instances that wait for this one are judged again in phase 3."""
    unit = m[slot + Instance.WAITERS]
    m[slot + Instance.WAITERS] = NONE
    while unit != NONE:
        agenda.note_candidate(m, m[unit + Unit.WAITING])
        unit = m[unit + Unit.NEXT]


@jit
def append_fetched(t, m, now):
    """Phase 1d: the fetched instructions enter the issue buffer."""
    first = m[M.FETCH_FIRST]
    count = m[m[M.FLIGHTS] + first * Flight.SIZE + Flight.COUNT]
    first = first + 1 if first + 1 < t[H.FETCH_FLIGHTS] else 0
    m[M.FETCH_FIRST] = first
    m[M.FETCHING] -= 1
    m[M.FETCH_END] = m[m[M.FLIGHTS] + first * Flight.SIZE + Flight.END] if m[M.FETCHING] > 0 else FOREVER
    for _ in range(count):
        slot = make_instance(t, m)
        if m[M.STATUS] != state.Status.RUNNING:
            return
        note(m, Logged.FETCHED, NONE, m[slot + Instance.SEQ], 0, 0, 0)
        if t[H.REORDER_ENTRIES] == 0:
            arrive(t, m, slot)
        else:
            wait_for_decoding(m, slot)
        advance(t, m)
    m[M.FETCHED] += count
    m[M.STEPPED] += count
    m[M.CHANGED] = now
    if m[M.HUNGRY] == 1:
        note_hunger(t, m, now)
