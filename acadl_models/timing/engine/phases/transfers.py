"""Jitted: bytes in a cycle at each port, the most of them, and for how long (``PortTiming`` in the result).

A request moves its bytes in its last beats, ``bytes % beats`` cycles of one byte more first. Where the requests of a
storage can only follow one another, they are counted when their finish is known; else the rate of a port changes with
the edges of its requests.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import H, StoreSpec
from archloom.acadl_models.timing.engine.phases.agenda import schedule
from archloom.acadl_models.timing.engine.phases.log import note_request
from archloom.acadl_models.timing.engine.state import Link, Logged, M, Port, Request, Store, Tag


@jit
def port_of(m, request):
    return m[request + Request.STORE] + Store.PORTS + m[request + Request.IS_READ] * Port.SIZE


@jit
def note_level(m, port, level, cycles):
    """So many cycles at a rate of ``level`` bytes."""
    if level > m[port + Port.PEAK]:
        m[port + Port.PEAK] = level
        m[port + Port.PEAK_CYCLES] = cycles
    elif level == m[port + Port.PEAK]:
        m[port + Port.PEAK_CYCLES] += cycles


@jit
def change_rate(m, port, difference, now):
    """Count the cycles at the present rate, and change it."""
    level, cycles = m[port + Port.LEVEL], now - m[port + Port.SINCE]
    if level > 0 and cycles > 0:
        m[port + Port.BUSY] += cycles
        note_level(m, port, level, cycles)
    m[port + Port.SINCE] = now
    m[port + Port.LEVEL] = level + difference


@jit_inline
def begin_transfer(t, m, request, now):
    """The finish of a request is known."""
    note_request(t, m, Logged.TRANSFER, request)
    beats, size = m[request + Request.BEATS], m[request + Request.BYTES]
    each = m[request + Request.RATE]
    more = size - each * beats
    if t[m[m[request + Request.STORE] + Store.SPEC] + StoreSpec.SERIAL] == 1:
        port = port_of(m, request)
        m[port + Port.BUSY] += beats if each > 0 else more
        if more > 0:
            note_level(m, port, each + 1, more)
        else:
            note_level(m, port, each, beats)
        return
    first = m[request + Request.FINISH] - beats
    m[request + Request.EDGE] = first
    if first == now:
        change_rate(m, port_of(m, request), each + int(more > 0), now)
        if more > 0:
            schedule(m, request + Request.EDGE, Tag.EDGE, now + more)
    else:
        schedule(m, request + Request.EDGE, Tag.EDGE, first)


@jit
def pass_edge(m, request, now):
    """A request begins to move bytes, or has moved those that exceed an even rate."""
    beats, size = m[request + Request.BEATS], m[request + Request.BYTES]
    each = m[request + Request.RATE]
    more = size - each * beats
    if now != m[request + Request.FINISH] - beats:
        change_rate(m, port_of(m, request), -1, now)
        return
    change_rate(m, port_of(m, request), each + int(more > 0), now)
    if more > 0:
        schedule(m, request + Request.EDGE, Tag.EDGE, now + more)


@jit
def end_transfer(t, m, request, now):
    """A request ends."""
    if t[m[m[request + Request.STORE] + Store.SPEC] + StoreSpec.SERIAL] == 0:
        change_rate(m, port_of(m, request), -m[request + Request.RATE], now)


# --- skipping --------------------------------------------------------------------------------------------------
def for_each_port(step):
    """A jitted ``(t, m, h, a, b)`` that calls ``step(m, h, port, a, b)`` for each port of storages and links."""

    @jit
    def each(t, m, h, a, b):
        for store in range(m[M.STORES], m[M.STORES] + t[H.STORES] * Store.SIZE, Store.SIZE):
            step(m, h, store + Store.PORTS, a, b)
            step(m, h, store + Store.PORTS + Port.SIZE, a, b)
        for link in range(m[M.LINKS], m[M.LINKS] + t[H.LINKS] * Link.SIZE, Link.SIZE):
            step(m, h, link + Link.PORTS, a, b)
            step(m, h, link + Link.PORTS + Port.SIZE, a, b)

    return each


@jit
def repeat_peak(m, h, port, old, times):
    """Add what a period that began in the machine at ``h[old]`` contributed to a peak, so many times."""
    m[port + Port.BUSY] += times * (m[port + Port.BUSY] - h[old + port + Port.BUSY])
    before = h[old + port + Port.PEAK_CYCLES] if h[old + port + Port.PEAK] == m[port + Port.PEAK] else 0
    m[port + Port.PEAK_CYCLES] += times * (m[port + Port.PEAK_CYCLES] - before)


@jit
def join_peak(m, h, port, now, begin):
    """``m`` is the end of a transition that began at ``h[begin]``: add its contribution to the peak at ``h[now]``."""
    m[port + Port.BUSY] += h[now + port + Port.BUSY] - h[begin + port + Port.BUSY]
    gained = 0
    if m[port + Port.PEAK] == h[now + port + Port.PEAK]:
        before = h[begin + port + Port.PEAK_CYCLES] if h[begin + port + Port.PEAK] == m[port + Port.PEAK] else 0
        gained = m[port + Port.PEAK_CYCLES] - before
    m[port + Port.PEAK] = h[now + port + Port.PEAK]
    m[port + Port.PEAK_CYCLES] = h[now + port + Port.PEAK_CYCLES] + gained


repeat_peaks, join_peaks = for_each_port(repeat_peak), for_each_port(join_peak)
