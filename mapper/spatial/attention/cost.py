"""The cost of candidates for attention, vectorized over columns of plans.

A step of keys takes as long as the slowest of what works on it at the same time: the matrix unit (scores and weighted
values), the vector unit (softmax), memory, the rings and the ports. Under a causal mask, where the blocks of a wave end
at different keys, cores are followed through their waves: they need one another only where keys are sent to several of
them, and the next wave begins when a core's own block is done. The cores at the corners of those that share a problem
are followed through the steps of all waves: scores, weights and weighted values in the order of the program, each
waiting for what it needs and for the place that it fills.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archloom.acadl_models.mesh.vector import BINARY, SOFTMAX
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.attention.waves import Waves
from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.plan import ACROSS, COLUMN, DOWN, NONE, ROW, AttentionPlan
from archloom.mapper.spatial.space import Columns, Table


@dataclass(frozen=True, eq=False)
class _Work:
    """Of a core, over all waves of queries of a problem: its blocks, tiles of keys that they see, and its steps."""

    blocks: np.ndarray
    seen: np.ndarray
    steps: np.ndarray


def attention_cycles(attention: Attention, machine: Machine, found: Table[AttentionPlan]) -> np.ndarray:
    """Estimated cycles of every candidate."""
    c = found.columns
    queries, every, d = attention.tiles
    keys = -(-every // (c["rk"] * c["ck"]))
    bq, bk = c["bq"], np.minimum(c["bk"], keys)
    places, spread = c["rq"] * c["cq"], c["rp"] * c["cp"]
    waves_p, waves_q = -(-attention.problems // spread), -(-queries // (bq * places))
    load, way, first = _load(attention, machine, c, bk, waves_p)
    # queries come to all cores of a block, results leave one of them
    rows = queries / places
    queried = d * -(-TILE_BYTES // machine.dram_bytes) * machine.cores * attention.problems / (waves_p * spread)
    if attention.past is not None:
        return machine.launch_cycles + Waves(attention, machine, c, bk, (load, way, first), queried).cycles()

    # in the last wave some cores that load by themselves have no block of queries
    load = load * np.where(c["way"] == NONE, -(-queries // bq) / (waves_q * places), 1)
    # all blocks see all keys that their cores have
    work = _Work(waves_q, keys * waves_q, -(-keys // bk) * waves_q)
    last = np.minimum(bq, queries - (waves_q - 1) * bq * places)
    tall = bq - (bq - last) / waves_q  # of a mean block of the core that has most
    core = _Core.of(attention, machine, c, (bk, last, tall), work)
    loaded = np.where(c["keep"] == 1, keys, work.seen) / bk  # a last step may have fewer tiles
    moved = queried * rows * (1 + 1 / (c["rk"] * c["ck"]))
    added = attention.bias * tall * work.seen * TILE_BYTES
    came = np.maximum(load, way) * loaded
    loads = np.maximum(load * loaded + added * machine.cores / machine.dram_bytes + moved,
                       way * loaded + added / machine.core_bytes)
    core_busy = core.busy
    if machine.port_bytes:  # values take the place of those of two steps before, behind them come keys; both pass ports
        turn = _turn(machine, c, bk * d * TILE_BYTES) * work.seen / bk + machine.dram_latency * work.steps
        core_busy = np.where(c["keep"] == 1, core.busy, np.maximum(core.busy, turn / 2 + core.score * work.steps))
    # kept keys are loaded by the first wave of a problem, while the others need none
    first = np.where(c["keep"] == 1, 1 / waves_q, 1)
    busy = np.maximum(first * core_busy, came) + (1 - first) * core_busy
    once = queried * np.minimum(bq, rows)
    begin, end = np.maximum(load, way) / 2 + once, core.score + once / (c["rk"] * c["ck"])
    end = end + _merging(machine, c, d)[0]
    worked = np.maximum(waves_p * busy + np.where(came > first * core_busy, 0, begin), waves_p * loads)
    return np.asarray(machine.launch_cycles + 3 * machine.dram_latency + worked + end, np.float64)


@dataclass(frozen=True, eq=False)
class _Core:
    """Cycles in which a core works on a problem, and those of its first scores.

    In a step scores of the next keys, and weighted values, follow each other in the matrix unit, weights and the
    rescaling of what is there in the vector unit; values are rescaled after those of the step before were added. From a
    block of queries to the next the units wait for each other: after the last values come the first two steps' scores,
    beside the ends of both blocks and the first weights.
    """

    busy: np.ndarray
    score: np.ndarray

    @staticmethod
    def of(
        attention: Attention, machine: Machine, c: Columns, block: tuple[np.ndarray, np.ndarray, np.ndarray],
        work: _Work,
    ) -> "_Core":
        """``block``: tiles of keys, and of queries in the last block and in a mean one."""
        (bk, last, tall), d, unit = block, attention.tiles[2], machine.vector_cycles
        width = np.full_like(bk, d)
        product = machine.product(c["bq"], bk, width)
        product = product - (product - machine.product(last, bk, width)) / work.blocks
        product = product * (work.seen / bk) + machine.block_cycles * work.steps
        soften = unit * tall * (SOFTMAX["soften"] + BINARY["add"] * attention.bias) * work.seen
        rescale = unit * tall * SOFTMAX["rescale"] * d * work.steps
        ends = unit * tall * (SOFTMAX["begin"] + SOFTMAX["finish"]) * d + _merging(machine, c, d)[1]
        one, weights = product / work.steps, (soften + rescale) / work.steps
        scores = one * np.minimum(2, work.steps / work.blocks)
        gap = work.blocks * np.maximum(scores, np.maximum(one, ends) + weights)
        matrix = 2 * product + gap - work.blocks * scores
        steady = (1 - work.blocks / work.steps) * (np.maximum(product, soften) + rescale)
        merged = work.blocks * sum(_merging(machine, c, d))  # one after the other, by the core that has the result
        return _Core(np.maximum.reduce([matrix, steady + work.blocks * one + gap, merged]), one)


def _merging(machine: Machine, c: Columns, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Cycles in which cores put their results of a block together: for what they hand over, which the adder takes
    beside the next block, and for what the vector unit does with it."""
    down, along = np.ceil(np.log2(c["rk"])), np.ceil(np.log2(c["ck"]))
    way = c["bq"] * (d + 1) * 2 * TILE_BYTES * (down / machine.column_sum_bytes + along / machine.sum_bytes)
    return way, (down + along) * machine.vector_cycles * c["bq"] * (2 * d + 2)


def _load(
    attention: Attention, machine: Machine, c: Columns, bk: np.ndarray, waves_p: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cycles in which keys and values of a step are read for all cores, in which their ways are busy, and in which they
    are sent if nothing was under way."""
    d = attention.tiles[2]
    rp, rq, cp, cq, way = (c[name] for name in ("rp", "rq", "cp", "cq", "way"))
    size = 2 * bk * d * TILE_BYTES
    beats = 2 * -(-bk * d * TILE_BYTES // machine.dram_bytes)
    row, column = way == ROW, way == COLUMN
    tree = (way == DOWN) | (way == ACROSS)
    copies = np.where(row, machine.cores // cq, np.where(column, machine.cores // rq, np.where(tree, 1, machine.cores)))
    # in the last wave some cores have no problem
    copies = copies * (attention.problems / (waves_p * rp * cp))
    # keys and values by themselves; who sends waits for memory, with so many transfers under way
    one = size / 2 / np.where(way == 0, machine.core_bytes, machine.ring_bytes)
    alone = one + np.where(tree, size / 2 / machine.tree_bytes, 0) if machine.tree_bytes else one
    # what the cores of a column share passes their port once
    passed = size / machine.port_bytes if machine.port_bytes else 0 * size
    one = np.maximum(one, (machine.dram_latency + one + passed / 2) / machine.in_flight)
    # on a ring those of all problems that there are, dealt out along the rows first
    along, down = np.minimum(cp, attention.problems), np.minimum(rp, -(-attention.problems // cp))
    sends = np.where(row, along * c["ck"], np.where(column, down * c["rk"], 1))
    port = passed * np.where(column | tree, 1, machine.port_cores)
    return beats * copies, np.maximum(2 * sends * one, port), np.maximum(2 * sends * alone, port)


def _turn(machine: Machine, c: Columns, size: np.ndarray) -> np.ndarray:
    """Cycles in which values of ``size`` bytes and as many keys behind them come, if only those of one core's row are
    under way: both wait for what is slower, their ring or the port that cores of a row pass in step."""
    way = c["way"]
    ring = size / np.where(way == NONE, machine.core_bytes, machine.ring_bytes)
    port = size / machine.port_bytes * np.where(way == ROW, machine.port_cores, 1)
    return ring + port + np.maximum(ring, port)
