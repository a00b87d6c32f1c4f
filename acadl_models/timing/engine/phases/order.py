"""Jitted: instances of one cycle in program order.

An instance is packed into one word, its place in program order above its position, so that ordering needs no look at
the instance itself.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403


@jit
def packed(m, slot):
    return (m[slot + I_SEQ] - m[M_ORIGIN]) << 32 | slot


@jit
def unpacked(word):
    return word & 0xFFFFFFFF


@jit
def note_mover(m, slot):
    """An instance may move on in phase 1."""
    m[m[M_MOVING] + m[M_MOVERS]] = packed(m, slot)
    m[M_MOVERS] += 1


@jit
def sort(m, first, count):
    """Shell's sort: the words are nearly in order or in reverse."""
    gap = 1
    while gap * 9 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(first + gap, first + count):
            word = m[k]
            j = k - gap
            while j >= first and m[j] > word:
                m[j + gap] = m[j]
                j -= gap
            m[j + gap] = word
        gap //= 3


@jit
def note_candidate(m, slot):
    """An instance that waits may start in phase 3: it enters a heap."""
    heap = m[M_JUDGED] - 1  # from 1 on
    m[M_TO_JUDGE] += 1
    k = m[M_TO_JUDGE]
    word = packed(m, slot)
    while k > 1 and m[heap + k // 2] > word:
        m[heap + k] = m[heap + k // 2]
        k //= 2
    m[heap + k] = word


@jit
def oldest_candidate(m):
    """Take the oldest instance of the heap."""
    heap = m[M_JUDGED] - 1
    first = m[heap + 1]
    count = m[M_TO_JUDGE] - 1
    m[M_TO_JUDGE] = count
    if count == 0:
        return unpacked(first)
    word = m[heap + count + 1]
    k = 1
    while 2 * k <= count:
        child = 2 * k
        if child < count and m[heap + child + 1] < m[heap + child]:
            child += 1
        if m[heap + child] >= word:
            break
        m[heap + k] = m[heap + child]
        k = child
    m[heap + k] = word
    return unpacked(first)
