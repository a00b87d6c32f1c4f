"""Jitted: finding a recurring state at the back edge of a loop, proving that it goes on, and multiplying out.

The machine is compared with earlier passes of the same back edge. If its relative state is the same, the windows in
flight have moved by what the loop moves them in the meantime, and every decision that depends on where windows lie is
the same in all later periods, then these repeat cycle for cycle:

* latencies and addresses below the loop repeat with its period (``TL_PERIOD`` divides the distance);
* two accesses that may meet move together, or do not meet up to the end of what is skipped (``TL_CLASHES``);
* an access that moves through banks stays in one until then (``TL_MOVING``);
* everything in flight was fetched inside of the loop, and what is left to fetch never falls below one fetch.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.accounting import settle
from archloom.acadl_models.timing.engine.phases.order import sort
from archloom.acadl_models.timing.engine.phases.program import set_iteration
from archloom.acadl_models.timing.engine.phases.transfers import repeat_peaks
from archloom.acadl_models.timing.engine.skipping.memories_repeat import move_memories, repeatable
from archloom.acadl_models.timing.engine.skipping.moving import (
    add_counters,
    address,
    copy,
    equal,
    innermost,
    is_inside,
    is_kept,
    move_instance,
    move_machine,
    remember_machine,
    reserve,
    shifts_of,
)
from archloom.acadl_models.timing.engine.skipping.ranges import bank_of, range_of, value_ranges
from archloom.acadl_models.timing.engine.skipping.recall import begin_transition, complete_transition, recall
from archloom.acadl_models.timing.engine.skipping.snapshot import describe, hash_of, in_flight

PATIENCE = 4
"""After so many states without a match, one more instance is stepped before the next is compared."""

LONGEST_WAIT = 256
"""Most instances that are stepped between two comparisons at a loop."""


@jit
def look_back(t, m, h):
    """At loop events: compare with earlier states, and skip what is proven to repeat as long as anything is."""
    while skip_one(t, m, h):
        pass
    for k in range(m[M_EVENTS], m[M_EVENTS] + m[M_EVENT_COUNT]):
        m[m[M_LOOPS] + m[k] * L_SIZE + L_EVENT] = 0
    m[M_EVENT] = m[M_EVENT_COUNT] = 0


@jit
def skip_one(t, m, h):
    """Skip periods of one loop, or one transition; returns whether there may be more to skip at once."""
    described = False
    length = offsets = hashed = 0
    state = h[HM_SCRATCH]
    events, count = m[M_EVENTS], m[M_EVENT_COUNT]
    sort(m, events, count)  # outer loops come before inner ones
    for k in range(events, events + count):
        if h[h[HM_LOOPS] + m[k] * HL_SIZE + HL_PENDING] != NONE:
            settle(t, m)
            complete_transition(t, m, h, m[k])
    for k in range(events, events + count):
        loop = m[k]
        event = m[m[M_LOOPS] + loop * L_SIZE + L_EVENT]
        if event == EVENT_LEFT or not is_due(t, m, h, loop, event):
            continue
        if not described:
            described = True
            settle(t, m)
            length, offsets = describe(t, m, h, state)
            hashed = hash_of(h, state, length)
        if length == 0:
            h[h[HM_LOOPS] + loop * HL_SIZE + HL_MISSES] += 1
            continue
        record = t[H_LOOP_TABLE] + loop * TL_SIZE
        if event & EVENT_CROSSED and t[record + TL_PERIOD] > 0:
            if skip_periods(t, m, h, loop, length, offsets, hashed):
                return False
        small = m[M_SLOTS] + m[M_ACTIVE] * t[H_SLOT_SIZE] <= MOST_MACHINE_WORDS
        if t[record + TL_WATCHED] == 1 and small:
            if recall(t, m, h, loop, length, offsets, hashed):
                return True
            begin_transition(t, m, h, loop, length, offsets, hashed)
        h[h[HM_LOOPS] + loop * HL_SIZE + HL_MISSES] += 1
    return False


@jit
def is_due(t, m, h, loop, event):
    """Whether the state is compared at this event: the less often, the longer in vain."""
    record = t[H_LOOP_TABLE] + loop * TL_SIZE
    period = t[record + TL_PERIOD]
    repeats = event & EVENT_CROSSED and period > 0 and m[m[M_LOOPS] + loop * L_SIZE + L_ITERATION] % period == 0
    if not repeats and t[record + TL_WATCHED] == 0:
        return False
    memory = h[HM_LOOPS] + loop * HL_SIZE
    wait = min(h[memory + HL_MISSES] // PATIENCE, LONGEST_WAIT)
    if in_flight(m) > MANY_IN_FLIGHT:
        wait = max(wait, in_flight(m) // 2 * (2 + h[memory + HL_MISSES]) // 2)
    if m[M_STEPPED] - h[memory + HL_SAMPLED] < wait:
        return False
    h[memory + HL_SAMPLED] = m[M_STEPPED]
    return True


@jit
def skip_periods(t, m, h, loop, length, offsets, hashed):
    """Look for an equal state at an earlier pass of the loop and skip; returns whether anything was skipped."""
    record, state, memory = t[H_LOOP_TABLE] + loop * TL_SIZE, m[M_LOOPS] + loop * L_SIZE, h[HM_LOOPS] + loop * HL_SIZE
    if m[state + L_ITERATION] % t[record + TL_PERIOD] != 0:
        return False
    if h[memory + HL_ACTIVATION] != m[state + L_ENTRY_SEQ]:
        h[memory + HL_ACTIVATION] = m[state + L_ENTRY_SEQ]
        h[memory + HL_SNAPSHOTS] = 0
    first = h[HM_RINGS] + t[record + TL_HISTORY] * SNAPSHOTS * K_SIZE
    count = h[memory + HL_SNAPSHOTS]
    words, machine = h[HM_SCRATCH], m[M_REST]
    for back in range(1, min(count, SNAPSHOTS) + 1):
        old = first + ((count - back) % SNAPSHOTS) * K_SIZE
        if h[old + K_HASH] != hashed or h[old + K_LENGTH] != length or h[old + K_OFFSETS] != offsets:
            continue
        if not is_kept(h, HM_SNAPSHOTS, h[old + K_PLACE]):
            break
        old_machine = address(h, HM_SNAPSHOTS, h[old + K_PLACE])
        old_words = old_machine + machine
        distance = m[state + L_ITERATION] - h[old + K_ITERATION]
        if not equal(h, words, old_words, length) or not same_iterations(t, m, h, record, old_machine):
            continue
        if not moved_along(t, m, h, record, distance, words + length, old_words + length):
            continue
        times = most_periods(t, m, record, state, h[old_machine + M_FETCHED], distance)
        times = min(times, (m[M_PAUSE] - 1 - m[M_TIME]) // (m[M_TIME] - h[old_machine + M_TIME]))
        times = provable(t, m, record, h[old + K_ITERATION], m[state + L_ITERATION], distance, times)
        if t[H_SPACES] > 0 and times > 0:
            times = repeatable(t, m, h, record, old_machine, old_words + length + offsets, state, distance, times)
            if times == 0:
                continue  # memories may be as they were at an earlier pass
        if times > 0:
            multiply(t, m, h, old_machine, loop, record, distance, times)
            h[memory + HL_MISSES] = 0
            return True
        break
    new = first + (count % SNAPSHOTS) * K_SIZE
    h[new + K_PLACE] = reserve(h, HM_SNAPSHOTS, machine + length + offsets)
    place = address(h, HM_SNAPSHOTS, h[new + K_PLACE])
    h[new + K_HASH], h[new + K_LENGTH], h[new + K_OFFSETS] = hashed, length, offsets
    h[new + K_ITERATION] = m[state + L_ITERATION]
    remember_machine(m, h, place, machine)
    copy(h, words, place + machine, length + offsets)
    h[memory + HL_SNAPSHOTS] += 1
    return False


@jit
def same_iterations(t, m, h, record, old):
    """Whether the loops inside of a loop stand at the same iterations as in an earlier machine."""
    other = innermost(t, m)
    while other != NONE and t[H_LOOP_TABLE] + other * TL_SIZE != record:
        at = m[M_LOOPS] + other * L_SIZE + L_ITERATION
        if m[at] != h[old + at]:
            return False
        other = t[t[H_LOOP_TABLE] + other * TL_SIZE + TL_PARENT]
    return True


@jit
def moved_along(t, m, h, record, distance, new, old):
    """Whether each window in flight lies where the loop has moved its counterpart."""
    periods = distance // t[record + TL_REPEATS]
    slot = m[M_OLDEST]
    while slot != NONE:
        static = m[slot + I_STATIC]
        for k in range(t[static + TI_ACCESS_COUNT]):
            access = t[static + TI_ACCESSES] + k * TA_SIZE
            shifts = shifts_of(t, record, t[access + TA_ORDER])
            for axis in range(t[access + TA_AXES]):
                if h[new] - h[old] != periods * t[shifts + axis]:
                    return False
                new += 1
                old += 1
        slot = m[slot + I_YOUNGER]
    return True


@jit
def most_periods(t, m, record, state, old_fetched, distance):
    """Periods that may be skipped: the position stays inside of the loop, and every fetch is a full one."""
    if m[M_OLDEST] != NONE and m[m[M_OLDEST] + I_SEQ] < m[state + L_ENTRY_SEQ]:
        return 0
    times = (t[record + TL_EXTENT] - 1 - m[state + L_ITERATION]) // distance
    fetched = m[M_FETCHED] - old_fetched
    return min(times, (t[H_TOTAL] - m[M_FETCHED] - t[H_FETCH_FLIGHTS] * t[H_FETCH_WIDTH]) // fetched)


# --- proof -----------------------------------------------------------------------------------------------------
@jit
def provable(t, m, record, old, new, distance, times):
    """How many of the next periods can be proven to repeat the one between two iterations."""
    if times <= 0 or (t[record + TL_CLASH_COUNT] == 0 and t[record + TL_MOVING_COUNT] == 0):
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
    if t[record + TL_CLASH_COUNT] > 0:
        value_ranges(t, m, record, 0, last)
        for k in range(t[record + TL_CLASH_COUNT]):
            if may_meet(t, m, t[t[record + TL_CLASHES] + 2 * k], t[t[record + TL_CLASHES] + 2 * k + 1]):
                return False
    if t[record + TL_MOVING_COUNT] > 0:
        value_ranges(t, m, record, old, last)
        for k in range(t[record + TL_MOVING_COUNT]):
            if not in_one_bank(t, m, t[t[record + TL_MOVING] + k]):
                return False
    return True


@jit
def may_meet(t, m, access, other):
    """Whether the boxes around all windows of two accesses overlap."""
    for axis in range(t[access + TA_AXES]):
        a, b = range_of(t, m, t[t[access + TA_EXPRESSIONS] + axis])
        c, d = range_of(t, m, t[t[other + TA_EXPRESSIONS] + axis])
        span, other_span = t[t[t[access + TA_PATTERNS] + axis] + TP_SPAN], t[t[t[other + TA_PATTERNS] + axis] + TP_SPAN]
        if b + span < c or d + other_span < a:
            return False
    return True


@jit
def in_one_bank(t, m, access):
    """Whether all windows of an access lie in the same bank."""
    low, high = range_of(t, m, t[access + TA_WORD])
    return bank_of(t, access, low, high) != NONE


# --- skipping --------------------------------------------------------------------------------------------------
@jit
def multiply(t, m, h, old, loop, record, distance, times):
    """Skip ``times`` periods: move the state on in time and along the loop, and add to the counters."""
    cycles = times * (m[M_TIME] - h[old + M_TIME])
    instances = times * (m[M_FETCHED] - h[old + M_FETCHED])
    repeat_peaks(t, m, h, old, times)
    add_counters(t, m, m, 0, h, old, times)
    m[M_LEFT] -= instances
    m[M_SKIPS] += 1
    move_machine(t, m, cycles, instances)
    move_instances(t, m, record, times * (distance // t[record + TL_REPEATS]), cycles, instances)
    if t[H_SPACES] > 0:
        move_memories(t, m, h, record, old, distance // t[record + TL_REPEATS], times)
    h[h[HM_LOOPS] + loop * HL_SIZE + HL_PENDING] = NONE
    for other in range(t[H_LOOPS]):
        if is_inside(t, t[H_LOOP_TABLE] + other * TL_SIZE, record):
            m[m[M_LOOPS] + other * L_SIZE + L_ENTRY_SEQ] += instances
            h[h[HM_LOOPS] + other * HL_SIZE + HL_PENDING] = NONE
    set_iteration(t, m, loop, m[m[M_LOOPS] + loop * L_SIZE + L_ITERATION] + times * distance)


@jit
def move_instances(t, m, record, periods, cycles, instances):
    """Times, sequence numbers and windows of the instances in flight."""
    slot = m[M_OLDEST]
    while slot != NONE:
        move_instance(t, m, slot, cycles, instances)
        static = m[slot + I_STATIC]
        node = slot + t[H_SLOT_ACCESSES] + A_OFFSETS
        for k in range(t[static + TI_ACCESS_COUNT]):
            access = t[static + TI_ACCESSES] + k * TA_SIZE
            shifts = shifts_of(t, record, t[access + TA_ORDER])
            for axis in range(t[access + TA_AXES]):
                m[node + axis] += periods * t[shifts + axis]
            node += t[H_ACCESS_SIZE]
        slot = m[slot + I_YOUNGER]
