"""Jitted: instructions of units that stream (docs/timing_semantics.md, "Streaming units").

What is known of the reads of an instance makes ``FIRST`` and ``END`` later, those of its first and of its last result.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import H, LinkSpec, Route
from archloom.acadl_models.timing.engine.phases.agenda import schedule
from archloom.acadl_models.timing.engine.phases.links import link_of
from archloom.acadl_models.timing.engine.phases.log import note_step
from archloom.acadl_models.timing.engine.phases.values import latency_of
from archloom.acadl_models.timing.engine.state import Instance, Logged, Phase, Request, Tag


@jit_inline
def streams(t, m, slot):
    """Whether the unit of an instance streams it."""
    return t[m[slot + Instance.ROUTE] + Route.FIRST] != FOREVER


@jit
def begin_stream(t, m, slot, now):
    """An instance that streams starts."""
    m[slot + Instance.FIRST] = m[slot + Instance.END] = 0
    m[slot + Instance.OPEN] = m[slot + Instance.READS]
    latency = latency_of(t, m, slot, t[m[slot + Instance.ROUTE] + Route.LATENCY])
    first = latency_of(t, m, slot, t[m[slot + Instance.ROUTE] + Route.FIRST])
    if m[slot + Instance.READS] == 0:
        m[slot + Instance.FIRST] = now + first
        m[slot + Instance.END] = now + max(latency, first)
        flow(t, m, slot, now)


@jit
def note_end(t, m, request, now):
    """The end of a read of an instance that streams is known."""
    slot, finish = m[request + Request.OWNER], m[request + Request.FINISH]
    first = latency_of(t, m, slot, t[m[slot + Instance.ROUTE] + Route.FIRST])
    end = finish + first
    if is_first_there(t, m, slot, request):
        word = finish - moving_cycles(t, m, request) + 1
        m[slot + Instance.FIRST] = max(m[slot + Instance.FIRST], word + first)
        end = max(end, word + latency_of(t, m, slot, t[m[slot + Instance.ROUTE] + Route.LATENCY]))
    m[slot + Instance.END] = max(m[slot + Instance.END], end)
    m[slot + Instance.OPEN] -= 1
    if m[slot + Instance.OPEN] == 0:
        flow(t, m, slot, now)


@jit
def is_first_there(t, m, slot, request):
    """Whether no request before it asks the same storage."""
    for other in range(slot + t[H.SLOT_REQUESTS], request, Request.SIZE):
        if m[other + Request.STORE] == m[request + Request.STORE]:
            return False
    return True


@jit
def moving_cycles(t, m, request):
    """Cycles in which a request moves its words: over its port, or over its link where that is slower."""
    link = link_of(t, m, m[request + Request.STORE], request)
    if link == NONE:
        return m[request + Request.BEATS]
    bandwidth = t[t[H.LINK_TABLE] + link * LinkSpec.SIZE + LinkSpec.BANDWIDTH]
    return max(m[request + Request.BEATS], -(-m[request + Request.BYTES] // bandwidth))


@jit
def flow(t, m, slot, now):
    """The ends of all reads are known: the writes are issued, or the instance is finished, at a time that is known."""
    m[slot + Instance.PHASE] = Phase.PROCESSING
    note_step(m, Logged.PROCESSING, slot)
    due = m[slot + Instance.END]
    reads, requests = m[slot + Instance.READS], m[slot + Instance.REQUESTS]
    if reads < requests:
        write = slot + t[H.SLOT_REQUESTS] + reads * Request.SIZE
        fewest = m[write + Request.BEATS]
        for _ in range(reads + 1, requests):
            write += Request.SIZE
            fewest = min(fewest, m[write + Request.BEATS])
        due = max(m[slot + Instance.FIRST], due - fewest + 1)
    schedule(m, slot, Tag.INSTANCE, max(due, now + 1))
