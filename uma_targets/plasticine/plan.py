"""How a product is tiled over Plasticine's pairs of compute and memory units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.errors import MappingError

WORD_BYTES = 4
"""Single precision."""


@dataclass(frozen=True)
class Machine:
    """Pairs of units, lanes of a vector, and vectors of a PMU."""

    units: int
    lanes: int
    vectors: int

    @staticmethod
    def of(parameters: Mapping[str, int]) -> "Machine":
        return Machine(parameters["units"], parameters["lanes"], parameters["vectors"])

    def groups(self, words: int) -> int:
        """Vectors that hold ``words``."""
        return -(-words // self.lanes)


@dataclass(frozen=True)
class Tiling:
    """``down * across`` pairs compute a tile: each ``m`` rows and ``n`` vectors of C, over ``k`` of the inner dimension
    at a time. ``sums``: blocks of C in each PMU.
    """

    down: int
    across: int
    m: int
    n: int
    k: int
    sums: int = 1

    def vectors(self, machine: Machine) -> int:
        """Vectors that it needs in a PMU: two blocks of A and of B, so that one arrives while the other is used."""
        return int(demand(machine, np.array(self.m), np.array(self.n), np.array(self.k), self.sums))

    def __str__(self) -> str:
        return f"{self.down}x{self.across} units, each {self.m} rows x {self.n} vectors, {self.k} deep"


Column = NDArray[np.int64]


def demand(machine: Machine, m: Column, n: Column, k: Column, sums: int = 1) -> Column:
    """Vectors of a PMU for blocks of ``m`` rows and ``n`` vectors of C, ``k`` deep."""
    return 2 * m * -(-k // machine.lanes) + 2 * k * n + sums * m * n


def check(tiling: Tiling, machine: Machine) -> None:
    """MappingError naming every bound that the tiling breaks."""
    demands = (
        ("units", tiling.down * tiling.across, machine.units, "rows or cols"),
        ("vectors of a PMU", tiling.vectors(machine), machine.vectors, "pmu_kib"),
    )
    broken = [
        f"{needed} {what}, of which there are {bound}: {needed - bound} too many (a larger {option} would help)"
        for what, needed, bound, option in demands if needed > bound
    ]
    if broken:
        raise MappingError(f"tiling of {tiling} needs " + "; ".join(broken))


def sizes(m: int, n: int, k: int, machine: Machine) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Candidates of blocks for ``A[m, k] . B[k, n]``: rows, vectors and depths."""
    return _cuts(m, 256), _cuts(machine.groups(n), 64), _depths(k, machine.lanes)


def _cuts(extent: int, bound: int) -> tuple[int, ...]:
    """Sizes up to ``bound``: powers of two, and those that cut ``extent`` evenly into few or into many pieces."""
    powers = {1 << i for i in range(bound.bit_length()) if 1 << i <= extent}
    even = {-(-extent // parts) for parts in (*range(1, 33), 48, 64) if parts <= extent}
    return tuple(sorted(size for size in powers | even if size <= bound))


def _depths(k: int, lanes: int) -> tuple[int, ...]:
    """Depths of whole vectors; less only where ``k`` is less."""
    if k < lanes:
        return (k,)
    whole = k - k % lanes
    return tuple(sorted({lanes << i for i in range(8) if lanes << i <= k} | ({whole} if whole <= 128 else set())))


def tilings(m: int, n: int, block: tuple[Column, Column, Column], machine: Machine) -> tuple[Column, Column, Column]:
    """For blocks (rows, vectors, depth): the grid of pairs that needs the fewest tiles, and blocks of C in a PMU."""
    bm, bn, bk = (np.atleast_1d(b) for b in block)
    down = np.arange(1, machine.units + 1)[:, None]
    blocks_m, blocks_n = -(-m // bm), -(-machine.groups(n) // bn)
    across = np.minimum(machine.units // down, blocks_n)
    rows = np.minimum(down, blocks_m)
    tiles = -(-blocks_m // rows) * -(-blocks_n // across)
    # of equals the one that loads least: rows of blocks of A and columns of blocks of B
    loads = rows * bm + across * bn * machine.lanes
    best = np.argmin(tiles * (loads.max() + 1) + loads, axis=0)
    picked = np.arange(len(bm))
    sums = np.where(demand(machine, bm, bn, bk, 2) <= machine.vectors, 2, 1)
    return rows[best, picked], across[best, picked], sums


def tiling_of(m: int, n: int, block: tuple[int, int, int], machine: Machine) -> Tiling:
    """The tiling with blocks of these rows, vectors and depth."""
    columns = np.array(block, dtype=np.int64)[:, None]
    down, across, sums = tilings(m, n, (columns[0], columns[1], columns[2]), machine)
    return Tiling(int(down[0]), int(across[0]), *block, int(sums[0]))
