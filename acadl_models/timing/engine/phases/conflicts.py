"""Jitted: whether two accesses touch a common element, and whether an instance must wait for an earlier one.

Along each axis an access touches ``offset + sum(stride * index)``. Two of them meet where
``offset_a + a = offset_b + b`` for some sums ``a`` and ``b``; with ``b' = span_b - b``, again a sum of the same
progressions, that is the question whether ``offset_b - offset_a + span_b`` is a sum of the progressions of both.
What an access touches is the product over the axes.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.values import value_of


@jit
def access_meets(t, m, a, b):
    """Whether the accesses of two instances have an element in common."""
    access_a, access_b = m[a + A_ACCESS], m[b + A_ACCESS]
    axes = t[access_a + TA_AXES]
    spans_a, spans_b = t[access_a + TA_PATTERNS] + axes, t[access_b + TA_PATTERNS] + axes
    for axis in range(axes):
        distance = m[b + A_OFFSETS + axis] - m[a + A_OFFSETS + axis]
        if distance > t[spans_a + axis] or distance + t[spans_b + axis] < 0:
            return False
    if t[access_a + TA_DENSE] & t[access_b + TA_DENSE] == 1:
        return True
    for axis in range(axes):
        p, q = t[spans_a - axes + axis], t[spans_b - axes + axis]
        target = m[b + A_OFFSETS + axis] - m[a + A_OFFSETS + axis] + t[q + TP_SPAN]
        if not is_sum(t, m, p, q, target):
            return False
    return True


@jit
def is_sum(t, m, p, q, target):
    """Whether ``target`` (from 0 to the sum of both spans) is a sum of the progressions of two patterns."""
    strides = m[M_WORK]
    count = merge(t, m, p, q)
    dense = 0  # every value from 0 to here is a sum of the first progressions
    first = 0
    while first < count and m[strides + first] <= dense + 1:
        dense += m[strides + first] * (m[strides + MAX_DIMS + first] - 1)
        first += 1
    return first == count or search(m, first, count, dense, target)


@jit
def merge(t, m, p, q):
    """The progressions of two patterns by ascending stride, in the work space; those of equal stride become one."""
    strides = m[M_WORK]
    extents = strides + MAX_DIMS
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
        if count > 0 and m[strides + count - 1] == stride:
            m[extents + count - 1] += extent - 1
        else:
            m[strides + count], m[extents + count] = stride, extent
            count += 1
    return count


@jit
def search(m, first, count, dense, target):
    """Depth first from the largest stride; what is left must lie within reach of the smaller ones."""
    strides = m[M_WORK]
    extents, reach = strides + MAX_DIMS, strides + 2 * MAX_DIMS
    chosen, rest = strides + 3 * MAX_DIMS, strides + 4 * MAX_DIMS
    total = dense
    for k in range(first, count):
        m[reach + k] = total
        total += m[strides + k] * (m[extents + k] - 1)
    level = count - 1
    m[rest + level] = target
    m[chosen + level] = min(target // m[strides + level], m[extents + level] - 1)
    while level < count:
        left = m[rest + level] - m[strides + level] * m[chosen + level]
        if m[chosen + level] < 0 or left > m[reach + level]:
            level += 1  # smaller choices leave even more
            if level < count:
                m[chosen + level] -= 1
        elif level == first:
            return True  # 0 <= left <= dense
        else:
            level -= 1
            m[rest + level] = left
            m[chosen + level] = min(left // m[strides + level], m[extents + level] - 1)
    return False


@jit
def find_blocker(t, m, unit):
    """Look for an earlier instance that conflicts with the one that waits at a unit and holds it up; ``NONE`` if none.

    The scan goes through the lists of each access's class, one opposing kind after the other, and goes on where it
    stopped: what was judged to be free of conflict stays so.
    """
    slot = m[unit + U_WAITING]
    record = m[slot + I_STATIC]
    checks = t[record + TI_CHECK_COUNT]
    if m[unit + U_SCAN] >= checks:
        return NONE
    seq = m[slot + I_SEQ]
    judged = m[unit + U_JUDGED]
    classes = m[M_CLASSES]
    check = t[record + TI_CHECKS] + m[unit + U_SCAN] * TV_SIZE
    end = t[record + TI_CHECKS] + checks * TV_SIZE
    while check < end:
        node = m[classes + t[check + TV_ENDS] + C_FIRST]
        mine = slot + t[check + TV_NODE]
        first, reach, met = m[mine + A_OFFSETS], t[check + TV_REACH], t[check + TV_MET]
        while node != NONE:
            other = m[node + A_OWNER]
            if m[other + I_SEQ] >= seq:
                break
            distance = first - m[node + A_OFFSETS]
            near = (distance + reach >= 0) & (distance <= t[m[node + A_ACCESS] + TA_REACH])
            if (
                near & (m[other + I_SEQ] >= judged)
                and (met == NONE or t[met + t[m[node + A_ACCESS] + TA_RANK]] == 1)
                and access_meets(t, m, node, mine)
            ):
                m[unit + U_SCAN] = (check - t[record + TI_CHECKS]) // TV_SIZE
                m[unit + U_JUDGED] = m[other + I_SEQ]
                return other
            node = m[node + A_YOUNGER]
        judged = -1
        check += TV_SIZE
    return NONE


@jit
def enter_classes(t, m, slot, record):
    """Put the accesses of a new instance that may conflict into the lists of their class and kind."""
    classes = m[M_CLASSES]
    entry = t[record + TI_NODES]
    end = entry + t[record + TI_NODE_COUNT] * TE_SIZE
    while entry < end:
        node = slot + t[entry + TE_NODE]
        access = t[entry + TE_ACCESS]
        expressions = t[access + TA_EXPRESSIONS]
        for axis in range(t[access + TA_AXES]):
            m[node + A_OFFSETS + axis] = value_of(t, m, t[expressions + axis])
        m[node + A_OWNER] = slot
        m[node + A_ACCESS] = access
        if t[entry + TE_ENDS] != NONE:
            ends = classes + t[entry + TE_ENDS]
            last = m[ends + C_LAST]
            m[node + A_OLDER] = last
            m[node + A_YOUNGER] = NONE
            m[ends + C_LAST] = node
            if last == NONE:
                m[ends + C_FIRST] = node
            else:
                m[last + A_YOUNGER] = node
        entry += TE_SIZE


@jit
def leave_classes(t, m, slot):
    """Take the accesses of a finished instance out of their lists: its conflicts are released."""
    record = m[slot + I_STATIC]
    reads_left = t[H_READS_HOLD] == READS_UNTIL_FINISH
    entry = t[record + TI_NODES]
    end = entry + t[record + TI_NODE_COUNT] * TE_SIZE
    while entry < end:
        if reads_left or t[t[entry + TE_ACCESS] + TA_KIND] != READ:
            leave_class(m, slot + t[entry + TE_NODE], m[M_CLASSES] + t[entry + TE_ENDS])
        entry += TE_SIZE


@jit
def release_reads(t, m, slot):
    """Take the reads of an instance that has started out of their lists: later writes need not wait for them."""
    record = m[slot + I_STATIC]
    entry = t[record + TI_NODES]
    end = entry + t[record + TI_NODE_COUNT] * TE_SIZE
    while entry < end:
        if t[t[entry + TE_ACCESS] + TA_KIND] == READ:
            leave_class(m, slot + t[entry + TE_NODE], m[M_CLASSES] + t[entry + TE_ENDS])
        entry += TE_SIZE


@jit
def leave_class(m, node, ends):
    older, younger = m[node + A_OLDER], m[node + A_YOUNGER]
    if older == NONE:
        m[ends + C_FIRST] = younger
    else:
        m[older + A_YOUNGER] = younger
    if younger == NONE:
        m[ends + C_LAST] = older
    else:
        m[younger + A_OLDER] = older
