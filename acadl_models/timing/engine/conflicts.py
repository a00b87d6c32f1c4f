"""Jitted: whether two accesses touch a common element, and whether an instance must wait for an earlier one.

Along each axis an access touches ``offset + sum(stride * index)``. Two of them meet where ``offset_a + a = offset_b + b``
for some sums ``a`` and ``b``; with ``b' = span_b - b``, again a sum of the same progressions, that is the question whether
``offset_b - offset_a + span_b`` is a sum of the progressions of both. The touched set is the product over the axes.
"""

from __future__ import annotations

import numpy as np

from acadl_models.timing.engine.jit import jit
from acadl_models.timing.engine.layout import *  # noqa: F403

MAX_DIMS = 24
"""Progressions in both patterns of a pair together."""


@jit
def access_meets(t, m, a, b):
    """Whether the accesses of two instances have an element in common."""
    access_a, access_b = m[a + A_ACCESS], m[b + A_ACCESS]
    patterns_a, patterns_b = t[access_a + TA_PATTERNS], t[access_b + TA_PATTERNS]
    axes = t[access_a + TA_AXES]
    exact = True
    for axis in range(axes):
        p, q = t[patterns_a + axis], t[patterns_b + axis]
        target = m[b + A_OFFSETS + axis] - m[a + A_OFFSETS + axis] + t[q + TP_SPAN]
        if target < 0 or target > t[p + TP_SPAN] + t[q + TP_SPAN]:
            return False
        exact = exact and t[p + TP_DENSE] == 1 and t[q + TP_DENSE] == 1
    if exact:
        return True
    for axis in range(axes):
        p, q = t[patterns_a + axis], t[patterns_b + axis]
        target = m[b + A_OFFSETS + axis] - m[a + A_OFFSETS + axis] + t[q + TP_SPAN]
        if not is_sum(t, p, q, target):
            return False
    return True


@jit
def is_sum(t, p, q, target):
    """Whether ``target`` (from 0 to the sum of both spans) is a sum of the progressions of two patterns."""
    strides = np.empty(MAX_DIMS, np.int64)
    extents = np.empty(MAX_DIMS, np.int64)
    count = merge(t, p, q, strides, extents)
    dense = 0  # every value from 0 to here is a sum of the first progressions
    first = 0
    while first < count and strides[first] <= dense + 1:
        dense += strides[first] * (extents[first] - 1)
        first += 1
    if first == count:
        return True
    return search(strides, extents, first, count, dense, target)


@jit
def merge(t, p, q, strides, extents):
    """The progressions of two patterns by ascending stride; those of equal stride become one."""
    i, j = p + TP_LIST, q + TP_LIST
    end_i, end_j = i + 2 * t[p + TP_DIMS], j + 2 * t[q + TP_DIMS]
    count = 0
    while i < end_i or j < end_j:
        if j >= end_j or (i < end_i and t[i] <= t[j]):
            stride, extent = t[i], t[i + 1]
            i += 2
        else:
            stride, extent = t[j], t[j + 1]
            j += 2
        if count > 0 and strides[count - 1] == stride:
            extents[count - 1] += extent - 1
        else:
            strides[count], extents[count] = stride, extent
            count += 1
    return count


@jit
def search(strides, extents, first, count, dense, target):
    """Depth first from the largest stride; what is left must lie within reach of the smaller ones."""
    reach = np.empty(MAX_DIMS, np.int64)
    total = dense
    for k in range(first, count):
        reach[k] = total
        total += strides[k] * (extents[k] - 1)
    chosen = np.empty(MAX_DIMS, np.int64)
    rest = np.empty(MAX_DIMS + 1, np.int64)
    level = count - 1
    rest[level + 1] = target
    chosen[level] = min(target // strides[level], extents[level] - 1)
    while level < count:
        left = rest[level + 1] - strides[level] * chosen[level]
        if chosen[level] < 0 or left > reach[level]:
            level += 1  # smaller choices leave even more
            if level < count:
                chosen[level] -= 1
        elif level == first:
            return True  # 0 <= left <= dense
        else:
            level -= 1
            rest[level + 1] = left
            chosen[level] = min(left // strides[level], extents[level] - 1)
    return False


@jit
def find_blocker(t, m, unit):
    """Look for an earlier, unfinished instance that conflicts with the one that waits at a unit.

    The scan goes through the lists of each access's class, one opposing kind after the other, and goes on where it
    stopped: what was judged to be free of conflict stays so. Returns whether one was found; it is then remembered.
    """
    slot = m[unit + U_WAITING]
    seq = m[slot + I_SEQ]
    record = t[H_STATIC_TABLE] + m[slot + I_STATIC] * TI_SIZE
    judged = m[unit + U_BLOCKER_SEQ]
    for place in range(m[unit + U_SCAN], 3 * t[record + TI_ACCESS_COUNT]):
        k, kind = place // 3, place % 3
        access = t[record + TI_ACCESSES] + k * TA_SIZE
        conflict_class = t[access + TA_CLASS]
        if conflict_class == NONE or (kind == t[access + TA_KIND] and kind != WRITE):
            continue
        mine = slot + t[H_SLOT_ACCESSES] + k * t[H_ACCESS_SIZE]
        met = t[H_MET] + t[access + TA_ORDER] * t[H_MET_SIZE]
        node = m[m[M_CLASSES] + (3 * conflict_class + kind) * C_SIZE + C_FIRST]
        while node != NONE:
            other = m[node + A_OWNER]
            if m[other + I_SEQ] >= seq:
                break
            if (
                m[other + I_SEQ] > judged
                and t[met + t[m[node + A_ACCESS] + TA_ORDER]] == 1
                and access_meets(t, m, node, mine)
            ):
                m[unit + U_SCAN] = place
                m[unit + U_BLOCKER] = other
                m[unit + U_BLOCKER_SEQ] = m[other + I_SEQ]
                return True
            node = m[node + A_YOUNGER]
        judged = -1
    return False


@jit
def leave_classes(t, m, slot):
    """Take the accesses of a finished instance out of their lists: its conflicts are released."""
    record = t[H_STATIC_TABLE] + m[slot + I_STATIC] * TI_SIZE
    node = slot + t[H_SLOT_ACCESSES]
    for k in range(t[record + TI_ACCESS_COUNT]):
        access = t[record + TI_ACCESSES] + k * TA_SIZE
        conflict_class = t[access + TA_CLASS]
        if conflict_class != NONE:
            ends = m[M_CLASSES] + (3 * conflict_class + t[access + TA_KIND]) * C_SIZE
            older, younger = m[node + A_OLDER], m[node + A_YOUNGER]
            if older == NONE:
                m[ends + C_FIRST] = younger
            else:
                m[older + A_YOUNGER] = younger
            if younger == NONE:
                m[ends + C_LAST] = older
            else:
                m[younger + A_OLDER] = older
        node += t[H_ACCESS_SIZE]
