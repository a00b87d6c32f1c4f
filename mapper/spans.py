"""Cutting outputs into strips that may read padding, filters and channels into groups, and a set into diagonals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Span:
    """``count`` strips of ``size`` outputs each, the first of which starts at output ``first``.

    Each reads ``reach`` inputs, of which ``skip`` before and what is beyond ``take`` lie in the padding.
    """

    first: int
    count: int
    size: int
    reach: int
    skip: int
    take: int

    @property
    def padded(self) -> bool:
        return self.take < self.reach


def spans(outputs: int, size: int, stride: int, taps: int, before: int, inputs: int) -> tuple[Span, ...]:
    """``outputs`` in strips of ``size``; strips that read no padding are runs, each of the others stands alone."""
    found: list[Span] = []
    for first in range(0, outputs, size):
        length = min(size, outputs - first)
        reach = (length - 1) * stride + taps
        start = first * stride - before
        skip = min(reach, max(0, -start))
        take = max(0, min(reach, inputs - start) - skip)
        last = found[-1] if found else None
        if last and take == reach and not last.padded and last.size == length:
            found[-1] = Span(last.first, last.count + 1, length, reach, 0, reach)
        else:
            found.append(Span(first, 1, length, reach, skip, take))
    return tuple(found)


@dataclass(frozen=True)
class Group:
    """``count`` groups of ``each * down * across`` from ``first`` on: what one pass takes, or a part of it, which takes
    places from row ``top`` and column ``left`` on."""

    first: int
    count: int
    each: int
    down: int
    across: int = 1
    top: int = 0
    left: int = 0

    @property
    def size(self) -> int:
        return self.each * self.down * self.across


def groups(extent: int, each: int, down: int, across: int = 1, first: int = 0) -> Iterator[Group]:
    """``extent`` in groups of ``each * down * across``; what is left in as few smaller groups as possible."""
    whole, rest = divmod(extent, each * down * across)
    if whole:
        yield Group(first, whole, each, down, across)
        first += whole * each * down * across
    if rest:
        smaller = _best(rest, each, down, across)
        yield Group(first, 1, *smaller)
        taken = smaller[0] * smaller[1] * smaller[2]
        yield from groups(rest - taken, *smaller, first=first + taken)


def _best(rest: int, each: int, down: int, across: int) -> tuple[int, int, int]:
    """The largest product of factors within the bounds that is at most ``rest``; of equals that with the most PEs."""
    found = (1, 1, 1)
    for d in range(1, min(down, rest) + 1):
        for a in range(1, min(across, rest // d) + 1):
            candidate = (min(each, rest // (d * a)), d, a)
            if (candidate[0] * d * a, d * a) > (found[0] * found[1] * found[2], found[1] * found[2]):
                found = candidate
    return found


def shares(extent: int, each: int, down: int, across: int) -> Iterator[tuple[Group, ...]]:
    """``extent`` in passes over ``down * across`` places, each of which takes up to ``each``: whole passes, and one of
    what is left, whose places take as many as each other or one less."""
    whole, rest = divmod(extent, each * down * across)
    if whole:
        yield (Group(0, whole, each, down, across),)
    if rest:
        yield tuple(_evenly(extent - rest, rest, down, across))


def _evenly(first: int, rest: int, down: int, across: int) -> Iterator[Group]:
    """Places, row by row, of which the first take one more than the others."""
    fewer, more = divmod(rest, down * across)
    place = 0
    for each, end in ((fewer + 1, more), (fewer, down * across if fewer else more)):
        while place < end:
            top, left = divmod(place, across)
            rows, wide = ((end - place) // across, across) if not left and end - place >= across else (
                1, min(across - left, end - place))
            found = Group(first, 1, each, rows, wide, top, left)
            yield found
            first, place = first + found.size, place + rows * wide


@dataclass(frozen=True)
class Diagonals:
    """``count`` ifmap rows from row ``y`` on, each for ``length`` PEs of a set along a diagonal.

    The uppermost PE of the first has number ``pe`` in the set, that of each further one ``step`` more.
    """

    y: int
    count: int
    length: int
    pe: int
    step: int


def diagonals(columns: int, rows: int, stride: int, pitch: int) -> tuple[Diagonals, ...]:
    """The diagonals of a set of ``rows`` x ``columns`` PEs, ``pitch`` PEs in a row of the array.

    The PE in row i and column j works on ifmap row ``j * stride + i``; rows that no PE needs are left out.
    """
    found: list[Diagonals] = []
    for y in range((columns - 1) * stride + rows):
        right, left = min(columns - 1, y // stride), max(0, -(-(y - rows + 1) // stride))
        if right < left:
            continue
        length, pe = right - left + 1, (y - right * stride) * pitch + right
        last = found[-1] if found else None
        joins = last and last.length == length and last.y + last.count == y
        if last and joins and (last.count == 1 or pe == last.pe + last.count * last.step):
            step = pe - last.pe if last.count == 1 else last.step
            found[-1] = Diagonals(last.y, last.count + 1, length, last.pe, step)
        else:
            found.append(Diagonals(y, 1, length, pe, 0))
    return tuple(found)


def kinds(
    extent: int, each: NDArray[np.int64], down: NDArray[np.int64], across: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]], ...]:
    """The first groups into which ``extent`` is cut (as by :func:`groups`), which are alike, the next ones, and those
    that follow: how many they are, and the mean of their ``each`` and of their ``down * across``."""
    codes, where = np.unique((each * _CODE + down) * _CODE + across, return_inverse=True)
    found = np.array([_cut(extent, int(c) // _CODE**2, int(c) // _CODE % _CODE, int(c) % _CODE) for c in codes])
    return tuple((of[0], of[1], of[2]) for of in np.moveaxis(found[where], 0, -1))


Kind: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Of each candidate, how many passes there are that are alike, what a place takes in one, and how many places do."""


def kinds_of_shares(extent: int, each: NDArray[np.int64], places: NDArray[np.int64]) -> tuple[Kind, Kind]:
    """The first passes of :func:`shares`, which are alike, and what follows: how many they are, what the place with
    most of them takes, and how many places take so much."""
    whole, rest = np.divmod(extent, each * places)
    most = np.ceil(rest / places)
    none, one = np.zeros(whole.shape), np.ones(whole.shape)
    there, left, last = whole > 0, (whole > 0) & (rest > 0), rest / np.maximum(most, 1)
    return ((np.where(there, whole, one), np.where(there, each, most), np.where(there, places, last)),
            (np.where(left, one, none), np.where(left, most, one), np.where(left, last, one)))


_CODE = 1 << 20
"""More than any factor of a group, so that three of them are one number."""


@lru_cache(maxsize=1 << 14)
def _cut(extent: int, each: int, down: int, across: int) -> tuple[tuple[float, float, float], ...]:
    """What :func:`kinds` finds for one of them."""
    found = list(groups(extent, each, down, across))
    return tuple(_mean(run) for run in (found[:1], found[1:2], found[2:]))


def _mean(run: list[Group]) -> tuple[float, float, float]:
    """How many they are, the mean of their ``each``, and that of ``down * across``; (0, 1, 1) for none."""
    if not run:
        return 0.0, 1.0, 1.0
    count, total = sum(g.count for g in run), sum(g.count * g.each for g in run)
    return float(count), total / count, sum(g.count * g.size for g in run) / total
