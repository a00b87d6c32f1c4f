"""Jitted: what skipping and recalling share: copies and comparisons, and moving the machine on in time."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import copy_words, jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403


@jit
def remember_machine(m, h, position, words):
    copy_words(h, position, m, 0, words)


@jit
def copy_machine(t, target, to, source, begin):
    """Copy a whole machine from ``source[begin]`` on; of its instances what they use."""
    slots = source[begin + M_SLOTS]
    copy_words(target, to, source, begin, slots)
    for slot in range(slots, slots + source[begin + M_ACTIVE] * t[H_SLOT_SIZE], t[H_SLOT_SIZE]):
        words = t[H_SLOT_SIZE]
        if source[begin + slot + I_SEQ] == NONE:
            words = I_SIZE
        elif t[H_MAX_LATENCIES] + t[H_TAIL_SIZE] == 0:
            words = t[H_SLOT_REQUESTS] + source[begin + slot + I_REQUESTS] * R_SIZE
        copy_words(target, to + slot, source, begin + slot, words)


@jit
def copy(h, source, target, words):
    copy_words(h, target, h, source, words)


@jit
def equal(h, a, b, length):
    for k in range(length):
        if h[a + k] != h[b + k]:
            return False
    return True


@jit
def is_inside(t, inner, outer):
    """Whether a loop lies strictly inside of another."""
    return t[outer + TL_BODY] < t[inner + TL_BODY] and t[inner + TL_END] < t[outer + TL_END]


@jit
def innermost(t, m):
    """The innermost loop around the program position or ``NONE``; ``TL_PARENT`` leads on to those around it."""
    operation = t[H_PROGRAM] + 2 * m[M_PC]
    if t[operation] == OP_END:
        return NONE
    return t[t[operation + 1] + TI_LOOP]


@jit
def is_active(t, record, pc):
    """Whether a program position lies in a loop."""
    return t[record + TL_BODY] <= pc and pc <= t[record + TL_END]


@jit
def shifts_of(t, record, order):
    """How far a period of a loop moves an access below it: one distance for each axis, and one for its word."""
    return t[record + TL_SHIFTS] + (order - t[record + TL_FIRST_ACCESS]) * (t[H_MAX_AXES] + 1)


@jit
def move_machine(t, m, cycles, instances):
    """Times and sequence numbers of the machine, its stages, units and storages; the wheel turns with them."""
    m[M_TIME] += cycles
    m[M_LATEST] += cycles
    m[M_CHANGED] += cycles
    m[M_LAST_FETCH] += cycles
    m[M_HUNGRY_SINCE] += cycles
    m[M_FRONT_SINCE] += cycles
    m[M_BASE] += cycles
    m[M_HORIZON] += cycles
    if m[M_FAR_TIME] != FOREVER:
        m[M_FAR_TIME] += cycles
    m[M_SEQ] += instances
    if m[M_FETCH_END] != FOREVER:
        m[M_FETCH_END] += cycles
    for flight in range(m[M_FLIGHTS], m[M_FLIGHTS] + t[H_FETCH_FLIGHTS] * F_SIZE, F_SIZE):
        m[flight + F_END] += cycles
    for stage in range(m[M_STAGES], m[M_STAGES] + t[H_STAGES] * S_SIZE, S_SIZE):
        m[stage + S_DUE] += cycles
        m[stage + S_SINCE] += cycles
    for unit in range(m[M_UNITS], m[M_UNITS] + t[H_UNITS] * U_SIZE, U_SIZE):
        m[unit + U_READY] += cycles
        m[unit + U_SINCE] += cycles
        m[unit + U_FED] = m[M_STARVED]
        if m[unit + U_JUDGED] != NONE:
            m[unit + U_JUDGED] += instances
        if m[unit + U_LAST] != NONE:
            m[unit + U_LAST] += instances
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        m[store + D_PORT_FREE] += cycles
        m[store + D_SINCE] += cycles
        m[store + D_PORTS + P_SINCE] += cycles
        m[store + D_PORTS + P_SIZE + P_SINCE] += cycles
    for bank in range(m[M_BANKS], m[M_BANKS] + t[H_BANKS] * B_SIZE, B_SIZE):
        m[bank + B_PRECHARGE] += cycles
        m[bank + B_FREE] += cycles
    for link in range(m[M_LINKS], m[M_LINKS] + t[H_LINKS] * LS_SIZE, LS_SIZE):
        m[link + LS_FREE] += cycles
        m[link + LS_FREE + 1] += cycles


@jit
def add_counters(t, m, later, after, h, before, times):
    """Add to the counters, so many times, what they gained from the machine at ``h[before]`` to ``later[after]``."""
    for field in COUNTERS:
        m[field] += times * (later[after + field] - h[before + field])
    for field in range(m[M_SPENT], m[M_SPENT] + t[H_SITES] + 1):
        m[field] += times * (later[after + field] - h[before + field])
    for stage in range(m[M_STAGES], m[M_STAGES] + t[H_STAGES] * S_SIZE, S_SIZE):
        for field in range(stage + S_STALL, stage + S_SIZE):
            m[field] += times * (later[after + field] - h[before + field])
    for unit in range(m[M_UNITS], m[M_UNITS] + t[H_UNITS] * U_SIZE, U_SIZE):
        for field in range(unit + U_TAKEN, unit + U_SIZE):
            m[field] += times * (later[after + field] - h[before + field])
    for first, count, size, begin, end in (
        (m[M_CACHES], t[H_CACHES], CS_SIZE, 0, CS_GENERATOR),
        (m[M_DRAMS], t[H_DRAMS], N_SIZE, 0, N_SIZE),
        (m[M_LINKS], t[H_LINKS], LS_SIZE, LS_BYTES, LS_SIZE),
    ):
        for state in range(first, first + count * size, size):
            for field in range(state + begin, state + end):
                m[field] += times * (later[after + field] - h[before + field])
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        for field in range(store + D_READS, store + D_SIZE):
            m[field] += times * (later[after + field] - h[before + field])


@jit
def move_instance(t, m, slot, cycles, instances):
    """Times and the sequence number of an instance."""
    m[slot + I_SEQ] += instances
    m[slot + I_END] += cycles
    m[slot + I_LEAVE] += cycles
    request = slot + t[H_SLOT_REQUESTS]
    for _ in range(m[slot + I_REQUESTS]):
        if m[request + R_FINISH] != FOREVER:
            m[request + R_FINISH] += cycles
            m[request + R_EDGE] += cycles
            m[request + R_SENT] += cycles
        request += R_SIZE


@jit
def reserve(h, room, words):
    """The place of so many words in a room for contents; what lay there before is lost."""
    place, size = h[room + 1], h[room + 2]
    if place % size + words > size:
        place += size - place % size
    h[room + 1] = place + words
    return place


@jit
def is_kept(h, room, place):
    """Whether the contents of a place are still there."""
    return h[room + 1] - place <= h[room + 2]


@jit
def address(h, room, place):
    """Where a place lies in the memory."""
    return h[room] + place % h[room + 2]
