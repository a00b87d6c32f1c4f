"""The candidates that no other is better than, while they come in. Less is better in every objective."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence

import numpy as np


class Front:
    """Points of ``size`` objectives, each under a name; points that are equal are all kept."""

    def __init__(self, size: int) -> None:
        self._points = np.empty((0, size))
        self.names: list[Hashable] = []
        self.worst = np.full(size, -np.inf)
        """of all points that were added"""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def points(self) -> np.ndarray:
        """[points, objectives], in the order of ``names``."""
        return self._points

    def dominates(self, point: "Sequence[float] | np.ndarray") -> bool:
        """Whether a point of the front is nowhere above ``point`` and below it somewhere."""
        here = np.asarray(point)
        return bool(((self._points <= here).all(axis=1) & (self._points < here).any(axis=1)).any())

    def add(self, name: Hashable, point: Sequence[float]) -> bool:
        """Take a point in, if none dominates it; those that it dominates leave."""
        here = np.asarray(point, float)
        self.worst = np.maximum(self.worst, here)
        if self.dominates(here):
            return False
        stays = np.logical_not((here <= self._points).all(axis=1) & (here < self._points).any(axis=1))
        self._points = np.vstack([self._points[stays], here])
        self.names = [*(n for n, kept in zip(self.names, stays) if kept), name]
        return True

    def extend(self, names: Sequence[Hashable], points: "Sequence[Sequence[float]] | np.ndarray") -> None:
        """Take many points in, as :meth:`add` does one after the other."""
        if not len(names):
            return
        every = np.vstack([self._points, np.asarray(points, float)])
        self.worst = np.maximum(self.worst, every.max(axis=0))
        kept, before = undominated(every), len(self)
        self.names = [self.names[i] if i < before else names[i - before] for i in kept.tolist()]
        self._points = every[kept]

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The best and the worst of each objective so far."""
        best = self._points.min(axis=0) if len(self) else np.zeros(len(self.worst))
        return best, np.where(np.isfinite(self.worst), self.worst, 0)

    def hypervolume(self, box: "tuple[np.ndarray, np.ndarray] | None" = None) -> float:
        """The share of a box, from its best to its worst point, that the front dominates; of :attr:`box` by default."""
        if not len(self):
            return 0.0
        low, high = self.box if box is None else box
        span = np.where(high > low, high - low, 1)
        flat = high <= low  # nothing to be better in
        return _volume(np.where(flat, 0, (self._points - low) / span))


def undominated(points: np.ndarray) -> np.ndarray:
    """Numbers of the points [points, objectives] that no other dominates, ascending."""
    distinct, which = np.unique(points, axis=0, return_inverse=True)
    kept = np.zeros(len(distinct), bool)
    kept[_in_order(distinct) if distinct.shape[1] <= 3 else _by_ranks(distinct)] = True
    return np.flatnonzero(kept[which.reshape(-1)])


def _in_order(points: np.ndarray) -> list[int]:
    """Of points of one to three objectives that ascend and differ: what dominates a point is before it, and not above
    it in the second objective nor in the third. Of those that may be that a staircase is kept: up in the second
    objective, down in the third."""
    rest = np.zeros((len(points), 2))
    rest[:, :points.shape[1] - 1] = points[:, 1:]
    ys, zs, found = list[float](), list[float](), list[int]()
    for i, (y, z) in enumerate(rest.tolist()):
        place = bisect_right(ys, y)
        if place and zs[place - 1] <= z:
            continue
        found.append(i)
        first = last = place - 1 if place and ys[place - 1] == y else place
        while last < len(zs) and zs[last] >= z:
            last += 1
        ys[first:last], zs[first:last] = [y], [z]
    return found


def _by_ranks(points: np.ndarray) -> list[int]:
    """Of points that differ: what dominates one has a smaller sum of ranks. So of those that are left the one with the
    least is dominated by none, and takes with it those that it dominates."""
    ranks = sum(np.unique(column, return_inverse=True)[1] for column in points.T)
    left = np.argsort(ranks, kind="stable")
    rest, found = points[left], list[int]()
    while len(left):
        found.append(int(left[0]))
        stays = (rest < rest[0]).any(axis=1)
        left, rest = left[stays], rest[stays]
    return found


def _volume(points: np.ndarray) -> float:
    """Of the part of the unit cube that lies above the points (none below 0): in slices of the last axis."""
    points = points[(points < 1).all(axis=1)]
    if not len(points):
        return 0.0
    if points.shape[1] == 1:
        return float(1 - points.min())
    if points.shape[1] == 2:
        x, y = points[np.argsort(points[:, 0], kind="stable")].T
        return float((np.diff(x, append=1.0) * (1 - np.minimum.accumulate(y))).sum())
    points = points[np.argsort(points[:, -1], kind="stable")]
    edges = [*points[:, -1], 1.0]
    return sum((edges[i + 1] - edges[i]) * _volume(points[:i + 1, :-1])
               for i in range(len(points)) if edges[i + 1] > edges[i])
