"""Jitted: the state of the machine relative to the present, so that equal snapshots behave equally from then on.

Times are relative to now (and at least 0 where only the future matters), instances are numbered in program order. The
offsets of accesses follow in a part of their own: they need not be equal, but must have moved along with the loop.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.marks import first_mark, next_mark
from archloom.acadl_models.timing.engine.skipping.memories_state import describe_addresses, describe_memories

END = -1
"""Closes a list."""


@jit
def describe(t, m, h, base):
    """Write the relative state to ``h`` from ``base`` on; returns its length and the number of offsets after it.

    Both are 0 if the state is too long.
    """
    if words_in_flight(t, m) > h[HM_STATE_SIZE]:
        return 0, 0
    number_instances(m)
    now = m[M_TIME]
    at = describe_position(t, m, h, base, now)
    slot = m[M_OLDEST]
    while slot != NONE:
        at = describe_instance(t, m, h, slot, at, now)
        slot = m[slot + I_YOUNGER]
    at = describe_places(t, m, h, at, now)
    at = describe_storages(t, m, h, at, now)
    if t[H_SPACES] + t[H_LINKS] > 0:
        at = describe_memories(t, m, h, at, now)
    length = at - base
    at = describe_offsets(t, m, h, at)
    if t[H_SPACES] > 0:
        at = describe_addresses(t, m, h, at)
    return length, at - length - base


@jit
def in_flight(m):
    """Instances that are fetched and not finished."""
    return m[M_FETCHED] - m[M_FINISHED]


@jit
def words_in_flight(t, m):
    """A bound of the words of the present state: that for any instances may be far above it, where a few instances
    make many more requests than all others."""
    count = in_flight(m)
    words = state_words(t, count)
    if words <= LEAST_STATE_WORDS:  # there is room in any case
        return words
    requests = 0
    slot = m[M_OLDEST]
    while slot != NONE:
        requests += m[slot + I_REQUESTS]
        slot = m[slot + I_YOUNGER]
    return words - (count * t[H_MAX_REQUESTS] - requests) * (9 + 2 * t[H_TAIL_SIZE])


@jit
def state_words(t, instances):
    """A bound of the words of a state with so many instances in flight, whatever they are doing."""
    fixed = 6 + 3 * t[H_FETCH_FLIGHTS] + t[H_SIGNATURES] + 3 * t[H_STAGES] + 4 * t[H_UNITS] + 3 * t[H_STORES]
    fixed += 2 * t[H_BANKS] + 2 * t[H_LINKS] + t[H_STORES]
    each = 10 + (9 + 2 * t[H_TAIL_SIZE]) * t[H_MAX_REQUESTS] + t[H_MAX_LATENCIES] + t[H_MAX_ACCESSES] * t[H_MAX_AXES]
    return fixed + instances * each


@jit
def number_instances(m):
    """Number the instances in flight in program order."""
    slot = m[M_OLDEST]
    count = 0
    while slot != NONE:
        m[slot + I_ORDINAL] = count
        count += 1
        slot = m[slot + I_YOUNGER]


@jit
def describe_offsets(t, m, h, at):
    """Where the accesses in flight lie."""
    slot = m[M_OLDEST]
    while slot != NONE:
        node = slot + t[H_SLOT_ACCESSES]
        record = m[slot + I_STATIC]
        for k in range(t[record + TI_ACCESS_COUNT]):
            for axis in range(t[t[record + TI_ACCESSES] + k * TA_SIZE + TA_AXES]):
                h[at] = m[node + A_OFFSETS + axis]
                at += 1
            node += t[H_ACCESS_SIZE]
        slot = m[slot + I_YOUNGER]
    return at


@jit
def describe_position(t, m, h, at, now):
    """Program position (the iterations of the loops are compared apart), fetches, and what is due in the next cycle."""
    h[at] = m[M_PC]
    h[at + 1] = m[M_AGAIN]
    h[at + 2] = m[M_FETCHING]
    at += 3
    for k in range(m[M_FETCHING]):
        flight = m[M_FLIGHTS] + (m[M_FETCH_FIRST] + k) % t[H_FETCH_FLIGHTS] * F_SIZE
        h[at] = m[flight + F_END] - now
        h[at + 1] = m[flight + F_COUNT]
        at += 2
    number = first_mark(t, m)
    while number != NONE:
        h[at] = number
        at += 1
        number = next_mark(t, m, number)
    h[at] = END
    return at + 1


@jit
def describe_instance(t, m, h, slot, at, now):
    """What an instance is, how far it has come, what it asks for and how long it takes."""
    h[at] = m[slot + I_STATIC]
    h[at + 1] = m[slot + I_PHASE]
    at += 2
    if m[slot + I_PHASE] >= READING:
        h[at] = m[slot + I_PENDING]
        h[at + 1] = m[slot + I_END] - now if m[slot + I_PHASE] == PROCESSING else 0
        unit = m[slot + I_UNIT]
        h[at + 2] = 2 * unit + int(m[unit + U_LAST] == m[slot + I_SEQ])
        at += 3
    request = slot + t[H_SLOT_REQUESTS]
    for _ in range(m[slot + I_REQUESTS]):
        h[at] = m[request + R_STORE]
        h[at + 1] = m[request + R_BEATS]
        h[at + 2] = m[request + R_LATENCY]
        finish = m[request + R_FINISH]
        h[at + 3] = END if finish == FOREVER else max(finish - now, 0)
        h[at + 4] = m[request + R_BYTES]
        at += 5
        request += R_SIZE
    for k in range(t[m[slot + I_STATIC] + TI_LATENCY_COUNT]):
        h[at] = m[slot + t[H_SLOT_LATENCIES] + k]
        at += 1
    return at


@jit
def describe_list(m, h, slot, at):
    """The numbers of the instances of a list."""
    while slot != NONE:
        h[at] = m[slot + I_ORDINAL]
        at += 1
        slot = m[slot + I_LINK]
    h[at] = END
    return at + 1


@jit
def describe_places(t, m, h, at, now):
    """Which instances are in the issue buffer, the stages and the units, and in which step."""
    for queue in range(m[M_QUEUES], m[M_QUEUES] + t[H_SIGNATURES] * Q_SIZE, Q_SIZE):
        at = describe_list(m, h, m[queue + Q_HEAD], at)
    for stage in range(m[M_STAGES], m[M_STAGES] + t[H_STAGES] * S_SIZE, S_SIZE):
        slot = m[stage + S_HEAD] if m[stage + S_COUNT] > 0 else NONE
        at = describe_list(m, h, slot, at)
        while slot != NONE:
            h[at] = max(m[slot + I_LEAVE] - now, 0)
            at += 1
            slot = m[slot + I_LINK]
    for unit in range(m[M_UNITS], m[M_UNITS] + t[H_UNITS] * U_SIZE, U_SIZE):
        waiting = m[unit + U_WAITING]
        h[at] = END if waiting == NONE else m[waiting + I_ORDINAL]
        h[at + 1] = max(m[unit + U_READY] - now, 0)
        h[at + 2] = m[unit + U_UNGRANTED]
        at += 3
    return at


@jit
def describe_storages(t, m, h, at, now):
    """Requests in the FIFOs, and when a shared port is free; those with a slot are described with their instances."""
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        request = m[store + D_QUEUE_HEAD] if m[store + D_QUEUED] > 0 else NONE
        while request != NONE:
            owner = m[request + R_OWNER]
            h[at] = m[owner + I_ORDINAL]
            h[at + 1] = request - owner
            at += 2
            request = m[request + R_LINK]
        h[at] = END
        # a request granted later is at the port two cycles from now at the earliest
        h[at + 1] = max(m[store + D_PORT_FREE] - now - 2, 0)
        at += 2
    return at


@jit
def hash_of(h, base, length):
    """A sum over the words of a state, each times an odd number of its place."""
    value = length
    weight = -3750763034362895579
    for k in range(base, base + length):
        value += (h[k] + 1) * weight
        weight += 2 * 1099511628211
    return value ^ (value >> 29)
