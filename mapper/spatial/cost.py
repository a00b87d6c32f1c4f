"""The cost of candidates, vectorized: section 2.5 of the TL paper over columns of plans.

A wave is a pipeline of load, compute and store: while a step computes, the loads of the next proceed. Steps are of up
to four kinds, by which operands they load (kept ones only in their first wave). A step takes as long as its bottleneck:

    step = max(compute, memory, each row's ring, each column's ring, each core's own way)
    T    = launch + a load + max(first loads, last stores) + max(sum of steps + stores between waves, all of memory)

Transfers that share a ring, a way or memory time-share it; others run at the same time. A core waits for its own store,
as it has one block of sums. Cores whose first tiles come early are done early and store early, so that of the first
loads of all cores and their last stores only the longer ones count.
"""

from __future__ import annotations

import numpy as np

from mapper.spatial.machine import TILE_BYTES, Machine
from mapper.spatial.plan import PATTERNS, TileGemm
from mapper.spatial.space import Column, Space

_NONE, _ROW, _COLUMN, _DOWN, _ACROSS, _WAVE = map(PATTERNS.index, ("none", "row", "column", "down", "across", "wave"))


def cycles(gemm: TileGemm, machine: Machine, found: Space) -> tuple[np.ndarray, np.ndarray]:
    """Estimated cycles of every candidate, and those for which it keeps the memory busy."""
    c = found.columns
    spread = np.array([(*rows, *columns) for rows, columns, _ in found.spreads], np.int64).reshape(-1, 6)
    s = dict(zip(("rm", "rn", "rk", "cm", "cn", "ck"), spread[c["spread"]].T))
    depth = gemm.k // (s["rk"] * s["ck"])
    bk = np.minimum(c["bk"], depth)
    waves_m, part_m = _waves(gemm.m, c["bm"], s["rm"] * s["cm"])
    waves_n, part_n = _waves(gemm.n, c["bn"], s["rn"] * s["cn"])
    steps = depth / bk
    block = c["bm"] * c["bn"]
    compute = (block * bk * machine.product_cycles + machine.block_cycles * np.ceil(steps) / steps) * part_m * part_n

    beats_a = _beats(machine, c["bm"], bk, gemm.k)
    beats_b = _beats(machine, bk, c["bn"], gemm.n)
    size_a, size_b = c["bm"] * bk * TILE_BYTES, c["bn"] * bk * TILE_BYTES
    load_a = _Traffic(machine, c["way_a"], beats_a, size_a, s["rn"], s["cn"])
    load_b = _Traffic(machine, c["way_b"], beats_b, size_b, s["rm"], s["cm"])
    every_a = np.where(c["keep_a"] == 1, 1, waves_n)
    every_b = np.where(c["keep_b"] == 1, 1, waves_m)
    both = every_a * every_b
    only_a, only_b = (waves_m - every_b) * every_a, (waves_n - every_a) * every_b
    neither = waves_m * waves_n - both - only_a - only_b
    with_both = load_a.beside(load_b)
    time = both * np.maximum(compute, with_both) + neither * compute
    time = time + only_a * np.maximum(compute, load_a.alone()) + only_b * np.maximum(compute, load_b.alone())

    own = _beats(machine, c["bm"], c["bn"], gemm.n)
    storing = machine.cores // (s["rk"] * s["ck"])
    store = np.maximum(own, block * TILE_BYTES / machine.core_bytes) * part_m * part_n + 2 * machine.dram_latency
    rounds = np.ceil(np.log2(s["ck"])) + np.ceil(np.log2(s["rk"]))
    reducing = rounds * block * part_m * part_n * (2 * TILE_BYTES / machine.core_bytes)
    waves = waves_m * waves_n
    moved = steps * (every_b * waves_n * load_b.memory + every_a * waves_m * load_a.memory) * part_m * part_n
    moved = moved + waves * storing * own * part_m * part_n
    alone = (c["way_a"] == _NONE) & (c["way_b"] == _NONE)
    one = np.maximum(size_a, size_b) / np.where(alone, machine.core_bytes, machine.ring_bytes)
    one = one + np.maximum(load_a.hops, load_b.hops)
    ends = 2 * machine.dram_latency + one + np.maximum(with_both, storing * own)
    busy = np.maximum(steps * time + (waves - 1) * store + waves * reducing, moved)
    return machine.launch_cycles + ends + busy, moved


class _Traffic:
    """What the loads of an operand for a step take of memory, of rings and of cores' ways, in cycles."""

    def __init__(
        self, machine: Machine, way: Column, beats: Column, size: Column, rows: Column, columns: Column
    ) -> None:
        """``rows`` and ``columns``: cores along each dimension of the mesh that share the operand's tiles."""
        ring = size / machine.ring_bytes
        tree = (way == _DOWN) | (way == _ACROSS)
        on_row, on_column = way == _ROW, way == _COLUMN
        wave, sharing = way == _WAVE, rows * columns
        copies = np.where(on_row, machine.cores // columns, np.where(on_column, machine.cores // rows, machine.cores))
        copies = np.where(wave, machine.cores // sharing, copies)
        self.memory = beats * np.where(tree, 1, copies)
        self.row = np.where(on_row, machine.columns // columns * ring, np.where(tree, ring, 0))
        self.column = np.where(on_column, machine.rows // rows * ring, np.where(tree, ring, 0))
        self.core = np.where((way == _NONE) | wave, size / machine.core_bytes, 0)
        self.hops = np.where(wave, (sharing - 1) * (ring + 1), 0)

    def alone(self) -> np.ndarray:
        return np.maximum.reduce([self.memory, self.row, self.column, self.core])

    def beside(self, other: "_Traffic") -> np.ndarray:
        """Cycles when the loads of another operand come at the same time."""
        return np.maximum.reduce([
            self.memory + other.memory, self.row + other.row, self.column + other.column, self.core + other.core,
        ])


def _beats(machine: Machine, rows: Column, columns: Column, width: int) -> np.ndarray:
    """Beats of memory for rows x columns tiles of a tensor ``width`` tiles wide."""
    alone = rows * -(-columns * TILE_BYTES // machine.dram_bytes)
    return np.where(columns == width, -(-rows * columns * TILE_BYTES // machine.dram_bytes), alone)


def _waves(extent: int, block: Column, cores: Column) -> tuple[Column, np.ndarray]:
    """Number of waves, and the share of a whole block that the largest block of a mean wave has."""
    waves = -(-extent // (block * cores))
    last = np.minimum(extent - (waves - 1) * block * cores, block)
    return waves, (waves - 1 + last / block) / waves

