"""Jitted, phases 3 and 4: waiting instances start, and a fetch starts (docs/timing_semantics.md)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.accounting import change_doing
from archloom.acadl_models.timing.engine.phases.completing import process, wake
from archloom.acadl_models.timing.engine.phases.conflicts import find_blocker, release_reads
from archloom.acadl_models.timing.engine.phases.log import note, note_step
from archloom.acadl_models.timing.engine.phases.order import oldest_candidate
from archloom.acadl_models.timing.engine.phases.requests import issue
from archloom.acadl_models.timing.engine.phases.timers import schedule
from archloom.acadl_models.timing.engine.phases.values import latency_of


@jit
def start(t, m):
    """Instances that newly wait, or whose blocker is gone, start in program order if nothing else blocks them."""
    now = m[M_TIME]
    while m[M_TO_JUDGE] > 0:
        slot = oldest_candidate(m)
        unit = m[slot + I_UNIT]
        blocker = find_blocker(t, m, unit)
        if blocker != NONE:
            m[unit + U_NEXT] = m[blocker + I_WAITERS]
            m[blocker + I_WAITERS] = unit
            continue
        begin(t, m, unit, slot, now)
        if t[H_READS_HOLD] == READS_UNTIL_START:
            release_reads(t, m, slot)
            wake(m, slot)  # those that wait are younger: they come later in this phase


@jit
def begin(t, m, unit, slot, now):
    """Start the instance that waits at a unit: issue its reads."""
    m[M_CHANGED] = now
    note_step(m, G_STARTED, slot)
    m[unit + U_WAITING] = NONE
    m[unit + U_COUNT] += 1
    m[unit + U_LAST] = m[slot + I_SEQ]
    m[unit + U_UNGRANTED] = 0
    is_pipelined = t[m[unit + U_RECORD] + TU_PIPELINED] == 1
    if is_pipelined:
        schedule(m, unit, TAG_UNIT, now + latency_of(t, m, slot, t[m[slot + I_ROUTE] + TR_INTERVAL]))
    reads = m[slot + I_READS]
    if reads == 0:
        process(t, m, slot, now)
    else:
        m[slot + I_PHASE] = READING
        m[slot + I_PENDING] = reads
        m[unit + U_UNGRANTED] = issue(t, m, slot, 0, reads, now)
    change_doing(m, unit, U_STORAGE if m[unit + U_QUEUED] > 0 and not is_pipelined else U_BUSY, now)


@jit
def fetch(t, m):
    """Start a fetch if not too many are under way and the issue buffer has room for it."""
    m[M_AGAIN] = 0
    flights, count = t[H_FETCH_FLIGHTS], min(t[H_FETCH_WIDTH], m[M_LEFT])
    if m[M_FETCHING] == flights or count == 0 or count > m[M_ROOM]:
        return
    now, latency = m[M_TIME], t[H_FETCH_LATENCY]
    end = now + latency
    m[M_FETCH_BUSY] += min(latency, end - m[M_LAST_FETCH])
    m[M_LAST_FETCH] = end
    number = m[M_FETCH_NEXT]
    m[M_FETCH_NEXT] = number + 1 if number + 1 < flights else 0
    flight = m[M_FLIGHTS] + number * F_SIZE
    m[flight + F_COUNT] = count
    m[flight + F_END] = end
    note(m, G_FETCH, NONE, NONE, end, count, 0)
    if m[M_FETCHING] == 0:
        m[M_FETCH_END] = end
    m[M_FETCHING] += 1
    m[M_ROOM] -= count
    m[M_LEFT] -= count
    m[M_FETCHES] += 1
    m[M_CHANGED] = now
    if m[M_FETCHING] < flights:
        m[M_AGAIN] = int(0 < min(t[H_FETCH_WIDTH], m[M_LEFT]) <= m[M_ROOM])
