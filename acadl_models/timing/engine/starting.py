"""Jitted, phases 3 and 4: waiting instances start, and a fetch starts (docs/timing_semantics.md)."""

from __future__ import annotations

from acadl_models.timing.engine.accounting import note_fetch, note_unit
from acadl_models.timing.engine.completing import process, wake
from acadl_models.timing.engine.conflicts import find_blocker, release_reads
from acadl_models.timing.engine.jit import jit
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.log import note, note_step
from acadl_models.timing.engine.order import oldest_candidate
from acadl_models.timing.engine.program import latency_of
from acadl_models.timing.engine.requests import issue
from acadl_models.timing.engine.timers import schedule


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
    if t[m[unit + U_RECORD] + TU_PIPELINED] == 1:
        schedule(m, unit, TAG_UNIT, now + latency_of(t, m, slot, t[m[slot + I_ROUTE] + TR_INTERVAL]))
    reads = m[slot + I_READS]
    if reads == 0:
        process(t, m, slot, now)
    else:
        m[slot + I_PHASE] = READING
        m[slot + I_PENDING] = reads
        m[unit + U_UNGRANTED] = issue(t, m, slot, 0, reads, now)
    note_unit(t, m, unit, now)


@jit
def fetch(t, m):
    """Start a fetch if not too many are under way and the issue buffer has room for it."""
    m[M_AGAIN] = 0
    if not may_fetch(t, m):
        return
    count = min(t[H_FETCH_WIDTH], m[M_LEFT])
    now = m[M_TIME]
    flight = m[M_FLIGHTS] + m[M_FETCH_NEXT] * F_SIZE
    m[M_FETCH_NEXT] = m[M_FETCH_NEXT] + 1 if m[M_FETCH_NEXT] + 1 < t[H_FETCH_FLIGHTS] else 0
    m[flight + F_COUNT] = count
    schedule(m, flight, TAG_FETCH, now + t[H_FETCH_LATENCY])
    note(m, G_FETCH, NONE, NONE, now + t[H_FETCH_LATENCY], count, 0)
    m[M_FETCHING] += 1
    m[M_RESERVED] += count
    m[M_LEFT] -= count
    m[M_FETCHES] += 1
    m[M_CHANGED] = now
    m[M_AGAIN] = int(may_fetch(t, m))
    note_fetch(m, now)


@jit
def may_fetch(t, m):
    room = t[H_ISSUE_SIZE] - m[M_ISSUED] - m[M_RESERVED]
    return m[M_FETCHING] < t[H_FETCH_FLIGHTS] and 0 < min(t[H_FETCH_WIDTH], m[M_LEFT]) <= room
