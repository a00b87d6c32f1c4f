"""Jitted: a timing wheel. What happens at a known later time lies in a list for that time.

The next ``WHEEL`` cycles have a list each, with a bit for each list that is not empty; what lies beyond the horizon is
in one list that is looked through when the horizon moves on. A timer is part of the record that it is about.
"""

from __future__ import annotations

from numba.cpython.unsafe.numbers import trailing_zeros

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403

TIME, LINK = 0, 1
"""Fields with which every record begins that has a timer."""


@jit
def schedule(m, record, tag, time):
    """Let something happen to a record at a later time."""
    m[record + TIME] = time
    if time < m[M_HORIZON]:
        place = (time - m[M_BASE]) & (WHEEL - 1)
        first = m[M_WHEEL] + place
        m[record + LINK] = m[first]
        m[first] = 8 * record + tag
        m[M_BITS + (place >> 6)] |= 1 << (place & 63)
    else:
        m[record + LINK] = m[M_FAR]
        m[M_FAR] = 8 * record + tag
        m[M_FAR_TIME] = min(m[M_FAR_TIME], time)


@jit
def due(m):
    """Take the list of what happens now."""
    place = (m[M_TIME] - m[M_BASE]) & (WHEEL - 1)
    first = m[m[M_WHEEL] + place]
    m[m[M_WHEEL] + place] = NONE
    m[M_BITS + (place >> 6)] &= ~(1 << (place & 63))
    return first


@jit
def next_time(m, at_once):
    """The earliest time of any timer or end of a fetch, or the next cycle; ``FOREVER`` if there is none."""
    now = m[M_TIME]
    if m[M_HORIZON] - now <= WHEEL // 2:
        move_horizon(m, now + WHEEL)
    first = (now + 1 - m[M_BASE]) & (WHEEL - 1)
    bits = m[M_BITS + (first >> 6)] >> (first & 63)
    soon = now + 1 if at_once else m[M_FETCH_END]
    if bits != 0:
        return min(now + 1 + trailing_zeros(bits), soon)
    return now + 1 if soon == now + 1 else min(later_time(m, now, first), soon)


@jit
def later_time(m, now, first):
    """The earliest time of any timer on the wheel but in the word with the bit ``first``, or beyond the horizon.

    That word is looked at again in the end: what lies before its bit comes last.
    """
    word = first >> 6
    for _ in range(WHEEL // 64):
        word = (word + 1) & (WHEEL // 64 - 1)
        bits = m[M_BITS + word]
        if bits != 0:
            return now + 1 + (((word << 6) + trailing_zeros(bits) - first) & (WHEEL - 1))
    after = m[M_FAR_TIME]
    if after != FOREVER and after <= m[M_FETCH_END]:
        move_horizon(m, after + WHEEL)
    return after


@jit
def move_horizon(m, horizon):
    """Put what lies before the new horizon on the wheel."""
    m[M_HORIZON] = horizon
    if m[M_FAR_TIME] >= horizon:
        return
    timer = m[M_FAR]
    m[M_FAR], m[M_FAR_TIME] = NONE, FOREVER
    while timer != NONE:
        record, tag = timer >> 3, timer & 7
        timer = m[record + LINK]
        schedule(m, record, tag, m[record + TIME])
