"""Jitted: the set of stages that may take something in phase 2, in the order of forwarding.

A stage is marked when it gets room or when something is offered to it. Up to 64 stages have a bit each in one word.
In wide machines there is one bit for each stage, and one for each word of these, so that a cycle of a graph with
thousands of stages costs as much as the stages that move.
"""

from __future__ import annotations

from numba.cpython.unsafe.numbers import trailing_zeros

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403


@jit
def mark(m, number):
    if m[M_WIDE] == 0:
        m[M_MARKED] |= 1 << number
    else:
        mark_wide(m, number)


@jit
def unmark(m, number):
    if m[M_WIDE] == 0:
        m[M_MARKED] &= ~(1 << number)
    else:
        unmark_wide(m, number)


@jit
def first_mark(t, m):
    """The first marked stage or ``NONE``."""
    if m[M_WIDE] == 1:
        return next_wide(t, m, 0)
    return trailing_zeros(m[M_MARKED]) if m[M_MARKED] != 0 else NONE


@jit
def next_mark(t, m, number):
    """The first marked stage after ``number``, or ``NONE``."""
    if m[M_WIDE] == 1:
        return next_wide(t, m, number + 1)
    bits = m[M_MARKED] & (-2 << number)
    return trailing_zeros(bits) if bits != 0 else NONE


# --- wide machines ---------------------------------------------------------------------------------------------
@jit
def mark_wide(m, number):
    word = number >> 6
    before, bit = m[m[M_MARKS] + word], 1 << (number & 63)
    if before & bit == 0:
        m[m[M_MARKS] + word] = before | bit
        m[m[M_SUMMARY] + (word >> 6)] |= 1 << (word & 63)
        m[M_MARKED] += 1


@jit
def unmark_wide(m, number):
    word = number >> 6
    before = m[m[M_MARKS] + word]
    left = before & ~(1 << (number & 63))
    m[M_MARKED] -= int(left != before)
    m[m[M_MARKS] + word] = left
    if left == 0:
        m[m[M_SUMMARY] + (word >> 6)] &= ~(1 << (word & 63))


@jit
def next_wide(t, m, number):
    """The first marked stage from ``number`` on, or ``NONE``."""
    if number >= t[H_STAGES]:
        return NONE
    word = number >> 6
    bits = m[m[M_MARKS] + word] & (-1 << (number & 63))
    if bits != 0:
        return (word << 6) + trailing_zeros(bits)
    word += 1
    words = (t[H_STAGES] + 63) >> 6
    while word < words:
        bits = m[m[M_SUMMARY] + (word >> 6)] & (-1 << (word & 63))
        if bits != 0:
            word = ((word >> 6) << 6) + trailing_zeros(bits)
            return (word << 6) + trailing_zeros(m[m[M_MARKS] + word])
        word = ((word >> 6) + 1) << 6
    return NONE
