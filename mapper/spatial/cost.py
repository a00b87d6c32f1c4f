"""The cost of candidates, vectorized: section 2.5 of the TL paper over columns of plans.

A wave is a pipeline of load, compute and store: while a step computes, the loads of the next proceed. Steps are of up
to four kinds, by which operands they load (kept ones only in their first wave). A step takes as long as its bottleneck:

    step = max(compute, memory, each row's ring, each column's ring, each core's own way, the port of its L1)
    T    = launch + a load + max(first loads, last stores) + max(sum of steps + stores between waves, all of memory)

A step is no shorter than what its loads take from start to end and the product that frees their place, over the blocks
that a core holds: where memory is far, few blocks are not enough. Who sends has so many transfers under way. Transfers
that share a ring, a way or memory time-share it; others run at the same time. A core with one block of sums
waits for its own store; with two it has another wave to do meanwhile. Cores whose first tiles come
early are done early and store early, so that of the first loads of all cores and their last stores only the longer ones
count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mapper.spatial.machine import TILE_BYTES, Machine
from mapper.spatial.plan import PATTERNS, TileGemm
from mapper.spatial.space import Column, Space

_NONE, _ROW, _COLUMN, _DOWN, _ACROSS, _WAVE = map(PATTERNS.index, ("none", "row", "column", "down", "across", "wave"))


@dataclass(frozen=True, eq=False)
class Waves:
    """Waves over a loop: how many; of a whole block, what the largest block of a mean wave has; of all whole blocks of
    the cores, what they have, and what they have in the first wave."""

    count: Column
    largest: np.ndarray
    filled: np.ndarray
    first: np.ndarray

    @staticmethod
    def of(extent: int, block: Column, cores: Column) -> "Waves":
        count = -(-extent // (block * cores))
        last = np.minimum(extent - (count - 1) * block * cores, block)
        filled = extent / (block * cores)
        return Waves(count, (count - 1 + last / block) / count, filled / count, np.minimum(1, filled))

    def of_loads(self, keep: Column) -> np.ndarray:
        """What the cores have when they load tiles that these waves share: kept ones in the first wave."""
        return np.where(keep == 1, self.first, self.filled)


@dataclass(frozen=True)
class Around:
    """What there is beside a product on the part of a mesh that ``machine`` describes.

    ``problems``: products one after the other, ``filled``: the share of the parts that have one in a mean wave.
    ``crowd``: parts along a column and along a row of the mesh, which share its rings and the memory.
    ``finishing``: cycles of the vector unit for a tile of C, ``added``: tiles that are loaded for one.
    """

    problems: int = 1
    filled: float = 1
    crowd: tuple[int, int] = (1, 1)
    finishing: float = 0
    added: float = 0
    share: np.ndarray | float = 1
    """Of the tiles of A, for each candidate: what has to be loaded, where tiles overlap."""


ALONE = Around()


def cycles(
    gemm: TileGemm, machine: Machine, found: Space, around: Around = ALONE
) -> tuple[np.ndarray, np.ndarray]:
    """Estimated cycles of every candidate, and those for which it keeps the memory busy."""
    c = found.columns
    spread = np.array([(*rows, *columns) for rows, columns, _ in found.spreads], np.int64).reshape(-1, 6)
    s = dict(zip(("rm", "rn", "rk", "cm", "cn", "ck"), spread[c["spread"]].T))
    depth = gemm.k // (s["rk"] * s["ck"])
    bk = np.minimum(c["bk"], depth)
    m = Waves.of(gemm.m, c["bm"], s["rm"] * s["cm"])
    n = Waves.of(gemm.n, c["bn"], s["rn"] * s["cn"])
    steps, block = depth / bk, c["bm"] * c["bn"]
    part = m.largest * n.largest
    overhead = machine.block_cycles * np.ceil(steps) / steps
    compute = machine.product(c["bm"], c["bn"], bk) * part + overhead

    size_a, size_b = c["bm"] * bk * TILE_BYTES, c["bn"] * bk * TILE_BYTES
    beats_a, beats_b = _beats(machine, c["bm"], bk, gemm.k) * around.share, _beats(machine, bk, c["bn"], gemm.n)
    a = _Traffic(machine, around, c["way_a"], beats_a, (size_a, size_a * around.share), s["rn"], s["cn"], m,
                 n.of_loads(c["keep_a"]))
    b = _Traffic(machine, around, c["way_b"], beats_b, (size_b, size_b), s["rm"], s["cm"], n, m.of_loads(c["keep_b"]))
    streams_a, streams_b = c["keep_a"] == 0, c["keep_b"] == 0
    chain = machine.dram_latency + compute
    loads = a.beside(b)
    with_both = np.maximum(loads, np.where(
        streams_a | streams_b, (chain + np.maximum(a.way * streams_a, b.way * streams_b)) / c["slots"], 0))
    alone_a = np.maximum(a.alone(), np.where(streams_a, (chain + a.way) / c["slots"], 0))
    alone_b = np.maximum(b.alone(), np.where(streams_b, (chain + b.way) / c["slots"], 0))
    # kept tiles of A are loaded in the first wave along n alone, those of B in the first along m
    times_a, times_b = np.where(c["keep_a"] == 1, 1, n.count), np.where(c["keep_b"] == 1, 1, m.count)
    waits = times_a * times_b * _above(with_both, compute)
    waits = waits + (m.count - times_b) * times_a * _above(alone_a, compute)
    waits = around.problems * steps * (waits + (n.count - times_a) * times_b * _above(alone_b, compute))
    waits = _above(waits, _above(with_both, compute))  # the first loads are counted by themselves

    parts = around.crowd[0] * around.crowd[1]
    waves, storing = around.problems * m.count * n.count, parts * machine.cores // (s["rk"] * s["ck"])
    own = _beats(machine, c["bm"], c["bn"], gemm.n)
    store = np.maximum(own, block * TILE_BYTES / machine.core_bytes) * part + 2 * machine.dram_latency
    store = store + around.finishing * block * part + np.where(around.added > 0, machine.dram_latency, 0)
    rounds = np.ceil(np.log2(s["ck"])) + np.ceil(np.log2(s["rk"]))
    # with two blocks of sums a store takes place during the next wave, and must be done before the one after it
    late = np.maximum(waves - 2, 0) * _above(store, steps * compute) / 2
    # all cores store at a time, and what they load meanwhile comes after that: it must be there when they have computed
    # what they hold
    loaded = np.where(c["keep_a"] == 1, np.where(c["keep_b"] == 1, 0, b.alone()), a.alone())
    loaded = np.where(c["keep_a"] + c["keep_b"] == 0, loads, loaded)
    burst = storing * own * m.filled * n.filled
    ahead = (c["slots"] - 1) * compute
    behind = _above(waves, np.maximum(1, c["slots"] / steps))
    late = np.maximum(late, behind * (_above(burst + loaded, ahead) - _above(loaded, ahead)))
    adding = waves * rounds * block * part * (2 * TILE_BYTES / machine.sum_bytes)
    between = np.where(c["outputs"] > 1, late, (waves - 1) * store) + adding
    # loads of a wave's first steps come while the sums of the wave before are added up and stored
    waits = waits - np.minimum(between, waits * np.minimum(1, c["slots"] / steps))

    moved = around.problems * steps * (times_b * n.count * b.memory + times_a * m.count * a.memory)
    moved = moved + waves * storing * own * m.filled * n.filled * (1 + around.added)
    moved = moved * around.filled
    alone = (c["way_a"] == _NONE) & (c["way_b"] == _NONE)
    one = np.maximum(size_a * around.share, size_b) / np.where(alone, machine.core_bytes, machine.ring_bytes)
    led = (c["lead"] > 0) & (c["lead"] < bk)
    first = loads * np.where(led, c["lead"] / bk, 1)
    ends = 2 * machine.dram_latency + one + np.maximum(a.hops, b.hops) + np.maximum(first, storing * own)
    ends = ends + around.finishing * block * part
    overheads, rises = _rise(machine, c["lead"], bk, steps, compute - overhead, with_both)
    ends = ends + rises + overheads * np.where(c["keep_a"] == 1, n.count, 1)
    # a strip that is kept lies where the one before lay: its first tiles come when that is used for the last time
    anew = np.where(c["nm"] == 1, c["keep_b"] * (n.count - 1), c["keep_a"] * (m.count - 1)) * around.problems
    inner = np.where(c["nm"] == 1, c["keep_a"], c["keep_b"]) == 1
    again = np.where(inner, np.where(c["nm"] == 1, b.alone(), a.alone()), loads)
    late = _above(2 * machine.dram_latency + again, (np.ceil(steps) - 1) * compute + between / waves)
    late = anew * np.minimum(late, compute)
    busy = np.maximum(waves * steps * compute + waits + between + late, moved - a.memory - b.memory)
    return machine.launch_cycles + ends + busy, moved


def _rise(
    machine: Machine, lead: Column, bk: Column, steps: np.ndarray, product: np.ndarray, load: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """What shallow first steps cost in cycles: overheads of blocks, and waits for deeper loads than what is computed.

    ``product`` and ``load``: cycles of a step of ``bk`` tiles.
    """
    overheads, waits = np.zeros_like(load), np.zeros_like(load)
    depth = lead.copy()
    below = (depth > 0) & (depth < bk) & (depth < bk * steps)
    while below.any():
        done, following = depth / bk, np.minimum(2 * depth, bk) / bk
        overheads += np.where(below, machine.block_cycles * (1 - done), 0)
        waits += np.where(below, _above(following * load, done * product + machine.block_cycles), 0)
        depth = 2 * depth
        below &= (depth < bk) & (depth < bk * steps)
    return overheads, waits


def _above(time: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    return np.maximum(0, time - hidden)


class _Traffic:
    """What the loads of an operand for a step take of memory, of rings and of cores' ways, in cycles."""

    def __init__(
        self, machine: Machine, around: Around, way: Column, beats: np.ndarray, sizes: tuple[np.ndarray, np.ndarray],
        rows: Column, columns: Column, mine: Waves, filled: np.ndarray,
    ) -> None:
        """``sizes``: bytes that a core gets, and those that are loaded. ``rows`` and ``columns``: cores along each
        dimension of the mesh that share the operand's tiles; ``mine``: waves over the loop that indexes it; ``filled``:
        of the cores that share it, those that have work."""
        got, size = (each * mine.largest for each in sizes)
        ring = size / machine.ring_bytes
        tree = (way == _DOWN) | (way == _ACROSS)
        on_row, on_column = way == _ROW, way == _COLUMN
        wave, sharing = way == _WAVE, rows * columns
        copies = np.where(on_row, machine.cores // columns, np.where(on_column, machine.cores // rows, machine.cores))
        copies = np.where(wave, machine.cores // sharing, copies)
        # a core without work in a wave loads nothing; tiles for several cores are sent to all that may share them
        self.memory = beats * np.where(tree, 1, copies) * mine.filled * np.where(way == _NONE, filled, 1)
        high, wide = around.crowd
        self.memory = self.memory * (high * wide)
        hop = size / machine.hop_bytes
        # cores that share a port take what is sent to all of them once
        written = got * np.where(on_column | tree, 1, machine.port_cores)
        self.port = written / machine.port_bytes if machine.port_bytes else np.zeros_like(ring)
        own = np.where(way == _NONE, size / machine.core_bytes, np.where(wave, np.maximum(hop, ring), ring))
        # a transfer, from its first byte on a network until the last is in L1
        self.way = own + self.port
        # who sends waits for memory, with so many transfers under way
        sending = np.maximum(own, (machine.dram_latency + self.way) / machine.in_flight)
        self.row = np.where(on_row, wide * machine.columns // columns * sending, np.where(tree, sending, 0))
        self.column = np.where(on_column, high * machine.rows // rows * sending, np.where(tree, sending, 0))
        self.core = np.where((way == _NONE) | wave, sending, 0)
        self.hops = np.where(wave, (sharing - 1) * (hop + 1), 0)

    def alone(self) -> np.ndarray:
        return np.maximum.reduce([self.memory, self.row, self.column, self.core, self.port])

    def beside(self, other: "_Traffic") -> np.ndarray:
        """Cycles when the loads of another operand come at the same time."""
        return np.maximum.reduce([
            self.memory + other.memory, self.row + other.row, self.column + other.column, self.core + other.core,
            self.port + other.port,
        ])


def _beats(machine: Machine, rows: Column, columns: Column, width: int) -> np.ndarray:
    """Beats of memory for rows x columns tiles of a tensor ``width`` tiles wide."""
    alone = rows * -(-columns * TILE_BYTES // machine.dram_bytes)
    return np.where(columns == width, -(-rows * columns * TILE_BYTES // machine.dram_bytes), alone)

