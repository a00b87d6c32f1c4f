"""How a GEMM is tiled over Plasticine's pairs of compute and memory units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import MappingError

WORD_BYTES = 4
"""Single precision."""


@dataclass(frozen=True)
class Machine:
    """Pairs of units, lanes of a vector, vectors of a PMU, bytes from DRAM a cycle."""

    units: int
    lanes: int
    vectors: int
    dram_bytes: int = 51

    @staticmethod
    def of(parameters: Mapping[str, int]) -> "Machine":
        """From the parameters of the ISA."""
        return Machine(parameters["units"], parameters["lanes"], parameters["vectors"])

    def groups(self, columns: int) -> int:
        """Vectors that hold ``columns`` words."""
        return -(-columns // self.lanes)


@dataclass(frozen=True)
class Tiling:
    """``down * across`` pairs compute a tile: each ``m`` rows and ``n`` vectors of C, over ``k`` of the inner dimension
    at a time. ``sums``: tiles of C in each PMU.
    """

    down: int
    across: int
    m: int
    n: int
    k: int
    sums: int = 1

    def vectors(self, machine: Machine) -> int:
        """Vectors that it needs in a PMU: two tiles of A and of B, so that one arrives while the other is used."""
        return 2 * self.m * machine.groups(self.k) + 2 * self.k * self.n + self.sums * self.m * self.n

    def __str__(self) -> str:
        return f"{self.down}x{self.across} units, each {self.m} rows x {self.n} vectors, {self.k} deep"


def check(tiling: Tiling, machine: Machine) -> None:
    """MappingError naming every bound that the tiling breaks."""
    demands = (
        ("units", tiling.down * tiling.across, machine.units, "rows or cols"),
        ("vectors of a PMU", tiling.vectors(machine), machine.vectors, "pmu_kib"),
    )
    broken = [
        f"{demand} {what}, of which there are {bound}: {demand - bound} too many (a larger {option} would help)"
        for what, demand, bound, option in demands if demand > bound
    ]
    if broken:
        raise MappingError(f"tiling of {tiling} needs " + "; ".join(broken))


def plan(m: int, n: int, k: int, machine: Machine) -> Tiling:
    """The tiling with the fewest expected cycles for ``A[m, k] . B[k, n]``. MappingError if none fits."""
    groups = machine.groups(n)
    grids = [(d, machine.units // d) for d in range(1, machine.units + 1)]
    rows = [
        (min(d, m), min(a, groups), bm, bn, bk, sums)
        for d, a in grids
        for bm in _sizes(-(-m // min(d, m)), 256)
        for bn in _sizes(-(-groups // min(a, groups)), 64)
        for bk in _depths(k, machine.lanes)
        for sums in (2, 1)
    ]
    table = np.array(sorted(set(rows)), dtype=np.int64)
    bk_groups = -(-table[:, 4] // machine.lanes)
    need = 2 * table[:, 2] * bk_groups + 2 * table[:, 4] * table[:, 3] + table[:, 5] * table[:, 2] * table[:, 3]
    table = table[need <= machine.vectors]
    if not len(table):
        check(Tiling(1, 1, 1, 1, min(k, machine.lanes)), machine)
        raise MappingError(f"no tiling of a {m} x {n} x {k} GEMM fits {machine}")
    cycles = expected_cycles(table, m, n, k, machine)
    best = np.lexsort((-table[:, 5], table[:, 2], cycles))[0]
    return Tiling(*(int(v) for v in table[best]))


def _sizes(extent: int, bound: int) -> set[int]:
    """Sizes that cut ``extent`` evenly, up to ``bound``, and powers of two."""
    powers = {1 << i for i in range(bound.bit_length()) if 1 << i <= extent}
    fewest = -(-extent // bound)
    return powers | {-(-extent // parts) for parts in range(fewest, fewest + 6) if parts <= extent}


def _depths(k: int, lanes: int) -> set[int]:
    """Depths of whole vectors; less only where ``k`` is less."""
    if k < lanes:
        return {k}
    whole = k - k % lanes
    return {lanes << i for i in range(8) if lanes << i <= k} | ({whole} if whole <= 128 else set())


def expected_cycles(table: NDArray[np.int64], m: int, n: int, k: int, machine: Machine) -> NDArray[np.float64]:
    """Compute and DRAM overlap, except for the first tiles and, with one tile of sums, the stores."""
    down, across, bm, bn, bk, sums = table.T
    groups = machine.groups(n)
    tiles_m, tiles_n, steps = np.ceil(m / (down * bm)), np.ceil(groups / (across * bn)), np.ceil(k / bk)
    # a pattern also moves a vector of scalars and its results over the port of the PMU
    compute = bm * (bn * bk + np.ceil(bk / machine.lanes) + 2.0 * bn + 2)
    row = np.ceil(bk * WORD_BYTES / machine.dram_bytes)
    wide = np.ceil(bn * machine.lanes * WORD_BYTES / machine.dram_bytes)
    load = down * bm * row + across * bk * wide
    store = down * across * bm * wide
    step = np.maximum(compute, load)
    hidden = np.where(sums == 2, np.maximum(0, store - steps * step), store)
    return tiles_m * tiles_n * (steps * step + load + hidden) + np.where(sums == 2, store, 0)
