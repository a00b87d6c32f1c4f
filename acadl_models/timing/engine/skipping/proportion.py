"""Jitted: the rest of a loop taken as its last iterations were, where nobody is to wait for all of a long run.

What is proven to repeat is multiplied out, and what caches answer alike is replayed; both are exact. Where neither gets
a long run to its end, a caller may allow (``M.PROPORTION``) that a loop which has shown what its iterations are like is
skipped all the same: counters and time grow as they did since an earlier pass, and what follows is stepped again. So
the result is no longer that of every cycle, but all of its counts of instructions are.

A run is long where all of it would take ``M.WHOLE``, by what its instructions have taken so far, ``M.BEGIN`` at least.
The rest of a loop is taken in proportion where it would take ``M.PART`` and what it is judged by has taken ``M.SEEN``
(:class:`archloom.acadl_models.timing.result.Patience`): an inner loop that is long has been through all caches, and a
loop whose rest is short is left to the one around it. The first iteration of a loop is never among what it is judged
by: it finds other lines in the caches. Each loop of a deep nest takes several passes of those within: a run that has
taken ``M.LATE`` all the same judges by less.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import CacheSpec, H, LoopSpec
from archloom.acadl_models.timing.engine.memory_state import Cache
from archloom.acadl_models.timing.engine.remembered import SNAPSHOTS, Snapshot
from archloom.acadl_models.timing.engine.skipping import moving
from archloom.acadl_models.timing.engine.skipping.replay import moves_within
from archloom.acadl_models.timing.engine.state import Loop, M, Proportion

STEP = 32
"""Questions to caches that take as long as stepping an instruction, with what is compared on the way; measured."""


THROUGH, PASSES = 4, 4
"""What is judged by that has moved by parts of lines must have been through all caches so often, and be so many passes
long: single ones may find their lines better or worse than most. Free choices."""

LESS = 8
"""A part of what else must be seen, or left, is enough in a run that is late; once through all caches, and one pass. A
free choice."""


@jit
def taken(m):
    """What the run has taken so far."""
    return m[M.LOOKED] + STEP * m[M.STEPPED]


@jit
def is_late(m):
    """Whether the run takes longer than is waited for, though loops were taken in proportion."""
    return taken(m) >= m[M.LATE]


@jit
def enough(m, amount):
    """Of what must be seen, or left."""
    return amount // LESS if is_late(m) else amount


@jit
def is_long(t, m):
    """Whether the run is. A question takes twice as long where the request that asks it is stepped; measured."""
    if m[M.PROPORTION] == Proportion.NEVER or taken(m) < m[M.BEGIN]:
        return False
    spent = taken(m) + m[M.LOOKED] - m[M.ASKED]
    return m[M.PROPORTION] == Proportion.TAKEN or spent * (t[H.TOTAL] // max(1, m[M.FETCHED])) >= m[M.WHOLE]


@jit
def takes_long(t, m, h, old, times):
    """Whether the run is long, and ``times`` what it has taken since the machine at ``h[old]``."""
    return is_long(t, m) and taken_since(m, h, old) > enough(m, m[M.PART]) // max(1, times)


@jit
def taken_since(m, h, old):
    """What the run has taken since the machine at ``h[old]``."""
    return taken(m) - h[old + M.LOOKED] - STEP * h[old + M.STEPPED]


@jit
def is_between(t, m, loop):
    """Whether at this pass of a loop all accesses have moved by constants, though not by whole lines or rows: then no
    state recurs, but the rest of the loop may be taken in proportion, where it takes long at all."""
    record, now = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE, m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION]
    repeats, period = t[record + LoopSpec.REPEATS], t[record + LoopSpec.PERIOD]
    if t[H.CACHES] == 0 or t[record + LoopSpec.HISTORY] == NONE or not is_long(t, m):
        return False
    if now % repeats != 0 or (period > 0 and now % period == 0):
        return False
    return (t[record + LoopSpec.LIMIT] - now) * t[record + LoopSpec.EACH] * STEP > enough(m, m[M.PART])


@jit
def judged_by(t, m, h, loop, room, first, count):
    """The last pass of a loop since which enough has been taken to judge by: its snapshot, or NONE."""
    record, now = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE, m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION]
    for back in range(1, min(count, SNAPSHOTS) + 1):
        old = first + (count - back) % SNAPSHOTS * Snapshot.SIZE
        if not moving.is_kept(h, room, h[old + Snapshot.PLACE]):
            return NONE
        machine = moving.address(h, room, h[old + Snapshot.PLACE])
        period, distance = t[record + LoopSpec.PERIOD], now - h[old + Snapshot.ITERATION]
        seen = taken_since(m, h, machine)
        if seen >= enough(m, m[M.SEEN]) and period > 0 and now % period == 0 and distance % period == 0:
            return old
        passes = 1 if is_late(m) else PASSES
        many = seen >= enough(m, m[M.PARTS]) and distance >= passes * t[record + LoopSpec.REPEATS]
        if many and went_through(t, m, h, machine):
            return old
    return NONE


@jit
def went_through(t, m, h, old):
    """Whether each cache that was asked since the machine at ``h[old]`` has taken in several times what it holds: it
    matters little then which parts of lines an iteration begins and ends with."""
    through = 1 if is_late(m) else THROUGH
    for cache in range(t[H.CACHES]):
        here, record = m[M.CACHES] + cache * Cache.SIZE, t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
        asked = 0
        for field in range(here + Cache.READ_HITS, here + Cache.WRITE_MISSES + 1):
            asked += m[field] - h[old + field]
        came = m[here + Cache.FROM_BACKING] - h[old + here + Cache.FROM_BACKING]
        size = t[record + CacheSpec.SETS] * t[record + CacheSpec.WAYS] * t[record + CacheSpec.LINE]
        if asked > 0 and came < through * size:
            return False
    return t[H.CACHES] > 0


@jit
def periods_left(t, m, h, record, loop, old, distance):
    """How often ``distance`` iterations may be skipped: the position stays inside of the loop, every fetch is a full
    one, the run is not paused on the way, and accesses move within one memory."""
    now = m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION]
    times = (t[record + LoopSpec.LIMIT] - 1 - now) // distance
    left = t[H.TOTAL] - m[M.FETCHED] - t[H.FETCH_FLIGHTS] * t[H.FETCH_WIDTH]
    times = min(times, left // (distance * t[record + LoopSpec.EACH]))
    times = min(times, (m[M.PAUSE] - 1 - m[M.TIME]) // (m[M.TIME] - h[old + M.TIME]))
    periods = distance // t[record + LoopSpec.REPEATS]
    if times <= 0 or (t[H.SPACES] > 0 and not moves_within(t, m, record, periods, now + times * distance, 0)):
        return 0
    return times


@jit
def keep_in_flight(m, fetched, left, finished, instances):
    """As many instances stay in flight as there are: these counters move by those that were left out."""
    m[M.FETCHED], m[M.LEFT], m[M.FINISHED] = fetched + instances, left - instances, finished + instances
    m[M.PROPORTION] = Proportion.TAKEN
