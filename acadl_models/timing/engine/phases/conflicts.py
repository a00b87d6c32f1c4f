"""Jitted: whether two accesses touch a common element, and whether an instance must wait for an earlier one.

Along each axis an access touches ``offset + sum(stride * index)``. Two of them meet where
``offset_a + a = offset_b + b`` for some sums ``a`` and ``b``; with ``b' = span_b - b``, again a sum of the same
progressions, that is the question whether ``offset_b - offset_a + span_b`` is a sum of the progressions of both.
What an access touches is the product over the axes.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine import layout
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import (
    MAX_DIMS,
    AccessSpec,
    BucketSpec,
    CheckSpec,
    H,
    Instruction,
    NodeSpec,
)
from archloom.acadl_models.timing.engine.phases.values import value_of
from archloom.acadl_models.timing.engine.state import Access, Ends, Instance, M, Unit


@jit
def access_meets(t, m, a, b):
    """Whether the accesses of two instances have an element in common."""
    access_a, access_b = m[a + Access.ACCESS], m[b + Access.ACCESS]
    axes = t[access_a + AccessSpec.AXES]
    spans_a, spans_b = t[access_a + AccessSpec.PATTERNS] + axes, t[access_b + AccessSpec.PATTERNS] + axes
    for axis in range(axes):
        distance = m[b + Access.OFFSETS + axis] - m[a + Access.OFFSETS + axis]
        if distance > t[spans_a + axis] or distance + t[spans_b + axis] < 0:
            return False
    if t[access_a + AccessSpec.DENSE] & t[access_b + AccessSpec.DENSE] == 1:
        return True
    for axis in range(axes):
        p, q = t[spans_a - axes + axis], t[spans_b - axes + axis]
        target = m[b + Access.OFFSETS + axis] - m[a + Access.OFFSETS + axis] + t[q + layout.PatternSpec.SPAN]
        if not is_sum(t, m, p, q, target):
            return False
    return True


@jit
def is_sum(t, m, p, q, target):
    """Whether ``target`` (from 0 to the sum of both spans) is a sum of the progressions of two patterns."""
    if is_out_of_reach(t, p, q, target):
        return False
    strides = m[M.WORK]
    count = merge(t, m, p, q)
    dense = 0  # every value from 0 to here is a sum of the first progressions
    first = 0
    while first < count and m[strides + first] <= dense + 1:
        dense += m[strides + first] * (m[strides + MAX_DIMS + first] - 1)
        first += 1
    return first == count or search(m, first, count, dense, target)


@jit
def is_out_of_reach(t, p, q, target):
    """Whether a target lies between multiples of the largest stride of two patterns where all others together do not
    reach: so it is with most that do not meet, and then nothing has to be merged."""
    stride = max(largest_stride(t, p), largest_stride(t, q))
    if stride == 0:
        return False
    most = steps_of(t, p, stride) + steps_of(t, q, stride)
    rest = t[p + layout.PatternSpec.SPAN] + t[q + layout.PatternSpec.SPAN] - stride * most
    return target - stride * min(target // stride, most) > rest


@jit
def largest_stride(t, pattern):
    """Of the progressions of a pattern, which ascend; 0 where there are none."""
    count = t[pattern + layout.PatternSpec.DIMS]
    return t[pattern + layout.PatternSpec.LIST + 2 * count - 2] if count > 0 else 0


@jit
def steps_of(t, pattern, stride):
    """How many steps of a stride the last progression of a pattern makes: none where it has another stride."""
    if largest_stride(t, pattern) != stride:
        return 0
    return t[pattern + layout.PatternSpec.LIST + 2 * t[pattern + layout.PatternSpec.DIMS] - 1] - 1


@jit
def merge(t, m, p, q):
    """The progressions of two patterns by ascending stride, in the work space; those of equal stride become one."""
    strides = m[M.WORK]
    extents = strides + MAX_DIMS
    i, j = p + layout.PatternSpec.LIST, q + layout.PatternSpec.LIST
    end_i, end_j = i + 2 * t[p + layout.PatternSpec.DIMS], j + 2 * t[q + layout.PatternSpec.DIMS]
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
    strides = m[M.WORK]
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
    slot = m[unit + Unit.WAITING]
    record = m[slot + Instance.STATIC]
    checks = t[record + Instruction.CHECK_COUNT]
    if m[unit + Unit.SCAN] >= checks:
        return NONE
    check = t[record + Instruction.CHECKS] + m[unit + Unit.SCAN] * CheckSpec.SIZE
    end = t[record + Instruction.CHECKS] + checks * CheckSpec.SIZE
    while check < end:
        found = find_in_lists(t, m, unit, check, slot)
        if found != NONE:
            m[unit + Unit.SCAN] = (check - t[record + Instruction.CHECKS]) // CheckSpec.SIZE
            return found
        check += CheckSpec.SIZE
    return NONE


@jit
def find_in_lists(t, m, unit, check, slot):
    """The same in the lists of one class and kind where anything may meet an access: the first, then its own, or all
    where it lies in several."""
    mine, seq = slot + t[check + CheckSpec.NODE], m[slot + Instance.SEQ]
    lists, buckets = m[M.CLASSES] + t[check + CheckSpec.ENDS], t[check + CheckSpec.BUCKETS]
    own = list_of(t, m, buckets, mine, t[check + CheckSpec.REACH])
    last = own if own > 0 else t[buckets + BucketSpec.COUNT]
    number, judged = m[unit + Unit.LIST], m[unit + Unit.JUDGED]
    while number <= last:
        found = find_in_list(t, m, check, mine, lists + number * Ends.SIZE, seq, judged)
        if found != NONE:
            m[unit + Unit.LIST], m[unit + Unit.JUDGED] = number, m[found + Instance.SEQ]
            return found
        number, judged = max(number + 1, own), NONE
    m[unit + Unit.LIST], m[unit + Unit.JUDGED] = 0, NONE
    return NONE


@jit
def find_in_list(t, m, check, mine, ends, seq, judged):
    """The oldest instance before ``seq``, and not before ``judged``, with an access of a list that meets one."""
    first, reach, met = m[mine + Access.OFFSETS], t[check + CheckSpec.REACH], t[check + CheckSpec.MET]
    node = m[ends + Ends.FIRST]
    while node != NONE:
        other = m[node + Access.OWNER]
        if m[other + Instance.SEQ] >= seq:
            break
        distance = first - m[node + Access.OFFSETS]
        near = (distance + reach >= 0) & (distance <= t[m[node + Access.ACCESS] + AccessSpec.REACH])
        if (
            near & (m[other + Instance.SEQ] >= judged)
            and (met == NONE or t[met + t[m[node + Access.ACCESS] + AccessSpec.RANK]] == 1)
            and access_meets(t, m, node, mine)
        ):
            return other
        node = m[node + Access.YOUNGER]
    return NONE


@jit
def list_of(t, m, buckets, node, reach):
    """The number of the list, among those of its class and kind, where an access lies."""
    if t[buckets + BucketSpec.COUNT] == 0:
        return 0
    place = m[node + Access.OFFSETS] - t[buckets + BucketSpec.BASE]
    number = place // t[buckets + BucketSpec.LENGTH]
    return number + 1 if place + reach < (number + 1) * t[buckets + BucketSpec.LENGTH] else 0


@jit
def enter_classes(t, m, slot, record):
    """Put the accesses of a new instance that may conflict into the lists of their class and kind."""
    entry = t[record + Instruction.NODES]
    end = entry + t[record + Instruction.NODE_COUNT] * NodeSpec.SIZE
    while entry < end:
        node = slot + t[entry + NodeSpec.NODE]
        access = t[entry + NodeSpec.ACCESS]
        expressions = t[access + AccessSpec.EXPRESSIONS]
        for axis in range(t[access + AccessSpec.AXES]):
            m[node + Access.OFFSETS + axis] = value_of(t, m, t[expressions + axis])
        m[node + Access.OWNER] = slot
        m[node + Access.ACCESS] = access
        m[node + Access.ENDS] = NONE
        if t[entry + NodeSpec.ENDS] != NONE:
            enter_class(t, m, node, entry)
        entry += NodeSpec.SIZE


@jit
def enter_class(t, m, node, entry):
    """Put an access behind all others of its list."""
    number = list_of(t, m, t[entry + NodeSpec.BUCKETS], node, t[m[node + Access.ACCESS] + AccessSpec.REACH])
    ends = m[M.CLASSES] + t[entry + NodeSpec.ENDS] + number * Ends.SIZE
    last = m[ends + Ends.LAST]
    m[node + Access.ENDS] = ends
    m[node + Access.OLDER] = last
    m[node + Access.YOUNGER] = NONE
    m[ends + Ends.LAST] = node
    if last == NONE:
        m[ends + Ends.FIRST] = node
    else:
        m[last + Access.YOUNGER] = node


@jit
def renew_classes(t, m):
    """Put all accesses that are in lists into those where they lie now: they have moved. The lists where units stopped
    to look are others now, too."""
    if t[H.BUCKETED] == 0:
        return
    for k in range(t[H.UNITS]):
        unit = m[M.UNITS] + k * Unit.SIZE
        m[unit + Unit.LIST], m[unit + Unit.JUDGED] = 0, NONE
    for k in range(m[M.CLASSES], m[M.CLASSES] + t[H.ENDS] * Ends.SIZE):
        m[k] = NONE
    slot = m[M.OLDEST]
    while slot != NONE:
        record = m[slot + Instance.STATIC]
        entry = t[record + Instruction.NODES]
        end = entry + t[record + Instruction.NODE_COUNT] * NodeSpec.SIZE
        while entry < end:
            node = slot + t[entry + NodeSpec.NODE]
            if m[node + Access.ENDS] != NONE:
                enter_class(t, m, node, entry)
            entry += NodeSpec.SIZE
        slot = m[slot + Instance.YOUNGER]


@jit
def leave_classes(t, m, slot, holds):
    """Take the accesses of an instance that hold up later ones until now out of their lists."""
    record = m[slot + Instance.STATIC]
    entry = t[record + Instruction.NODES]
    end = entry + t[record + Instruction.NODE_COUNT] * NodeSpec.SIZE
    while entry < end:
        if t[entry + NodeSpec.HOLDS] == holds:
            leave_class(m, slot + t[entry + NodeSpec.NODE])
        entry += NodeSpec.SIZE


@jit
def leave_class(m, node):
    ends = m[node + Access.ENDS]
    m[node + Access.ENDS] = NONE
    older, younger = m[node + Access.OLDER], m[node + Access.YOUNGER]
    if older == NONE:
        m[ends + Ends.FIRST] = younger
    else:
        m[older + Access.YOUNGER] = younger
    if younger == NONE:
        m[ends + Ends.LAST] = older
    else:
        m[younger + Access.OLDER] = older
