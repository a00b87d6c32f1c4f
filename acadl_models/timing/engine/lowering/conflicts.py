"""Which accesses of a program may meet, and the lists of those that have to look at one another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessKind, AccessSpec, BucketSpec, H, Holds
from archloom.acadl_models.timing.engine.lowering.accesses import Accesses
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables
from archloom.acadl_models.timing.engine.phases.meeting import connect, list_pairs
from archloom.acadl_models.timing.engine.state import Ends

LARGEST_CLASS = 128
"""Accesses of a class that are compared one by one before the run; in larger ones whatever meets."""

_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Classes:
    """Which accesses may meet: each connected part of them is a conflict class; those that meet nothing have none.

    ``count`` classes; ``of``: the class of each access, or NONE; ``axes``: which axes decide, bool [access, axis].
    ``met``: for each class of at most ``LARGEST_CLASS`` members a square table, by their ranks, whether two of them may
    meet; ``rows`` and ``ranks``: where the row of an access lies in ``met`` (NONE in larger classes), and its rank.
    All int64, by the number of the access, where not said otherwise.
    """

    count: int
    of: Array
    axes: Array
    met: Array
    rows: Array
    ranks: Array
    _columns: tuple[Array, ...]
    _order: Array
    _pairs: int

    def pairs(self) -> tuple[Array, Array]:
        """The pairs of accesses that may meet, by their numbers, int64 [pairs]: the smaller first and ascending."""
        first, second = np.empty(self._pairs, np.int64), np.empty(self._pairs, np.int64)
        nowhere = np.full(len(self._order), NONE)
        list_pairs(*self._columns, nowhere, nowhere, _NOTHING, first, second)
        a, b = self._order[first], self._order[second]
        ascending = np.argsort(np.minimum(a, b), kind="stable")
        return np.minimum(a, b)[ascending], np.maximum(a, b)[ascending]


def classify(accesses: Accesses) -> Classes:
    """Find the accesses that may meet, and their classes."""
    order, *columns = _swept(accesses)
    label, related = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    pairs = int(connect(*columns, label, related))
    meeting = related > 0
    members = order[meeting]
    _, first, number = np.unique(label[meeting], return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[number]  # in the order in which they come
    of = np.full(len(accesses), NONE)
    of[members] = number
    size = np.bincount(number, minlength=len(first))
    square = np.where(size <= LARGEST_CLASS, size * size, 0)
    by_class = np.argsort(number, kind="stable")
    rank = np.empty(len(members), np.int64)
    rank[by_class] = np.arange(len(members)) - np.repeat(np.cumsum(size) - size, size)
    rows, ranks = np.full(len(accesses), NONE), np.zeros(len(accesses), np.int64)
    small = size[number] <= LARGEST_CLASS
    begin = (np.cumsum(square) - square)[number] + rank * size[number]
    rows[members[small]], ranks[members[small]] = begin[small], rank[small]
    met = np.zeros(int(square.sum()), np.int64)
    list_pairs(*columns, rows[order], ranks[order], met, _NOTHING, _NOTHING)
    writes = members[small & (accesses.kind[members] == AccessKind.WRITE)]
    met[rows[writes] + ranks[writes]] = 1
    axes = _deciding(accesses, members[by_class], np.cumsum(size) - size)
    return Classes(
        len(first), of, axes[of] & (of != NONE)[:, None], met, rows, ranks, tuple(columns), order, pairs)


def _swept(accesses: Accesses) -> tuple[Array, ...]:
    """The accesses that may meet others, and what :mod:`.meeting` is told about them: buffer by buffer, each along the
    axis in which most of them begin elsewhere."""
    found, ends, sweeps, end = [_NOTHING], [_NOTHING], [_NOTHING], 0
    by_buffer = np.argsort(accesses.buffer, kind="stable")
    cuts = np.searchsorted(accesses.buffer[by_buffer], np.arange(accesses.buffers + 1)).tolist()
    for start, stop in pairwise(cuts):
        group = by_buffer[start:stop]
        kinds, low = accesses.kind[group], accesses.low[group]
        if not len(group) or (kinds[0] != AccessKind.WRITE and (kinds == kinds[0]).all()):
            continue  # two reads do not conflict, nor do two accumulations
        sweep = int(np.argmax([len(np.unique(starts)) for starts in low.T])) if low.shape[1] > 1 else 0
        end += len(group)
        found.append(group[np.argsort(low[:, sweep], kind="stable")])
        ends.append(np.full(len(group), end))
        sweeps.append(np.full(len(group), sweep))
    order = np.concatenate(found)
    return (order, accesses.kind[order], accesses.low[order].reshape(-1), accesses.high[order].reshape(-1),
            np.concatenate(ends), np.concatenate(sweeps))


def _deciding(accesses: Accesses, members: Array, begins: Array) -> Array:
    """Which axes decide in each class, bool [class, axis]: those along which all start at one fixed place decide
    nothing, as any two of them have it in common. ``members``: class by class, which begin at ``begins``. The last row
    is for accesses without a class."""
    found = np.zeros((len(begins) + 1, accesses.low.shape[1]), bool)
    if len(begins):
        low = accesses.low[members]
        found[:-1] = np.minimum.reduceat(low, begins) != np.maximum.reduceat(low, begins)
        found[:-1] |= np.logical_or.reduceat(accesses.varying[accesses.offsets[members]], begins)
    return found


# --- lists of conflicts and requests ---------------------------------------------------------------------------
def access_lists(tables: Tables, accesses: Accesses, classes: Classes, first: int, records: Array) -> Array:
    """Put the lists of all instructions; returns the fields from ``Instruction.NODES`` on, int64 [instruction, field].

    ``records``: the AccessSpec records of all, int64 [access, field], which lie at ``first``.
    """
    d, static, count = tables.header, accesses.static, len(accesses.counts)
    kind, group, holds = accesses.kind, classes.of, accesses.holds
    node = d[H.SLOT_ACCESSES] + d[H.ACCESS_SIZE] * accesses.place
    place = first + AccessSpec.SIZE * np.arange(len(accesses))
    buckets = _buckets(accesses, classes)
    lists = 1 + buckets[:, BucketSpec.COUNT]
    d[H.ENDS], d[H.BUCKETED] = 3 * int(lists.sum()), int((lists > 1).any())
    begin = 3 * (np.cumsum(lists) - lists)
    table = tables.put_array(buckets) + BucketSpec.SIZE * group

    def first_list(of: Array, kinds: Array) -> Array:
        return (begin[of] + kinds * lists[of]) * Ends.SIZE

    ends = np.full(len(kind), NONE)
    ends[group != NONE] = first_list(group[group != NONE], kind[group != NONE])
    ends[holds == Holds.NEVER] = NONE

    tracked = np.flatnonzero(group != NONE)
    d[H.LATCHED] = int((holds[tracked] == Holds.UNTIL_START).any())
    nodes = _put(tables, np.stack((node, place, ends, table, holds), axis=1)[tracked], static[tracked], count)
    present = np.zeros((classes.count, 3), bool)
    present[group[tracked], kind[tracked]] = True
    opposing = present[group[tracked]]
    alike = np.flatnonzero(kind[tracked] != AccessKind.WRITE)  # two reads do not conflict, nor do two accumulations
    opposing[alike, kind[tracked][alike]] = False
    columns = records[:, (AccessSpec.MET, AccessSpec.REACH)]
    row, other = np.nonzero(opposing)
    mine = tracked[row]
    checked = np.stack((first_list(group[mine], other), node[mine], *columns[mine].T, table[mine]), axis=1)
    checks = _put(tables, checked, static[mine], count)

    asking = np.flatnonzero(accesses.banks)
    asking = asking[np.lexsort((kind[asking] != AccessKind.READ, static[asking]))]
    parts = _put(tables, place[asking][:, None], static[asking], count)
    return np.stack((*nodes, *checks, *parts), axis=1)


MANY, SOME_PARTS, MOST_PARTS = 16, 4, 64
"""Accesses of a class that are worth more than one list, and parts of a buffer that are; lists of a class and a kind
beside the first. Free choices."""


def _buckets(accesses: Accesses, classes: Classes) -> Array:
    """The BucketSpec records of all classes: those of many accesses, by the parts of the buffer where these lie."""
    found = np.zeros((classes.count, BucketSpec.SIZE), np.int64)
    members = np.flatnonzero(classes.axes.any(axis=1))
    members = members[np.argsort(classes.of[members], kind="stable")]
    number, first, count = np.unique(classes.of[members], return_index=True, return_counts=True)
    axis = np.argmax(classes.axes[members], axis=1)
    low, high, banks = accesses.low[members, axis], accesses.high[members, axis], accesses.banks[members]
    for k in np.flatnonzero((count > MANY) | (np.maximum.reduceat(banks, first) > 1 if len(first) else False)).tolist():
        mine = slice(first[k], first[k] + count[k])
        found[number[k]] = _parts(low[mine], high[mine], int(banks[mine].max()))
    return found


def _parts(low: Array, high: Array, banks: int) -> tuple[int, int, int]:
    """Where the parts of a buffer begin that accesses from ``low`` to ``high`` lie in, how long each is, and how many
    there are, 0 for one alone: what does not reach far lies apart from one another, as the memories of cores do, or
    else there are as many parts as banks."""
    base, length = int(low.min()), int(high.max() - low.min()) + 1
    begins = _apart(low, high, length // SOME_PARTS)
    if len(begins) >= SOME_PARTS:
        each = int(np.gcd.reduce(np.diff(begins)))
        before = int(begins[0] - base) % each
        if before:
            base, length = base + before - each, length + each - before
        if length <= each * MOST_PARTS:
            return base, each, -(-length // each)
    parts = max(len(begins) if len(begins) >= SOME_PARTS else 0, banks)
    if parts <= 1:
        return 0, 1, 0
    each = -(-length // min(parts, MOST_PARTS))
    return base, each, -(-length // each)


def _apart(low: Array, high: Array, most: int) -> Array:
    """Where the connected parts begin that accesses of less than ``most`` elements from ``low`` to ``high`` make."""
    narrow = high - low < most
    order = np.argsort(low[narrow], kind="stable")
    low, high = low[narrow][order], high[narrow][order]
    begins = low[1:] > np.maximum.accumulate(high[:-1])
    return low[np.concatenate((np.ones(min(1, len(low)), bool), begins))]


def _put(tables: Tables, records: Array, static: Array, statics: int) -> tuple[Array, Array]:
    """Put records that come instruction by instruction; returns where those of each begin, and how many it has."""
    counts = np.bincount(static, minlength=statics)
    position = tables.put_array(records)
    return position + records.shape[1] * (np.cumsum(counts) - counts), counts
