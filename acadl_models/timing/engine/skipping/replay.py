"""Jitted: periods of a loop that differ in the places of their accesses alone, asked of the caches one by one.

What a cache decides in time is what it answers: whether a line is there, and whether a request must wait for one. So a
period repeats cycle for cycle, wherever its accesses lie and whatever moves by how much, if the caches answer in it as
in the one before. What was asked of them is remembered in its order. It is asked again, each line moved on with its
access, period after period, until an answer is another one: of a product, one operand of which stays and one of which
passes by. Nothing else of the machine is stepped. What gives way, and what is written back for it, takes no time; so it
need not be the same, and is found and counted as it falls.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine import layout
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import copy_words, jit
from archloom.acadl_models.timing.engine.layout import AccessSpec, BufferPart, CacheSpec, H, LoopSpec, StoreSpec
from archloom.acadl_models.timing.engine.memory_state import Cache, Look, LookFlag, LookOp, WayStep
from archloom.acadl_models.timing.engine.phases.lines import count_miss, hits, pass_on, place_of, put
from archloom.acadl_models.timing.engine.phases.looks import append, look_at
from archloom.acadl_models.timing.engine.remembered import Memory
from archloom.acadl_models.timing.engine.skipping.memories_repeat import (
    addresses_moved,
    keeps_whole,
    lies_in,
    word_shift,
)
from archloom.acadl_models.timing.engine.skipping.ranges import range_of, value_ranges
from archloom.acadl_models.timing.engine.state import M, Proportion

AT_ONCE = 1 << 12
"""Questions between two copies of the caches, to which an answer that differs leads back."""


@jit
def replay(t, m, h, record, old, old_end, periods, now, distance, times):
    """Ask the caches for the next periods what was asked since the machine at ``h[old]``, ``times`` periods at most;
    returns for how many they answer alike. Lines and counters of the caches are then those at their end."""
    asked = m[M.LOOKED] - h[old + M.LOOKED]
    if 2 * asked > t[H.LOOKS] or h[old + M.LOOKED] < m[M.LOOKS_SINCE]:
        return 0
    if not addresses_moved(t, m, h, record, periods, old_end):
        return 0
    if not moves_within(t, m, record, periods, now + times * distance, 1):
        return 0
    if asked == 0:
        return times
    if m[M.PROPORTION] != Proportion.NEVER:
        times = min(times, max(1, m[M.PART] // asked))  # then again, unless that takes too long
    expect(t, m)
    done = 0
    while done < times:
        before = m[M.LOOKED]
        batch = min(times - done, max(1, min(AT_ONCE, t[H.LOOKS] - asked) // asked))
        copy_words(h, h[Memory.MACHINE] + m[M.CACHES], m, m[M.CACHES], m[M.DRAMS] - m[M.CACHES])
        alike = ask(t, m, record, periods, asked, batch)
        done += alike
        if alike < batch:
            m[M.LOOKS_SINCE] = max(m[M.LOOKS_SINCE], m[M.LOOKED] - t[H.LOOKS])  # what lay there before is lost
            m[M.ASKED] -= m[M.LOOKED] - before
            m[M.LOOKED] = before
            copy_words(m, m[M.CACHES], h, h[Memory.MACHINE] + m[M.CACHES], m[M.DRAMS] - m[M.CACHES])
            ask(t, m, record, periods, asked, alike)
            return done
    return done


@jit
def moves_within(t, m, record, periods, last, whole):
    """Whether each access below a loop moves inside of one storage, with ``whole`` by whole lines, up to an iteration;
    and none goes to banks with open rows. What is in flight comes from any iteration so far."""
    value_ranges(t, m, record, 0, last)
    first = t[record + LoopSpec.FIRST_ACCESS]
    for order in range(first, first + t[record + LoopSpec.ACCESS_COUNT]):
        access = t[H.ACCESS_TABLE] + order * AccessSpec.SIZE
        if t[access + AccessSpec.PLACE] == NONE:
            continue
        low, high = range_of(t, m, t[access + AccessSpec.PLACE])
        high += t[access + AccessSpec.SPAN] - 1
        shift = word_shift(t, record, periods, order) * t[access + AccessSpec.DATA_WIDTH]
        for k in range(t[access + AccessSpec.STORE_COUNT]):
            bank = t[access + AccessSpec.STORES] + k * BufferPart.SIZE
            space = t[bank + BufferPart.SPACE]
            if space == NONE or high < t[bank + BufferPart.FIRST] or low >= t[bank + BufferPart.END]:
                continue
            store = t[H.STORE_TABLE] + t[bank + BufferPart.STORE] * StoreSpec.SIZE
            if t[store + StoreSpec.KIND] == layout.StoreKind.BANKED:
                return False
            if whole == 0 and shift != 0 and not lies_in(t, bank, low, high):
                return False
            if whole == 1 and shift != 0 and not keeps_whole(t, access, bank, space, shift, low, high):
                return False
    return True


@jit
def expect(t, m):
    """Which lines are on their way to each cache."""
    for cache in range(t[H.CACHES]):
        here, size = m[M.CACHES] + cache * Cache.SIZE, t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.LINE]
        expected = m[M.EXPECTED] + m[here + Cache.REGISTERS] - m[M.REGISTERS]
        for k in range(m[here + Cache.TAKEN]):
            m[expected + k] = m[m[m[here + Cache.REGISTERS] + k] + WayStep.FROM] // size
        m[here + Cache.COMING] = m[here + Cache.TAKEN]


@jit
def ask(t, m, record, periods, asked, count):
    """Ask what was asked last once more for each of so many periods; returns for how many the answers are alike."""
    for done in range(count):
        begin = m[M.LOOKED] - asked
        for number in range(begin, begin + asked):
            look = look_at(t, m, number)
            access = m[look + Look.ACCESS]
            words = word_shift(t, record, periods, t[access + AccessSpec.ORDER])
            first = m[look + Look.FROM] + words * (t[access + AccessSpec.DATA_WIDTH] // 8)
            op, cache, more = m[look + Look.OP], m[look + Look.CACHE], m[look + Look.MORE]
            if not answers_alike(t, m, op, cache, first, more):
                return done
            append(t, m, op, cache, access, first, more)
            m[M.ASKED] += 1
    return count


@jit
def answers_alike(t, m, op, cache, first, more):
    """Ask a cache; whether it answers as before."""
    size = t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.LINE]
    line = first // size
    if op == LookOp.LOOK:
        is_read = more & LookFlag.IS_READ != 0
        found = hits(t, m, cache, line, is_read)
        if not found and more & LookFlag.COUNTS != 0:
            count_miss(m, cache, is_read)
        return LookFlag.FOUND * int(found) == more & LookFlag.FOUND
    if op == LookOp.AGAIN:
        waits = place_of(t, m, cache, line) == NONE and (
            more & LookFlag.FULL != 0 or is_expected(t, m, cache, line, more // LookFlag.AMONG - 1)
        )
        return LookFlag.FOUND * int(waits) == more & LookFlag.FOUND
    here = m[M.CACHES] + cache * Cache.SIZE
    if op == LookOp.PUT:
        if more & LookFlag.LOADED != 0:
            m[here + Cache.FROM_BACKING] += size
        put(t, m, cache, line, int(more & LookFlag.DIRTY != 0))
    elif op == LookOp.PASS:
        pass_on(t, m, cache, first, first + more)
    elif op == LookOp.REGISTER:
        m[m[M.EXPECTED] + m[here + Cache.REGISTERS] - m[M.REGISTERS] + m[here + Cache.COMING]] = line
        m[here + Cache.COMING] += 1
    else:
        place = expected_at(t, m, cache, line)
        if place == NONE:
            return False
        m[here + Cache.COMING] -= 1
        m[place] = m[m[M.EXPECTED] + m[here + Cache.REGISTERS] - m[M.REGISTERS] + m[here + Cache.COMING]]
    return True


@jit
def is_expected(t, m, cache, line, among):
    """Whether a line is on its way, most likely in the place of the line of which the same was asked before."""
    here = m[M.CACHES] + cache * Cache.SIZE
    expected = m[M.EXPECTED] + m[here + Cache.REGISTERS] - m[M.REGISTERS]
    if 0 <= among < m[here + Cache.COMING] and m[expected + among] == line:
        return True
    return expected_at(t, m, cache, line) != NONE


@jit
def expected_at(t, m, cache, line):
    """Where it stands that a line is on its way, or NONE."""
    here = m[M.CACHES] + cache * Cache.SIZE
    expected = m[M.EXPECTED] + m[here + Cache.REGISTERS] - m[M.REGISTERS]
    for k in range(expected, expected + m[here + Cache.COMING]):
        if m[k] == line:
            return k
    return NONE
