"""Jitted: memories with state in the relative state of the machine, and whether they are as they were."""

from __future__ import annotations

from archloom.acadl_models.timing.engine import remembered
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import H
from archloom.acadl_models.timing.engine.memory_state import Bank, Cache, Tail, WayStep, WayStepKind
from archloom.acadl_models.timing.engine.phases.memories import tail_of
from archloom.acadl_models.timing.engine.state import Instance, M, Request


@jit
def describe_memories(t, m, h, at):
    """Steps that are left to requests in caches."""
    slot = m[M.OLDEST]
    while slot != NONE and t[H.TAIL_SIZE] > 0:
        request = slot + t[H.SLOT_REQUESTS]
        for _ in range(m[slot + Instance.REQUESTS]):
            at = describe_steps(t, m, h, request, at)
            request += Request.SIZE
        slot = m[slot + Instance.YOUNGER]
    return at


@jit
def describe_steps(t, m, h, request, at):
    """What a request has before it, but for its addresses."""
    tail = tail_of(t, m, request)
    depth = m[tail + Tail.DEPTH]
    h[at] = depth
    h[at + 1] = m[M.GRANTS] - m[tail + Tail.ORDER] if depth > 0 else 0
    h[at + 2], h[at + 3] = m[tail + Tail.LOW], m[tail + Tail.HIGH]
    at += 4
    for k in range(2 * t[H.LEVELS]):
        h[at] = m[tail + Tail.LATENCIES + k]
        at += 1
    step = tail + Tail.LATENCIES + 2 * t[H.LEVELS]
    for _ in range(depth):
        h[at] = m[step + WayStep.OP]
        h[at + 1] = 2 * m[step + WayStep.LEVEL] + m[step + WayStep.MISSED]
        h[at + 2] = m[step + WayStep.TO] if m[step + WayStep.OP] == WayStepKind.LINES else 0
        at += 3
        step += WayStep.SIZE
    return at


@jit
def describe_addresses(t, m, h, at):
    """Where the requests in flight lie in memories with state."""
    slot = m[M.OLDEST]
    while slot != NONE and t[H.TAIL_SIZE] > 0:
        request = slot + t[H.SLOT_REQUESTS]
        for _ in range(m[slot + Instance.REQUESTS]):
            tail = tail_of(t, m, request)
            h[at] = m[tail + Tail.FIRST]
            at += 1
            step = tail + Tail.LATENCIES + 2 * t[H.LEVELS]
            for _ in range(m[tail + Tail.DEPTH]):
                h[at] = m[step + WayStep.FROM]
                h[at + 1] = m[step + WayStep.TO] if m[step + WayStep.OP] == WayStepKind.READ else m[step + WayStep.FROM]
                at += 2
                step += WayStep.SIZE
            request += Request.SIZE
        slot = m[slot + Instance.YOUNGER]
    return at


@jit
def same_memories(t, m, h, begin, new_end, old_end):
    """Whether everything lies where it lay in an earlier machine, the addresses in flight included."""
    for k in range(h[remembered.Memory.ADDRESSES]):
        if h[new_end - 1 - k] != h[old_end - 1 - k]:
            return False
    for cache in range(m[M.CACHES], m[M.CACHES] + t[H.CACHES] * Cache.SIZE, Cache.SIZE):
        if m[cache + Cache.GENERATOR] != h[begin + cache + Cache.GENERATOR]:
            return False
    for bank in range(m[M.BANKS], m[M.BANKS] + t[H.BANKS] * Bank.SIZE, Bank.SIZE):
        if m[bank + Bank.ROW] != h[begin + bank + Bank.ROW]:
            return False
    for k in range(m[M.CACHE_LINES], m[M.EXPECTED]):
        if m[k] != h[begin + k]:
            return False
    return True
