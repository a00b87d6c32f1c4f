"""The candidates that no other is better than, while they come in. Less is better in every objective."""

from __future__ import annotations

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
