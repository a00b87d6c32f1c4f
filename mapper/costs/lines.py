"""Tiles of a product behind a cache: which lines stay, and how many misses that makes.

For cores that take one element at a time: within a tile, each row of A meets all of B's tile, column by column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from archloom.acadl_models.acadl import SetAssociativeCache
from archloom.mapper.hardware import Hardware
from archloom.mapper.reuse import ceil_div
from archloom.mapper.space import Columns
from archloom.mapper.tiling import Shape
from archloom.oracle.errors import TargetError


@dataclass(frozen=True)
class Cache:
    """A set-associative cache; a miss takes ``miss_cycles`` beside the ``hit_cycles``, ``misses`` of them at a time."""

    sets: int
    ways: int
    line_bytes: int
    hit_cycles: int
    miss_cycles: int
    misses: int = 1

    @staticmethod
    def of(hardware: Hardware) -> "tuple[Cache, ...]":
        """The caches of the graph, from the units on; TargetError for latencies that vary."""
        found = []
        for cache in hardware.caches:
            if isinstance(cache, SetAssociativeCache):
                latencies = cache.latencies()
                if not all(latencies[name].is_constant for name in ("hit_latency", "miss_latency")):
                    raise TargetError(f"{hardware.name}: the latencies of cache {cache.name!r} are no numbers")
                hit, miss = (latencies[name].evaluate({}) for name in ("hit_latency", "miss_latency"))
                found.append(Cache(
                    cache.sets, cache.ways, cache.cache_line_size, hit, miss, cache.miss_registers or 1))
        return tuple(found)

    @property
    def lines(self) -> int:
        return self.sets * self.ways

    def staying(self, rows: np.ndarray, wide: np.ndarray, stride_bytes: int, others: np.ndarray) -> np.ndarray:
        """Share that stays of the lines of ``rows``, each ``wide`` lines long, that lie ``stride_bytes`` apart, while
        so many ``others`` come in between, which fall on any set. A line goes where its set has more than its ways."""
        pairs = np.stack(np.broadcast_arrays(rows, np.ceil(wide))).astype(np.int64).reshape(2, -1)
        distinct, where = np.unique(pairs, axis=1, return_inverse=True)
        lines = np.array([_in_sets(int(r), int(w), stride_bytes, self) for r, w in distinct.T])[where.reshape(-1)]
        often = others / self.sets
        found: np.ndarray = sum(  # type: ignore[assignment]
            lines[:, i] * _at_most(self.ways - i - 1, often) for i in range(self.ways))
        return found


@lru_cache(maxsize=1 << 14)
def _in_sets(rows: int, wide: int, stride_bytes: int, cache: Cache) -> tuple[float, ...]:
    """Shares of such lines that lie in a set with one of them, with two ... up to the ways of a set."""
    sets = cache.sets
    starts = np.arange(min(rows, sets * cache.line_bytes * 4)) * stride_bytes // cache.line_bytes
    ends = starts + wide
    starts[1:] = np.maximum(starts[1:], ends[:-1])  # of lines that a row shares with the one before only once
    rounds, rest = np.divmod(ends - starts, sets)
    first = starts % sets
    change = np.bincount(first, minlength=2 * sets) - np.bincount(first + rest, minlength=2 * sets)
    there = rounds.sum() + np.cumsum(change).reshape(2, sets).sum(axis=0)
    return tuple(float(there[there == count].sum()) / there.sum() for count in range(1, cache.ways + 1))


def _at_most(count: int, often: np.ndarray) -> np.ndarray:
    """The probability that of what happens ``often`` in the mean no more than ``count`` happen."""
    total = term = np.exp(-often)
    for i in range(count):
        term = term * often / (i + 1)
        total = total + term
    return total


@dataclass(frozen=True)
class _Operand:
    """An operand over the dimensions ``index`` in rows of ``row_bytes``, of elements of ``item`` bytes.

    ``share``: of how many of the passes over k it is asked for.
    """

    index: str
    item: int
    row_bytes: int
    share: Any = 1

    def rows(self, cache: Cache, extent: Mapping[str, Any]) -> tuple[Any, Any]:
        """How many rows so many elements take, and how many lines one of them, wherever it begins."""
        rows = extent[self.index[0]] if len(self.index) > 1 else np.ones_like(extent[self.index])
        return rows, (extent[self.index[-1]] * self.item - 1) / cache.line_bytes + 1

    def lines(self, cache: Cache, extent: Mapping[str, Any]) -> Any:
        """Lines that so many elements lie in."""
        rows, wide = self.rows(cache, extent)
        return np.minimum(rows * wide, (rows - 1) * self.row_bytes / cache.line_bytes + wide)


def misses(shape: Shape, c: Columns, cache: Cache, orders: Sequence[tuple[str, ...]], sum_bytes: int = 4) -> np.ndarray:
    """Misses of one product of tiles: what a loop asks for again is still there if all that one of its iterations asks
    for stays, and else missed in every iteration.

    Sums of ``sum_bytes`` wait in memory where k is cut; results are stored behind the last tile of k, and biases are
    read before the first.
    """
    extents = {"m": shape.m, "n": shape.n, "k": shape.k}
    counts = {d: np.asarray(ceil_div(e, c[d])) for d, e in extents.items()}
    cut, once = counts["k"] > 1, 1 / counts["k"]
    operands = (
        _Operand("mk", shape.item, shape.k * shape.item), _Operand("kn", shape.item, shape.n * shape.item),
        _Operand("mn", sum_bytes, shape.n * sum_bytes, np.where(cut, 1, 0)),
        _Operand("mn", shape.out_item, shape.n * shape.out_item, once), *(
            [_Operand("n", sum_bytes, 0, once)] if shape.bias else []),
    )
    by_order = [c["order"] == i for i in range(len(orders))]
    extent: dict[str, Any] = {d: np.ones_like(c[d]) for d in "mnk"}
    missed: list[Any] = [operand.lines(cache, extent) for operand in operands]
    for depth in range(6):  # the reduction, columns and rows of a tile, then tiles from the innermost loop on
        lines = [np.where(np.asarray(o.share) > 0, o.lines(cache, extent), 0) for o in operands]
        stays = [cache.staying(*o.rows(cache, extent), o.row_bytes, sum(lines) - part)
                 for o, part in zip(operands, lines)]
        if depth < 3:
            d = "knm"[depth]
            trips, extent = c[d], {**extent, d: c[d]}
        else:
            here = [order[5 - depth] for order in orders]
            trips = np.select(by_order, [counts[d] for d in here])
            extent = {d: np.select(by_order, [extents[d] if d == now else extent[d] for now in here]) for d in "mnk"}
        missed = [stay * np.minimum(o.lines(cache, extent), trips * before) + (1 - stay) * trips * before
                  for o, stay, before in zip(operands, stays, missed)]
    found: np.ndarray = sum(o.share * count for o, count in zip(operands, missed))  # type: ignore[assignment]
    return found
