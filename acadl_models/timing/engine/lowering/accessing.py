"""Accesses of a program in the form of the engine's tables: words in storages, axes that decide about conflicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessKind
from archloom.acadl_models.timing.engine.lowering.forms import Form
from archloom.acadl_models.timing.engine.phases.meeting import connect, list_pairs
from archloom.oracle.affine import Affine, Bounds

Array = NDArray[np.int64]

_EMPTY: list[int] = []


class Entry:
    """One access of one instruction of the program text.

    ``offsets`` has one expression for each axis, of the smallest element that is touched; ``word`` is the first word
    address. ``low`` and ``high`` are found by :func:`find_ranges`; ``conflict_class`` and ``axes`` (those that decide)
    by :func:`classify`.
    """

    __slots__ = ("axes", "conflict_class", "form", "high", "kind", "loops", "low", "offsets", "order", "static", "word")

    def __init__(self, form: Form, offsets: tuple[Affine, ...], static: int, loops: tuple[str, ...], order: int):
        self.form, self.kind = form, form.kind
        self.order, self.static, self.loops = order, static, loops
        if form.is_moved:
            offsets = tuple([o + s.origin for o, s in zip(offsets, form.patterns)])
        self.offsets = offsets
        self.word = offsets[0] if form.strides == (1,) else _word(form.strides, offsets)
        self.low = self.high = _EMPTY
        self.conflict_class = NONE
        self.axes: tuple[int, ...] = ()


def _word(strides: tuple[int, ...], offsets: tuple[Affine, ...]) -> Affine:
    """Address of the first word."""
    word = Affine(0)
    for stride, offset in zip(strides, offsets):
        word = word + offset * stride
    return word


def find_ranges(entries: list[Entry], bounds: Bounds) -> None:
    """Smallest and largest element that each access touches along each axis, over all iterations."""
    for e in entries:
        ranges = [(o.constant, o.constant) if not o.terms else o.range(bounds) for o in e.offsets]
        e.low = [low for low, _ in ranges]
        e.high = [high + span for (_, high), span in zip(ranges, e.form.spans)]


LARGEST_CLASS = 128
"""Accesses of a class that are compared one by one before the run; in larger ones whatever meets."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Which accesses may meet; those that meet nothing have no class.

    ``count`` classes; ``met``: for each class of at most ``LARGEST_CLASS`` members a square table, by their ranks,
    whether two of them may meet; ``rows`` and ``ranks`` by order: where the row of an access lies in ``met`` (NONE in
    larger classes), and its rank. All int64.
    """

    count: int
    met: Array
    rows: list[int]
    ranks: list[int]
    _columns: tuple[Array, ...]
    _orders: list[int]
    _pairs: int

    def pairs(self) -> tuple[Array, Array]:
        """The pairs of accesses that may meet, by their orders, int64 [pairs]: the smaller first and ascending."""
        first, second = np.empty(self._pairs, np.int64), np.empty(self._pairs, np.int64)
        nowhere = np.full(len(self._orders), NONE)
        list_pairs(*self._columns, nowhere, nowhere, _NOTHING, first, second)
        orders = np.array(self._orders, np.int64)
        a, b = orders[first], orders[second]
        ascending = np.argsort(np.minimum(a, b), kind="stable")
        return np.minimum(a, b)[ascending], np.maximum(a, b)[ascending]


_NOTHING = np.zeros(0, np.int64)


def classify(entries: list[Entry]) -> Classes:
    """Find the accesses that may meet, and give each connected part of them a conflict class."""
    groups: dict[str, list[Entry]] = {}
    for e in entries:
        if e.form.place.tracked:
            groups.setdefault(e.form.place.buffer, []).append(e)
    flat: list[Entry] = []
    ends: list[int] = []
    sweeps: list[int] = []
    for group in groups.values():
        if group[0].kind != AccessKind.WRITE and len({e.kind for e in group}) == 1:
            continue
        distinct = [len({e.low[axis] for e in group}) for axis in range(len(group[0].low))]
        sweep = distinct.index(max(distinct))
        flat += sorted(group, key=lambda e: e.low[sweep])
        ends += [len(flat)] * len(group)
        sweeps += [sweep] * len(group)
    columns = _columns(flat, ends, sweeps)
    label, related = np.empty(len(flat), np.int64), np.empty(len(flat), np.int64)
    pairs = connect(*columns, label, related)
    parts: dict[int, list[Entry]] = {}
    for e, number, meets in zip(flat, label.tolist(), related.tolist()):
        if meets:
            parts.setdefault(number, []).append(e)
    rows, ranks, size = [NONE] * len(entries), [0] * len(entries), 0
    for number, part in enumerate(parts.values()):
        _name_class(part, number)
        if len(part) <= LARGEST_CLASS:
            for rank, e in enumerate(part):
                rows[e.order], ranks[e.order] = size, rank
                size += len(part)
    met = np.zeros(size, np.int64)
    orders = [e.order for e in flat]
    mine = np.array([rows[k] for k in orders], np.int64), np.array([ranks[k] for k in orders], np.int64)
    list_pairs(*columns, *mine, met, _NOTHING, _NOTHING)
    met[[rows[e.order] + ranks[e.order] for e in flat if e.kind == AccessKind.WRITE and rows[e.order] != NONE]] = 1
    return Classes(len(parts), met, rows, ranks, columns, orders, int(pairs))


def _columns(flat: list[Entry], ends: list[int], sweeps: list[int]) -> tuple[Array, ...]:
    """What :mod:`.meeting` is told about accesses; axes that a buffer does not have are the same for all."""
    axes = max([len(e.low) for e in flat], default=1)
    low, high = np.zeros((len(flat), axes), np.int64), np.zeros((len(flat), axes), np.int64)
    by_axes: dict[int, list[int]] = {}
    for k, e in enumerate(flat):
        by_axes.setdefault(len(e.low), []).append(k)
    for count, where in by_axes.items():
        low[where, :count] = [flat[k].low for k in where]
        high[where, :count] = [flat[k].high for k in where]
    kinds = np.array([e.kind for e in flat], np.int64)
    return kinds, low, high, np.array(ends, np.int64), np.array(sweeps, np.int64)


def _name_class(part: list[Entry], number: int) -> None:
    """Give the accesses of a class its number, and drop the axes along which all of them always meet."""
    axes = tuple(a for a in range(len(part[0].offsets)) if not _same_place(part, a))
    for member in part:
        member.conflict_class, member.axes = number, axes


def _same_place(part: list[Entry], axis: int) -> bool:
    """All accesses start at one fixed place along the axis, so that any two of them have it in common."""
    low = part[0].low[axis]
    for e in part:
        if e.offsets[axis].terms or e.low[axis] != low:
            return False
    return True
