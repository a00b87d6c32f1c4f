"""The MTE paper's convolutions on Intel AMX: direct ones of bfloat16 with float32 sums, as streams, and their cycles.

Images lie as those of :mod:`.mte_kernels`: [row, column, image, channel], with two channels to a word. Weights lie in
panels of 16 output channels, as oneDNN keeps them: place of the window, then tile of input channels, two rows of which
lie number by number in turn (VNNI). Input channels are cut into equal tiles and filled up with zeros, output channels
to whole tiles. A block of C is two pixels of a row, each a tile of all images, by two tiles of channels: four tiles of
sums, two of A, two of B. Of a row of pixels all blocks of two panels come one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.amx import LINE_BYTES, MACS_PER_CYCLE, amx
from archloom.acadl_models.timing import simulate
from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import HbmTensor, Instr, Node, Stream
from archloom.uma_targets.amx import LANES, depth_of
from archloom.uma_targets.kit import ceil_div, each, pieces, repeat
from benchmarks.published.mte_kernels import ITEM, Convolution, Cost, counts, end_of, in_proportion, passed_over

PIXELS, PANELS = 2, 2
"""Of a block of C."""
BYTES = 2
"""Of a bfloat16."""
PEAK = MACS_PER_CYCLE // BYTES
"""Multiply-adds of bfloat16 a cycle."""


@dataclass(frozen=True)
class OnAmx:
    """A convolution of at most 16 images on AMX."""

    convolution: Convolution

    @cached_property
    def depth(self) -> tuple[int, int]:
        """Tiles of input channels, and bytes of each."""
        return depth_of(self.convolution.inputs * BYTES)

    @cached_property
    def words(self) -> Convolution:
        """A convolution of float32 that lies as this one in memory, of one panel of channels."""
        tiles, depth = self.depth
        return replace(self.convolution, inputs=tiles * depth // ITEM, channels=LANES)

    @property
    def panels(self) -> int:
        return ceil_div(self.convolution.channels, LANES)

    @property
    def tensors(self) -> tuple[HbmTensor, HbmTensor, HbmTensor]:
        """A (bfloat16), B (bfloat16: panels, places and tiles, pairs of rows, columns, the two) and C (float32)."""
        it, (tiles, depth) = self.convolution, self.depth
        a = HbmTensor("A", 64, (self.words.height * it.stride * self.words.plane * it.images, tiles * depth // BYTES),
                      "bfloat16")
        b = HbmTensor("B", end_of(a), (self.panels, math.prod(it.window) * tiles, depth // ITEM, LANES, BYTES),
                      "bfloat16")
        return a, b, HbmTensor("C", end_of(b), (it.rows * it.columns * it.images, self.panels * LANES), "float32")

    def stream(self, rows: int, pixels: int) -> Stream:
        """So many rows of the result, of each the first ``pixels``."""
        a, b, c = self.tensors
        body = [*self._configure(), *repeat("row", rows, lambda y: each(
            "panel", pieces(self.panels, PANELS), lambda j, across: each(
                "pixel", pieces(pixels, PIXELS), lambda i, along: self._block(
                    y, i * PIXELS, along.size, j * PANELS, across.size))))]
        return Stream("amx", (), (a, b), (c,), end_of(c), tuple(body), self.convolution.name)

    def _configure(self) -> Iterator[Node]:
        """Tiles of C, of A and of B, once for all blocks."""
        images, depth = self.convolution.images, self.depth[1]
        shapes = [(images, ITEM * LANES)] * (PIXELS * PANELS) + [(images, depth)] * PIXELS
        yield Instr.make("ldtilecfg", number=1)
        for tile, (rows, columns) in enumerate([*shapes, *[(depth // ITEM, LINE_BYTES)] * PANELS]):
            yield Instr.make("tilecfg", tile=tile, tile_rows=rows, tile_colsb=columns)

    def _block(self, y: Affine, pixel: Affine, tall: int, panel: Affine, wide: int) -> Iterator[Node]:
        """Sums of ``tall`` pixels of a row by ``wide`` panels: over places of the window, over tiles of channels."""
        it, words, (a, b, c) = self.convolution, self.words, self.tensors
        row = it.stride * it.stride * words.plane * words.pixels
        first_a = y * row + pixel * words.pixels + a.address
        first_b = panel * self._panel_bytes + b.address
        sums = [(PANELS * i + j, i, j) for i in range(tall) for j in range(wide)]
        yield from (Instr.make("tilezero", dst=t) for t, _, _ in sums)
        for taps in words.taps:
            yield from taps.nodes(lambda of_a, of_b: repeat("deep", self.depth[0], lambda k: self._step(
                first_a + of_a + k * self.depth[1], tall, first_b + of_b + k * (self.depth[1] * LANES), wide)))
        out = self.panels * LANES * ITEM
        for t, i, j in sums:
            place = (y * it.columns + pixel + i) * (it.images * out) + (panel + j) * (LANES * ITEM) + c.address
            yield Instr.make("tilestored", src=t, dram=place, stride=out)

    @property
    def _panel_bytes(self) -> int:
        tiles, depth = self.depth
        return math.prod(self.convolution.window) * tiles * depth * LANES

    def _step(self, a: Affine, tall: int, b: Affine, wide: int) -> Iterator[Node]:
        """A tile of input channels: loads, products."""
        sums, of_a = PIXELS * PANELS, self.words.inputs * ITEM
        for i in range(tall):
            yield Instr.make("tileloadd", dst=sums + i, dram=a + i * self.words.pixels, stride=of_a)
        for j in range(wide):
            yield Instr.make("tileloadd", dst=sums + PIXELS + j, dram=b + j * self._panel_bytes, stride=LINE_BYTES)
            for i in range(tall):
                yield Instr.make("tdpbf16ps", dst=PANELS * i + j, src1=sums + i, src2=sums + PIXELS + j)

    def cycles(self) -> float:
        """Of all of it, by slices as on the other cores."""
        it = self.convolution
        blocks = passed_over(_graph(), counts(self.stream(1, min(it.columns, PIXELS)).body).total())
        return in_proportion(it.rows, it.columns, PIXELS, blocks, lambda rows, pixels: Cost(
            simulate(_graph(), resolve(self.stream(rows, pixels), taidl.load("amx"))).cycles, 0.0, 0.0)).cycles

    def efficiency(self) -> float:
        """The share of the peak of bfloat16."""
        return self.convolution.macs / PEAK / self.cycles()


@cache
def _graph() -> ArchitectureGraph:
    return amx()
