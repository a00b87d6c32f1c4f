"""The energy of candidates for attention, vectorized: what its instructions cost, times how often they come.

Exact without a mask. Under a causal mask it is exact for what is computed, and keys that are kept, or sent to blocks
which end at different keys, are counted as the block that sees most of a wave needs them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archloom.mapper.spatial.attention import Attention
from archloom.mapper.spatial.attention_space import AttentionSpace
from archloom.mapper.spatial.attention_waves import seen_tiles, unmasked_tiles
from archloom.mapper.spatial.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.plan import PATTERNS
from archloom.mapper.spatial.rates import Joules, Rates
from archloom.mapper.spatial.space import Columns


@dataclass(frozen=True, eq=False)
class _Counts:
    """Of the blocks of queries of a problem: how many; tiles of scores; steps, and those times tiles of queries; tiles
    of scores that are masked; tiles of keys that all blocks see, that the longest of each wave sees, and that a core's
    first one does."""

    blocks: np.ndarray
    scores: np.ndarray
    steps: np.ndarray
    row_steps: np.ndarray
    masked: np.ndarray
    seen: np.ndarray
    longest: np.ndarray
    first: np.ndarray


def attention_joules(attention: Attention, machine: Machine, rates: Rates, found: AttentionSpace) -> Joules:
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
        taken = (d + 1) * (rates.added - 2 * tile)
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
    return np.asarray(rates.launched(machine) + total, np.float64)


def _keys(machine: Machine, rates: Rates, c: Columns, n: _Counts) -> np.ndarray:
    """Of bringing a column of keys' tiles to all blocks of a problem."""
    rows, columns, way = c["rq"], c["cq"], c["way"]
    kept, none = c["keep"] == 1, way == 0
    alone = np.where(kept, n.first, n.seen)
    shared = np.where(kept, n.first / np.minimum(rows * columns, n.blocks), n.longest)
    every = {name: way == PATTERNS.index(name) for name in ("row", "column", "down", "across")}
    sends = np.select([every["row"], every["column"]], [rows, columns], 1)
    on_way = np.select(
        list(every.values()),
        [rates.row_byte, rates.column_byte, rates.column_byte + machine.rows * rates.row_byte,
         rates.row_byte + machine.columns * rates.column_byte], rates.way_byte)
    tiles = np.where(none, alone, shared * sends)
    written = np.where(none, alone, shared * rows * columns)
    found: np.ndarray = tiles * TILE_BYTES * (rates.dram_byte + on_way) + written * rates.l1_tile
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
            np.minimum(blocks, places) * keys)
    scores, steps, row_steps, masked, seen, longest, first = (np.zeros(len(bq)) for _ in range(7))
    for size, depth, cores in {(int(q), int(k), int(p)) for q, k, p in zip(bq, bk, places)}:
        these = (bq == size) & (bk == depth) & (places == cores)
        start = np.arange(0, rows, size)
        tall, end = np.minimum(size, rows - start), seen_tiles(attention, np.minimum(start + size, rows) - 1)
        whole = np.minimum(unmasked_tiles(attention, start) // depth * depth, end)
        times = -(-end // depth)
        scores[these], steps[these], row_steps[these] = (tall * end).sum(), times.sum(), (tall * times).sum()
        masked[these], seen[these] = (tall * (end - whole)).sum(), end.sum()
        most = np.maximum.reduceat(end, np.arange(0, len(end), cores))
        longest[these], first[these] = most.sum(), min(cores, len(end)) * most.max()
    return _Counts(blocks, scores, steps, row_steps, masked, seen, longest, first)
