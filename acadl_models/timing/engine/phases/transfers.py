"""Jitted: bytes in a cycle at each port, the most of them, and for how long (``PortTiming`` in the result).

A request moves its bytes in its last beats, ``bytes % beats`` cycles of one byte more first. Where the requests of a
storage can only follow one another, they are counted when their finish is known; else the rate of a port changes with
the edges of its requests.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import LS_PORTS, LS_SIZE
from archloom.acadl_models.timing.engine.phases.log import note_request
from archloom.acadl_models.timing.engine.phases.timers import schedule


@jit
def port_of(m, request):
    return m[request + R_STORE] + D_PORTS + m[request + R_IS_READ] * P_SIZE


@jit
def note_level(m, port, level, cycles):
    """So many cycles at a rate of ``level`` bytes."""
    if level > m[port + P_PEAK]:
        m[port + P_PEAK] = level
        m[port + P_PEAK_CYCLES] = cycles
    elif level == m[port + P_PEAK]:
        m[port + P_PEAK_CYCLES] += cycles


@jit
def change_rate(m, port, difference, now):
    """Count the cycles at the present rate, and change it."""
    level, cycles = m[port + P_LEVEL], now - m[port + P_SINCE]
    if level > 0 and cycles > 0:
        m[port + P_BUSY] += cycles
        note_level(m, port, level, cycles)
    m[port + P_SINCE] = now
    m[port + P_LEVEL] = level + difference


@jit_inline
def begin_transfer(t, m, request, now):
    """The finish of a request is known."""
    note_request(t, m, G_TRANSFER, request)
    beats, size = m[request + R_BEATS], m[request + R_BYTES]
    each = m[request + R_RATE]
    more = size - each * beats
    if t[m[m[request + R_STORE] + D_RECORD] + TM_SERIAL] == 1:
        port = port_of(m, request)
        m[port + P_BUSY] += beats if each > 0 else more
        if more > 0:
            note_level(m, port, each + 1, more)
        else:
            note_level(m, port, each, beats)
        return
    first = m[request + R_FINISH] - beats
    m[request + R_EDGE] = first
    if first == now:
        change_rate(m, port_of(m, request), each + (more > 0), now)
        if more > 0:
            schedule(m, request + R_EDGE, TAG_EDGE, now + more)
    else:
        schedule(m, request + R_EDGE, TAG_EDGE, first)


@jit
def pass_edge(m, request, now):
    """A request begins to move bytes, or has moved those that exceed an even rate."""
    beats, size = m[request + R_BEATS], m[request + R_BYTES]
    each = m[request + R_RATE]
    more = size - each * beats
    if now != m[request + R_FINISH] - beats:
        change_rate(m, port_of(m, request), -1, now)
        return
    change_rate(m, port_of(m, request), each + (more > 0), now)
    if more > 0:
        schedule(m, request + R_EDGE, TAG_EDGE, now + more)


@jit
def end_transfer(t, m, request, now):
    """A request ends."""
    if t[m[m[request + R_STORE] + D_RECORD] + TM_SERIAL] == 0:
        change_rate(m, port_of(m, request), -m[request + R_RATE], now)


# --- skipping --------------------------------------------------------------------------------------------------
@jit
def repeat_peaks(t, m, h, old, times):
    """Add what a period that began in the machine at ``h[old]`` contributed to the peaks, so many times."""
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        repeat_peak(m, h, store + D_PORTS, old, times)
        repeat_peak(m, h, store + D_PORTS + P_SIZE, old, times)
    for link in range(m[M_LINKS], m[M_LINKS] + t[H_LINKS] * LS_SIZE, LS_SIZE):
        repeat_peak(m, h, link + LS_PORTS, old, times)
        repeat_peak(m, h, link + LS_PORTS + P_SIZE, old, times)


@jit
def repeat_peak(m, h, port, old, times):
    m[port + P_BUSY] += times * (m[port + P_BUSY] - h[old + port + P_BUSY])
    before = h[old + port + P_PEAK_CYCLES] if h[old + port + P_PEAK] == m[port + P_PEAK] else 0
    m[port + P_PEAK_CYCLES] += times * (m[port + P_PEAK_CYCLES] - before)


@jit
def join_peaks(t, m, h, now, begin):
    """``m`` is the end of a transition that began at ``h[begin]``: add its contribution to the peaks at ``h[now]``."""
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        join_peak(m, h, store + D_PORTS, now, begin)
        join_peak(m, h, store + D_PORTS + P_SIZE, now, begin)
    for link in range(m[M_LINKS], m[M_LINKS] + t[H_LINKS] * LS_SIZE, LS_SIZE):
        join_peak(m, h, link + LS_PORTS, now, begin)
        join_peak(m, h, link + LS_PORTS + P_SIZE, now, begin)


@jit
def join_peak(m, h, port, now, begin):
    m[port + P_BUSY] += h[now + port + P_BUSY] - h[begin + port + P_BUSY]
    gained = 0
    if m[port + P_PEAK] == h[now + port + P_PEAK]:
        before = h[begin + port + P_PEAK_CYCLES] if h[begin + port + P_PEAK] == m[port + P_PEAK] else 0
        gained = m[port + P_PEAK_CYCLES] - before
    m[port + P_PEAK] = h[now + port + P_PEAK]
    m[port + P_PEAK_CYCLES] = h[now + port + P_PEAK_CYCLES] + gained
