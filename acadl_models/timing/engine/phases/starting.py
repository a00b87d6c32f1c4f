"""Jitted, phases 3 and 4: waiting instances start, and a fetch starts (docs/timing_semantics.md)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import H, Holds, Route, UnitSpec
from archloom.acadl_models.timing.engine.phases.accounting import change_doing
from archloom.acadl_models.timing.engine.phases.agenda import oldest_candidate, schedule
from archloom.acadl_models.timing.engine.phases.completing import process, wake
from archloom.acadl_models.timing.engine.phases.conflicts import find_blocker, leave_classes
from archloom.acadl_models.timing.engine.phases.log import note, note_step
from archloom.acadl_models.timing.engine.phases.reordering import find_producer
from archloom.acadl_models.timing.engine.phases.requests import issue
from archloom.acadl_models.timing.engine.phases.streaming import begin_stream, streams
from archloom.acadl_models.timing.engine.phases.values import latency_of
from archloom.acadl_models.timing.engine.state import Flight, Instance, Logged, M, Phase, Tag, Unit


@jit
def start(t, m):
    """Instances that newly wait, or whose blocker is gone, start in program order if nothing else blocks them."""
    now = m[M.TIME]
    while m[M.TO_JUDGE] > 0:
        slot = oldest_candidate(m)
        unit = m[slot + Instance.UNIT]
        blocker = find_blocker(t, m, unit)
        if blocker == NONE and t[H.NAMES] > 0:
            blocker = find_producer(t, m, slot)
        if blocker != NONE:
            m[unit + Unit.NEXT] = m[blocker + Instance.WAITERS]
            m[blocker + Instance.WAITERS] = unit
            continue
        begin(t, m, unit, slot, now)
        if t[H.LATCHED] == 1:
            leave_classes(t, m, slot, Holds.UNTIL_START)
            wake(m, slot)  # those that wait are younger: they come later in this phase


@jit
def begin(t, m, unit, slot, now):
    """Start the instance that waits at a unit: issue its reads."""
    m[M.CHANGED] = now
    note_step(m, Logged.STARTED, slot)
    m[unit + Unit.WAITING] = NONE
    m[unit + Unit.COUNT] += 1
    m[unit + Unit.LAST] = m[slot + Instance.SEQ]
    m[unit + Unit.UNGRANTED] = 0
    is_pipelined = t[m[unit + Unit.SPEC] + UnitSpec.PIPELINED] == 1
    if is_pipelined:
        schedule(m, unit, Tag.UNIT, now + latency_of(t, m, slot, t[m[slot + Instance.ROUTE] + Route.INTERVAL]))
    reads = m[slot + Instance.READS]
    if streams(t, m, slot):
        begin_stream(t, m, slot, now)
    elif reads == 0:
        process(t, m, slot, now)
    if reads > 0:
        m[slot + Instance.PHASE] = Phase.READING
        m[slot + Instance.PENDING] = reads
        m[unit + Unit.UNGRANTED] = issue(t, m, slot, 0, reads, now)
        if m[unit + Unit.UNGRANTED] == 0 and t[m[unit + Unit.SPEC] + UnitSpec.PREFETCHES] == 1:
            process(t, m, slot, now)
    if m[unit + Unit.DOING] != Unit.IDLE:  # as it is where a prefetch of no cycles has ended already
        change_doing(m, unit, Unit.STORAGE if m[unit + Unit.QUEUED] > 0 and not is_pipelined else Unit.BUSY, now)


@jit
def fetch(t, m):
    """Start a fetch if not too many are under way and the issue buffer has room for it."""
    flights, count = t[H.FETCH_FLIGHTS], min(t[H.FETCH_WIDTH], m[M.LEFT])
    if m[M.FETCHING] == flights or count == 0 or count > m[M.ROOM]:
        return
    now, latency = m[M.TIME], t[H.FETCH_LATENCY]
    end = now + latency
    m[M.FETCH_BUSY] += min(latency, end - m[M.LAST_FETCH])
    m[M.LAST_FETCH] = end
    number = m[M.FETCH_NEXT]
    m[M.FETCH_NEXT] = number + 1 if number + 1 < flights else 0
    flight = m[M.FLIGHTS] + number * Flight.SIZE
    m[flight + Flight.COUNT] = count
    m[flight + Flight.END] = end
    note(m, Logged.FETCH, NONE, NONE, end, count, 0)
    if m[M.FETCHING] == 0:
        m[M.FETCH_END] = end
    m[M.FETCHING] += 1
    m[M.ROOM] -= count
    m[M.LEFT] -= count
    m[M.FETCHES] += 1
    m[M.CHANGED] = now
    if m[M.FETCHING] < flights:
        m[M.AGAIN] |= int(0 < min(t[H.FETCH_WIDTH], m[M.LEFT]) <= m[M.ROOM])
