"""Jitted: memories with state in the relative state of the machine, and whether they are as they were."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.memories import tail_of


@jit
def describe_memories(t, m, h, at, now):
    """Steps that are left to requests in caches, and when banks and channels are free."""
    slot = m[M_OLDEST]
    while slot != NONE and t[H_TAIL_SIZE] > 0:
        request = slot + t[H_SLOT_REQUESTS]
        for _ in range(m[slot + I_REQUESTS]):
            at = describe_steps(t, m, h, request, at)
            request += R_SIZE
        slot = m[slot + I_YOUNGER]
    if t[H_LINKS] > 0:
        at = describe_links(t, m, h, at, now)
    for bank in range(m[M_BANKS], m[M_BANKS] + t[H_BANKS] * B_SIZE, B_SIZE):
        h[at] = max(m[bank + B_PRECHARGE] - now, 0)
        h[at + 1] = max(m[bank + B_FREE] - now, 0)
        at += 2
    return at


@jit
def describe_links(t, m, h, at, now):
    """What requests have to carry, whether one has its storage to itself, and when channels are free."""
    slot = m[M_OLDEST]
    while slot != NONE:
        request = slot + t[H_SLOT_REQUESTS]
        for _ in range(m[slot + I_REQUESTS]):
            h[at] = m[request + R_BYTES]
            at += 1
            request += R_SIZE
        slot = m[slot + I_YOUNGER]
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        h[at] = m[store + D_EXCLUSIVE]
        at += 1
    for link in range(m[M_LINKS], m[M_LINKS] + t[H_LINKS] * LS_SIZE, LS_SIZE):
        # a request granted later is at the link two cycles from now at the earliest
        h[at] = max(m[link + LS_FREE] - now - 2, 0)
        h[at + 1] = max(m[link + LS_FREE + 1] - now - 2, 0)
        at += 2
    return at


@jit
def describe_steps(t, m, h, request, at):
    """What a request has before it, but for its addresses."""
    tail = tail_of(t, m, request)
    depth = m[tail + W_DEPTH]
    h[at] = depth
    h[at + 1] = m[M_GRANTS] - m[tail + W_ORDER] if depth > 0 else 0
    at += 2
    for k in range(2 * t[H_LEVELS]):
        h[at] = m[tail + W_LATENCIES + k]
        at += 1
    step = tail + W_LATENCIES + 2 * t[H_LEVELS]
    for _ in range(depth):
        h[at] = m[step + SP_OP]
        h[at + 1] = 2 * m[step + SP_LEVEL] + m[step + SP_MISSED]
        h[at + 2] = m[step + SP_TO] if m[step + SP_OP] == STEP_LINES else 0
        at += 3
        step += SP_SIZE
    return at


@jit
def describe_addresses(t, m, h, at):
    """Where the requests in flight lie in memories with state."""
    slot = m[M_OLDEST]
    while slot != NONE and t[H_TAIL_SIZE] > 0:
        request = slot + t[H_SLOT_REQUESTS]
        for _ in range(m[slot + I_REQUESTS]):
            tail = tail_of(t, m, request)
            h[at] = m[tail + W_FIRST]
            at += 1
            step = tail + W_LATENCIES + 2 * t[H_LEVELS]
            for _ in range(m[tail + W_DEPTH]):
                h[at] = m[step + SP_FROM]
                h[at + 1] = m[step + SP_TO] if m[step + SP_OP] == STEP_READ else m[step + SP_FROM]
                at += 2
                step += SP_SIZE
            request += R_SIZE
        slot = m[slot + I_YOUNGER]
    return at


@jit
def address_words(t, m):
    """How many words :func:`describe_addresses` writes."""
    count = 0
    slot = m[M_OLDEST]
    while slot != NONE and t[H_TAIL_SIZE] > 0:
        request = slot + t[H_SLOT_REQUESTS]
        for _ in range(m[slot + I_REQUESTS]):
            count += 1 + 2 * m[tail_of(t, m, request) + W_DEPTH]
            request += R_SIZE
        slot = m[slot + I_YOUNGER]
    return count


@jit
def same_memories(t, m, h, begin, new_end, old_end):
    """Whether everything lies where it lay in an earlier machine, the addresses in flight included."""
    for k in range(address_words(t, m)):
        if h[new_end - 1 - k] != h[old_end - 1 - k]:
            return False
    for cache in range(m[M_CACHES], m[M_CACHES] + t[H_CACHES] * CS_SIZE, CS_SIZE):
        if m[cache + CS_GENERATOR] != h[begin + cache + CS_GENERATOR]:
            return False
    for bank in range(m[M_BANKS], m[M_BANKS] + t[H_BANKS] * B_SIZE, B_SIZE):
        if m[bank + B_ROW] != h[begin + bank + B_ROW]:
            return False
    for k in range(m[M_CACHE_LINES], m[M_DRAMS]):
        if m[k] != h[begin + k]:
            return False
    return True
