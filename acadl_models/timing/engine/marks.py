"""Jitted: the set of stages that may take something in phase 2, in the order of forwarding.

A stage is marked when it gets room or when something is offered to it. One bit for each stage, and one for each word of
these, so that a cycle of a graph with thousands of stages costs as much as the stages that move.
"""

from __future__ import annotations

from numba.cpython.unsafe.numbers import trailing_zeros

from acadl_models.timing.engine.jit import jit
from acadl_models.timing.engine.layout import *  # noqa: F403


@jit
def mark(m, number):
    word = number >> 6
    before, bit = m[m[M_MARKS] + word], 1 << (number & 63)
    if before & bit == 0:
        m[m[M_MARKS] + word] = before | bit
        m[m[M_SUMMARY] + (word >> 6)] |= 1 << (word & 63)
        m[M_MARKED] += 1


@jit
def unmark(m, number):
    word = number >> 6
    before = m[m[M_MARKS] + word]
    left = before & ~(1 << (number & 63))
    m[M_MARKED] -= int(left != before)
    m[m[M_MARKS] + word] = left
    if left == 0:
        m[m[M_SUMMARY] + (word >> 6)] &= ~(1 << (word & 63))


@jit
def next_mark(t, m, number):
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
