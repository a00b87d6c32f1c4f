"""Jitted: finding a recurring state at the back edge of a loop, proving that it goes on, and multiplying out.

The machine is compared with earlier passes of the same back edge. If its relative state is the same, the windows in
flight have moved by what the loop moves them in the meantime, and every decision that depends on where windows lie is
the same in all later periods, then these repeat cycle for cycle:

* latencies and addresses below the loop repeat with its period (``LoopSpec.PERIOD`` divides the distance);
* two accesses that may meet move together, or do not meet up to the end of what is skipped (``LoopSpec.CLASHES``);
* an access that moves through banks stays in one until then (``LoopSpec.MOVING``);
* everything in flight was fetched inside of the loop, and what is left to fetch never falls below one fetch.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine import remembered, state
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import copy_words, jit
from archloom.acadl_models.timing.engine.layout import AccessSpec, H, Instruction, LoopSpec, PatternSpec
from archloom.acadl_models.timing.engine.memory_state import Cache
from archloom.acadl_models.timing.engine.phases.accounting import settle
from archloom.acadl_models.timing.engine.phases.agenda import sort
from archloom.acadl_models.timing.engine.phases.conflicts import renew_classes
from archloom.acadl_models.timing.engine.phases.program import set_iteration
from archloom.acadl_models.timing.engine.phases.transfers import repeat_peaks
from archloom.acadl_models.timing.engine.remembered import SNAPSHOTS, LoopMemory, Memory, Snapshot
from archloom.acadl_models.timing.engine.skipping import moving
from archloom.acadl_models.timing.engine.skipping.memories_repeat import move_addresses, move_memories, repeatable
from archloom.acadl_models.timing.engine.skipping.passes import (
    is_due,
    is_far,
    is_watched,
    keep,
    ring_of,
    snapshots_of,
)
from archloom.acadl_models.timing.engine.skipping.proportion import (
    is_between,
    judged_by,
    keep_in_flight,
    periods_left,
    takes_long,
)
from archloom.acadl_models.timing.engine.skipping.ranges import bank_of, range_of, value_ranges
from archloom.acadl_models.timing.engine.skipping.recall import begin_transition, complete_transition, recall
from archloom.acadl_models.timing.engine.skipping.replay import replay
from archloom.acadl_models.timing.engine.skipping.snapshot import describe, hash_of
from archloom.acadl_models.timing.engine.state import Instance, Loop, M, Proportion, Skip

UNSEEN = -1
"""The length of a state that was too long to be written down: no other is equal to it."""

@jit
def look_back(t, m, h):
    """At loop events: compare with earlier states, and skip what is proven to repeat as long as anything is."""
    while skip_one(t, m, h):
        pass
    for k in range(m[M.EVENTS], m[M.EVENTS] + m[M.EVENT_COUNT]):
        m[m[M.LOOPS] + m[k] * Loop.SIZE + Loop.EVENT] = 0
    m[M.EVENT] = m[M.EVENT_COUNT] = 0


@jit
def skip_one(t, m, h):
    """Skip periods of one loop, or one transition; returns whether there may be more to skip at once."""
    described = False
    length = offsets = hashed = 0
    words = h[Memory.SCRATCH]
    events, count = m[M.EVENTS], m[M.EVENT_COUNT]
    sort(m, events, count)  # outer loops come before inner ones
    for k in range(events, events + count):
        if h[h[Memory.LOOPS] + m[k] * LoopMemory.SIZE + LoopMemory.PENDING] != NONE:
            settle(t, m)
            complete_transition(t, m, h, m[k])
    for k in range(events, events + count):
        loop = m[k]
        event = m[m[M.LOOPS] + loop * Loop.SIZE + Loop.EVENT]
        if event & state.LoopEvent.CROSSED != 0 and is_between(t, m, loop) and is_far(t, m, h, loop):
            settle(t, m)
            if skip_unseen(t, m, h, loop):
                return False
        if event == state.LoopEvent.LEFT or not is_due(t, m, h, loop, event):
            continue
        if not described:
            described = True
            settle(t, m)
            length, offsets = describe(t, m, h, words)
            hashed = hash_of(h, words, length)
        if length == 0:
            if event & state.LoopEvent.CROSSED != 0 and m[M.PROPORTION] != Proportion.NEVER:
                if skip_unseen(t, m, h, loop):
                    return False
            h[h[Memory.LOOPS] + loop * LoopMemory.SIZE + LoopMemory.MISSES] += 1
            continue
        record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
        if event & state.LoopEvent.CROSSED != 0 and t[record + LoopSpec.PERIOD] > 0:
            if skip_periods(t, m, h, loop, length, offsets, hashed):
                return False
        if is_watched(t, h, loop) and moving.packed_words(t, m) <= remembered.MOST_MACHINE_WORDS:
            if recall(t, m, h, loop, length, offsets, hashed):
                return True
            begin_transition(t, m, h, loop, length, offsets, hashed)
        h[h[Memory.LOOPS] + loop * LoopMemory.SIZE + LoopMemory.MISSES] += 1
    return False


@jit
def skip_periods(t, m, h, loop, length, offsets, hashed):
    """Look for an equal state at an earlier pass of the loop and skip; returns whether anything was skipped."""
    record, state = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE, m[M.LOOPS] + loop * Loop.SIZE
    memory = h[Memory.LOOPS] + loop * LoopMemory.SIZE
    count = snapshots_of(t, m, h, loop, t[record + LoopSpec.PERIOD])
    if count == NONE:
        return False
    first = ring_of(t, h, record)
    words, machine = h[Memory.SCRATCH], m[M.REST]
    room, replays = moving.room_of(t, h, Memory.SNAPSHOTS, loop), False
    for back in range(1, min(count, SNAPSHOTS) + 1):
        old = first + ((count - back) % SNAPSHOTS) * Snapshot.SIZE
        same = h[old + Snapshot.LENGTH] == length and h[old + Snapshot.OFFSETS] == offsets
        if not same or h[old + Snapshot.HASH] != hashed:
            continue
        if not moving.is_kept(h, room, h[old + Snapshot.PLACE]):
            break
        old_machine = moving.address(h, room, h[old + Snapshot.PLACE])
        old_words = old_machine + machine
        distance = m[state + Loop.ITERATION] - h[old + Snapshot.ITERATION]
        if not moving.equal(h, words, old_words, length) or not same_iterations(t, m, h, record, old_machine):
            continue
        if not moved_along(t, m, h, record, distance, words + length, old_words + length):
            continue
        times = most_periods(t, m, record, state, h[old_machine + M.FETCHED], distance)
        times = min(times, (m[M.PAUSE] - 1 - m[M.TIME]) // (m[M.TIME] - h[old_machine + M.TIME]))
        times = provable(t, m, record, h[old + Snapshot.ITERATION], m[state + Loop.ITERATION], distance, times)
        replayed = False
        if t[H.SPACES] > 0 and times > 0:
            most, end = times, old_words + length + offsets
            times = repeatable(t, m, h, record, old_machine, end, state, distance, most)
            if times == 0 and takes_long(t, m, h, old_machine, most):
                break  # to ask for all of them takes too long
            if times == 0 and t[H.LOOKS] > 0 and not replays:
                replays = True  # once: where its answers differ from those of one pass, they do from those of others
                now, periods = m[state + Loop.ITERATION], distance // t[record + LoopSpec.REPEATS]
                times = replay(t, m, h, record, old_machine, end, periods, now, distance, most)
                replayed = times > 0
            if times == 0:
                continue  # memories may be as they were at an earlier pass
        if times > 0:
            multiply(t, m, h, old_machine, loop, record, distance, times, Skip.REPLAYED if replayed else Skip.PROVEN)
            h[memory + LoopMemory.MISSES] = 0
            return True
        break
    if m[M.PROPORTION] != Proportion.NEVER and skip_rest(t, m, h, loop, record, room, first, count):
        h[memory + LoopMemory.MISSES] = 0
        return True
    keep(t, m, h, loop, room, first, count, length, offsets, hashed)
    return False


@jit
def skip_unseen(t, m, h, loop):
    """At a pass of a loop with a state that is not compared, too long or moved by parts of lines: the rest of the loop
    may still be taken in proportion; whether that was done."""
    record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
    if t[record + LoopSpec.HISTORY] == NONE:
        return False
    count = snapshots_of(t, m, h, loop, t[record + LoopSpec.REPEATS])
    if count == NONE:
        return False
    first, room = ring_of(t, h, record), moving.room_of(t, h, Memory.SNAPSHOTS, loop)
    if skip_rest(t, m, h, loop, record, room, first, count):
        h[h[Memory.LOOPS] + loop * LoopMemory.SIZE + LoopMemory.MISSES] = 0
        return True
    keep(t, m, h, loop, room, first, count, UNSEEN, 0, 0)
    return False


@jit
def same_iterations(t, m, h, record, old):
    """Whether the loops inside of a loop stand at the same iterations as in an earlier machine."""
    other = moving.innermost(t, m)
    while other != NONE and t[H.LOOP_TABLE] + other * LoopSpec.SIZE != record:
        at = m[M.LOOPS] + other * Loop.SIZE + Loop.ITERATION
        if m[at] != h[old + at]:
            return False
        other = t[t[H.LOOP_TABLE] + other * LoopSpec.SIZE + LoopSpec.PARENT]
    return True


@jit
def skip_rest(t, m, h, loop, record, room, first, count):
    """Take the rest of a loop in proportion to its passes so far, where it is long; whether that was done."""
    old = judged_by(t, m, h, loop, room, first, count)
    if old == NONE:
        return False
    machine = moving.address(h, room, h[old + Snapshot.PLACE])
    distance = m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION] - h[old + Snapshot.ITERATION]
    times = periods_left(t, m, h, record, loop, machine, distance)
    if times == 0 or not takes_long(t, m, h, machine, times):
        return False
    multiply(t, m, h, machine, loop, record, distance, times, Skip.IN_PROPORTION)
    return True


@jit
def moved_along(t, m, h, record, distance, new, old):
    """Whether each window in flight lies where the loop has moved its counterpart."""
    periods = distance // t[record + LoopSpec.REPEATS]
    slot = m[M.OLDEST]
    while slot != NONE:
        static = m[slot + Instance.STATIC]
        for k in range(t[static + Instruction.ACCESS_COUNT]):
            access = t[static + Instruction.ACCESSES] + k * AccessSpec.SIZE
            shifts = moving.shifts_of(t, record, t[access + AccessSpec.ORDER])
            for axis in range(t[access + AccessSpec.AXES]):
                if h[new] - h[old] != periods * t[shifts + axis]:
                    return False
                new += 1
                old += 1
        slot = m[slot + Instance.YOUNGER]
    return True


@jit
def most_periods(t, m, record, state, old_fetched, distance):
    """Periods that may be skipped: the position stays inside of the loop, and every fetch is a full one."""
    times = (t[record + LoopSpec.LIMIT] - 1 - m[state + Loop.ITERATION]) // distance
    fetched = m[M.FETCHED] - old_fetched
    return min(times, (t[H.TOTAL] - m[M.FETCHED] - t[H.FETCH_FLIGHTS] * t[H.FETCH_WIDTH]) // fetched)


# --- proof -----------------------------------------------------------------------------------------------------
@jit
def provable(t, m, record, old, new, distance, times):
    """How many of the next periods can be proven to repeat the one between two iterations."""
    if times <= 0 or (t[record + LoopSpec.CLASH_COUNT] == 0 and t[record + LoopSpec.MOVING_COUNT] == 0):
        return times
    if proven(t, m, record, old, new + times * distance):
        return times
    low = 0
    while times - low > 1:
        middle = (low + times) // 2
        if proven(t, m, record, old, new + middle * distance):
            low = middle
        else:
            times = middle
    return low


@jit
def proven(t, m, record, old, last):
    """Whether no decision about where windows lie changes up to an iteration.

    What is in flight comes from any iteration so far; what was fetched since the old state, from that on.
    """
    if t[record + LoopSpec.CLASH_COUNT] > 0:
        value_ranges(t, m, record, 0, last)
        for k in range(t[record + LoopSpec.CLASH_COUNT]):
            if may_meet(t, m, t[t[record + LoopSpec.CLASHES] + 2 * k], t[t[record + LoopSpec.CLASHES] + 2 * k + 1]):
                return False
    if t[record + LoopSpec.MOVING_COUNT] > 0:
        value_ranges(t, m, record, old, last)
        for k in range(t[record + LoopSpec.MOVING_COUNT]):
            access = t[t[record + LoopSpec.MOVING] + k]
            low, high = range_of(t, m, t[access + AccessSpec.WORD])
            if bank_of(t, access, low, high) == NONE:
                return False
    return True


@jit
def may_meet(t, m, access, other):
    """Whether the boxes around all windows of two accesses overlap."""
    for axis in range(t[access + AccessSpec.AXES]):
        a, b = range_of(t, m, t[t[access + AccessSpec.EXPRESSIONS] + axis])
        c, d = range_of(t, m, t[t[other + AccessSpec.EXPRESSIONS] + axis])
        b += t[t[t[access + AccessSpec.PATTERNS] + axis] + PatternSpec.SPAN]
        d += t[t[t[other + AccessSpec.PATTERNS] + axis] + PatternSpec.SPAN]
        if b < c or d < a:
            return False
    return True


# --- skipping --------------------------------------------------------------------------------------------------
@jit
def multiply(t, m, h, old, loop, record, distance, times, why):
    """Skip ``times`` periods: move the state on in time and along the loop, and add to the counters. Where they were
    replayed, caches and their counters are already as they then are; in proportion, their lines stay."""
    cycles = times * (m[M.TIME] - h[old + M.TIME])
    instances = times * distance * t[record + LoopSpec.EACH]
    fetched, left, finished = m[M.FETCHED], m[M.LEFT], m[M.FINISHED]
    repeat_peaks(t, m, h, old, times)
    copy_words(h, h[Memory.MACHINE], m, m[M.CACHES], t[H.CACHES] * Cache.SIZE)
    moving.add_counters(m, m, 0, h, old, times)
    m[M.SKIPS] += 1
    moving.move_machine(t, m, cycles, instances)
    move_instances(t, m, record, times * (distance // t[record + LoopSpec.REPEATS]), cycles, instances)
    if why == Skip.REPLAYED:
        copy_words(m, m[M.CACHES], h, h[Memory.MACHINE], t[H.CACHES] * Cache.SIZE)
    if why != Skip.PROVEN and t[H.SPACES] > 0:
        move_addresses(t, m, record, times * (distance // t[record + LoopSpec.REPEATS]))
    if why == Skip.IN_PROPORTION:
        keep_in_flight(m, fetched, left, finished, instances)
        m[M.LOOKS_SINCE] = m[M.LOOKED]
    elif why == Skip.PROVEN and t[H.SPACES] > 0:
        move_memories(t, m, h, record, old, distance // t[record + LoopSpec.REPEATS], times)
        m[M.LOOKS_SINCE] = m[M.LOOKED]
    h[h[Memory.LOOPS] + loop * LoopMemory.SIZE + LoopMemory.PENDING] = NONE
    for other in range(t[H.LOOPS]):
        if moving.is_inside(t, t[H.LOOP_TABLE] + other * LoopSpec.SIZE, record):
            m[m[M.LOOPS] + other * Loop.SIZE + Loop.ENTRY_SEQ] += instances
            h[h[Memory.LOOPS] + other * LoopMemory.SIZE + LoopMemory.PENDING] = NONE
    set_iteration(t, m, loop, m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION] + times * distance)


@jit
def move_instances(t, m, record, periods, cycles, instances):
    """Times, sequence numbers and windows of the instances in flight."""
    slot = m[M.OLDEST]
    while slot != NONE:
        moving.move_instance(t, m, slot, cycles, instances)
        static = m[slot + Instance.STATIC]
        node = slot + t[H.SLOT_ACCESSES] + state.Access.OFFSETS
        for k in range(t[static + Instruction.ACCESS_COUNT]):
            access = t[static + Instruction.ACCESSES] + k * AccessSpec.SIZE
            shifts = moving.shifts_of(t, record, t[access + AccessSpec.ORDER])
            for axis in range(t[access + AccessSpec.AXES]):
                m[node + axis] += periods * t[shifts + axis]
            node += t[H.ACCESS_SIZE]
        slot = m[slot + Instance.YOUNGER]
    renew_classes(t, m)
