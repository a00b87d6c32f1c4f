"""Jitted: the lines of caches, and what they pass on to the caches behind them in no time."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import CacheSpec, H, Policy
from archloom.acadl_models.timing.engine.memory_state import Cache, Posted
from archloom.acadl_models.timing.engine.state import M
from archloom.acadl_models.timing.memories.cache import MODULUS, MULTIPLIER

POST_WRITE, POST_WRITTEN, POST_READ, POST_FILL = range(4)


@jit
def place_of(t, m, cache, line):
    """Where a line lies, or NONE."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    first = m[m[M.CACHES] + cache * Cache.SIZE + Cache.LINES]
    first += line % t[record + CacheSpec.SETS] * t[record + CacheSpec.WAYS]
    for place in range(first, first + t[record + CacheSpec.WAYS]):
        if m[place] >> 1 == line:
            return place
    return NONE


@jit
def hits(t, m, cache, line, is_read):
    """Whether a line is there, which is counted; a read that hits moves it as the policy says."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    counters = m[M.CACHES] + cache * Cache.SIZE
    place = place_of(t, m, cache, line)
    if place == NONE:
        return False
    m[counters + (Cache.READ_HITS if is_read else Cache.WRITE_HITS)] += 1
    if is_read and (t[record + CacheSpec.POLICY] == Policy.LRU or t[record + CacheSpec.POLICY] == Policy.MRU):
        first = m[counters + Cache.LINES] + line % t[record + CacheSpec.SETS] * t[record + CacheSpec.WAYS]
        entry = m[place]
        while place > first:
            m[place] = m[place - 1]
            place -= 1
        m[first] = entry
    return True


@jit
def count_miss(m, cache, is_read):
    """A line is not there."""
    m[m[M.CACHES] + cache * Cache.SIZE + (Cache.READ_MISSES if is_read else Cache.WRITE_MISSES)] += 1


@jit
def take_in(t, m, cache, line, dirty):
    """A line comes into its set, if it is not there; returns the line that must be written back for it, or NONE."""
    place = place_of(t, m, cache, line)
    if place != NONE:
        m[place] |= dirty
        return NONE
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    counters = m[M.CACHES] + cache * Cache.SIZE
    ways, policy = t[record + CacheSpec.WAYS], t[record + CacheSpec.POLICY]
    first = m[counters + Cache.LINES] + line % t[record + CacheSpec.SETS] * ways
    place = first + ways - 1
    if policy == Policy.RANDOM:
        place = first
        while place < first + ways and m[place] != NONE:
            place += 1
        if place == first + ways:
            m[counters + Cache.GENERATOR] = m[counters + Cache.GENERATOR] * MULTIPLIER % MODULUS
            place = first + m[counters + Cache.GENERATOR] % ways
    victim = m[place]
    if policy == Policy.LRU or policy == Policy.FIFO:
        while place > first:
            m[place] = m[place - 1]
            place -= 1
    m[place] = 2 * line + dirty
    if victim == NONE:
        return NONE
    m[counters + Cache.EVICTIONS] += 1
    if victim & 1 == 0:
        return NONE
    m[counters + Cache.WRITE_BACKS] += 1
    return victim >> 1


@jit
def put(t, m, cache, line, dirty):
    """A line comes into a cache; one that gives way is written back."""
    victim = take_in(t, m, cache, line, dirty)
    if victim != NONE:
        size = t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.LINE]
        pass_on(t, m, cache, victim * size, (victim + 1) * size)


@jit
def pass_on(t, m, cache, first, last):
    """Bytes go to what is behind a cache: a buffer hides the time that it takes."""
    m[m[M.CACHES] + cache * Cache.SIZE + Cache.TO_BACKING] += last - first
    behind = t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.NEXT]
    if behind == NONE:
        return
    base = m[M.POSTED]
    top = post(m, base, POST_WRITE, behind, first, last)
    while top > base:
        top -= Posted.SIZE
        first, last = m[top + Posted.FROM], m[top + Posted.TO]
        top = take_posted(t, m, top, m[top + Posted.OP], m[top + Posted.CACHE], first, last)


@jit
def post(m, top, op, cache, first, last):
    """One more step on the stack of what is passed on; returns its new end."""
    m[top + Posted.OP], m[top + Posted.CACHE], m[top + Posted.FROM], m[top + Posted.TO] = op, cache, first, last
    return top + Posted.SIZE


@jit
def take_posted(t, m, top, op, cache, first, last):
    """Take one step, which may put others on the stack; returns its new end."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    counters = m[M.CACHES] + cache * Cache.SIZE
    size, behind = t[record + CacheSpec.LINE], t[record + CacheSpec.NEXT]
    line = first // size
    if op == POST_FILL or (op == POST_WRITTEN and t[record + CacheSpec.WRITE_BACK] == 1):
        if op == POST_FILL:
            m[counters + Cache.FROM_BACKING] += size
        victim = take_in(t, m, cache, line, int(op == POST_WRITTEN))
        if victim == NONE:
            return top
        first, last = victim * size, (victim + 1) * size
        m[counters + Cache.TO_BACKING] += size
        return top if behind == NONE else post(m, top, POST_WRITE, behind, first, last)
    if op == POST_WRITTEN:
        m[counters + Cache.TO_BACKING] += last - first
        return top if behind == NONE else post(m, top, POST_WRITE, behind, first, last)
    end = (line + 1) * size
    if end < last:
        top = post(m, top, op, cache, end, last)
    is_read = op == POST_READ
    hit = hits(t, m, cache, line, is_read)
    if not hit:
        count_miss(m, cache, is_read)
    if not is_read:
        top = post(m, top, POST_WRITTEN, cache, first, min(end, last))
    if not hit and (is_read or t[record + CacheSpec.ALLOCATE] == 1):
        top = post(m, top, POST_FILL, cache, line * size, end)
        if behind != NONE:
            top = post(m, top, POST_READ, behind, line * size, end)
    return top
