"""Jitted: what is to be done when and in which order: a timing wheel, instances in program order, marked stages.

What happens at a known later time is a timer, a part of the record that it is about. The next ``WHEEL`` cycles have a
list of timers each, with a bit for each list that is not empty; what lies beyond the horizon is in one list that is
looked through when the horizon moves on.

A stage is marked when it gets room or when something is offered to it; the marked ones are looked at in phase 2, in the
order of forwarding. Up to 64 stages have a bit each in one word. In wide machines there is one bit for each stage, and
one for each word of these, so that a cycle of a graph with thousands of stages costs as much as the stages that move.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.jit import jit, trailing_zeros, word
from archloom.acadl_models.timing.engine.layout import H
from archloom.acadl_models.timing.engine.state import WHEEL, Instance, M

TIME, LINK = 0, 1
"""Fields with which every record begins that has a timer."""


@jit
def schedule(m, record, tag, time):
    """Let something happen to a record at a later time."""
    m[record + TIME] = time
    if time < m[M.HORIZON]:
        place = (time - m[M.BASE]) & (WHEEL - 1)
        first = m[M.WHEEL] + place
        m[record + LINK] = m[first]
        m[first] = 8 * record + tag
        m[M.BITS + (place >> 6)] |= word(1 << (place & 63))
    else:
        m[record + LINK] = m[M.FAR]
        m[M.FAR] = 8 * record + tag
        m[M.FAR_TIME] = min(m[M.FAR_TIME], time)


@jit
def due(m):
    """Take the list of what happens now."""
    place = (m[M.TIME] - m[M.BASE]) & (WHEEL - 1)
    first = m[m[M.WHEEL] + place]
    m[m[M.WHEEL] + place] = NONE
    m[M.BITS + (place >> 6)] &= ~word(1 << (place & 63))
    return first


@jit
def next_time(m, at_once):
    """The earliest time of any timer or end of a fetch, or the next cycle; ``FOREVER`` if there is none."""
    now = m[M.TIME]
    if m[M.HORIZON] - now <= WHEEL // 2:
        move_horizon(m, now + WHEEL)
    first = (now + 1 - m[M.BASE]) & (WHEEL - 1)
    bits = m[M.BITS + (first >> 6)] >> (first & 63)
    soon = now + 1 if at_once else m[M.FETCH_END]
    if bits != 0:
        return min(now + 1 + trailing_zeros(bits), soon)
    return now + 1 if soon == now + 1 else min(later_time(m, now, first), soon)


@jit
def later_time(m, now, first):
    """The earliest time of any timer on the wheel but in the word with the bit ``first``, or beyond the horizon.

    That word is looked at again in the end: what lies before its bit comes last.
    """
    which = first >> 6
    for _ in range(WHEEL // 64):
        which = (which + 1) & (WHEEL // 64 - 1)
        bits = m[M.BITS + which]
        if bits != 0:
            return now + 1 + (((which << 6) + trailing_zeros(bits) - first) & (WHEEL - 1))
    after = m[M.FAR_TIME]
    if after != FOREVER and after <= m[M.FETCH_END]:
        move_horizon(m, after + WHEEL)
    return after


@jit
def move_horizon(m, horizon):
    """Put what lies before the new horizon on the wheel."""
    m[M.HORIZON] = horizon
    if m[M.FAR_TIME] >= horizon:
        return
    timer = m[M.FAR]
    m[M.FAR], m[M.FAR_TIME] = NONE, FOREVER
    while timer != NONE:
        record, tag = timer >> 3, timer & 7
        timer = m[record + LINK]
        schedule(m, record, tag, m[record + TIME])


# --- instances in program order ---------------------------------------------------------------------------------
@jit
def packed(m, slot):
    """An instance in one word: its place in program order above its position, so that ordering looks at words alone."""
    return (m[slot + Instance.SEQ] - m[M.ORIGIN]) << 32 | slot


@jit
def unpacked(entry):
    return entry & 0xFFFFFFFF


@jit
def note_mover(m, slot):
    """An instance may move on in phase 1."""
    m[m[M.MOVING] + m[M.MOVERS]] = packed(m, slot)
    m[M.MOVERS] += 1


@jit
def sort(m, first, count):
    """Shell's sort: the entries are nearly in order or in reverse."""
    gap = 1
    while gap * 9 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(first + gap, first + count):
            entry = m[k]
            j = k - gap
            while j >= first and m[j] > entry:
                m[j + gap] = m[j]
                j -= gap
            m[j + gap] = entry
        gap //= 3


@jit
def note_candidate(m, slot):
    """An instance that waits may start in phase 3: it enters a heap."""
    heap = m[M.JUDGED] - 1  # from 1 on
    m[M.TO_JUDGE] += 1
    k = m[M.TO_JUDGE]
    entry = packed(m, slot)
    while k > 1 and m[heap + k // 2] > entry:
        m[heap + k] = m[heap + k // 2]
        k //= 2
    m[heap + k] = entry


@jit
def oldest_candidate(m):
    """Take the oldest instance of the heap."""
    heap = m[M.JUDGED] - 1
    first = m[heap + 1]
    count = m[M.TO_JUDGE] - 1
    m[M.TO_JUDGE] = count
    if count == 0:
        return unpacked(first)
    entry = m[heap + count + 1]
    k = 1
    while 2 * k <= count:
        child = 2 * k
        if child < count and m[heap + child + 1] < m[heap + child]:
            child += 1
        if m[heap + child] >= entry:
            break
        m[heap + k] = m[heap + child]
        k = child
    m[heap + k] = entry
    return unpacked(first)


# --- marked stages ---------------------------------------------------------------------------------------------
@jit
def mark(m, number):
    """Have a stage looked at in phase 2."""
    if m[M.WIDE] == 0:
        m[M.MARKED] |= word(1 << number)
    else:
        mark_wide(m, number)


@jit
def unmark(m, number):
    if m[M.WIDE] == 0:
        m[M.MARKED] &= ~word(1 << number)
    else:
        unmark_wide(m, number)


@jit
def first_mark(t, m):
    """The first marked stage or ``NONE``."""
    if m[M.WIDE] == 1:
        return next_wide(t, m, 0)
    return trailing_zeros(m[M.MARKED]) if m[M.MARKED] != 0 else NONE


@jit
def next_mark(t, m, number):
    """The first marked stage after ``number``, or ``NONE``."""
    if m[M.WIDE] == 1:
        return next_wide(t, m, number + 1)
    bits = m[M.MARKED] & word(-2 << number)
    return trailing_zeros(bits) if bits != 0 else NONE


@jit
def mark_wide(m, number):
    place = number >> 6
    before, bit = m[m[M.MARKS] + place], word(1 << (number & 63))
    if before & bit == 0:
        m[m[M.MARKS] + place] = before | bit
        m[m[M.SUMMARY] + (place >> 6)] |= word(1 << (place & 63))
        m[M.MARKED] += 1


@jit
def unmark_wide(m, number):
    place = number >> 6
    before = m[m[M.MARKS] + place]
    left = before & ~word(1 << (number & 63))
    m[M.MARKED] -= int(left != before)
    m[m[M.MARKS] + place] = left
    if left == 0:
        m[m[M.SUMMARY] + (place >> 6)] &= ~word(1 << (place & 63))


@jit
def next_wide(t, m, number):
    """The first marked stage from ``number`` on, or ``NONE``."""
    if number >= t[H.STAGES]:
        return NONE
    place = number >> 6
    bits = m[m[M.MARKS] + place] & word(-1 << (number & 63))
    if bits != 0:
        return (place << 6) + trailing_zeros(bits)
    place += 1
    places = (t[H.STAGES] + 63) >> 6
    while place < places:
        bits = m[m[M.SUMMARY] + (place >> 6)] & word(-1 << (place & 63))
        if bits != 0:
            place = ((place >> 6) << 6) + trailing_zeros(bits)
            return (place << 6) + trailing_zeros(m[m[M.MARKS] + place])
        place = ((place >> 6) + 1) << 6
    return NONE
