"""The energy of candidates, vectorized, from the figures that a graph states: what instructions cost, times how often.

Products cost the same in every plan; plans differ in what they load from memory, over how many cores it goes, and how
often it is written to and read from L1. Kept tiles are loaded once, multicast ones once for all that share them. Exact
but for shallow first steps, which take and give back sums a few times more, and for attention under a causal mask whose
blocks end together by twos, fours, ..., as too long a program would have to state each by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from archloom.acadl_models.mesh.vector import BINARY, UNARY
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.attention.waves import seen_tiles, unmasked_tiles
from archloom.mapper.spatial.chain.space import Chain
from archloom.mapper.spatial.epilogue import ACTIVATIONS, NOTHING, Epilogue
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import (
    ACROSS,
    COLUMN,
    DOWN,
    NONE,
    PATTERNS,
    ROW,
    WAVE,
    AttentionPlan,
    ChainPlan,
    SweepPlan,
    TileGemm,
)
from archloom.mapper.spatial.products.parts import Contraction, PartedSpace, part_of
from archloom.mapper.spatial.rates import Joules, Rates
from archloom.mapper.spatial.space import Column, Columns, Space, Table
from archloom.mapper.spatial.sweeps.elementwise import FUNCTIONS, Elementwise
from archloom.mapper.spatial.sweeps.reduction import Columns as ColumnReduction
from archloom.mapper.spatial.sweeps.reduction import OfRows, Rows
from archloom.mapper.spatial.sweeps.sweep import Sweep
from archloom.oracle.errors import MappingError


def joules(gemm: TileGemm, machine: Machine, rates: Rates, found: Space) -> Joules:
    """Estimated joules of every candidate for a single product."""
    return product_joules(gemm, machine, rates, found, NOTHING, 1.0, lambda bk, _, own: -(-own // bk))


def parted_joules(work: Contraction, rates: Rates, found: PartedSpace) -> Joules:
    """Estimated joules of every candidate for products on parts of a mesh."""
    estimated = [np.zeros(0)]
    for parts, candidates in zip(found.parts, found.spaces):
        machine = part_of(found.machine, parts)
        estimated.append(work.problems * product_joules(
            work.gemm, machine, rates, candidates, work.epilogue, _loaded(work, candidates), work.steps))
    return np.asarray(work.blank * rates.stored + np.concatenate(estimated), np.float64)


def _loaded(work: Contraction, candidates: Space) -> np.ndarray:
    """The share of A's tiles that is loaded: windows of the last block, which may be smaller, have less in common."""
    m, bm, depth = work.gemm.m, candidates.column("bm"), candidates.over["depth"]
    whole, last = (work.loaded(tall, candidates.column("bk"), depth) for tall in (bm, (m - 1) % bm + 1))
    rest = m % bm
    return np.asarray(((m - rest) * whole + rest * last) / m)


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
    gemm: TileGemm, machine: Machine, rates: Rates, found: Space, epilogue: Epilogue, share: np.ndarray | float,
    steps: Callable[[Column, Column, Column], Column],
) -> Joules:
    """Of a product on a machine, or a part of one; ``share``: of A's tiles, what is loaded; ``steps`` of so many tiles
    of a core, where cores have so many of the reduction, and it so many."""
    c, s = found.columns, found.over
    m, n = (_Blocks.of(extent, c[block], s[f"r{x}"] * s[f"c{x}"])
            for extent, block, x in ((gemm.m, "bm", "m"), (gemm.n, "bn", "n")))
    a = _moved(machine, rates, c["way_a"], gemm.m * gemm.k, (s["rn"], s["cn"]), n.loads(c["keep_a"]), share)
    b = _moved(machine, rates, c["way_b"], gemm.n * gemm.k, (s["rm"], s["cm"]), m.loads(c["keep_b"]), 1.0)
    reads = (n.count * gemm.m + m.count * gemm.n) * gemm.k
    depth = s["depth"]
    taken = s["full"] * steps(c["bk"], depth, depth) + steps(c["bk"], depth, s["rest"])
    added = gemm.m * gemm.n * 2 * taken  # a product takes and gives back its sums in one access
    others = gemm.m * gemm.n * (s["rows"] * s["columns"] - 1) * rates.added
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
    reached = np.where(every[NONE], all_times, sharing * waves)
    # from core to core tiles are read, sent and written
    hops = np.where(every[WAVE], (sharing - 1) * waves, 0)
    found: np.ndarray = tiles * (
        share * TILE_BYTES * copies * (rates.dram_byte + _on_way(machine, rates, way)) + reached * rates.l1_tile
        + hops * (rates.l1_tile + TILE_BYTES * rates.hop_byte))
    return found


def _on_way(machine: Machine, rates: Rates, way: Column) -> np.ndarray:
    """Joules of a byte on its way to the cores that share it."""
    return np.select(
        [way == ROW, way == COLUMN, way == DOWN, way == ACROSS],
        [rates.row_byte, rates.column_byte, rates.column_byte + machine.rows * rates.row_byte,
         rates.row_byte + machine.columns * rates.column_byte], rates.way_byte)


def chain_joules(chain: Chain, machine: Machine, rates: Rates, found: Table[ChainPlan]) -> Joules:
    """Estimated joules of every candidate."""
    c = found.columns
    m, k, hidden, n = chain.tiles
    tile = rates.l1_tile
    blocks, depth = -(-m // c["bm"]), c["bh"] * c["together"]
    inner, outer = -(-hidden // c["bh"]), -(-n // c["bn"])
    # operands of both products are read, sums taken and given back in one access, and cleared before
    reads = m * (k * inner + hidden * outer) + blocks * (k * hidden + hidden * n)
    sums = 2 * m * (hidden * (-(-k // c["bk"]) + 1) + n * (-(-hidden // depth) + 1))
    middle = rates.one("pack", count=1)
    if chain.activation is not None:
        middle += rates.one(ACTIVATIONS[chain.activation], count=1)
    products = m * hidden * (k + n) * rates.product
    total = products + (reads + sums) * tile + m * hidden * (middle + _handed(rates, c)) + m * n * rates.stored
    rows, columns, kept = c["rm"], c["cm"], c["keep"] == 1  # kept weights come with the first wave
    places = rows * columns
    times = np.where(kept, np.minimum(blocks, places), blocks), np.where(kept, 1, -(-blocks // places))
    total = total + _rows_of_chain(m * k, rates, c, inner) + _moved(
        machine, rates, c["way"], k * hidden + hidden * n, (rows, columns), times, 1.0)
    for wide, end in zip((hidden, n), chain.ends):
        total = total + finishing(m, wide, rates, end, blocks)
    return np.asarray(total, np.float64)


def _handed(rates: Rates, c: Columns) -> np.ndarray:
    """Of a tile that goes to the other members of a team: down its column, from there along its rows."""
    down = np.where(c["rt"] > 1, TILE_BYTES * rates.column_byte + (1 + c["rt"]) * rates.l1_tile, 0)
    along = np.where(c["ct"] > 1, c["rt"] * (TILE_BYTES * rates.row_byte + (1 + c["ct"]) * rates.l1_tile), 0)
    return down + along


def _rows_of_chain(tiles: int, rates: Rates, c: Columns, blocks: np.ndarray) -> np.ndarray:
    """Of the rows of A; members without any of the ``blocks`` of hidden columns need none."""
    members = np.minimum(c["rt"] * c["ct"], blocks)
    alone = members * (TILE_BYTES * (rates.dram_byte + rates.way_byte) + rates.l1_tile)
    rows = np.minimum(c["rt"], -(-members // c["ct"]))
    row = rows * (TILE_BYTES * (rates.dram_byte + rates.row_byte) + c["ct"] * rates.l1_tile)
    column = TILE_BYTES * (rates.dram_byte + rates.column_byte) + c["rt"] * rates.l1_tile
    shared = (c["shared"] == 1) & (c["rt"] * c["ct"] > 1)
    found: np.ndarray = tiles * np.where(shared, np.where(c["ct"] > 1, row, column), alone)
    return found


@dataclass(frozen=True, eq=False)
class _Counts:
    """Of the blocks of queries of a problem: how many; tiles of scores; steps, and those times tiles of queries; tiles
    of scores that are masked; tiles of keys that all blocks see, that the longest of each wave sees, that the longest
    of all does, and that the first blocks of the cores do."""

    blocks: np.ndarray
    scores: np.ndarray
    steps: np.ndarray
    row_steps: np.ndarray
    masked: np.ndarray
    seen: np.ndarray
    longest: np.ndarray
    most: np.ndarray
    first: np.ndarray


def attention_joules(attention: Attention, machine: Machine, rates: Rates, found: Table[AttentionPlan]) -> Joules:
    """Estimated joules of every candidate."""
    c = found.columns
    queries, _, d = attention.tiles
    n = _counts(attention, c)
    tile, problems = rates.l1_tile, attention.problems
    # of a tile of queries: its load, its sums and statistics at the beginning, and what becomes of them
    begin = d * rates.loaded + rates.one("begin", m=1, d=d)
    ends = begin + rates.one("finish", m=1, d=d) + d * rates.stored
    parts = c["rk"] * c["ck"]
    if (parts > 1).any():  # all begin, and the results of all but one go to another
        taken = (d + 1) * (rates.added - rates.vector - 2 * tile)
        merged = rates.one("row_pair", m=1) + taken + rates.one("merge", m=1, d=d, out=d + 1)
        apart = (parts - 1) * (begin + merged)
    else:
        apart = np.zeros(len(parts))
    soften, wide = (rates.one("soften", m=1, n=k, valid=32 * k, factor=2) for k in (1, 2))
    of_score = wide - soften + 2 * d * rates.product + 2 * tile  # scores are written, weights read as operands
    if attention.bias:
        of_score += rates.loaded + rates.one("add_tiles", count=1)
    step = 2 * soften - wide + rates.one("rescale", m=1, d=d) + d * tile + 2 * d * tile  # queries read, sums taken
    total = queries * (ends + apart) + n.scores * (of_score + tile) + n.row_steps * step + n.seen * 2 * d * tile
    if attention.past is not None:
        total = total + n.masked * rates.one("mask", m=1, n=1, group=1)
    total = problems * (total + 2 * d * _keys(machine, rates, c, n))
    return np.asarray(total, np.float64)


def _keys(machine: Machine, rates: Rates, c: Columns, n: _Counts) -> np.ndarray:
    """Of bringing a column of keys' tiles to all blocks of a problem."""
    rows, columns, way = c["rq"], c["cq"], c["way"]
    kept, none = c["keep"] == 1, way == 0
    alone = np.where(kept, n.first, n.seen)
    shared = np.where(kept, n.most, n.longest)
    sends = np.select([way == ROW, way == COLUMN], [rows, columns], 1)
    tiles = np.where(none, alone, shared * sends)
    written = np.where(none, alone, shared * rows * columns)
    found: np.ndarray = tiles * TILE_BYTES * (rates.dram_byte + _on_way(machine, rates, way)) + written * rates.l1_tile
    return found


def _counts(attention: Attention, c: Columns) -> _Counts:
    """Blocks of equal size have equal counts but for those of their waves."""
    rows, keys, _ = attention.tiles
    bq, bk, places = c["bq"], np.minimum(c["bk"], keys), c["rq"] * c["cq"]
    blocks, parts = -(-rows // bq), c["rk"] * c["ck"]
    if attention.past is None:
        share = -(-keys // parts)
        bk = np.minimum(bk, share)
        steps, waves = (parts - 1) * -(-share // bk) + -(-(keys - (parts - 1) * share) // bk), -(-blocks // places)
        return _Counts(
            blocks, np.full_like(bq, rows * keys), blocks * steps, rows * steps, 0 * bq, blocks * keys, waves * keys,
            np.full_like(bq, keys), np.minimum(blocks, places) * keys)
    scores, steps, row_steps, masked, seen, longest, most, first = (np.zeros(len(bq)) for _ in range(8))
    for size, depth, cores in {(int(q), int(k), int(p)) for q, k, p in zip(bq, bk, places)}:
        these = (bq == size) & (bk == depth) & (places == cores)
        start = np.arange(0, rows, size)
        tall, end = np.minimum(size, rows - start), seen_tiles(attention, np.minimum(start + size, rows) - 1)
        whole = np.minimum(unmasked_tiles(attention, start) // depth * depth, end)
        times = -(-end // depth)
        scores[these], steps[these], row_steps[these] = (tall * end).sum(), times.sum(), (tall * times).sum()
        masked[these], seen[these] = (tall * (end - whole)).sum(), end.sum()
        longest[these] = np.maximum.reduceat(end, np.arange(0, len(end), cores)).sum()
        most[these], first[these] = end.max(), _first_ends(end, cores).sum()
    return _Counts(blocks, scores, steps, row_steps, masked, seen, longest, most, first)


def _first_ends(end: np.ndarray, cores: int) -> np.ndarray:
    """Ends of the blocks that cores do first where keys are kept: those of the last wave, and for cores that have
    nothing to do there those of the wave before, of which every second is dealt out the other way round."""
    waves, last = divmod(len(end) - 1, cores)
    last += 1
    before = end[max(0, waves - 1) * cores:waves * cores]
    if waves % 2 == 0:
        before = before[::-1]
    return np.concatenate([before[last:], end[waves * cores:]])


def sweep_joules(work: Sweep, machine: Machine, rates: Rates, found: Table[SweepPlan]) -> Joules:
    """Estimated joules of every candidate."""
    if isinstance(work, Elementwise):
        total = _elementwise(work, rates, found.columns)
    elif isinstance(work, Rows):
        total = _rows(work, machine, rates, found.columns)
    elif isinstance(work, ColumnReduction):
        total = _columns(work, rates, found.columns)
    else:
        raise MappingError(f"{work}: the energy of such a sweep is not known")
    return np.asarray(total, np.float64)


def _elementwise(work: Elementwise, rates: Rates, c: Columns) -> np.ndarray:
    m, n = work.tiles
    of_tile = rates.loaded + rates.one("unpack", count=1) + rates.stored
    of_row = 0.0
    for op in work.worked:
        if op.operand == "tensor":
            of_tile += rates.loaded + rates.one(f"{op.kind}_tiles", count=1)
        elif op.operand == "row":
            one, two = (rates.one(f"{op.kind}_row", m=m, n=1) for m in (1, 2))
            of_tile += two - one
            of_row += rates.one("load_row", cols=1) + 2 * one - two
        else:
            of_tile += rates.one(FUNCTIONS.get(op.kind, op.kind), count=1)
    return np.asarray(m * n * of_tile + -(-m // c["bm"]) * n * of_row)


def _rows(work: Rows, machine: Machine, rates: Rates, c: Columns) -> np.ndarray:
    m, n = work.tiles
    chunks, of_tile, of_chunk, of_row = -(-n // c["bn"]), rates.loaded, 0.0, 0.0
    for step in work.program:
        if isinstance(step, OfRows):
            of_row += rates.one(step.name, m=1)
            continue
        of_tile += rates.stored * step.stored
        for each in step.steps:
            one, two = (rates.one(each.name, m=1, n=k, count=k, valid=SIDE * k) for k in (1, 2))
            of_tile, of_chunk = of_tile + two - one, of_chunk + 2 * one - two
    if work.reduced:
        of_row += rates.one("row_spread", m=1) + rates.stored
    weights = machine.cores * n * len(work.weights) * rates.one("load_row", cols=1)
    return np.asarray(m * (n * of_tile + chunks * of_chunk + of_row) + weights)


def _columns(work: ColumnReduction, rates: Rates, c: Columns) -> np.ndarray:
    m, n = work.tiles
    one, two = (rates.one(work.instruction, m=k, n=1, valid=SIDE * k) for k in (1, 2))
    of_tile, of_block = rates.loaded + two - one, 2 * one - two
    at_end = rates.stored + (work.kind != "sum") * rates.one("linear", count=1)
    others = c["rm"] * c["cm"] - 1
    return np.asarray(m * n * of_tile + -(-m // c["bm"]) * n * of_block + n * (at_end + others * rates.added))
