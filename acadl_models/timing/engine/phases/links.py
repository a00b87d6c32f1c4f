"""Jitted: links, over which requests come to storages (timing.memories.channels has the plain model)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine import layout, state
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import H, LinkSpec
from archloom.acadl_models.timing.engine.phases.transfers import note_level
from archloom.acadl_models.timing.engine.state import Link, M, Port, Request


@jit
def link_of(t, m, store, request):
    """The link over which a request comes, or NONE."""
    table = t[m[store + state.Store.SPEC] + layout.StoreSpec.LINKS]
    if table == NONE:
        return NONE
    unit = (m[m[request + Request.OWNER] + state.Instance.UNIT] - m[M.UNITS]) // state.Unit.SIZE
    return t[table + 2 * unit + m[request + Request.IS_READ]]


@jit
def is_exclusive(t, m, store, request):
    """Whether a request must have its storage to itself."""
    link = link_of(t, m, store, request)
    return link != NONE and t[t[H.LINK_TABLE] + link * LinkSpec.SIZE + LinkSpec.WINDOW] == 1


@jit
def send(t, m, link, size, is_read, ready):
    """Carry bytes over a link that can go from ``ready`` on; returns when they begin."""
    record = t[H.LINK_TABLE] + link * LinkSpec.SIZE
    state = m[M.LINKS] + link * Link.SIZE
    free = state + Link.FREE
    if is_read == 1 and t[record + LinkSpec.WINDOW] == 0:
        free += 1
    bandwidth = t[record + LinkSpec.BANDWIDTH]
    cycles = -(-size // bandwidth)
    start = max(ready, m[free])
    m[free] = start + cycles
    m[state + Link.WAIT] += start - ready
    m[state + Link.BYTES + is_read] += size
    port = state + Link.PORTS + is_read * Port.SIZE
    m[port + Port.BUSY] += cycles
    if size >= bandwidth:
        note_level(m, port, bandwidth, size // bandwidth)
    if size % bandwidth > 0:
        note_level(m, port, size % bandwidth, 1)
    return start
