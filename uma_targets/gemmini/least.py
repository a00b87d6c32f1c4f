"""What Gemmini's streams take at least, whatever it is that instructions wait for: proofs by counting.

Instructions come through the fetch stage, so many a cycle, and each of three units processes its own in program order.
From when a unit starts one until it starts the next at least the *interval* of the first passes, and no more than
``in_flight`` are being processed at any time. So from its first start on a unit is at work for no less than

* the intervals of all that it processes but the last, and what the last *takes* from start to end;
* what all of them take, over ``in_flight``.

A load takes the latency and the beats of memory, its own latency, and a cycle for each row on chip (zeros ask no
memory); a store the rows, its own latency, and the latency and the beats of memory; a product the rows that it reads,
its own latency, and the rows that it writes. What lies across the border of two banks takes half of the rows. All beats
pass one port, one after the other.

Parts of a stream follow one another. No product starts before what it needs is loaded, and no load before the intervals
of those before it have passed: that is the ``lead``. The first store waits for all products along the reduction of its
sums; after the last load there are products that need it (``rest``), and after the last of all products its store.
Stores may stand among products or behind them, and sums may have any number of places: nothing here depends on that.

By hand: 2 x 48 by 48 x 96 with dim 4 and 4 bytes a cycle loads 24 blocks of A, 2 rows each, and 288 of B, of 4. These
take 100 + 2 - 1 + 4 + 2 = 107 and 100 + 4 - 1 + 4 + 4 = 111 cycles, and 8 are under way: (24 * 107 + 288 * 111) / 8 =
4317. The first starts in cycle 6, behind 4 configurations, one in the queue. Behind the last come a product, 2 + (2 * 4
+ 3 - 4) + 2 = 11 cycles, and a store, 2 + 8 + 100 + 2 - 1 = 111: 4445. It is simulated in 4475.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from archloom.mapper.hardware import Hardware
from archloom.mapper.reuse import Int, ceil_div
from archloom.mapper.space import HOIST, INTERLEAVE, STREAM, Columns
from archloom.uma_targets.gemmini.emit_gemm import GemmProblem
from archloom.uma_targets.gemmini.loops import loaded, pairs, saved

Edges: TypeAlias = Sequence[tuple[int, int]]
"""Sizes of the blocks along a dimension, each with how many have it."""


@dataclass(frozen=True)
class Work:
    """Some instructions of one unit: how many, their intervals, the cycles that they take, and their beats of memory,
    each added up."""

    count: Int = 0
    busy: Int = 0
    taken: Int = 0
    beats: Int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.count + other.count, self.busy + other.busy, self.taken + other.taken,
                    self.beats + other.beats)

    def __mul__(self, times: Int) -> "Work":
        return Work(times * self.count, times * self.busy, times * self.taken, times * self.beats)


@dataclass(frozen=True)
class Costs:
    """What single instructions take on a machine."""

    hardware: Hardware
    _products: dict[tuple[str, int, bool, tuple[int, int]], Work] = field(default_factory=dict, repr=False)

    @cached_property
    def port(self) -> int:
        """Bytes of a beat."""
        return int(self.hardware.way("mvin").memory.bytes_per_cycle)

    @cached_property
    def waited(self) -> int:
        """Cycles of memory before the first beat of an access."""
        return self.hardware.memory("hbm").read_latency_cycles - 1

    @cached_property
    def row(self) -> int:
        """Cycles for which a row that is loaded keeps the unit at least."""
        return int(self.hardware.interval_columns("mvin", _of_load(1, 1) | {"dram": 0}))

    def cut(self, buffer: str) -> int:
        """In how many banks dim rows lie at most that begin anywhere."""
        memory = self.hardware.memory(buffer)
        return 1 + ceil_div(self.hardware.dim - 1, memory.rows // memory.banks)

    def parts(self, buffer: str) -> int:
        """The same where they begin at a multiple of dim, from either end on."""
        memory = self.hardware.memory(buffer)
        is_whole = memory.rows % self.hardware.dim == 0 and memory.rows // memory.banks % self.hardware.dim == 0
        return 1 if is_whole else self.cut(buffer)

    def beats(self, rows: Int, row_bytes: Int, step: Int, count: Int = 1) -> Int:
        """Of so many rows in all of ``count`` accesses, whose first bytes lie ``step`` apart in each, at least."""
        whole = np.maximum(count, ceil_div((rows - count) * np.minimum(step, row_bytes) + count * row_bytes, self.port))
        return np.where(np.asarray(step) <= row_bytes, whole, rows * ceil_div(row_bytes, self.port))

    def load(self, rows: Int, row_bytes: Int, step: Int, count: Int = 1, parts: Int = 1) -> Work:
        """``count`` loads of so many rows in all, that lie in ``parts`` banks at most."""
        values, beats = _of_load(1, row_bytes), self.beats(rows, row_bytes, step, count)
        taken = count * (self.waited + self.hardware.latency_columns("mvin", values)) + beats + ceil_div(rows, parts)
        return Work(count, rows * self.hardware.interval_columns("mvin", values), taken, beats)

    def zeros(self, rows: Int, count: Int = 1, parts: Int = 1) -> Work:
        """``count`` loads of rows of zeros."""
        values = _of_load(1, 1) | {"dram": 0}
        taken = count * self.hardware.latency_columns("mvin", values) + ceil_div(rows, parts)
        return Work(count, rows * self.hardware.interval_columns("mvin", values), taken, 0 * count)

    def store(self, rows: Int, row_bytes: int, step: Int, count: Int = 1, parts: Int = 1) -> Work:
        """``count`` stores of so many rows in all."""
        columns = row_bytes // 4 if row_bytes > self.hardware.dim else row_bytes  # as words, or as bytes
        values = saved(1, row_bytes, self.hardware.dim) | {"st_stride": 0, "cols": columns}
        beats = self.beats(rows, row_bytes, step, count)
        taken = count * (self.waited + self.hardware.latency_columns("mvout", values)) + beats + ceil_div(rows, parts)
        return Work(count, rows * self.hardware.interval_columns("mvout", values), taken, beats)

    def product(self, flow: str, rows: int, *, preloaded: bool, parts: tuple[int, int] = (1, 1)) -> Work:
        """A preload and a computation, which reads so many rows and writes as many, in ``parts`` banks at most."""
        key = flow, rows, preloaded, parts
        if key not in self._products:
            self._products[key] = self._product(*key)
        return self._products[key]

    def _product(self, flow: str, rows: int, preloaded: bool, parts: tuple[int, int]) -> Work:
        pair = pairs(flow, 1, rows, ((1, rows),), self.hardware.dim)
        preload, compute = pair[0], pair[1 if preloaded or flow == "os" else 2]
        busy = [int(self.hardware.interval_columns(each.mnemonic, each.values)) for each in (preload, compute)]
        latency = int(self.hardware.latency_columns(compute.mnemonic, compute.values))
        return Work(2, sum(busy), ceil_div(rows, parts[0]) + latency + ceil_div(rows, parts[1]), 0)

    def shortest_product(self, flow: str, parts: tuple[int, int]) -> Work:
        """Of one row, or of dim: what lies between takes no less."""
        return shortest(*(self.product(flow, rows, preloaded=first, parts=parts)
                          for rows in (1, self.hardware.dim) for first in (True, False)))


def _of_load(rows: Int, row_bytes: Int) -> dict[str, Any]:
    """A load within one page."""
    return loaded(rows, row_bytes) | {f"ld_stride[{channel}]": 0 for channel in range(3)}


def edges(extent: int, dim: int) -> Edges:
    """Whole blocks, and the one that is left."""
    return [(size, count) for size, count in ((dim, extent // dim), (extent % dim, 1)) if size and count]


def blocks(rows: Edges, columns: Edges, one: Callable[[int, int], Work]) -> Work:
    """All blocks of a matrix, of each of which ``one`` says what it takes."""
    total = Work()
    for size, count in rows:
        for width, times in columns:
            total += one(size, width) * (count * times)
    return total


def shortest(*works: Work) -> Work:
    """Of one of these instructions the least that it takes, and the most of that in which its unit may go on."""
    taken = min(int(np.min(each.taken)) for each in works)
    more = min(int(np.min(each.taken - each.busy)) for each in works)
    return Work(1, taken - more, taken)


@dataclass(frozen=True)
class Bounds:
    """Of a stream all ``loads``, ``stores`` and products (``made``), and the shortest ``load``, ``store`` and
    ``product``; intervals of loads ``before`` the last one that the first product needs (``needed``), of products
    ``until`` that which completes the first sums, and of those between the last load and the last product (``rest``).
    ``configurations`` come first of all. Where not all that is loaded ``is_read``, nothing need wait for a load."""

    costs: Costs
    configurations: int
    loads: Work
    stores: Work
    made: Work
    load: Work
    store: Work
    product: Work
    before: Int
    needed: Work
    until: Int
    rest: Int
    is_read: bool = True

    @property
    def cycles(self) -> np.ndarray:
        """The largest of all bounds, of each candidate."""
        hardware, load, store = self.costs.hardware, self.load, self.store
        latency = hardware.memory("hbm").read_latency_cycles
        loading, storing = hardware.unit("mvin").in_flight, hardware.unit("mvout").in_flight
        first, end = self._start(self.configurations + 1), self.product.taken + store.taken
        lead = first + self.before + self.needed.taken
        arrived = np.maximum(np.maximum(
            self.loads.busy - load.busy + load.taken, ceil_div(self.loads.taken, loading)),
            latency + self.loads.beats - 1)
        stored = np.maximum(self.stores.busy - store.busy + store.taken, ceil_div(self.stores.taken, storing))
        last = self._start(self.configurations + self.loads.count + self.made.count + self.stores.count)
        if not self.is_read:
            return np.maximum.reduce(np.broadcast_arrays(
                first + self.made.busy - self.product.busy + self.product.taken, first + arrived, first + stored,
                first + latency + self.loads.beats + self.stores.beats - 1, last))
        return np.maximum.reduce(np.broadcast_arrays(
            lead + self.made.busy - self.product.busy + end, first + arrived + self.rest + end,
            lead + self.until + self.product.taken + stored,
            first + latency + self.loads.beats + self.stores.beats - 1, last + store.taken))

    def _start(self, number: Int) -> Int:
        """When the instruction of a number can start, counted from 1: it is fetched, and stands a cycle in a queue."""
        return ceil_div(number, max(1, int(self.costs.hardware.fetched_per_cycle))) + 1


# matrix products ------------------------------------------------------------------------------------------------------


def gemm_least(p: GemmProblem, c: Columns, flow: str, hardware: Hardware) -> np.ndarray:
    """Cycles that no product in these tiles takes fewer than; columns are those of :func:`.loops.gemm_loops`."""
    costs, dim = Costs(hardware), hardware.dim
    spad, acc = costs.parts("spad"), costs.parts("acc")
    all_m, all_n, all_k = (edges(extent, dim) for extent in (p.m, p.n, p.k))

    def of_a(rows: int, width: int) -> Work:
        return costs.load(rows, width, p.k, parts=spad)

    def of_b(rows: int, width: int) -> Work:
        return costs.load(rows, width, p.n, parts=spad)

    def of_c(rows: int, width: int) -> Work:
        return costs.store(rows, width * p.out_bytes, p.n * p.out_bytes, parts=acc)

    def of_bias(rows: int, width: int) -> Work:
        return costs.load(rows, 4 * width, 0, parts=acc)

    mt, nt = (np.asarray(ceil_div(extent, c[tile])) for extent, tile in ((p.m, "tm"), (p.n, "tn")))
    loads = (blocks(all_m, all_k, of_a) * np.where(c["level_a"] == STREAM, nt, 1)
             + blocks(all_k, all_n, of_b) * np.where(c["level_b"] == STREAM, mt, 1))
    single = [*(of_a(m, k) for m, _ in all_m for k, _ in all_k), *(of_b(k, n) for k, _ in all_k for n, _ in all_n)]
    if p.bias is not None:
        loads += blocks(all_m, all_n, of_bias)
        single += [of_bias(m, n) for m, _ in all_m for n, _ in all_n]
    made = _fed(p.m, c["tm"], flow, costs) * (ceil_div(p.n, dim) * ceil_div(p.k, dim))
    until, rest = _ends(p, c, flow, costs)
    first = shortest(of_a(min(p.m, dim), min(p.k, dim)), of_b(min(p.k, dim), min(p.n, dim)))
    return Bounds(
        costs, 4 + (p.bias is not None), loads * p.batch, blocks(all_m, all_n, of_c) * p.batch, made * p.batch,
        shortest(*single), shortest(*(of_c(m, n) for m, _ in all_m for n, _ in all_n)),
        costs.shortest_product(flow, (spad, acc)),
        costs.row * _before(p, c, dim), first, until, rest).cycles


def _before(p: GemmProblem, c: Columns, dim: int) -> np.ndarray:
    """Rows that are loaded before the last block that the first product needs: operands that are loaded before all
    tiles, or before those of the outer loop, then bias, then a chunk, A before B."""
    m_outer, a_stays, b_stays = c["m_outer"] == 1, c["level_a"] == HOIST, c["level_b"] == HOIST
    m, n, k = (np.minimum(c[tile], extent) for tile, extent in (("tm", p.m), ("tn", p.n), ("tk", p.k)))
    of_a = np.where(m_outer, m, p.m) * ceil_div(p.k, dim)
    of_b = np.where(m_outer, ceil_div(p.n, dim), ceil_div(n, dim)) * p.k
    bias = m * ceil_div(n, dim) * (p.bias is not None)
    one = np.where(a_stays, of_a, np.where(b_stays, of_b, m * ceil_div(k, dim))) + bias
    return np.where(a_stays & b_stays, np.where(m_outer, of_b, of_a), one)


def _fed(extent: int, tiles: np.ndarray, flow: str, costs: Costs) -> Work:
    """Of the products of one block of B with all rows of A, which come in tiles: each tile begins with the block."""
    sizes, which = np.unique(tiles, return_inverse=True)
    works = [_of_tile(extent % size, flow, costs) + _of_tile(min(size, extent), flow, costs) * (extent // size)
             for size in map(int, sizes)]
    return Work(*(np.array([getattr(work, name) for work in works])[which] for name in ("count", "busy", "taken")))


def _of_tile(rows: int, flow: str, costs: Costs) -> Work:
    """Of a block of B with so many rows of A."""
    total = Work()
    for number, (size, count) in enumerate(edges(rows, costs.hardware.dim)):
        again = count - (number == 0)
        total += costs.product(flow, size, preloaded=False) * again
        if number == 0:
            total += costs.product(flow, size, preloaded=True)
    return total


def _ends(p: GemmProblem, c: Columns, flow: str, costs: Costs) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of the products until the first sums are complete, and of those after the last load, but the last.

    Where weights stay, the reduction is the outermost loop of a tile, in and over its chunks, where sums stay the
    innermost one of a chunk. The last load is one of B, which all rows of the tile need, or one of A, which the blocks
    behind the first one do, where these are loaded for the last chunk.
    """
    dim = costs.hardware.dim
    mb, nb, kb = (ceil_div(np.minimum(c[t], e), dim) for t, e in (("tm", p.m), ("tn", p.n), ("tk", p.k)))
    last_m, last_n, last_k = (ceil_div((e - 1) % c[t] + 1, dim) for t, e in (("tm", p.m), ("tn", p.n), ("tk", p.k)))
    b_last = (c["level_b"] == STREAM) | (
        (c["level_b"] == INTERLEAVE) & (c["m_outer"] == 0) & (ceil_div(p.m, c["tm"]) == 1))
    a_last = (c["level_a"] == STREAM) & ~b_last
    short = costs.product(flow, 1, preloaded=False).busy  # as few as there may be
    whole = costs.product(flow, dim, preloaded=True).busy
    if flow == "os":
        until = (ceil_div(p.k, c["tk"]) - 1) * mb * nb * kb + last_k - 1
        rest = np.where(b_last, last_m - 1, np.where(a_last, (last_n - 1) * last_m, 0)) * last_k
        return np.asarray(until * whole), rest * whole

    def column(count: Int) -> np.ndarray:
        return np.where(np.asarray(count) > 1, (count - 1) * whole + short, whole)

    until = (ceil_div(p.k, dim) - 1) * nb * column(mb)
    return until, np.where(b_last, (last_m - 1) * whole, np.where(a_last, (last_n - 1) * column(last_m), 0))
