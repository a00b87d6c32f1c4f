"""Jitted: which accesses of a program may meet at all, judged by the boxes around everything that each ever touches.

The accesses come group by group, one group for each buffer, in each by ascending ``low`` along the axis ``sweep``.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import entry, jit
from archloom.acadl_models.timing.engine.layout import AccessKind


@jit
def boxes_meet(kinds, low, high, axes, a, b):
    """Whether two accesses of which one modifies something have an element in common, as far as their boxes tell."""
    if kinds[a] == kinds[b] and kinds[a] != AccessKind.WRITE:
        return False
    for axis in range(axes):
        if low[a * axes + axis] > high[b * axes + axis] or low[b * axes + axis] > high[a * axes + axis]:
            return False
    return True


@jit
def root(label, a):
    while label[a] != a:
        label[a] = label[label[a]]
        a = label[a]
    return a


@entry
def connect(kinds, low, high, ends, sweeps, label, related) -> int:
    """The connected parts of the relation: ``label`` becomes one access of each part; returns the number of pairs.

    ``related``: whether an access meets anything, itself in a later instance included. Shapes: ``low`` and ``high``
    [access * axes + axis], the others [access]; ``ends``: where the group of each ends.
    """
    count = len(kinds)
    axes = len(low) // max(count, 1)
    pairs = 0
    for a in range(count):
        label[a] = a
        related[a] = int(kinds[a] == AccessKind.WRITE)
    for a in range(count):
        b = a + 1
        while b < ends[a] and low[b * axes + sweeps[a]] <= high[a * axes + sweeps[a]]:
            if boxes_meet(kinds, low, high, axes, a, b):
                pairs += 1
                related[a] = related[b] = 1
                label[root(label, b)] = root(label, a)
            b += 1
    for a in range(count):
        label[a] = root(label, a)
    return pairs


@entry
def list_pairs(kinds, low, high, ends, sweeps, rows, ranks, met, first, second) -> None:
    """The pairs as indices into ``first`` and ``second`` [pair] where these have room, and as ones in ``met``.

    There lies, from ``rows`` [access] on, a row for each access of which that is not NONE, by the ``ranks`` of others.
    """
    count = len(kinds)
    axes = len(low) // max(count, 1)
    pairs = 0
    for a in range(count):
        b = a + 1
        while b < ends[a] and low[b * axes + sweeps[a]] <= high[a * axes + sweeps[a]]:
            if boxes_meet(kinds, low, high, axes, a, b):
                if pairs < len(first):
                    first[pairs], second[pairs] = a, b
                pairs += 1
                if rows[a] != NONE:
                    met[rows[a] + ranks[b]] = 1
                    met[rows[b] + ranks[a]] = 1
            b += 1
