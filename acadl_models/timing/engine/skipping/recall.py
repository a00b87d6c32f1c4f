"""Jitted: transitions of the machine from one event of a loop to the next, remembered and applied again.

A transition leads from the begin of an iteration to the begin of the next one or to the end of the loop. It is applied
to a machine in the same relative state, wherever the loops around stand, if nothing that it decided could come out
differently:

* the same instructions are fetched: every loop that it left stands at the same iteration, every loop that went on can
  go on as far, and every fetch is a full one;
* latencies repeat: each loop stands a multiple of its period away from where it stood;
* the windows of a conflict class, in flight or still to be fetched, have all moved by one and the same distance;
* the words of banked accesses still to be fetched have not moved, or lie in one bank, where they lay then.

The end of the transition is then the present, with times, program order, counters and windows moved on.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine import remembered, state
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import copy_words, jit
from archloom.acadl_models.timing.engine.layout import AccessSpec, H, Instruction, LoopSpec
from archloom.acadl_models.timing.engine.phases.conflicts import renew_classes
from archloom.acadl_models.timing.engine.phases.program import set_iteration
from archloom.acadl_models.timing.engine.phases.transfers import join_peaks
from archloom.acadl_models.timing.engine.remembered import TRANSITIONS, LoopMemory, Memory, Transition
from archloom.acadl_models.timing.engine.skipping import moving
from archloom.acadl_models.timing.engine.skipping.memories_state import same_memories
from archloom.acadl_models.timing.engine.skipping.ranges import bank_of, range_of, value_ranges
from archloom.acadl_models.timing.engine.state import Instance, Loop, M


# --- remembering -----------------------------------------------------------------------------------------------
@jit
def begin_transition(t, m, h, loop, length, offsets, hashed):
    """Remember the present as the first state of a transition of a loop."""
    depth = t[t[H.LOOP_TABLE] + loop * LoopSpec.SIZE + LoopSpec.DEPTH]
    room = moving.room_of(t, h, Memory.TRANSITIONS, loop)
    number = depth * TRANSITIONS + h[h[Memory.NEXT] + depth]
    h[h[Memory.NEXT] + depth] = (h[h[Memory.NEXT] + depth] + 1) % TRANSITIONS
    index = h[Memory.INDEX] + number * Transition.SIZE
    forget_pending(t, h, number)
    memory = h[Memory.LOOPS] + loop * LoopMemory.SIZE
    h[memory + LoopMemory.PENDING] = number
    h[memory + LoopMemory.VAIN] += 1
    h[index + Transition.VALID] = 0
    h[index + Transition.LOOP], h[index + Transition.HASH] = loop, hashed
    h[index + Transition.LENGTH], h[index + Transition.OFFSETS] = length, offsets
    h[index + Transition.BEGIN] = moving.reserve(h, room, m[M.REST] + length + offsets)
    begin = moving.address(h, room, h[index + Transition.BEGIN])
    copy_words(h, begin, m, 0, m[M.REST])
    copy_words(h, begin + m[M.REST], h, h[Memory.SCRATCH], length + offsets)


@jit
def forget_pending(t, h, number):
    """The room of a transition is taken again: nobody completes it any more."""
    memory = h[Memory.LOOPS] + h[h[Memory.INDEX] + number * Transition.SIZE + Transition.LOOP] * LoopMemory.SIZE
    if h[memory + LoopMemory.PENDING] == number:
        h[memory + LoopMemory.PENDING] = NONE


@jit
def complete_transition(t, m, h, loop):
    """The present is the end of the pending transition of a loop."""
    memory = h[Memory.LOOPS] + loop * LoopMemory.SIZE
    number = h[memory + LoopMemory.PENDING]
    h[memory + LoopMemory.PENDING] = NONE
    words = moving.packed_words(t, m)
    if words > remembered.MOST_MACHINE_WORDS or t[H.TOTAL] - m[M.FETCHED] < t[H.FETCH_FLIGHTS] * t[H.FETCH_WIDTH]:
        return
    index = h[Memory.INDEX] + number * Transition.SIZE
    h[index + Transition.VALID] = 1
    room = moving.room_of(t, h, Memory.TRANSITIONS, loop)
    h[index + Transition.END] = moving.reserve(h, room, words)
    moving.pack_machine(t, h, moving.address(h, room, h[index + Transition.END]), m)


# --- applying --------------------------------------------------------------------------------------------------
@jit
def recall(t, m, h, loop, length, offsets, hashed):
    """Apply a transition that begins in the present state; returns whether there was one."""
    room = moving.room_of(t, h, Memory.TRANSITIONS, loop)
    first = t[t[H.LOOP_TABLE] + loop * LoopSpec.SIZE + LoopSpec.DEPTH] * TRANSITIONS
    for number in range(first, first + TRANSITIONS):
        index = h[Memory.INDEX] + number * Transition.SIZE
        if h[index + Transition.VALID] == 0 or h[index + Transition.HASH] != hashed:
            continue
        same = h[index + Transition.LENGTH] == length and h[index + Transition.OFFSETS] == offsets
        if not same or h[index + Transition.LOOP] != loop:
            continue
        if not moving.is_kept(h, room, h[index + Transition.BEGIN]):
            continue  # its end was written later and is there, too
        begin = moving.address(h, room, h[index + Transition.BEGIN])
        end = moving.address(h, room, h[index + Transition.END])
        state = begin + m[M.REST]
        # each check relies on those before it: docs/timing_semantics.md, "The order of the checks"
        if not moving.equal(h, h[Memory.SCRATCH], state, length):
            continue
        if not same_path(t, m, h, begin, end):
            continue
        if not find_distances(t, m, h, loop, begin, end, h[Memory.SCRATCH] + length, state + length):
            continue
        if not same_memories(t, m, h, begin, h[Memory.SCRATCH] + length + offsets, state + length + offsets):
            continue
        apply(t, m, h, loop, begin, end)
        return True
    return False


@jit
def stays(t, m, h, loop, begin, end):
    """Whether a loop that was active at the begin of a transition was never left up to its end."""
    entry = m[M.LOOPS] + loop * Loop.SIZE + Loop.ENTRY_SEQ
    record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
    return moving.is_active(t, record, h[end + M.PC]) and h[begin + entry] == h[end + entry]


@jit
def same_path(t, m, h, begin, end):
    """Whether the same instructions are fetched as in the transition, with the same latencies."""
    if m[M.TIME] + h[end + M.TIME] - h[begin + M.TIME] >= m[M.PAUSE]:
        return False
    fetched = m[M.FETCHED] + h[end + M.FETCHED] - h[begin + M.FETCHED]
    if t[H.TOTAL] - fetched < t[H.FETCH_FLIGHTS] * t[H.FETCH_WIDTH]:
        return False
    loop = moving.innermost(t, m)
    while loop != NONE:
        record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
        iteration = m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION
        moved, gone = m[iteration] - h[begin + iteration], 0
        if stays(t, m, h, loop, begin, end):
            gone = h[end + iteration] - h[begin + iteration]
            if m[iteration] + gone >= t[record + LoopSpec.EXTENT]:
                return False
        elif moved != 0:
            return False
        if moved != 0 and (t[record + LoopSpec.REPEATS] == 0 or moved % t[record + LoopSpec.REPEATS] != 0):
            return False
        if moved != 0 and max(m[iteration], h[begin + iteration]) + gone >= t[record + LoopSpec.LIMIT]:
            return False
        loop = t[record + LoopSpec.PARENT]
    return True


@jit
def find_distances(t, m, h, loop, begin, end, new, old):
    """Find in ``M.DISTANCES`` how far all windows of each conflict class are from where they were in the transition.

    Returns whether there is one distance for each class. Windows in flight are compared one by one; those to come lie
    below the innermost loop that the transition did not leave.
    """
    for k in range(t[H.CLASSES]):
        m[m[M.KNOWN] + k] = 0
    slot = m[M.OLDEST]
    while slot != NONE:
        static = m[slot + Instance.STATIC]
        for k in range(t[static + Instruction.ACCESS_COUNT]):
            access = t[static + Instruction.ACCESSES] + k * AccessSpec.SIZE
            for axis in range(t[access + AccessSpec.AXES]):
                m[m[M.DISTANCE] + axis] = h[new] - h[old]
                new += 1
                old += 1
            if not agrees(t, m, access):
                return False
        slot = m[slot + Instance.YOUNGER]
    scope = loop
    while scope != NONE and not stays(t, m, h, scope, begin, end):
        scope = t[t[H.LOOP_TABLE] + scope * LoopSpec.SIZE + LoopSpec.PARENT]
    first, count = 0, t[H.ACCESSES]
    if scope != NONE:
        record = t[H.LOOP_TABLE] + scope * LoopSpec.SIZE
        first, count = t[record + LoopSpec.FIRST_ACCESS], t[record + LoopSpec.ACCESS_COUNT]
        at = m[M.LOOPS] + scope * Loop.SIZE + Loop.ITERATION
        value_ranges(t, m, record, m[at], m[at] + h[end + at] - h[begin + at])
    for order in range(first, first + count):
        if not window_agrees(t, m, h, order, begin, scope):
            return False
    return True


@jit
def agrees(t, m, access):
    """Whether the distance at hand, ``M.DISTANCE``, is that of the access's class so far."""
    conflict_class = t[access + AccessSpec.CLASS]
    if conflict_class == NONE:
        return True
    shifts = m[M.DISTANCES] + conflict_class * t[H.MAX_AXES]
    known = m[m[M.KNOWN] + conflict_class] == 1
    m[m[M.KNOWN] + conflict_class] = 1
    for axis in range(t[access + AccessSpec.AXES]):
        if known and m[shifts + axis] != m[m[M.DISTANCE] + axis]:
            return False
        m[shifts + axis] = m[m[M.DISTANCE] + axis]
    return True


@jit
def window_agrees(t, m, h, order, begin, scope):
    """Whether the windows to come of an access move with its class, and its words stay in their banks.

    Where there is a loop that the transition did not leave, the ranges of values in it are known.
    """
    access = t[H.ACCESS_TABLE] + order * AccessSpec.SIZE
    width = t[H.MAX_AXES] + 1
    for column in range(width):
        m[m[M.DISTANCE] + column] = 0
    loop = moving.innermost(t, m)
    while loop != NONE:
        record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
        iteration = m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION
        moved = m[iteration] - h[begin + iteration]
        if moved != 0 and moving.is_below(t, record, order):
            periods = moved // t[record + LoopSpec.REPEATS]  # a whole number, and not of 0: see same_path
            shifts = moving.shifts_of(t, record, order)
            for column in range(width):
                m[m[M.DISTANCE] + column] += periods * t[shifts + column]
        loop = t[record + LoopSpec.PARENT]
    moved = m[m[M.DISTANCE] + width - 1]
    if moved != 0 and (scope == NONE or t[access + AccessSpec.PLACE] != NONE or not stays_in_bank(t, m, access, moved)):
        return False
    return agrees(t, m, access)


@jit
def stays_in_bank(t, m, access, moved):
    """Whether one bank holds all words of an access within the ranges of values, here and before they moved.

    An access that has one bank alone stays there, whatever ranges say: they may be wider than what is touched.
    """
    if t[access + AccessSpec.STORE_COUNT] == 1:
        return True
    low, high = range_of(t, m, t[access + AccessSpec.WORD])
    return bank_of(t, access, min(low, low - moved), max(high, high - moved)) != NONE


@jit
def apply(t, m, h, loop, begin, end):
    """Make the end of a transition the present."""
    now = h[Memory.MACHINE]
    copy_words(h, now, m, 0, m[M.REST])
    moving.unpack_machine(t, m, h, end)
    cycles = h[now + M.TIME] - h[begin + M.TIME]
    instances = h[now + M.SEQ] - h[begin + M.SEQ]
    moving.keep_efforts(m, h, now)
    m[M.LOOKS_SINCE] = m[M.LOOKED]
    m[M.SKIPS] += 1
    join_peaks(t, m, h, now, begin)
    moving.add_counters(m, h, now, h, begin, 1)
    moving.move_machine(t, m, cycles, instances)
    shift_instances(t, m, cycles, instances)
    restore_loops(t, m, h, loop, now, begin, end, instances)
    memory = h[Memory.LOOPS] + loop * LoopMemory.SIZE
    h[memory + LoopMemory.MISSES] = h[memory + LoopMemory.VAIN] = 0
    h[memory + LoopMemory.SAMPLED] -= instances  # what was recalled has passed as if it had been stepped


@jit
def shift_instances(t, m, cycles, instances):
    """The instances in flight at the end, moved in time, in program order and with their conflict class."""
    slot = m[M.OLDEST]
    while slot != NONE:
        moving.move_instance(t, m, slot, cycles, instances)
        static = m[slot + Instance.STATIC]
        node = slot + t[H.SLOT_ACCESSES] + state.Access.OFFSETS
        for k in range(t[static + Instruction.ACCESS_COUNT]):
            access = t[static + Instruction.ACCESSES] + k * AccessSpec.SIZE
            if t[access + AccessSpec.CLASS] != NONE:
                shifts = m[M.DISTANCES] + t[access + AccessSpec.CLASS] * t[H.MAX_AXES]
                for axis in range(t[access + AccessSpec.AXES]):
                    m[node + axis] += m[shifts + axis]
            node += t[H.ACCESS_SIZE]
        slot = m[slot + Instance.YOUNGER]
    renew_classes(t, m)


@jit
def restore_loops(t, m, h, recalled, now, begin, end, instances):
    """Loops that go on stand as far on as in the transition; those entered in it stand where they stood."""
    for loop in range(t[H.LOOPS]):
        record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
        state = m[M.LOOPS] + loop * Loop.SIZE
        was_active = moving.is_active(t, record, h[now + M.PC])
        if was_active and stays(t, m, h, loop, begin, end):
            m[state + Loop.ITERATION] += h[now + state + Loop.ITERATION] - h[begin + state + Loop.ITERATION]
            m[state + Loop.ENTRY_SEQ] = h[now + state + Loop.ENTRY_SEQ]
        else:
            m[state + Loop.ENTRY_SEQ] += instances
        if not was_active or moving.is_inside(t, record, t[H.LOOP_TABLE] + recalled * LoopSpec.SIZE):
            h[h[Memory.LOOPS] + loop * LoopMemory.SIZE + LoopMemory.PENDING] = NONE
    for loop in range(t[H.LOOPS]):
        if moving.is_active(t, t[H.LOOP_TABLE] + loop * LoopSpec.SIZE, m[M.PC]):
            set_iteration(t, m, loop, m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION])
