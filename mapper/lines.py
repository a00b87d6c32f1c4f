"""Tiles of a product behind a cache: which lines stay, and how many misses that makes.

For cores that take one element at a time: within a tile, each row of A meets all of B's tile, column by column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mapper.reuse import ceil_div
from mapper.space import Columns
from mapper.tiling import Shape, tile_loads
from oracle.errors import TargetError

if TYPE_CHECKING:
    from mapper.hardware import Hardware


@dataclass(frozen=True)
class Cache:
    """A set-associative cache; a miss takes ``miss_cycles`` beside the ``hit_cycles``."""

    sets: int
    ways: int
    line_bytes: int
    hit_cycles: int
    miss_cycles: int

    @staticmethod
    def of(hardware: "Hardware") -> "Cache | None":
        """The first cache of the graph, None where it has none; TargetError for latencies that vary."""
        from acadl_models.acadl import SetAssociativeCache

        for found in hardware.caches:
            if isinstance(found, SetAssociativeCache):
                latencies = found.latencies()
                if not all(latencies[name].is_constant for name in ("hit_latency", "miss_latency")):
                    raise TargetError(f"{hardware.name}: the latencies of cache {found.name!r} are no numbers")
                hit, miss = (latencies[name].evaluate({}) for name in ("hit_latency", "miss_latency"))
                return Cache(found.sets, found.ways, found.cache_line_size, hit, miss)
        return None

    @property
    def lines(self) -> int:
        return self.sets * self.ways

    def staying(self, stride_bytes: int, wide: np.ndarray) -> np.ndarray:
        """Lines that stay of rows ``wide`` lines long that lie ``stride_bytes`` apart.

        Those of the sets on which they fall, less a quarter, since other data fall on them as well.
        """
        shared = math.gcd(stride_bytes // self.line_bytes, self.sets) if stride_bytes % self.line_bytes == 0 else 1
        found: np.ndarray = np.minimum(self.sets, self.sets // shared * np.minimum(wide, shared)) * self.ways * 0.75
        return found


def misses(shape: Shape, c: Columns, cache: Cache, orders: Sequence[tuple[str, ...]], sum_bytes: int = 4) -> np.ndarray:
    """Misses of one product: of an operand's tile whenever another one is asked for.

    A tile that stays in the cache misses once; one of which a column of lines stays, once for each row of A; any other
    for each element. Sums of ``sum_bytes`` wait in memory where k is cut.
    """
    line = cache.line_bytes
    counts = {d: np.asarray(ceil_div(e, c[d])) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))}
    row, wide = ceil_div(c["k"], line) + 1, np.asarray(ceil_div(c["n"], line))
    deep = np.asarray(ceil_div(c["k"], max(1, line // shape.n)))
    sums = np.where(counts["k"] > 1, ceil_div(sum_bytes * c["n"], line) + 1, 0)
    whole = deep * wide + row + sums <= cache.staying(shape.n, wide)
    strip = deep <= cache.staying(shape.n, np.ones_like(wide))
    lines = {
        "mk": c["m"] * row,
        "kn": np.where(whole, deep * wide, c["m"] * np.where(strip, deep * wide, c["n"] * c["k"])),
        "mn": c["m"] * sums,
    }
    # only what stays is still there when the next tile asks for it
    both = lines["mk"] + deep * wide <= cache.lines
    stays = {"mk": both, "kn": whole, "mn": both & (lines["mk"] + deep * wide + lines["mn"] <= cache.staying(
        sum_bytes * shape.n, np.asarray(ceil_div(sum_bytes * c["n"], line))))}
    visits = counts["m"] * counts["n"] * counts["k"]
    by_order = [c["order"] == i for i in range(len(orders))]
    once = {index: np.select(by_order, [tile_loads(o, index, counts) for o in orders]) for index in lines}
    found: np.ndarray = sum(  # type: ignore[assignment]
        lines[index] * np.where(stays[index], once[index], visits) for index in lines)
    return found
