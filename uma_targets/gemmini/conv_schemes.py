"""What a scratchpad row holds in a convolution, and which products follow from it.

``channels``: a row holds up to dim channels of one pixel. The pixels of a tile, with their halo and padding, are loaded
once; every element (kh, kw) of the kernel reads them at shifted addresses.

``kernel_row``: with few channels such rows would be mostly empty. NHWC keeps the ``length = kw * c`` elements under one
row of the kernel side by side, so a row of the scratchpad holds dim of them for one sum, loaded with a step of
``stride * c`` bytes. The ``rest = length % dim`` elements that are left over from ``group = dim // rest`` rows of the
kernel share a row: ``mvin`` always begins at column 0, so the last ones come first, each load overwriting the columns
in front of it. Padding on the left is such a prefix, too: what was loaded from before the image is overwritten by
zeros. For the 7 × 7 kernel on 3 channels at dim 16 that makes 10 products of the 49 that ``channels`` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TypeAlias, TypeVar

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor
from archloom.uma_targets.gemmini import instructions as isa
from archloom.uma_targets.gemmini.conv_axes import Axis, Run
from archloom.uma_targets.gemmini.instructions import Block
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces, repeat

K = TypeVar("K")
Count: TypeAlias = "int | np.ndarray"
"""One figure, or a column of them."""

X, W = 0, 1
"""Load channels."""
FIRST = Affine(0)


@dataclass(frozen=True)
class Image:
    """The convolution's tensors and sizes: X[n, h, w, c], W[kh, kw, c, o].

    Of several groups it is that of number ``group``, whose channels lie among those of the others in each pixel.
    """

    rows: Axis
    cols: Axis
    c: int
    o: int
    x: HbmTensor
    w: HbmTensor
    dim: int
    groups: int = 1
    group: Affine = FIRST

    @property
    def pixel_bytes(self) -> int:
        """Bytes from one pixel of the input to the next."""
        return self.groups * self.c

    @property
    def input_bytes(self) -> int:
        return self.rows.extent * self.cols.extent * self.pixel_bytes

    @property
    def packs_kernel_rows(self) -> bool:
        """Whether the elements under a row of the kernel lie side by side in memory."""
        return self.groups == 1 and self.cols.kernel > 1 and self.rows.dilation == self.cols.dilation == 1

    @property
    def weights(self) -> Affine:
        return self.group * (self.rows.kernel * self.cols.kernel * self.c * self.o) + self.w.address


@dataclass(frozen=True)
class PixelTile:
    """Rows and columns of the tile at hand, with the numbers of the tile in its runs, and the image in the batch."""

    rows: Run
    cols: Run
    row: Affine
    col: Affine
    batch: Affine


@dataclass(frozen=True)
class WeightRows:
    """``size`` rows of W (as a matrix of kh·kw·c rows and o columns) from ``first`` on, to row ``at`` of a tile."""

    first: Affine
    size: int
    at: int


@dataclass(frozen=True)
class Step:
    """One product of pixels and a weight tile.

    The row of the sum (r, q) lies ``a0 + r * row_pitch + q * col_pitch`` after the input's base; ``k_size`` elements of
    it count. ``number`` tells the weight tiles of a chunk apart.
    """

    a0: Affine
    row_pitch: int
    col_pitch: int
    k_size: int
    number: Affine
    weights: tuple[WeightRows, ...]


@dataclass(frozen=True)
class Segment:
    """``size`` elements from ``first`` on under row ``kh`` of the kernel, in the columns from ``offset`` on.

    Of a tile: ``inside``, the rows of sums whose input under that row of the kernel lies inside of the image, from the
    first to the one behind the last, and for each sum of a row in ``clips`` the elements of the segment that do. Both
    are the same wherever loops vary ``kh`` and ``first``.

    The first sums of a row lie ``outside`` of the image, those up to ``left`` reach over its left edge, and those from
    ``whole`` on over its right one.
    """

    kh: Affine
    first: Affine
    offset: int
    size: int
    inside: tuple[int, int] = (0, 0)
    clips: tuple[tuple[int, int], ...] = ()

    @property
    def reach(self) -> int:
        """Columns of a row that loading the segment writes."""
        return self.offset + self.size

    @property
    def outside(self) -> int:
        return sum(1 for begin, _ in self.clips if begin == self.size)

    @property
    def left(self) -> int:
        return sum(1 for begin, _ in self.clips if begin)

    @property
    def whole(self) -> int:
        return sum(1 for _, end in self.clips if end == self.size)


@dataclass(frozen=True)
class Chunk:
    """A part of the input that is loaded at a time: ``number`` of all, and its channels or segments."""

    number: Affine
    channels: int = 0
    segments: tuple[Segment, ...] = ()


StepBody: TypeAlias = Callable[[Step], Nodes]
EndsBody: TypeAlias = Callable[[Step, bool, bool], Nodes]
ChunkBody: TypeAlias = Callable[[Chunk], Nodes]


def zeros(base: Affine, count: int, dim: int, cols: int) -> Nodes:
    """``count`` rows of zeros in ``cols`` columns."""
    return each("z", pieces(count, dim) if count else (), lambda i, run: [
        isa.mvin(X, 0, Block(base + i * dim, run.size, cols))])


@dataclass(frozen=True)
class Channels:
    """The scheme ``channels``: a chunk is up to dim channels of all pixels of a tile."""

    image: Image

    @property
    def col_stride(self) -> int:
        """Scratchpad rows between the inputs of neighbouring sums of a row."""
        return self.image.cols.local_stride

    @property
    def load_step(self) -> int:
        """Pixels between the rows of a load."""
        return self.image.cols.load_step

    @property
    def chunks(self) -> int:
        """Parts of the input that are loaded at a time."""
        return ceil_div(self.image.c, self.image.dim)

    @property
    def steps(self) -> int:
        """Products (weight tiles) of one chunk for each block of outputs."""
        return self.image.rows.kernel * self.image.cols.kernel

    def input_rows(self, sum_rows: int, sum_cols: int) -> int:
        """Scratchpad rows of one chunk of a tile with so many sums."""
        return self.image.rows.span(sum_rows) * self.image.cols.span(sum_cols)

    def each_chunk(self, tile: PixelTile | None, body: ChunkBody) -> Nodes:
        """``body`` for every chunk (of a tile, or of the weights alone)."""
        return each("ct", pieces(self.image.c, self.image.dim), lambda c, run: body(Chunk(c, channels=run.size)))

    def load(self, tile: PixelTile, chunk: Chunk, base: Affine) -> Nodes:
        """Padding as runs of zero rows, then the pixels inside of the image, row by row."""
        rows, cols, dim, size = tile.rows, tile.cols, self.image.dim, chunk.channels
        pitch = cols.span
        if not rows.inside or not cols.inside:
            return zeros(base, rows.span * pitch, dim, size)
        first = base + (rows.before * pitch + cols.before)
        nodes = zeros(base, rows.before * pitch + cols.before, dim, size)
        gap = cols.after + cols.before
        if gap:
            nodes += repeat("r", rows.inside - 1, lambda r: zeros(first + cols.inside + r * pitch, gap, dim, size))
        nodes += zeros(first + ((rows.inside - 1) * pitch + cols.inside), cols.after + rows.after * pitch, dim, size)
        return nodes + repeat("r", rows.inside, lambda r: self._load_row(tile, chunk, r, first + r * pitch))

    def _load_row(self, tile: PixelTile, chunk: Chunk, r: Affine, base: Affine) -> Nodes:
        image = self.image
        row = tile.rows.input_start(tile.row) + r * image.rows.load_step
        col = tile.cols.input_start(tile.col)

        def part(q: Affine, run: Piece) -> Nodes:
            pixel = row * image.cols.extent + col + q * (image.dim * image.cols.load_step)
            source = tile.batch * image.input_bytes + pixel * image.pixel_bytes + (
                image.group * image.c + chunk.number * image.dim + image.x.address)
            return [isa.mvin(X, source, Block(base + q * image.dim, run.size, chunk.channels))]

        return each("q", pieces(tile.cols.inside, image.dim), part)

    def products(self, tile: PixelTile | None, chunk: Chunk, body: StepBody) -> Nodes:
        """``body`` for every product of the chunk (without a tile, only the weights of the steps have a meaning)."""
        image = self.image
        return repeat("kh", image.rows.kernel, lambda kh: repeat(
            "kw", image.cols.kernel, lambda kw: body(self._step(tile, chunk, kh, kw))))

    def products_with_ends(self, tile: PixelTile, chunk: Chunk, body: EndsBody) -> Nodes:
        """As :meth:`products`, but ``body`` is told the first and the last one, which stand apart."""
        width = self.image.cols.kernel
        return each("kk", pieces(self.steps, 1, peel_first=True, peel_last=True), lambda kk, run: body(
            self._step(tile, chunk, kk // width, kk % width), run.is_first, run.is_last))

    def _step(self, tile: PixelTile | None, chunk: Chunk, kh: Affine, kw: Affine) -> Step:
        image, pitch = self.image, tile.cols.span if tile else 0
        number = kh * image.cols.kernel + kw
        weights = WeightRows(number * image.c + chunk.number * image.dim, chunk.channels, 0)
        row_pitch = image.rows.local_stride * pitch
        first = kh * (pitch * image.rows.dilation) + kw * image.cols.dilation
        return Step(first, row_pitch, self.col_stride, chunk.channels, number, (weights,))


@dataclass(frozen=True)
class KernelRow:
    """The scheme ``kernel_row``: a chunk is what one product needs, a row for each sum of the tile."""

    image: Image

    @property
    def col_stride(self) -> int:
        return 1

    @property
    def load_step(self) -> int:
        return self.image.cols.stride

    @property
    def chunks(self) -> int:
        return self.blocks * self.image.rows.kernel + self.groups

    @property
    def steps(self) -> int:
        return 1

    @property
    def step(self) -> int:
        """Bytes from the input of a sum to that of its neighbour in a row."""
        return self.image.cols.stride * self.image.c

    @cached_property
    def length(self) -> int:
        """Elements under one row of the kernel."""
        return self.image.cols.kernel * self.image.c

    @property
    def blocks(self) -> int:
        """Whole scratchpad rows in ``length``."""
        return self.length // self.image.dim

    @property
    def rest(self) -> int:
        return self.length % self.image.dim

    @property
    def group(self) -> int:
        """Rows of the kernel whose leftovers share a row of the scratchpad."""
        return min(self.image.rows.kernel, self.image.dim // self.rest) if self.rest else 1

    @property
    def groups(self) -> int:
        return ceil_div(self.image.rows.kernel, self.group) if self.rest else 0

    @property
    def guard_bytes(self) -> int:
        """Bytes in front of the input that a load may touch, in columns that are overwritten afterwards."""
        return self.image.dim + self.image.cols.pad * self.image.c + 1

    def input_rows(self, sum_rows: int, sum_cols: int) -> int:
        return sum_rows * sum_cols

    def each_chunk(self, tile: PixelTile | None, body: ChunkBody) -> Nodes:
        """Whole rows block by block, then the groups; a loop over neighbours of which the same is padding."""
        height, dim = self.image.rows.kernel, self.image.dim
        every_clip = [() if tile is None else self._clips(tile, b * dim, dim) for b in range(self.blocks)]
        every_inside = [(0, 0) if tile is None else self._inside(tile.rows, kh) for kh in range(height)]
        nodes: Nodes = []
        for blocks, clips in _runs_of(every_clip):
            nodes += each("kb", (blocks,), lambda b, _, clips=clips: _each_run(  # type: ignore[misc]
                "kh", every_inside, lambda kh, inside: body(Chunk(
                    kh + b * height, segments=(Segment(kh, b * dim, 0, dim, inside, clips),)))))
        if not self.rest:
            return nodes
        rest = () if tile is None else self._clips(tile, self.blocks * dim, self.rest)

        def group(g: Affine, insides: tuple[tuple[int, int], ...]) -> Nodes:
            return body(Chunk(g + self.blocks * height, segments=tuple(
                Segment(g * self.group + i, Affine(self.blocks * dim), i * self.rest, self.rest, inside, rest)
                for i, inside in enumerate(insides))))

        return nodes + _each_run(
            "g", [tuple(every_inside[first:first + self.group]) for first in range(0, height, self.group)], group)

    def load(self, tile: PixelTile, chunk: Chunk, base: Affine) -> Nodes:
        """The last segment first: each load and each padding overwrites the columns in front of its segment.

        What is written over others waits until these have arrived. So the sums at the left edge are loaded for all rows
        first, then the others, and their padding is written last, when they are there.
        """
        axis, width = self.image.rows, tile.cols.sums
        nodes: Nodes = []
        for segment in reversed(chunk.segments):
            low, high = segment.inside
            nodes += zeros(base, low * width, self.image.dim, segment.reach)
            nodes += zeros(base + high * width, (tile.rows.sums - high) * width, self.image.dim, segment.reach)
            row = tile.rows.sum_start(tile.row) * axis.stride + segment.kh - axis.pad
            for part in (self._load_left, self._load_others, self._clip):
                nodes += repeat("r", high - low, lambda r, part=part, segment=segment, low=low, row=row: part(  # type: ignore[misc]
                    segment, self._source(tile, row + (r + low) * axis.stride, segment), base + (r + low) * width))
        return nodes

    def _source(self, tile: PixelTile, row: Affine, segment: Segment) -> Affine:
        """Where in memory the load of a segment begins for the first sum of a row."""
        image, cols = self.image, tile.cols
        pixel = row * image.cols.extent + cols.sum_start(tile.col) * image.cols.stride - image.cols.pad
        return tile.batch * image.input_bytes + pixel * image.c + (image.x.address + segment.first - segment.offset)

    def parted(self, outside: Count, left: Count, whole: Count) -> np.ndarray:
        """Where the sums of a row end that are loaded first (those at the left edge, from ``outside`` to ``left``; of
        several loads the first ones, no load is cut) and the others that lie inside of the image begin."""
        piece = np.where(np.asarray(whole - outside > self.image.dim), self.image.dim, 1)
        return np.asarray(np.minimum(outside + ceil_div(left - outside, piece) * piece, whole))

    def _load_left(self, segment: Segment, source: Affine, base: Affine) -> Nodes:
        """Of a row of sums those that reach over the left edge, and zeros for those outside of it."""
        outside = segment.outside
        return zeros(base, outside, self.image.dim, segment.reach) + self._load(
            segment, source, base, outside, self._parted(segment))

    def _load_others(self, segment: Segment, source: Affine, base: Affine) -> Nodes:
        """Of a row of sums those that lie inside of the image, then those that reach over the right edge: zeros for all
        of them, and one by one what lies inside."""
        whole, count = segment.whole, len(segment.clips)
        nodes = self._load(segment, source, base, self._parted(segment), whole)
        nodes += zeros(base + whole, count - whole, self.image.dim, segment.reach)
        for q in range(whole, count):
            if end := segment.clips[q][1]:
                nodes.append(isa.mvin(X, source + q * self.step, Block(base + q, 1, segment.offset + end)))
        return nodes

    def _parted(self, segment: Segment) -> int:
        return int(self.parted(segment.outside, segment.left, segment.whole))

    def _load(self, segment: Segment, source: Affine, base: Affine, first: int, end: int) -> Nodes:
        """The sums first..end of a row."""
        dim, step = self.image.dim, self.step
        return each("q", pieces(end - first, dim) if end > first else (), lambda q, run: [isa.mvin(
            X, source + first * step + q * (dim * step), Block(base + first + q * dim, run.size, segment.reach))])

    def _clip(self, segment: Segment, source: Affine, base: Affine) -> Nodes:
        """Zeros for what of the sums of a row lies over the left edge of the image."""
        nodes: Nodes = []
        for q in range(segment.outside, segment.left):
            nodes += zeros(base + q, 1, self.image.dim, segment.offset + segment.clips[q][0])
        return nodes

    def _inside(self, rows: Run, kh: int) -> tuple[int, int]:
        """The rows low..high of sums whose input under row ``kh`` of the kernel lies inside of the image."""
        if not rows.before and not rows.after:
            return 0, rows.sums
        position = kh if rows.axis.kernel > 1 else 0
        inside = [r for r in range(rows.sums)
                  if rows.before <= r * rows.axis.local_stride + position < rows.before + rows.inside]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def _clips(self, tile: PixelTile, first: int, size: int) -> tuple[tuple[int, int], ...]:
        """For each sum of a row the elements begin..end of ``size`` from ``first`` on inside of the image, the same for
        tiles alike. ``end`` never grows along the row, so that the sums which reach over the right edge come last."""
        cols, c = tile.cols, self.image.c
        clips = []
        for q in range(cols.sums):
            left = (cols.before - q * self.image.cols.stride) * c - first
            right = left + cols.inside * c
            clips.append((min(max(0, left), size), min(size, max(0, right))))
        return tuple(clips)

    def products(self, tile: PixelTile | None, chunk: Chunk, body: StepBody) -> Nodes:
        width = tile.cols.sums if tile else 0
        parts = tuple(WeightRows(s.kh * self.length + s.first, s.size, s.offset) for s in chunk.segments)
        used = sum(s.size for s in chunk.segments)
        return body(Step(Affine(0), width, 1, used, Affine(0), parts))

    def products_with_ends(self, tile: PixelTile, chunk: Chunk, body: EndsBody) -> Nodes:
        return self.products(tile, chunk, lambda step: body(step, True, True))


Scheme: TypeAlias = Channels | KernelRow
"""How the input is kept, loaded and used."""


def _runs_of(kinds: Sequence[K]) -> list[tuple[Piece, K]]:
    """Runs of neighbours of one kind, with that."""
    found, first = [], 0
    for kind, members in groupby(kinds):
        count = len(list(members))
        found.append((Piece(first, count, 1), kind))
        first += count
    return found


def _each_run(var: str, kinds: Sequence[K], body: Callable[[Affine, K], Nodes]) -> Nodes:
    """A loop over each run of neighbours of one kind; ``body`` gets the number and the kind."""
    return [node for run, kind in _runs_of(kinds) for node in each(var, (run,), lambda i, _, kind=kind: body(i, kind))]  # type: ignore[misc]
