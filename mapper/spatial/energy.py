"""The energy of candidates for products, vectorized, from the figures that a graph states.

Products cost the same in every plan; plans differ in what they load from memory, over how many cores it goes, and how
often it is written to and read from L1. Kept tiles are loaded once, multicast ones once for all that share them. Exact
but for shallow first steps, which take and give back sums a few times more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archloom.acadl_models.mesh.vector import BINARY, UNARY
from archloom.mapper.spatial.epilogue import ACTIVATIONS, NOTHING, Epilogue
from archloom.mapper.spatial.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.parts import Contraction, PartedSpace, part_of, split_of
from archloom.mapper.spatial.plan import PATTERNS, TileGemm
from archloom.mapper.spatial.rates import Joules, Rates
from archloom.mapper.spatial.space import Column, Space
from archloom.mapper.spatial.traffic import ACROSS, COLUMN, DOWN, NONE, ROW, WAVE


def joules(gemm: TileGemm, machine: Machine, rates: Rates, found: Space) -> Joules:
    """Estimated joules of every candidate for a single product."""
    return rates.launched(machine) + product_joules(gemm, machine, rates, found, NOTHING, 1.0)


def parted_joules(work: Contraction, rates: Rates, found: PartedSpace) -> Joules:
    """Estimated joules of every candidate for products on parts of a mesh."""
    estimated = [np.zeros(0)]
    for parts, candidates in zip(found.parts, found.spaces):
        c, machine = candidates.columns, part_of(found.machine, parts)
        share = work.loaded(c["bm"], c["bk"], split_of(candidates))
        estimated.append(work.problems * product_joules(work.gemm, machine, rates, candidates, work.epilogue, share))
    return rates.launched(found.machine) + work.blank * rates.stored + np.concatenate(estimated)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Of a loop's tiles: how many blocks, over how many cores, and waves of them."""

    count: np.ndarray
    cores: np.ndarray
    waves: np.ndarray

    @staticmethod
    def of(extent: int, block: Column, cores: Column) -> "_Blocks":
        return _Blocks(-(-extent // block), cores, -(-extent // (block * cores)))

    def loads(self, keep: Column) -> tuple[np.ndarray, np.ndarray]:
        """How often cores that share tiles load them in all, and in how many waves; kept ones in the first."""
        kept = keep == 1
        return np.where(kept, np.minimum(self.count, self.cores), self.count), np.where(kept, 1, self.waves)


def product_joules(
    gemm: TileGemm, machine: Machine, rates: Rates, found: Space, epilogue: Epilogue, share: np.ndarray | float
) -> Joules:
    """Of a product on a machine, or a part of one, without the launch; ``share``: of A's tiles, what is loaded."""
    c = found.columns
    spread = np.array([(*rows, *columns) for rows, columns, _ in found.spreads], np.int64).reshape(-1, 6)
    s = dict(zip(("rm", "rn", "rk", "cm", "cn", "ck"), spread[c["spread"]].T))
    sums = s["rk"] * s["ck"]
    m, n = (_Blocks.of(extent, c[block], s[f"r{x}"] * s[f"c{x}"])
            for extent, block, x in ((gemm.m, "bm", "m"), (gemm.n, "bn", "n")))
    a = _moved(machine, rates, c["way_a"], gemm.m * gemm.k, (s["rn"], s["cn"]), n.loads(c["keep_a"]), share)
    b = _moved(machine, rates, c["way_b"], gemm.n * gemm.k, (s["rm"], s["cm"]), m.loads(c["keep_b"]), 1.0)
    reads = (n.count * gemm.m + m.count * gemm.n) * gemm.k
    steps = np.ceil(gemm.k / (sums * c["bk"])) * sums
    added = gemm.m * gemm.n * 2 * steps  # a product takes and gives back its sums in one access
    others = gemm.m * gemm.n * (sums - 1) * rates.added
    total: Joules = (
        gemm.m * gemm.n * gemm.k * rates.product + gemm.m * gemm.n * rates.stored + a + b + others
        + (reads + added) * rates.l1_tile + finishing(gemm.m, gemm.n, rates, epilogue, m.count))
    return total


def finishing(m: int, n: int, rates: Rates, epilogue: Epilogue, blocks: np.ndarray) -> "np.ndarray | float":
    """Of an epilogue of ``m x n`` sums, with so many blocks along m."""
    tiles, total = m * n, np.zeros(len(blocks))
    added = tiles * (2 * rates.l1_tile + BINARY["add"] * rates.vector)
    if epilogue.bias:
        rows = n * blocks
        total = total + added + rows * (2 * rates.l1_tile + 2 * SIDE * (rates.dram_byte + rates.way_byte))
    if epilogue.residual:
        total = total + added + tiles * (rates.loaded + rates.l1_tile)
    if epilogue.activation and not epilogue.relu:
        total = total + tiles * (4 * rates.l1_tile + UNARY[ACTIVATIONS[epilogue.activation]] * rates.vector)
    return total


def _moved(
    machine: Machine, rates: Rates, way: Column, tiles: int, shared: tuple[Column, Column],
    times: tuple[np.ndarray, np.ndarray], share: np.ndarray | float,
) -> np.ndarray:
    """Joules of bringing ``tiles`` to the cores that share them: so many along each column, and along rows of the mesh;
    ``times``: how often all of them load in all, and in how many waves."""
    (rows, columns), (all_times, waves) = shared, times
    sharing, every = rows * columns, [way == i for i in range(len(PATTERNS))]
    copies = np.select([every[NONE], every[ROW], every[COLUMN]], [all_times, rows * waves, columns * waves], waves)
    on_way = np.select(
        [every[ROW], every[COLUMN], every[DOWN], every[ACROSS]],
        [rates.row_byte, rates.column_byte, rates.column_byte + machine.rows * rates.row_byte,
         rates.row_byte + machine.columns * rates.column_byte], rates.way_byte)
    reached = np.where(every[NONE], all_times, sharing * waves)
    # from core to core tiles are read, sent and written
    hops = np.where(every[WAVE], (sharing - 1) * waves, 0)
    found: np.ndarray = tiles * (
        share * TILE_BYTES * copies * (rates.dram_byte + on_way) + reached * rates.l1_tile
        + hops * (rates.l1_tile + TILE_BYTES * rates.hop_byte))
    return found
