"""The cost of candidates for attention, vectorized over columns of plans.

A step of keys takes as long as the slowest of what works on it at the same time: the matrix unit (scores and weighted
values), the vector unit (softmax), memory, the rings and the ports. Under a causal mask waves of queries have ever more
steps, all of which are counted. Where the blocks of a wave end at different keys, a core works as long as the mean
block takes, as every second wave is dealt out the other way round; keys that are sent to all of them are sent for the
longest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acadl_models.mesh.vector import BINARY, SOFTMAX
from mapper.spatial.attention import Attention
from mapper.spatial.attention_space import AttentionSpace
from mapper.spatial.machine import SIDE, TILE_BYTES, Machine
from mapper.spatial.plan import PATTERNS
from mapper.spatial.space import Columns


@dataclass(frozen=True, eq=False)
class _Work:
    """Of a core, over all waves of queries of a problem: tiles of keys that its blocks see, its steps, tiles of keys in
    masked steps, tiles of keys that are loaded for it; and the tiles of keys of the wave that sees most."""

    seen: np.ndarray
    steps: np.ndarray
    masked: np.ndarray
    loaded: np.ndarray
    first: np.ndarray


def attention_cycles(attention: Attention, machine: Machine, found: AttentionSpace) -> np.ndarray:
    """Estimated cycles of every candidate."""
    c = found.columns
    queries, every, d = attention.tiles
    keys = -(-every // (c["rk"] * c["ck"]))
    bq, bk = c["bq"], np.minimum(c["bk"], keys)
    places, spread = c["rq"] * c["cq"], c["rp"] * c["cp"]
    waves_p, waves_q = -(-attention.problems // spread), -(-queries // (bq * places))
    work = _causal(attention, c, bk, waves_q) if attention.past is not None else _uniform(keys, bk, waves_q)

    unit = machine.vector_cycles
    product = machine.product(bq, bk, np.full_like(bk, d))
    matrix = 2 * (product * (work.seen / bk) + machine.block_cycles * work.steps)
    scores = SOFTMAX["soften"] + BINARY["add"] * attention.bias
    vector = unit * bq * (
        scores * work.seen + SOFTMAX["rescale"] * d * work.steps + SOFTMAX["mask"] * work.masked)
    compute = np.maximum(matrix, vector)

    load = _load(attention, machine, c, bk, waves_p, waves_q)
    first = work.first / work.seen
    kept = c["keep"] == 1
    loads = load * np.where(kept, work.first, work.loaded) / bk  # a last step may have fewer tiles
    added = attention.bias * bq * work.seen * TILE_BYTES
    added = np.maximum(added * machine.cores / machine.dram_bytes, added / machine.core_bytes)
    loads = loads + np.where(kept, added * work.first / work.seen, added)
    compute = np.maximum(compute, added)
    busy = np.where(kept, np.maximum(first * compute, loads) + (1 - first) * compute, np.maximum(compute, loads))
    ends = unit * (SOFTMAX["begin"] + SOFTMAX["finish"]) * bq * d
    ends = ends + product + machine.block_cycles + machine.dram_latency + _merging(machine, c, d)
    queried = -(-bq * d * TILE_BYTES // machine.dram_bytes) * machine.cores
    wave = busy + waves_q * ends + np.maximum(0, 2 * queried * waves_q - compute)
    return machine.launch_cycles + waves_p * wave + 3 * machine.dram_latency + load + 2 * queried + product


def _merging(machine: Machine, c: Columns, d: int) -> np.ndarray:
    """Cycles in which cores put their results of a block together: what they hand over, and what they do with it."""
    rounds = np.ceil(np.log2(c["rk"])) + np.ceil(np.log2(c["ck"]))
    way = c["bq"] * (d + 1) * 2 * TILE_BYTES / machine.sum_bytes
    found: np.ndarray = rounds * (way + machine.vector_cycles * c["bq"] * (2 * d + 2))
    return found


def _load(
    attention: Attention, machine: Machine, c: Columns, bk: np.ndarray, waves_p: np.ndarray, waves_q: np.ndarray
) -> np.ndarray:
    """Cycles in which keys and values of a step reach all cores."""
    d = attention.tiles[2]
    rp, rq, cp, cq, way = (c[name] for name in ("rp", "rq", "cp", "cq", "way"))
    size = 2 * bk * d * TILE_BYTES
    beats = 2 * -(-bk * d * TILE_BYTES // machine.dram_bytes)
    row, column = way == PATTERNS.index("row"), way == PATTERNS.index("column")
    tree = (way == PATTERNS.index("down")) | (way == PATTERNS.index("across"))
    copies = np.where(row, machine.cores // cq, np.where(column, machine.cores // rq, np.where(tree, 1, machine.cores)))
    # in the last waves some cores have no problem, or no block of queries
    copies = copies * (attention.problems / (waves_p * rp * cp))
    blocks = -(-attention.tiles[0] // c["bq"])
    copies = copies * np.where(way == 0, blocks / (waves_q * rq * cq), 1)
    sent = np.where(row, cp, np.where(column, rp, 1)) * size
    transfer = np.where(way == 0, size / machine.core_bytes, sent / machine.ring_bytes)
    if machine.port_bytes:
        transfer = np.maximum(transfer, size * machine.port_cores / machine.port_bytes)
    return np.maximum(beats * copies, transfer)


def _uniform(keys: np.ndarray, bk: np.ndarray, waves: np.ndarray) -> _Work:
    """All blocks see all keys that their cores have."""
    steps = -(-keys // bk)
    return _Work(keys * waves, steps * waves, np.zeros_like(bk), keys * waves, keys)


def _causal(attention: Attention, c: Columns, bk: np.ndarray, waves: np.ndarray) -> _Work:
    """Blocks see keys up to their last query; waves are an axis of their own."""
    bq, places, rows = c["bq"][:, None], (c["rq"] * c["cq"])[:, None], attention.tiles[0]
    number = np.arange(int(waves.max(initial=1)))[None]
    there = number < waves[:, None]
    first = np.minimum(number * bq * places, rows - 1)
    longest = seen_tiles(attention, np.minimum(first + bq * places, rows) - 1)
    shortest = seen_tiles(attention, np.minimum(first + bq, rows) - 1)
    paired = (number ^ 1) < waves[:, None]  # a last wave by itself takes as long as its longest block
    sent = np.where(there, np.where((c["way"] == 0)[:, None], (longest + shortest) / 2, longest), 0)
    shortest = np.where(paired, shortest, longest)
    depth = bk[:, None]
    seen = np.where(there, (longest + shortest) / 2, 0)
    steps = np.where(there, -(-longest // depth) + -(-shortest // depth), 0) / 2
    unmasked = unmasked_tiles(attention, first)
    masked = np.where(there, longest - np.minimum(unmasked // depth * depth, longest), 0)
    most = np.where(there, longest, 0).max(axis=1)
    return _Work(seen.sum(axis=1), steps.sum(axis=1), masked.sum(axis=1), sent.sum(axis=1), most)


def seen_tiles(attention: Attention, last: np.ndarray) -> np.ndarray:
    """Tiles of keys that the last query of a tile of queries sees."""
    query = np.minimum((last // attention.group + 1) * SIDE, attention.queries) - 1
    return -(-np.minimum(attention.keys, query + (attention.past or 0) + 1) // SIDE)


def unmasked_tiles(attention: Attention, first: np.ndarray) -> np.ndarray:
    """Tiles of keys of which the first query of a tile of queries sees all."""
    found: np.ndarray = np.minimum(
        attention.keys, first // attention.group * SIDE + (attention.past or 0) + 1) // SIDE
    return found
