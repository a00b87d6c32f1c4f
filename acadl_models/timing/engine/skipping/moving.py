"""Jitted: what skipping and recalling share: copies and comparisons, and moving the machine on in time."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import FOREVER, NONE, places, time, until
from archloom.acadl_models.timing.engine.jit import copy_words, for_each, jit, jit_inline
from archloom.acadl_models.timing.engine.layout import Code, GroupSpec, H, Instruction, LoopSpec
from archloom.acadl_models.timing.engine.machine_parts import Group
from archloom.acadl_models.timing.engine.remembered import Room
from archloom.acadl_models.timing.engine.state import Instance, M, Request, Unit


@jit_inline
def move_time(m, _, field, at, cycles):
    """Move a time, but for one that never comes."""
    if m[field] != FOREVER:
        m[field] += cycles


move_instance_times = for_each(places(Instance, time, until), move_time)
move_request_times = for_each(places(Request, time, until), move_time)


@jit
def used_words(t, source, slot):
    """How many words of a slot mean anything."""
    if source[slot + Instance.SEQ] == NONE:
        return Instance.SIZE
    if t[H.MAX_LATENCIES] + t[H.TAIL_SIZE] == 0:
        return t[H.SLOT_REQUESTS] + source[slot + Instance.REQUESTS] * Request.SIZE
    return t[H.SLOT_SIZE]


@jit
def packed_words(t, m):
    """Words of the whole machine without what its slots do not use."""
    words = m[M.SLOTS]
    for slot in range(m[M.SLOTS], m[M.SLOTS] + m[M.ACTIVE] * t[H.SLOT_SIZE], t[H.SLOT_SIZE]):
        words += used_words(t, m, slot)
    return words


@jit
def pack_machine(t, h, to, m):
    """Copy the whole machine, slot after slot, without what they do not use."""
    copy_words(h, to, m, 0, m[M.SLOTS])
    at = to + m[M.SLOTS]
    for slot in range(m[M.SLOTS], m[M.SLOTS] + m[M.ACTIVE] * t[H.SLOT_SIZE], t[H.SLOT_SIZE]):
        words = used_words(t, m, slot)
        copy_words(h, at, m, slot, words)
        at += words


@jit
def unpack_machine(t, m, h, begin):
    """Make a machine that was packed the present one."""
    copy_words(m, 0, h, begin, m[M.SLOTS])
    at = begin + m[M.SLOTS]
    for slot in range(m[M.SLOTS], m[M.SLOTS] + m[M.ACTIVE] * t[H.SLOT_SIZE], t[H.SLOT_SIZE]):
        words = used_words(t, h, at)
        copy_words(m, slot, h, at, words)
        at += words


@jit
def equal(h, a, b, length):
    for k in range(length):
        if h[a + k] != h[b + k]:
            return False
    return True


@jit
def is_inside(t, inner, outer):
    """Whether a loop lies strictly inside of another."""
    return t[outer + LoopSpec.BODY] < t[inner + LoopSpec.BODY] and t[inner + LoopSpec.END] < t[outer + LoopSpec.END]


@jit
def innermost(t, m):
    """The innermost loop around the program position or ``NONE``; ``LoopSpec.PARENT`` leads on to those around it."""
    operation = t[H.PROGRAM] + 2 * m[M.PC]
    if t[operation] == Code.END:
        return NONE
    return t[t[operation + 1] + Instruction.LOOP]


@jit
def is_active(t, record, pc):
    """Whether a program position lies in a loop."""
    return t[record + LoopSpec.BODY] <= pc and pc <= t[record + LoopSpec.END]


@jit
def is_below(t, record, order):
    """Whether an access lies below a loop."""
    first = t[record + LoopSpec.FIRST_ACCESS]
    return first <= order < first + t[record + LoopSpec.ACCESS_COUNT]


@jit
def shifts_of(t, record, order):
    """How far a period of a loop moves an access below it: one distance for each axis, and one for its word."""
    return t[record + LoopSpec.SHIFTS] + (order - t[record + LoopSpec.FIRST_ACCESS]) * (t[H.MAX_AXES] + 1)


# --- fields by kind --------------------------------------------------------------------------------------------
@jit
def list_fields(t, m):
    """Write the positions of the fields of each group."""
    spec, at = t[H.GROUPS], m[M.FIELDS]
    for group in range(Group.SIZE):
        m[M.LISTS + group] = at
        while t[spec + GroupSpec.PART] != NONE:
            first, size = m[t[spec + GroupSpec.PART]], t[spec + GroupSpec.RECORD_SIZE]
            fields = spec + GroupSpec.SIZE
            end = fields + t[spec + GroupSpec.FIELDS]
            for record in range(first, first + t[t[spec + GroupSpec.COUNT]] * size, size):
                for k in range(fields, end):
                    m[at] = record + t[k]
                    at += 1
            spec = end
        spec += 1
    m[M.LISTS + Group.SIZE] = at


@jit
def move_machine(t, m, cycles, instances):
    """Times and sequence numbers of the machine, but for its instances; the wheel turns with them."""
    for k in range(m[M.LISTS + Group.TIMES], m[M.LISTS + Group.TIMES + 1]):
        if m[m[k]] != FOREVER:
            m[m[k]] += cycles
    for k in range(m[M.LISTS + Group.SEQUENCES], m[M.LISTS + Group.SEQUENCES + 1]):
        if m[m[k]] != NONE:
            m[m[k]] += instances
    for unit in range(m[M.UNITS], m[M.UNITS] + t[H.UNITS] * Unit.SIZE, Unit.SIZE):
        m[unit + Unit.FED] = m[M.STARVED]


@jit
def add_counters(m, later, after, h, before, times):
    """Add to the counters, so many times, what they gained from the machine at ``h[before]`` to ``later[after]``."""
    for k in range(m[M.LISTS + Group.COUNTERS], m[M.LISTS + Group.COUNTERS + 1]):
        m[m[k]] += times * (later[after + m[k]] - h[before + m[k]])


@jit
def keep_efforts(m, h, now):
    """What was simulated one by one is what it was in the machine at ``h[now]``."""
    for k in range(m[M.LISTS + Group.EFFORTS], m[M.LISTS + Group.EFFORTS + 1]):
        m[m[k]] = h[now + m[k]]


@jit
def move_instance(t, m, slot, cycles, instances):
    """Times and the sequence number of an instance."""
    m[slot + Instance.SEQ] += instances
    move_instance_times(m, m, slot, 0, cycles)
    request = slot + t[H.SLOT_REQUESTS]
    for _ in range(m[slot + Instance.REQUESTS]):
        move_request_times(m, m, request, 0, cycles)
        request += Request.SIZE


@jit
def room_of(t, h, rooms, loop):
    """The room for contents of loops as deep as one."""
    return h[rooms] + t[t[H.LOOP_TABLE] + loop * LoopSpec.SIZE + LoopSpec.DEPTH] * Room.SIZE


@jit
def reserve(h, room, words):
    """The place of so many words in a room for contents; what lay there before is lost."""
    place, size = h[room + Room.USED], h[room + Room.WORDS]
    if place % size + words > size:
        place += size - place % size
    h[room + Room.USED] = place + words
    return place


@jit
def is_kept(h, room, place):
    """Whether the contents of a place are still there."""
    return h[room + Room.USED] - place <= h[room + Room.WORDS]


@jit
def address(h, room, place):
    """Where a place lies in the memory."""
    return h[room + Room.BEGIN] + place % h[room + Room.WORDS]
