"""What Gemmini's convolutions take at least: :mod:`.least` for what :mod:`.emit_conv` writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archloom.mapper.hardware import Hardware
from archloom.mapper.reuse import ceil_div
from archloom.mapper.space import HOIST, STREAM, Columns
from archloom.uma_targets.gemmini.conv_axes import Axis, runs
from archloom.uma_targets.gemmini.conv_schemes import Channels, Scheme
from archloom.uma_targets.gemmini.least import Bounds, Costs, Work, blocks, edges, shortest


@dataclass(frozen=True)
class Convolution:
    """``images`` of a scheme, and what becomes of their sums; ``pooled``: sums under a window, 1 without pooling."""

    scheme: Scheme
    images: int
    bias: bool
    out_bytes: int
    pooled: int


def conv_least(conv: Convolution, c: Columns, flow: str, hardware: Hardware) -> np.ndarray:
    """Cycles that no convolution in these tiles takes fewer than (columns: those of :func:`.loops.conv_loops`, and
    ``h``, ``w``: numbers of tile sizes; ``x_rows`` and ``c_rows``: rows of all places of the input and of sums)."""
    return _Bounded(conv, c, flow, Costs(hardware)).bounds.cycles


@dataclass(frozen=True, eq=False)
class _Bounded:
    conv: Convolution
    c: Columns
    flow: str
    costs: Costs

    @property
    def bounds(self) -> Bounds:
        conv, c, image, costs = self.conv, self.c, self.conv.scheme.image, self.costs
        o_tiles = ceil_div(image.o, c["o"])
        x, w, streamed = self.inputs, self.weights, c["level_w"] == STREAM
        every = image.groups * conv.images
        loads = x * (every * np.where(c["level_x"] == STREAM, o_tiles, 1)) + self.sums * every
        loads += w * (image.groups * np.where(streamed, conv.images * c["tiles"], 1))
        one = self.of_weights(1, 1)
        zero = costs.zeros(1)
        until, rest = self.ends
        before = costs.row * self.before
        needed = np.where(streamed, one.taken, np.maximum(zero.taken, one.taken - before))
        return Bounds(
            costs, 4 + (conv.pooled == 1), loads, self.stores * every, self.made * every, self.shortest_load,
            self.shortest_store, costs.shortest_product(self.flow, (self.parts_x, self.parts_c)), before,
            Work(1, 0, needed, 0), until, rest, self.is_read)

    @property
    def is_read(self) -> bool:
        """Whether windows leave no row of pixels out that lies between those that they read: the last row that is
        loaded may be such a one, and no product waits for it."""
        rows = self.conv.scheme.image.rows
        return rows.dilation == 1 and (rows.stride <= rows.kernel or rows.kernel == 1)

    # --- where blocks lie -----------------------------------------------------------------------------------------
    @cached_property
    def parts_x(self) -> int:
        return self.costs.cut("spad")

    @cached_property
    def parts_c(self) -> int:
        return self.costs.cut("acc")

    def cut(self, buffer: str, rows: np.ndarray) -> np.ndarray:
        """In how many banks a block lies at most, where all places together have so many rows, from row 0 on."""
        memory = self.costs.hardware.memory(buffer)
        return np.where(rows <= memory.rows // memory.banks, 1, self.costs.cut(buffer))

    # --- loads and stores of an image -----------------------------------------------------------------------------
    @cached_property
    def inputs(self) -> Work:
        """All chunks of all tiles once."""
        scheme, c, costs, parts = self.conv.scheme, self.c, self.costs, self.cut("spad", self.c["x_rows"])
        total = Work()
        if isinstance(scheme, Channels):
            step = scheme.load_step * scheme.image.pixel_bytes
            for width, chunks in edges(scheme.image.c, scheme.image.dim):
                total += costs.load(c["load_rows"], width, step, c["loads"], parts) * chunks
                total += costs.zeros(c["zero_rows"], c["zeros"], parts) * chunks
            return total
        # the figures are means over so many parts, some of whose rows have a column only
        count = scheme.image.rows.kernel * (scheme.blocks + (scheme.rest > 0))
        loads, rows, zeros, zero_rows = (np.rint(count * c[name]).astype(np.int64)
                                         for name in ("loads", "load_rows", "zeros", "zero_rows"))
        return costs.load(rows, 1, max(1, scheme.step - scheme.image.dim), loads, parts) + costs.zeros(
            zero_rows, zeros, parts)

    def of_weights(self, rows: int, width: int) -> Work:
        return self.costs.load(rows, width, self.conv.scheme.image.o, parts=self.costs.parts("spad"))

    @cached_property
    def weights(self) -> Work:
        """All of a group once."""
        scheme, dim = self.conv.scheme, self.conv.scheme.image.dim
        if isinstance(scheme, Channels):
            rows = [(size, count * scheme.steps) for size, count in edges(scheme.image.c, dim)]
        else:
            rows = [(size, count * scheme.image.rows.kernel) for size, count in edges(scheme.length, dim)]
        return blocks(rows, edges(scheme.image.o, dim), self.of_weights)

    @cached_property
    def sums(self) -> Work:
        """The bias, or zeros, of all tiles of a group."""
        c, parts, total = self.c, self.cut("acc", self.c["c_rows"]), Work()
        for width, count in edges(self.conv.scheme.image.o, self.conv.scheme.image.dim):
            one = (self.costs.load(c["sums"], 4 * width, 0, c["stretches"], parts) if self.conv.bias
                   else self.costs.zeros(c["sums"], c["stretches"], parts))
            total += one * count
        return total

    @cached_property
    def stores(self) -> Work:
        """Of all tiles of a group."""
        c, conv, image, total = self.c, self.conv, self.conv.scheme.image, Work()
        step, parts = image.groups * image.o * conv.out_bytes, self.cut("acc", c["c_rows"])
        for width, count in edges(image.o, image.dim):
            if conv.pooled > 1:
                one = self.costs.store(c["store_rows"] // conv.pooled, width, step, c["tiles"], parts)
                one = Work(one.count, c["store_rows"], one.taken, one.beats)
            else:
                one = self.costs.store(c["sums"], width * conv.out_bytes, step, c["stretches"], parts)
            total += one * count
        return total

    @cached_property
    def shortest_load(self) -> Work:
        """Of any rows: of the input, weights, zeros and the bias."""
        image, costs, rows = self.conv.scheme.image, self.costs, np.arange(1, self.conv.scheme.image.dim + 1)
        parts, step = max(self.parts_x, self.parts_c), self.conv.scheme.load_step * image.pixel_bytes
        widths = {1, image.dim, min(image.c, image.dim), *(width for width, _ in edges(image.o, image.dim))}
        works = [costs.load(rows, width, far, parts=parts) for width in sorted(widths) for far in (step, image.o)]
        biases = [costs.load(rows, 4 * width, 0, parts=parts) for width in sorted(widths) if self.conv.bias]
        return shortest(costs.zeros(rows, 1, parts), *works, *biases)

    @cached_property
    def shortest_store(self) -> Work:
        conv, image = self.conv, self.conv.scheme.image
        rows, step = np.arange(1, image.dim + 1), image.groups * image.o * conv.out_bytes
        found = shortest(*(self.costs.store(rows, width * conv.out_bytes, step, parts=self.parts_c)
                           for width, _ in edges(image.o, image.dim)))
        if conv.pooled == 1:
            return found
        # of all that a tile pools the unit may be kept no longer than if each row were stored by itself
        each = max(int(self.costs.store(1, width, step).busy) for width, _ in edges(image.o, image.dim))
        most = np.maximum(self.c["most_h"] * self.c["most_w"], 1) * conv.pooled * each
        return Work(1, found.taken + most, found.taken)

    # --- products -------------------------------------------------------------------------------------------------
    def product(self, rows: int, *, preloaded: bool = False) -> Work:
        return self.costs.product(self.flow, rows, preloaded=preloaded)

    @cached_property
    def whole(self) -> int:
        """Cycles of a product with new weights, or of one where sums stay, however few its rows."""
        return int(self.product(self.conv.scheme.image.dim, preloaded=True).busy)

    @cached_property
    def short(self) -> int:
        """Cycles of the shortest product."""
        return int(self.product(1).busy)

    @cached_property
    def made(self) -> Work:
        """All products of a group."""
        c, scheme, dim = self.c, self.conv.scheme, self.conv.scheme.image.dim
        products = scheme.chunks * scheme.steps * ceil_div(scheme.image.o, dim)
        if self.flow == "os":
            busy = c["stretches"] * self.whole
        else:
            later = c["stretches"] - c["whole"] - (c["tiles"] - c["whole_tiles"])
            rows = c["rest_sums"] - c["short_firsts"]
            per_row = int(self.product(dim).busy)
            busy = (c["tiles"] * self.whole + (c["whole"] - c["whole_tiles"]) * per_row
                    + np.maximum(later * self.short, rows * per_row // dim))
        return Work(2 * c["stretches"] * products, busy * products, 0, 0)

    @cached_property
    def first_tile(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.tile(0)

    def tile(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the first tile of pixels (0) or the last (-1): its sums, stretches, and the pixels under them."""
        image = self.conv.scheme.image
        (high, above), (wide, across) = (_of_tile(axis, self.c[column], number)
                                         for axis, column in ((image.rows, "oh"), (image.cols, "ow")))
        spans = above * across if isinstance(self.conv.scheme, Channels) else high * wide
        return high * wide, high * np.asarray(ceil_div(wide, image.dim)), spans

    @cached_property
    def before(self) -> np.ndarray:
        """Rows that are loaded before the last block that the first product needs: weights that stay, sums, a chunk of
        the input, all of it where it stays and sums come behind it. Where these stay in the array, the first product
        needs none of them, and no chunk but the first."""
        c, image, scheme = self.c, self.conv.scheme.image, self.conv.scheme
        sums, _, pixels = self.first_tile
        first = ceil_div(np.minimum(c["o"], image.o), image.dim)
        blocks_before = np.where(c["o_outer"] == 1, first, ceil_div(image.o, image.dim))
        stay = image.rows.kernel * image.cols.kernel * image.c * blocks_before
        kept = c["level_x"] == HOIST
        behind = 0 if self.flow == "os" else scheme.chunks * pixels
        return np.where(c["level_w"] == STREAM, sums * first + np.where(kept, scheme.chunks, 1) * pixels,
                        stay + np.where(kept, behind, sums * first))

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of the products until the first sums are complete, and of those after the last load, but the last:
        where weights are streamed, those of all sums of a tile."""
        c, scheme = self.c, self.conv.scheme
        first, last = self.first_tile[1], self.tile(-1)[1]
        blocks_first = ceil_div(np.minimum(c["o"], scheme.image.o), scheme.image.dim)
        streamed = c["level_w"] == STREAM
        if self.flow == "os":
            until = (scheme.chunks - 1) * blocks_first * first * scheme.steps + scheme.steps - 1
            return until * self.whole, np.where(streamed, (last - 1) * scheme.steps, 0) * self.whole
        until = (scheme.chunks * scheme.steps - 1) * blocks_first * (self.whole + (first - 1) * self.short)
        return until, np.where(streamed & (last > 1), self.whole + (last - 2) * self.short, 0)


def _of_tile(axis: Axis, sizes: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the first (0) or the last (-1) tile of each size along an axis, and what lies under them."""
    found, which = np.unique(sizes, return_inverse=True)
    tiles = [runs(axis, int(size))[number] for size in found]
    return np.array([tile.sums for tile in tiles])[which], np.array([axis.span(tile.sums) for tile in tiles])[which]
