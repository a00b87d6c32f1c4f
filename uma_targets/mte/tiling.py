"""Blocks of C that fit into registers, for products and for convolutions that read images in place, and what the
instructions of each cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from archloom.acadl_models.mte import PORT_BYTES
from archloom.mapper.costs.lines import Cache
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div
from archloom.uma_targets.mte.emit import BITS, TYPES, Machine, refuse_without_tiles
from archloom.uma_targets.mte.places import Level, Rows

DEPTHS = (256, 1024)
"""Blocks of K to choose from, beside all of it: a free choice."""

HELD = (1, 2, 4, 8)
"""Tiles of B that are loaded one after the other, to choose from: a free choice."""


@dataclass(frozen=True)
class Walk:
    """How rows of A and C lie, and of how many products (``taps``) C is the sum. Of rows of A, ``pixels`` are
    different ones."""

    rows: Rows
    taps: int
    pixels: int

    @staticmethod
    def of_matrix(m: int) -> "Walk":
        return Walk(Rows((Level(m, 0, 0),)), 1, m)

    @property
    def count(self) -> int:
        """Rows of C."""
        return math.prod(level.extent for level in self.rows.levels)

    def tiles(self, size: int) -> int:
        """Of ``size`` rows, all of C along M."""
        row = self.rows.row.extent
        return int(ceil_div(row, size)) * (self.count // row)

    @property
    def is_matrix(self) -> bool:
        """Whether only the last block, and its last tile, are smaller than others."""
        return len(self.rows.levels) == 1

    def height(self, size: int) -> int:
        """Rows of such a tile, of images in the mean."""
        return size if self.is_matrix else int(ceil_div(self.count, self.tiles(size)))

    def blocks(self, size: int, tall: Any) -> tuple[Any, Any]:
        """Of so many tiles of ``size`` rows for a column of candidates, and how many there are in one of images in the
        mean."""
        if self.is_matrix:
            return ceil_div(self.tiles(size), tall), tall
        found = {int(t): sum(strip.blocks for strip in self.rows.strips(size, int(t))) for t in np.unique(tall)}
        blocks = np.vectorize(found.__getitem__, otypes=[np.int64])(tall)
        return blocks, self.tiles(size) / blocks


def tiling(shape: kit.Shape, hardware: kit.Hardware, machine: Machine, walk: Walk) -> Tiling:
    """Blocks of C that fit into registers beside tiles of A and B; all of K at once or in blocks."""
    types = TYPES[shape.item]
    refuse_without_tiles(machine, types)
    columns = machine.columns(types)

    def multiples(tiles: int, tile: int) -> list[int]:
        return [tile * count for count in range(1, min(machine.registers, tiles) + 1)]

    return Tiling(
        {"m": multiples(walk.tiles(machine.rows), machine.rows), "n": multiples(-(-shape.n // columns), columns),
         "k": [shape.k, *(k for k in DEPTHS if k < shape.k)]},
        demand={"registers": lambda c: machine.used(c["m"] // machine.rows, c["n"] // columns, c["B"], types)},
        room={"registers": machine.registers}, buffers={"B": HELD},
        loops=lambda c: _loops(shape, c, machine, hardware, walk), help="more registers")


def _loops(shape: kit.Shape, c: kit.Columns, machine: Machine, hardware: kit.Hardware, walk: Walk) -> Loop:
    """Blocks of K, of C in them; groups of tiles of B, and products with them, each of which waits for the one before
    it into the same tile. Sizes are those of whole tiles."""
    types = TYPES[shape.item]
    columns, deep = machine.columns(types), machine.deep(types)
    wide, held, high = c["n"] // columns, c["B"], walk.height(machine.rows)
    down, tall = walk.blocks(machine.rows, c["m"] // machine.rows)
    values = {"tm": high, "tn": columns, "tk": deep, "sewi": types.bits, "sewo": BITS, "vl": columns, "sew": BITS}
    near, of_a, of_b = _waits(shape, c, hardware, walk, down)

    def issue(name: str, times: Any, beats: Any = 0) -> Issue:
        return Issue(name, times, values=values, beats=beats)

    tiles = machine.rows > 1
    product, a, b, load, store = (
        (types.product, "tla", "tlbt" if types.mixed else "tlb", "tlc", "tsc") if tiles else
        (*(("vmacc_vx", "lb", "vle8_v") if types.mixed else ("vfmacc_vf", "flw", "vle32_v")), "vle32_v", "vse32_v"))
    lines = high if tiles else machine.vlen // (8 * PORT_BYTES)
    of_tile = machine.rows if tiles else lines
    wider = (issue("vsext_vf4", held),) if types.mixed and not tiles else ()
    loads = (issue(a, tall * held / wide, of_a + lines * tiles), issue(b, held, of_b + of_tile), *wider)
    group = Loop(walk.taps * ceil_div(c["k"], deep) * wide / held, (issue(product, tall * held),), first=loads, slots=2,
                 rings=(((issue(product, 1),), 1),))
    again = (c["k"] < shape.k) | bool(shape.bias)
    added = (issue(load, tall * wide, near + lines),) if shape.residual else ()
    block = Loop(down * ceil_div(shape.n, c["n"]), (group,), first=(issue(load, tall * wide * again, near + lines),),
                 last=(*added, issue(store, tall * wide, near + lines)), slots=1)
    return Loop(ceil_div(shape.k, c["k"]), (block,))


def _waits(
    shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware, walk: Walk, down: Any,
) -> tuple[int, Any, Any]:
    """Cycles until a line is there: of the last cache, and in the mean of A and of B. Columns of B for a block come
    from memory once for all blocks of rows where they leave half of the cache to others, all of A once for all columns
    where there is room for both. What several taps read of A comes once for all of them."""
    caches = Cache.of(hardware)
    if not caches:
        return 0, 0, 0
    cache = caches[-1]
    room = cache.lines * cache.line_bytes
    b, a = walk.taps * c["k"] * c["n"] * shape.item, c["k"] * walk.pixels * shape.item
    far_b = np.where(2 * b <= room, 1 / down, 1)
    far_a = np.where(a + b <= room, 1 / ceil_div(shape.n, c["n"]), 1) * min(1, walk.pixels / (walk.taps * walk.count))
    return cache.hit_cycles, cache.hit_cycles + far_a * cache.miss_cycles, cache.hit_cycles + far_b * cache.miss_cycles
