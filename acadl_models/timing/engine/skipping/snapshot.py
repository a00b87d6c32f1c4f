"""Jitted: the state of the machine relative to the present, so that equal snapshots behave equally from then on.

Times are relative to now (and at least 0 where only the future matters), instances are numbered in program order. The
offsets of accesses follow in a part of their own: they need not be equal, but must have moved along with the loop.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine import fields, remembered, state
from archloom.acadl_models.timing.engine.fields import FOREVER, NONE, places, until
from archloom.acadl_models.timing.engine.jit import for_each, jit, jit_inline, word
from archloom.acadl_models.timing.engine.layout import AccessSpec, H, Instruction
from archloom.acadl_models.timing.engine.machine_parts import Group
from archloom.acadl_models.timing.engine.memory_state import Cache
from archloom.acadl_models.timing.engine.phases.agenda import first_mark, next_mark
from archloom.acadl_models.timing.engine.phases.reordering import is_in_flight
from archloom.acadl_models.timing.engine.skipping.memories_state import describe_addresses, describe_memories
from archloom.acadl_models.timing.engine.state import (
    Flight,
    Instance,
    M,
    Name,
    Operand,
    Queue,
    Request,
    Stage,
    Store,
    Unit,
)

END = -1
"""Closes a list."""


@jit_inline
def write_state(m, h, field, at, now):
    """A field as it is."""
    h[at] = m[field]


@jit_inline
def write_until(m, h, field, at, now):
    """How many cycles of a field are left."""
    h[at] = END if m[field] == FOREVER else max(m[field] - now, 0)


instance_states = for_each(places(Instance, fields.state), write_state)
instance_untils = for_each(places(Instance, until), write_until)
request_states = for_each(places(Request, fields.state), write_state)
request_untils = for_each(places(Request, until), write_until)


@jit
def describe(t, m, h, base):
    """Write the relative state to ``h`` from ``base`` on; returns its length and the number of offsets after it.

    Both are 0 if the state is too long.
    """
    if words_in_flight(t, m) > h[remembered.Memory.STATE_SIZE]:
        return 0, 0
    number_instances(m)
    now = m[M.TIME]
    at = describe_fields(t, m, h, base, now)
    at = describe_position(t, m, h, at, now)
    slot = m[M.OLDEST]
    while slot != NONE:
        at = describe_instance(t, m, h, slot, at, now)
        slot = m[slot + Instance.YOUNGER]
    at = describe_places(t, m, h, at)
    at = describe_storages(t, m, h, at)
    if t[H.NAMES] > 0:
        at = describe_registers(t, m, h, at)
    if t[H.SPACES] + t[H.LINKS] > 0:
        at = describe_memories(t, m, h, at)
    length = at - base
    at = addresses = describe_offsets(t, m, h, at)
    if t[H.SPACES] > 0:
        at = describe_addresses(t, m, h, at)
    h[remembered.Memory.ADDRESSES] = at - addresses
    return length, at - length - base


@jit
def in_flight(m):
    """Instances that are fetched and not done with."""
    return m[M.FETCHED] - m[M.FINISHED] + m[M.LINGERING]


@jit
def words_in_flight(t, m):
    """A bound of the words of the present state: that for any instances may be far above it, where a few instances
    make many more requests than all others."""
    count = in_flight(m)
    words = state_words(t, count)
    if words <= remembered.LEAST_STATE_WORDS:  # there is room in any case
        return words
    requests = 0
    slot = m[M.OLDEST]
    while slot != NONE:
        requests += m[slot + Instance.REQUESTS]
        slot = m[slot + Instance.YOUNGER]
    return words - (count * t[H.MAX_REQUESTS] - requests) * (9 + 2 * t[H.TAIL_SIZE])


@jit
def state_words(t, instances):
    """A bound of the words of a state with so many instances in flight, whatever they are doing."""
    fixed = 7 + 3 * t[H.FETCH_FLIGHTS] + t[H.SIGNATURES] + 3 * t[H.STAGES] + 4 * t[H.UNITS] + 3 * t[H.STORES]
    fixed += 2 * t[H.BANKS] + 2 * t[H.LINKS] + t[H.STORES] + t[H.CACHES] + 2 * t[H.NAMES]
    each = 10 + (9 + 2 * t[H.TAIL_SIZE]) * t[H.MAX_REQUESTS] + t[H.MAX_LATENCIES] + t[H.MAX_ACCESSES] * t[H.MAX_AXES]
    return fixed + instances * (each + 4 * t[H.MAX_OPERANDS])


@jit
def number_instances(m):
    """Number the instances in flight in program order."""
    slot = m[M.OLDEST]
    count = 0
    while slot != NONE:
        m[slot + Instance.ORDINAL] = count
        count += 1
        slot = m[slot + Instance.YOUNGER]


@jit
def describe_offsets(t, m, h, at):
    """Where the accesses in flight lie."""
    slot = m[M.OLDEST]
    while slot != NONE:
        node = slot + t[H.SLOT_ACCESSES]
        record = m[slot + Instance.STATIC]
        for k in range(t[record + Instruction.ACCESS_COUNT]):
            for axis in range(t[t[record + Instruction.ACCESSES] + k * AccessSpec.SIZE + AccessSpec.AXES]):
                h[at] = m[node + state.Access.OFFSETS + axis]
                at += 1
            node += t[H.ACCESS_SIZE]
        slot = m[slot + Instance.YOUNGER]
    return at


@jit
def to_the_port(t):
    """Cycles from a state to when a later request asks for a port or a link, at the earliest.

    See docs/timing_semantics.md, "Ports from two cycles on".
    """
    return 2 if t[H.CACHES] == 0 or t[H.HIT_AFTER_MISS] == 1 else 1


@jit
def describe_fields(t, m, h, at, now):
    """The fields of the machine, its stages, units, storages, banks and links that are a part of the state."""
    for k in range(m[M.LISTS + Group.STATES], m[M.LISTS + Group.STATES + 1]):
        h[at] = m[m[k]]
        at += 1
    for k in range(m[M.LISTS + Group.UNTILS], m[M.LISTS + Group.UNTILS + 1]):
        h[at] = max(m[m[k]] - now, 0)
        at += 1
    soonest = now + to_the_port(t)
    for k in range(m[M.LISTS + Group.ARRIVALS], m[M.LISTS + Group.ARRIVALS + 1]):
        h[at] = max(m[m[k]] - soonest, 0)
        at += 1
    return at


@jit
def describe_position(t, m, h, at, now):
    """Fetches, and which stages may take something in the next cycle; iterations of loops are compared apart."""
    for k in range(m[M.FETCHING]):
        flight = m[M.FLIGHTS] + (m[M.FETCH_FIRST] + k) % t[H.FETCH_FLIGHTS] * Flight.SIZE
        h[at] = m[flight + Flight.END] - now
        h[at + 1] = m[flight + Flight.COUNT]
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
    phase = m[slot + Instance.PHASE]
    if phase < state.Phase.READING or phase >= state.Phase.FINISHED:  # the other fields say nothing
        h[at] = m[slot + Instance.STATIC]
        h[at + 1] = phase
        h[at + 2] = max(m[slot + Instance.LEAVE] - now, 0)
        at += 3
        if phase >= state.Phase.FINISHED and m[slot + Instance.PENDING] == 0:
            return at
    else:
        at = instance_untils(m, h, slot, instance_states(m, h, slot, at, now), now)
        h[at] = int(m[m[slot + Instance.UNIT] + Unit.LAST] == m[slot + Instance.SEQ])
        at += 1
    request = slot + t[H.SLOT_REQUESTS]
    for _ in range(m[slot + Instance.REQUESTS]):
        at = request_untils(m, h, request, request_states(m, h, request, at, now), now)
        request += Request.SIZE
    for k in range(t[m[slot + Instance.STATIC] + Instruction.LATENCY_COUNT]):
        h[at] = m[slot + t[H.SLOT_LATENCIES] + k]
        at += 1
    return at


@jit
def describe_list(m, h, slot, at):
    """The numbers of the instances of a list."""
    while slot != NONE:
        h[at] = m[slot + Instance.ORDINAL]
        at += 1
        slot = m[slot + Instance.LINK]
    h[at] = END
    return at + 1


@jit
def describe_places(t, m, h, at):
    """Which instances are in the issue buffer and the stages, and which wait at units."""
    for queue in range(m[M.QUEUES], m[M.QUEUES] + t[H.SIGNATURES] * Queue.SIZE, Queue.SIZE):
        at = describe_list(m, h, m[queue + Queue.HEAD], at)
    for stage in range(m[M.STAGES], m[M.STAGES] + t[H.STAGES] * Stage.SIZE, Stage.SIZE):
        at = describe_list(m, h, m[stage + Stage.HEAD] if m[stage + Stage.COUNT] > 0 else NONE, at)
    for unit in range(m[M.UNITS], m[M.UNITS] + t[H.UNITS] * Unit.SIZE, Unit.SIZE):
        waiting = m[unit + Unit.WAITING]
        h[at] = END if waiting == NONE else m[waiting + Instance.ORDINAL]
        at += 1
    return at


@jit
def describe_registers(t, m, h, at):
    """Who makes what of renamed registers: of all instances in flight, and for those to come."""
    slot = m[M.OLDEST]
    while slot != NONE:
        operand = slot + t[H.SLOT_OPERANDS]
        for _ in range(t[m[slot + Instance.STATIC] + Instruction.OPERAND_COUNT]):
            h[at] = m[operand + Operand.KIND]
            h[at + 1] = m[operand + Operand.FILE]
            at = describe_source(m, h, m[operand + Operand.FROM], m[operand + Operand.ENTRY], slot, at + 2)
            operand += Operand.SIZE
        slot = m[slot + Instance.YOUNGER]
    for name in range(m[M.NAMES], m[M.NAMES] + t[H.NAMES] * Name.SIZE, Name.SIZE):
        at = describe_source(m, h, m[name + Name.OWNER], m[name + Name.ENTRY], NONE, at)
    return at


@jit
def describe_source(m, h, owner, entry, slot, at):
    """An operand of an instance, which counts if it was in flight before another one, and is still."""
    h[at] = h[at + 1] = END
    if owner != NONE and (slot == NONE or is_in_flight(m, owner, slot)):
        h[at] = m[owner + Instance.ORDINAL]
        h[at + 1] = entry - owner
    return at + 2


@jit
def describe_storages(t, m, h, at):
    """Requests in the FIFOs, and those that wait at caches; others are described with their instances."""
    for store in range(m[M.STORES], m[M.STORES] + t[H.STORES] * Store.SIZE, Store.SIZE):
        at = describe_requests(m, h, m[store + Store.QUEUE_HEAD] if m[store + Store.QUEUED] > 0 else NONE, at)
    for cache in range(m[M.CACHES], m[M.CACHES] + t[H.CACHES] * Cache.SIZE, Cache.SIZE):
        at = describe_requests(m, h, m[cache + Cache.WAIT_HEAD], at)
    return at


@jit
def describe_requests(m, h, request, at):
    """The requests of a list, by instance and place in it."""
    while request != NONE:
        owner = m[request + Request.OWNER]
        h[at] = m[owner + Instance.ORDINAL]
        h[at + 1] = request - owner
        at += 2
        request = m[request + Request.LINK]
    h[at] = END
    return at + 1


@jit
def hash_of(h, base, length):
    """A sum over the words of a state, each times an odd number of its place."""
    value = length
    weight = -3750763034362895579
    for k in range(base, base + length):
        value = word(value + (h[k] + 1) * weight)
        weight = word(weight + 2 * 1099511628211)
    return value ^ (value >> 29)
