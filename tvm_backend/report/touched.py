"""How many different bytes the instructions of a nest touch: the sizes of tiles, read off the stream itself.

The positions that a window touches are a sum of progressions: one for each of its axes, and one for each loop variable
in its offset. They are kept as runs of neighbouring positions and summed by increasing stride, so that what is dense
stays one run: a tile of 512 rows of 64 bytes has 512 runs, a whole tensor has one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Buffer, Window
from archloom.oracle.windows import linear

MOST_RUNS = 1 << 20
"""Beyond so many runs a set is the range that it spans."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Positions ``starts[i] .. ends[i]-1``, increasing and apart; ``exact`` unless gaps were filled."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    exact: bool = True

    @staticmethod
    def one(position: int) -> "Runs":
        return Runs(np.array([position], np.int64), np.array([position + 1], np.int64))

    @property
    def count(self) -> int:
        """How many positions there are."""
        return int((self.ends - self.starts).sum())

    def plus(self, values: NDArray[np.int64]) -> "Runs":
        """All sums of a position and one of ``values``."""
        if len(self.starts) * len(values) > MOST_RUNS:
            return self.spread(int(values.min()), int(values.max()))
        return _merged(np.add.outer(self.starts, values).ravel(), np.add.outer(self.ends, values).ravel(), self.exact)

    def spread(self, low: int, high: int) -> "Runs":
        """The range that all sums of a position and a number from ``low`` to ``high`` lie in."""
        return Runs(self.starts[:1] + low, self.ends[-1:] + high, False)

    def within(self, low: int, high: int) -> "Runs":
        """The positions from ``low`` on and below ``high``."""
        starts, ends = np.maximum(self.starts, low), np.minimum(self.ends, high)
        some = starts < ends
        return Runs(starts[some], ends[some], self.exact)


def union(sets: Iterable[Runs]) -> Runs:
    """The positions that are in any of ``sets``, of which there is one."""
    found = list(sets)
    return _merged(np.concatenate([s.starts for s in found]), np.concatenate([s.ends for s in found]),
                   all(s.exact for s in found))


def _merged(starts: NDArray[np.int64], ends: NDArray[np.int64], exact: bool) -> Runs:
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.flatnonzero(np.concatenate(([True], starts[1:] > ends[:-1])))
    return Runs(starts[first], ends[np.concatenate((first[1:], [len(ends)])) - 1], exact)


def touched(window: Window, buffer: Buffer, extents: Mapping[str, int]) -> Runs:
    """The row-major positions of the buffer's elements that a window touches while the variables in ``extents`` run.

    Variables that are not in ``extents`` stand still, at 0.
    """
    scales = [math.prod(buffer.shape[axis + 1:]) for axis in range(len(buffer.shape))]
    offset = linear(window.offsets, buffer.shape)
    values = [np.arange(d.extent, dtype=np.int64) * (d.stride * scales[d.axis]) for d in window.dims]
    values += [_values(terms, extents) for terms in _independent(offset) if _tries(terms, extents) <= MOST_RUNS]
    found = Runs.one(offset.constant)
    for step in sorted(values, key=_stride):
        found = found.plus(step)
    for terms in _independent(offset):
        if _tries(terms, extents) > MOST_RUNS:
            found = found.spread(*terms.range({name: (0, extents.get(name, 1) - 1) for name in terms.variables()}))
    return found


def _stride(values: NDArray[np.int64]) -> int:
    return int(abs(values[1] - values[0])) if len(values) > 1 else 0


def _independent(offset: Affine) -> list[Affine]:
    """Sums of terms that share no variable, and make up the offset without its constant."""
    sums: list[Affine] = []
    for term in offset.terms:
        together = Affine(0, (term,))
        for other in [s for s in sums if s.variables() & together.variables()]:
            sums.remove(other)
            together += other
        sums.append(together)
    return sums


def _tries(terms: Affine, extents: Mapping[str, int]) -> int:
    """Combinations of values that the variables of an expression take."""
    return math.prod(extents.get(name, 1) for name in terms.variables())


def _values(terms: Affine, extents: Mapping[str, int]) -> NDArray[np.int64]:
    """The different values of an expression, increasing."""
    names = sorted(terms.variables())
    grid = np.ix_(*[np.arange(extents.get(name, 1), dtype=np.int64) for name in names])
    return np.unique(np.asarray(terms.evaluate(dict(zip(names, grid, strict=True))), np.int64))
