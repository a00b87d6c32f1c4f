"""Jitted: lines on their way to caches: miss-status registers, who waits for them, and slots of the storage behind."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import CacheSpec, H
from archloom.acadl_models.timing.engine.memory_state import Cache, WayStep
from archloom.acadl_models.timing.engine.phases.lines import place_of
from archloom.acadl_models.timing.engine.phases.slots import free_slot, has_slot, queue
from archloom.acadl_models.timing.engine.state import M, Request, Store


# --- registers -------------------------------------------------------------------------------------------------
@jit
def must_wait(t, m, cache, is_write, step):
    """Whether the line of a step is on its way, or would need a register while none is free. Where it stood when the
    step asked last is looked at first: many may wait, and all ask whenever a line has come."""
    line = m[step + WayStep.FROM]  # its first byte, as that of those on their way
    if place_of(t, m, cache, line // t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.LINE]) != NONE:
        return False
    here, among = m[M.CACHES] + cache * Cache.SIZE, m[step + WayStep.AMONG]
    first, taken = m[here + Cache.REGISTERS], m[here + Cache.TAKEN]
    if 0 <= among < taken and m[m[first + among] + WayStep.FROM] == line:
        return True
    for k in range(taken):
        if m[m[first + k] + WayStep.FROM] == line:
            m[step + WayStep.AMONG] = k
            return True
    m[step + WayStep.AMONG] = NONE
    return lacks_register(t, m, cache, is_write)


@jit
def lacks_register(t, m, cache, is_write):
    """Whether a miss would need a register while none is free."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    comes = not is_write or t[record + CacheSpec.ALLOCATE] == 1 or t[record + CacheSpec.WRITE_BACK] == 1
    return comes and m[m[M.CACHES] + cache * Cache.SIZE + Cache.TAKEN] == t[record + CacheSpec.REGISTERS]


@jit
def register(m, cache, step):
    """A line is on its way until a step has been taken."""
    here = m[M.CACHES] + cache * Cache.SIZE
    m[m[here + Cache.REGISTERS] + m[here + Cache.TAKEN]] = step
    m[here + Cache.TAKEN] += 1


@jit
def wait_at(m, cache, request):
    """A request waits until a register of a cache is free again."""
    here = m[M.CACHES] + cache * Cache.SIZE
    if m[here + Cache.WAIT_HEAD] == NONE:
        m[here + Cache.WAIT_HEAD] = request
    else:
        m[m[here + Cache.WAIT_TAIL] + Request.LINK] = request
    m[here + Cache.WAIT_TAIL] = request
    m[request + Request.LINK] = NONE


@jit
def arrive(t, m, cache, step, loaded):
    """A line has come: its register and, if it was loaded, the slot behind are free; who waits looks again."""
    here = m[M.CACHES] + cache * Cache.SIZE
    k, last = m[here + Cache.REGISTERS], m[here + Cache.REGISTERS] + m[here + Cache.TAKEN] - 1
    while m[k] != step:
        k += 1
    m[k], m[last] = m[last], NONE
    m[here + Cache.TAKEN] -= 1
    if loaded:
        free_slot(m, store_behind(t, m, cache))
    if m[here + Cache.WAIT_HEAD] != NONE:
        wake(m, here)


@jit
def wake(m, here):
    """All that wait at a cache look again in this cycle, after those that were woken before."""
    if m[M.WOKEN] == NONE:
        m[M.WOKEN] = m[here + Cache.WAIT_HEAD]
    else:
        m[m[M.WOKEN_LAST] + Request.LINK] = m[here + Cache.WAIT_HEAD]
    m[M.WOKEN_LAST] = m[here + Cache.WAIT_TAIL]
    m[here + Cache.WAIT_HEAD] = m[here + Cache.WAIT_TAIL] = NONE


@jit
def next_woken(m):
    """Take the first of those that look again."""
    request = m[M.WOKEN]
    m[M.WOKEN] = m[request + Request.LINK]
    return request


# --- slots behind ----------------------------------------------------------------------------------------------
@jit
def store_behind(t, m, cache):
    """The storage behind a cache."""
    return m[M.STORES] + t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.BEHIND] * Store.SIZE


@jit
def ask_behind(t, m, request, cache, now):
    """Whether a refill gets a slot of the storage behind a cache at once; if not, it waits in the FIFO there."""
    store = store_behind(t, m, cache)
    if m[store + Store.QUEUED] > 0 or not has_slot(t, m, store, request):
        queue(m, store, request, now)
        return False
    m[store + Store.ACTIVE] += 1
    return True
