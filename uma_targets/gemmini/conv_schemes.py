"""What a scratchpad row holds in a convolution, and which products follow from it.

``channels``: a row holds up to dim channels of one pixel. The pixels of a tile, with their halo and padding, are loaded
once; every element (kh, kw) of the kernel reads them at shifted addresses.

``kernel_row``: with few channels such rows would be mostly empty. NHWC keeps the ``length = kw * c`` elements under one
row of the kernel side by side, so a row of the scratchpad holds dim of them for one sum, loaded with a step of
``stride * c`` bytes. The ``rest = length % dim`` elements that are left over from ``group = dim // rest`` rows of the
kernel share a row: ``mvin`` always begins at column 0, so the last ones come first, each load overwriting the columns
in front of it. For the 7 × 7 kernel on 3 channels at dim 16 that makes 10 products of the 49 that ``channels`` needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from oracle.affine import Affine
from oracle.stream import HbmTensor
from uma_targets.gemmini import instructions as isa
from uma_targets.gemmini.conv_axes import Axis, Run
from uma_targets.gemmini.instructions import Block
from uma_targets.gemmini.nest import Nodes, Piece, ceil_div, each, pieces, repeat

X, W = 0, 1
"""Load channels."""


@dataclass(frozen=True)
class Image:
    """The convolution's tensors and sizes: X[n, h, w, c], W[kh, kw, c, o]."""

    rows: Axis
    cols: Axis
    c: int
    o: int
    x: HbmTensor
    w: HbmTensor
    dim: int

    @property
    def input_bytes(self) -> int:
        """Bytes of one image."""
        return self.rows.extent * self.cols.extent * self.c


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


StepBody: TypeAlias = Callable[[Step], Nodes]
EndsBody: TypeAlias = Callable[[Step, bool, bool], Nodes]


class Scheme(Protocol):
    """How a chunk of the input is kept, loaded and used."""

    @property
    def image(self) -> Image:
        """The convolution."""

    @property
    def col_stride(self) -> int:
        """Scratchpad rows between the inputs of neighbouring sums of a row."""

    @property
    def chunk(self) -> int:
        """Elements of the channel dimension in one chunk."""

    @property
    def steps(self) -> int:
        """Products (weight tiles) of one chunk for each block of outputs."""

    def input_rows(self, sum_rows: int, sum_cols: int) -> int:
        """Scratchpad rows of one chunk of a tile with so many sums."""

    def load(self, tile: PixelTile, chunk: Affine, size: int, base: Affine) -> Nodes:
        """Load chunk number ``chunk`` of ``size`` channels to ``base``."""

    def products(self, tile: PixelTile, chunk: Affine, size: int, body: StepBody) -> Nodes:
        """``body`` for every product of the chunk."""

    def products_with_ends(self, tile: PixelTile, chunk: Affine, size: int, body: EndsBody) -> Nodes:
        """As :meth:`products`, but ``body`` is told the first and the last one, which stand apart."""


def zeros(base: Affine, count: int, dim: int, cols: int) -> Nodes:
    """``count`` rows of zeros in ``cols`` columns."""
    return each("z", pieces(count, dim) if count else (), lambda i, run: [
        isa.mvin(X, 0, Block(base + i * dim, run.size, cols))])


@dataclass(frozen=True)
class Channels:
    """The scheme ``channels``."""

    image: Image

    @property
    def col_stride(self) -> int:
        return self.image.cols.local_stride

    @property
    def chunk(self) -> int:
        return self.image.dim

    @property
    def steps(self) -> int:
        return self.image.rows.kernel * self.image.cols.kernel

    def input_rows(self, sum_rows: int, sum_cols: int) -> int:
        return self.image.rows.span(sum_rows) * self.image.cols.span(sum_cols)

    def load(self, tile: PixelTile, chunk: Affine, size: int, base: Affine) -> Nodes:
        """Padding as runs of zero rows, then the pixels inside of the image, row by row."""
        rows, cols, dim = tile.rows, tile.cols, self.image.dim
        pitch = cols.span
        if not rows.inside or not cols.inside:
            return zeros(base, rows.span * pitch, dim, size)
        first = base + (rows.before * pitch + cols.before)
        nodes = zeros(base, rows.before * pitch + cols.before, dim, size)
        gap = cols.after + cols.before
        if gap:
            nodes += repeat("r", rows.inside - 1, lambda r: zeros(first + cols.inside + r * pitch, gap, dim, size))
        nodes += zeros(
            first + ((rows.inside - 1) * pitch + cols.inside), cols.after + rows.after * pitch, dim, size
        )
        return nodes + repeat("r", rows.inside, lambda r: self._load_row(tile, chunk, size, r, first + r * pitch))

    def _load_row(self, tile: PixelTile, chunk: Affine, size: int, r: Affine, base: Affine) -> Nodes:
        image = self.image
        row = tile.rows.input_start(tile.row) + r * image.rows.load_step
        col = tile.cols.input_start(tile.col)

        def part(q: Affine, run: Piece) -> Nodes:
            pixel = row * image.cols.extent + col + q * (image.dim * image.cols.load_step)
            source = tile.batch * image.input_bytes + pixel * image.c + chunk * image.dim + image.x.address
            return [isa.mvin(X, source, Block(base + q * image.dim, run.size, size))]

        return each("q", pieces(tile.cols.inside, image.dim), part)

    def products(self, tile: PixelTile, chunk: Affine, size: int, body: StepBody) -> Nodes:
        image = self.image
        return repeat("kh", image.rows.kernel, lambda kh: repeat(
            "kw", image.cols.kernel, lambda kw: body(self._step(tile, chunk, size, kh, kw))))

    def products_with_ends(self, tile: PixelTile, chunk: Affine, size: int, body: EndsBody) -> Nodes:
        width = self.image.cols.kernel
        return each("kk", pieces(self.steps, 1, peel_first=True, peel_last=True), lambda kk, run: body(
            self._step(tile, chunk, size, kk // width, kk % width), run.is_first, run.is_last))

    def _step(self, tile: PixelTile, chunk: Affine, size: int, kh: Affine, kw: Affine) -> Step:
        image, pitch = self.image, tile.cols.span
        number = kh * image.cols.kernel + kw
        weights = WeightRows(number * image.c + chunk * image.dim, size, 0)
        return Step(kh * pitch + kw, image.rows.local_stride * pitch, self.col_stride, size, number, (weights,))


@dataclass(frozen=True)
class KernelRow:
    """The scheme ``kernel_row``; all channels are one chunk.

    The rows of block ``b`` of the kernel's rows (dim elements each) lie at ``b * span * cols``, one for each row of the
    input and each sum of a row; those of group ``g`` of leftovers after them, one for each sum.
    """

    image: Image

    @property
    def col_stride(self) -> int:
        return 1

    @property
    def chunk(self) -> int:
        return self.image.c

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
        return min(self.image.rows.kernel, self.image.dim // self.rest) if self.rest else 0

    @property
    def groups(self) -> int:
        return ceil_div(self.image.rows.kernel, self.group) if self.rest else 0

    @property
    def steps(self) -> int:
        return self.blocks * self.image.rows.kernel + self.groups

    @property
    def guard_bytes(self) -> int:
        """Bytes in front of the input that a load may touch, in columns that are overwritten afterwards."""
        return self.image.dim + self.image.cols.pad * self.image.c + 1

    def input_rows(self, sum_rows: int, sum_cols: int) -> int:
        return (self.blocks * self.image.rows.span(sum_rows) + self.groups * sum_rows) * sum_cols

    def load(self, tile: PixelTile, chunk: Affine, size: int, base: Affine) -> Nodes:
        dim, rows, width = self.image.dim, tile.rows, tile.cols.sums
        nodes: Nodes = []
        for b in range(self.blocks):
            at = base + b * rows.span * width
            nodes += zeros(at, rows.before * width, dim, dim)
            nodes += zeros(at + (rows.before + rows.inside) * width, rows.after * width, dim, dim)
            nodes += repeat("r", rows.inside, lambda r, b=b, at=at: self._load_sums(  # type: ignore[misc]
                tile, rows.input_start(tile.row) + r * self.image.rows.load_step, b * dim, 0, dim,
                at + (r + rows.before) * width))
        packed = base + self.blocks * rows.span * width
        for number, run in enumerate(range(0, self.image.rows.kernel, self.group) if self.rest else ()):
            nodes += self._load_group(tile, run, packed + number * rows.sums * width)
        return nodes

    def _load_group(self, tile: PixelTile, first: int, base: Affine) -> Nodes:
        """Leftovers of the kernel's rows from ``first`` on, the last of the group first."""
        axis, width = self.image.rows, tile.cols.sums
        nodes: Nodes = []
        for kh in reversed(range(first, min(first + self.group, axis.kernel))):
            offset = (kh - first) * self.rest
            low, high = self._sums_inside(tile.rows, kh)
            nodes += zeros(base, low * width, self.image.dim, offset + self.rest)
            nodes += zeros(base + high * width, (tile.rows.sums - high) * width, self.image.dim, offset + self.rest)
            start = tile.rows.sum_start(tile.row) * axis.stride + (kh - axis.pad)
            nodes += repeat("r", high - low, lambda r, kh=kh, offset=offset, low=low, start=start: self._load_sums(  # type: ignore[misc]
                tile, start + (r + low) * axis.stride, self.blocks * self.image.dim, offset, self.rest,
                base + (r + low) * width))
        return nodes

    def _sums_inside(self, rows: Run, kh: int) -> tuple[int, int]:
        """The sums low..high of the tile whose input row under row ``kh`` of the kernel lies inside of the image."""
        axis = rows.axis
        position = kh // axis.load_step if axis.kernel > 1 else 0
        inside = [r for r in range(rows.sums)
                  if rows.before <= r * axis.local_stride + position < rows.before + rows.inside]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def _load_sums(
        self, tile: PixelTile, row: Affine, first: int, offset: int, size: int, base: Affine
    ) -> Nodes:
        """Elements ``first .. first + size`` under the kernel's row for all sums of an image row.

        They end up in columns from ``offset`` on; what lies in front of them is overwritten later. Sums whose elements
        reach over the image's edge are loaded one by one, with zeros beside what there is.
        """
        image, cols = self.image, tile.cols
        nodes: Nodes = []
        pixel0 = cols.sum_start(tile.col) * image.cols.stride - image.cols.pad
        source0 = tile.batch * image.input_bytes + (row * image.cols.extent + pixel0) * image.c + image.x.address
        step = image.cols.stride * image.c
        clips = self._clips(tile, first, size)
        low, high = _middle(clips, size)
        for q, (begin, end) in enumerate(clips):
            if low <= q < high:
                continue
            at = base + q
            nodes += zeros(at, 1, image.dim, offset + size)
            if end > begin:
                nodes.append(isa.mvin(X, source0 + (q * step + first - offset), Block(at, 1, offset + end)))
                nodes += zeros(at, 1, image.dim, offset + begin) if begin else []
        return nodes + each("q", pieces(high - low, image.dim) if high > low else (), lambda q, run: [isa.mvin(
            X, source0 + q * (image.dim * step) + (low * step + first - offset),
            Block(base + q * image.dim + low, run.size, offset + size))])

    def _clips(self, tile: PixelTile, first: int, size: int) -> list[tuple[int, int]]:
        """For each sum of a row which of its ``size`` elements lie inside of the image, the same in all tiles alike."""
        image, cols = self.image, tile.cols
        clips = []
        for q in range(cols.sums):
            left = (cols.before - q * image.cols.stride) * image.c - first
            right = (cols.before + cols.inside - q * image.cols.stride) * image.c - first
            begin = min(size, max(0, left))
            end = max(begin, min(size, right))
            clips.append((begin, end))
        return clips

    def products(self, tile: PixelTile, chunk: Affine, size: int, body: StepBody) -> Nodes:
        height = self.image.rows.kernel
        nodes: Nodes = []
        for b in range(self.blocks):
            nodes += repeat("kh", height, lambda kh, b=b: body(self._block(tile, kh, b)))  # type: ignore[misc]
        groups = pieces(height, self.group) if self.rest else ()
        return nodes + each("g", groups, lambda g, run: body(self._leftovers(tile, g, run.size)))

    def products_with_ends(self, tile: PixelTile, chunk: Affine, size: int, body: EndsBody) -> Nodes:
        height = self.image.rows.kernel
        steps = [self._block(tile, Affine(kh), b) for b in range(self.blocks) for kh in range(height)]
        for g in range(self.groups):
            steps.append(self._leftovers(tile, Affine(g), min(self.group, height - g * self.group)))
        last = len(steps) - 1
        return [node for i, step in enumerate(steps) for node in body(step, i == 0, i == last)]

    def _block(self, tile: PixelTile, kh: Affine, b: int) -> Step:
        """A whole row of the scratchpad: dim elements under row ``kh`` of the kernel."""
        image, width = self.image, tile.cols.sums
        weights = WeightRows(kh * self.length + b * image.dim, image.dim, 0)
        return Step(kh * width + b * tile.rows.span * width, image.rows.local_stride * width, 1, image.dim,
                    kh + b * image.rows.kernel, (weights,))

    def _leftovers(self, tile: PixelTile, g: Affine, rows: int) -> Step:
        """The leftovers of ``rows`` rows of the kernel."""
        image, width = self.image, tile.cols.sums
        parts = tuple(
            WeightRows((g * self.group + i) * self.length + self.blocks * image.dim, self.rest, i * self.rest)
            for i in range(rows)
        )
        packed = self.blocks * tile.rows.span * width
        return Step(g * (tile.rows.sums * width) + packed, width, 1, self.rest * rows,
                    g + self.blocks * image.rows.kernel, parts)


def _middle(clips: list[tuple[int, int]], size: int) -> tuple[int, int]:
    """The stretch of sums whose ``size`` elements all lie inside."""
    whole = [q for q, clip in enumerate(clips) if clip == (0, size)]
    return (whole[0], whole[-1] + 1) if whole else (0, 0)
