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

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.program import set_iteration
from archloom.acadl_models.timing.engine.phases.transfers import join_peaks
from archloom.acadl_models.timing.engine.skipping.memories_state import same_memories
from archloom.acadl_models.timing.engine.skipping.moving import (
    add_counters,
    address,
    copy,
    copy_machine,
    equal,
    innermost,
    is_active,
    is_inside,
    is_kept,
    move_instance,
    move_machine,
    remember_machine,
    reserve,
    shifts_of,
)
from archloom.acadl_models.timing.engine.skipping.ranges import bank_of, range_of, value_ranges


# --- remembering -----------------------------------------------------------------------------------------------
@jit
def begin_transition(t, m, h, loop, length, offsets, hashed):
    """Remember the present as the first state of a transition of a loop."""
    number = h[HM_NEXT]
    h[HM_NEXT] = (number + 1) % TRANSITIONS
    index = h[HM_INDEX] + number * HT_SIZE
    forget_pending(t, h, number)
    memory = h[HM_LOOPS] + loop * HL_SIZE
    h[memory + HL_PENDING] = number
    h[index + HT_VALID] = 0
    h[index + HT_LOOP], h[index + HT_HASH] = loop, hashed
    h[index + HT_LENGTH], h[index + HT_OFFSETS] = length, offsets
    h[index + HT_BEGIN] = reserve(h, HM_TRANSITIONS, m[M_REST] + length + offsets)
    begin = address(h, HM_TRANSITIONS, h[index + HT_BEGIN])
    remember_machine(m, h, begin, m[M_REST])
    copy(h, h[HM_SCRATCH], begin + m[M_REST], length + offsets)


@jit
def forget_pending(t, h, number):
    """The room of a transition is taken again: nobody completes it any more."""
    memory = h[HM_LOOPS] + h[h[HM_INDEX] + number * HT_SIZE + HT_LOOP] * HL_SIZE
    if h[memory + HL_PENDING] == number:
        h[memory + HL_PENDING] = NONE


@jit
def complete_transition(t, m, h, loop):
    """The present is the end of the pending transition of a loop."""
    memory = h[HM_LOOPS] + loop * HL_SIZE
    number = h[memory + HL_PENDING]
    h[memory + HL_PENDING] = NONE
    words = m[M_SLOTS] + m[M_ACTIVE] * t[H_SLOT_SIZE]
    if words > MOST_MACHINE_WORDS or t[H_TOTAL] - m[M_FETCHED] < t[H_FETCH_FLIGHTS] * t[H_FETCH_WIDTH]:
        return
    index = h[HM_INDEX] + number * HT_SIZE
    h[index + HT_VALID] = 1
    h[index + HT_END] = reserve(h, HM_TRANSITIONS, words)
    copy_machine(t, h, address(h, HM_TRANSITIONS, h[index + HT_END]), m, 0)


# --- applying --------------------------------------------------------------------------------------------------
@jit
def recall(t, m, h, loop, length, offsets, hashed):
    """Apply a transition that begins in the present state; returns whether there was one."""
    for number in range(TRANSITIONS):
        index = h[HM_INDEX] + number * HT_SIZE
        if (
            h[index + HT_VALID] == 0
            or h[index + HT_HASH] != hashed
            or h[index + HT_LOOP] != loop
            or h[index + HT_LENGTH] != length
            or h[index + HT_OFFSETS] != offsets
        ):
            continue
        if not is_kept(h, HM_TRANSITIONS, h[index + HT_BEGIN]):
            continue  # its end was written later and is there, too
        begin = address(h, HM_TRANSITIONS, h[index + HT_BEGIN])
        end = address(h, HM_TRANSITIONS, h[index + HT_END])
        state = begin + m[M_REST]
        if (
            equal(h, h[HM_SCRATCH], state, length)
            and same_path(t, m, h, begin, end)
            and windows_move_together(t, m, h, loop, begin, end, h[HM_SCRATCH] + length, state + length)
            and same_memories(t, m, h, begin, h[HM_SCRATCH] + length + offsets, state + length + offsets)
        ):
            apply(t, m, h, loop, begin, end)
            return True
    return False


@jit
def stays(t, m, h, loop, begin, end):
    """Whether a loop that was active at the begin of a transition was never left up to its end."""
    entry = m[M_LOOPS] + loop * L_SIZE + L_ENTRY_SEQ
    record = t[H_LOOP_TABLE] + loop * TL_SIZE
    return is_active(t, record, h[end + M_PC]) and h[begin + entry] == h[end + entry]


@jit
def same_path(t, m, h, begin, end):
    """Whether the same instructions are fetched as in the transition, with the same latencies."""
    if m[M_TIME] + h[end + M_TIME] - h[begin + M_TIME] >= m[M_PAUSE]:
        return False
    fetched = m[M_FETCHED] + h[end + M_FETCHED] - h[begin + M_FETCHED]
    if t[H_TOTAL] - fetched < t[H_FETCH_FLIGHTS] * t[H_FETCH_WIDTH]:
        return False
    loop = innermost(t, m)
    while loop != NONE:
        record = t[H_LOOP_TABLE] + loop * TL_SIZE
        iteration = m[M_LOOPS] + loop * L_SIZE + L_ITERATION
        moved = m[iteration] - h[begin + iteration]
        if stays(t, m, h, loop, begin, end):
            if m[iteration] + h[end + iteration] - h[begin + iteration] >= t[record + TL_EXTENT]:
                return False
        elif moved != 0:
            return False
        if moved != 0 and (t[record + TL_REPEATS] == 0 or moved % t[record + TL_REPEATS] != 0):
            return False
        loop = t[record + TL_PARENT]
    return True


@jit
def windows_move_together(t, m, h, loop, begin, end, new, old):
    """Whether all windows of each conflict class are equally far from where they were in the transition.

    The distances are left in ``M_SHIFTS``. Windows in flight are compared one by one; those to come lie below the
    innermost loop that the transition did not leave.
    """
    for k in range(t[H_CLASSES]):
        m[m[M_SHIFTED] + k] = 0
    slot = m[M_OLDEST]
    while slot != NONE:
        static = m[slot + I_STATIC]
        for k in range(t[static + TI_ACCESS_COUNT]):
            access = t[static + TI_ACCESSES] + k * TA_SIZE
            for axis in range(t[access + TA_AXES]):
                m[m[M_WORK] + axis] = h[new] - h[old]
                new += 1
                old += 1
            if not agrees(t, m, access):
                return False
        slot = m[slot + I_YOUNGER]
    scope = loop
    while scope != NONE and not stays(t, m, h, scope, begin, end):
        scope = t[t[H_LOOP_TABLE] + scope * TL_SIZE + TL_PARENT]
    first, count = 0, t[H_ACCESSES]
    if scope != NONE:
        record = t[H_LOOP_TABLE] + scope * TL_SIZE
        first, count = t[record + TL_FIRST_ACCESS], t[record + TL_ACCESS_COUNT]
        at = m[M_LOOPS] + scope * L_SIZE + L_ITERATION
        value_ranges(t, m, record, m[at], m[at] + h[end + at] - h[begin + at])
    for order in range(first, first + count):
        if not window_agrees(t, m, h, order, begin, scope):
            return False
    return True


@jit
def agrees(t, m, access):
    """Whether the distances in the work space are those of the access's class so far."""
    conflict_class = t[access + TA_CLASS]
    if conflict_class == NONE:
        return True
    shifts = m[M_SHIFTS] + conflict_class * t[H_MAX_AXES]
    known = m[m[M_SHIFTED] + conflict_class] == 1
    m[m[M_SHIFTED] + conflict_class] = 1
    for axis in range(t[access + TA_AXES]):
        if known and m[shifts + axis] != m[m[M_WORK] + axis]:
            return False
        m[shifts + axis] = m[m[M_WORK] + axis]
    return True


@jit
def window_agrees(t, m, h, order, begin, scope):
    """Whether the windows to come of an access move with its class, and its words stay in their banks.

    Where there is a loop that the transition did not leave, the ranges of values in it are known.
    """
    access = t[t[H_PLACES] + order]
    width = t[H_MAX_AXES] + 1
    for column in range(width):
        m[m[M_WORK] + column] = 0
    loop = innermost(t, m)
    while loop != NONE:
        record = t[H_LOOP_TABLE] + loop * TL_SIZE
        iteration = m[M_LOOPS] + loop * L_SIZE + L_ITERATION
        moved = m[iteration] - h[begin + iteration]
        inside = t[record + TL_FIRST_ACCESS] <= order < t[record + TL_FIRST_ACCESS] + t[record + TL_ACCESS_COUNT]
        if moved != 0 and inside:
            periods = moved // t[record + TL_REPEATS]
            shifts = shifts_of(t, record, order)
            for column in range(width):
                m[m[M_WORK] + column] += periods * t[shifts + column]
        loop = t[record + TL_PARENT]
    moved = m[m[M_WORK] + width - 1]
    if moved != 0 and (scope == NONE or t[access + TA_PLACE] != NONE or not stays_in_bank(t, m, access, moved)):
        return False
    return agrees(t, m, access)


@jit
def stays_in_bank(t, m, access, moved):
    """Whether one bank holds all words of an access within the ranges of values, here and before they moved."""
    low, high = range_of(t, m, t[access + TA_WORD])
    return bank_of(t, access, min(low, low - moved), max(high, high - moved)) != NONE


@jit
def apply(t, m, h, loop, begin, end):
    """Make the end of a transition the present."""
    now = h[HM_MACHINE]
    remember_machine(m, h, now, m[M_REST])
    copy_machine(t, m, 0, h, end)
    cycles = h[now + M_TIME] - h[begin + M_TIME]
    instances = h[now + M_SEQ] - h[begin + M_SEQ]
    m[M_LEFT] += h[now + M_LEFT] - h[begin + M_LEFT]
    m[M_STEPPED] = h[now + M_STEPPED]
    m[M_ITERATIONS] = h[now + M_ITERATIONS]
    m[M_SKIPS] = h[now + M_SKIPS] + 1
    for k in range(m[M_ITERATED], m[M_ITERATED] + t[H_SITES]):
        m[k] = h[now + k]
    join_peaks(t, m, h, now, begin)
    add_counters(t, m, h, now, h, begin, 1)
    move_machine(t, m, cycles, instances)
    shift_instances(t, m, cycles, instances)
    restore_loops(t, m, h, loop, now, begin, end, instances)
    h[h[HM_LOOPS] + loop * HL_SIZE + HL_MISSES] = 0


@jit
def shift_instances(t, m, cycles, instances):
    """The instances in flight at the end, moved in time, in program order and with their conflict class."""
    slot = m[M_OLDEST]
    while slot != NONE:
        move_instance(t, m, slot, cycles, instances)
        static = m[slot + I_STATIC]
        node = slot + t[H_SLOT_ACCESSES] + A_OFFSETS
        for k in range(t[static + TI_ACCESS_COUNT]):
            access = t[static + TI_ACCESSES] + k * TA_SIZE
            if t[access + TA_CLASS] != NONE:
                shifts = m[M_SHIFTS] + t[access + TA_CLASS] * t[H_MAX_AXES]
                for axis in range(t[access + TA_AXES]):
                    m[node + axis] += m[shifts + axis]
            node += t[H_ACCESS_SIZE]
        slot = m[slot + I_YOUNGER]


@jit
def restore_loops(t, m, h, recalled, now, begin, end, instances):
    """Loops that go on stand as far on as in the transition; those entered in it stand where they stood."""
    for loop in range(t[H_LOOPS]):
        record = t[H_LOOP_TABLE] + loop * TL_SIZE
        state = m[M_LOOPS] + loop * L_SIZE
        was_active = is_active(t, record, h[now + M_PC])
        if was_active and stays(t, m, h, loop, begin, end):
            m[state + L_ITERATION] += h[now + state + L_ITERATION] - h[begin + state + L_ITERATION]
            m[state + L_ENTRY_SEQ] = h[now + state + L_ENTRY_SEQ]
        else:
            m[state + L_ENTRY_SEQ] += instances
        if not was_active or is_inside(t, record, t[H_LOOP_TABLE] + recalled * TL_SIZE):
            h[h[HM_LOOPS] + loop * HL_SIZE + HL_PENDING] = NONE
    for loop in range(t[H_LOOPS]):
        if is_active(t, t[H_LOOP_TABLE] + loop * TL_SIZE, m[M_PC]):
            set_iteration(t, m, loop, m[m[M_LOOPS] + loop * L_SIZE + L_ITERATION])
