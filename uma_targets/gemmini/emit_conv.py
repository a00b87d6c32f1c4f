"""Convolution as a Gemmini stream: an implicit GEMM whose im2col exists in addresses only.

A tile is a rectangle of (pooled) output pixels times a range of output channels; its sums lie in the accumulator as
images of rows × columns, one for each dim channels, as pooling in ``mvout`` wants them. The input of a tile comes in
chunks (:mod:`.conv_schemes`); each product streams the pixels of one row of sums past the weights in the mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from archloom.mapper.known import Touched
from archloom.mapper.mapping import Mapping
from archloom.mapper.reuse import conv_residency
from archloom.mapper.workload import Epilogue
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import HbmTensor, Instr
from archloom.uma_targets.gemmini import instructions as isa
from archloom.uma_targets.gemmini.conv_axes import Run, peeled, runs
from archloom.uma_targets.gemmini.conv_schemes import Channels, Chunk, Image, KernelRow, PixelTile, Scheme, Step, W, X
from archloom.uma_targets.gemmini.instructions import MOST_POOL_EXTENT, Block, GemminiParameters, PoolWindow
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces, repeat

BIAS = 2
"""Load channel."""

PixelBody: TypeAlias = Callable[[PixelTile, bool], Nodes]
"""Gets a tile of pixels, and whether it is the very first and stands apart."""

SegmentBody: TypeAlias = Callable[[Affine, Affine, int, bool], Nodes]
"""Gets row, stretch of the row, its number of sums, and whether it is the first and stands apart."""


@dataclass(frozen=True)
class Place:
    """Where the operands of the tile at hand lie, its channels, its number, and what is loaded in it."""

    x_base: Affine
    w_base: Affine
    c_base: Affine
    o0: Affine
    o_size: int
    number: Affine
    load_x: bool
    load_w: bool


@dataclass(frozen=True)
class ConvEmission:
    """Writes the stream's body for one convolution and mapping."""

    parameters: GemminiParameters
    image: Image
    batch: int
    bias: HbmTensor | None
    y: HbmTensor
    epilogue: Epilogue
    mapping: Mapping

    @cached_property
    def scheme(self) -> Scheme:
        if self.mapping.packing == "channels":
            return Channels(self.image)
        if not self.image.packs_kernel_rows:
            raise MappingError(
                "rows of the kernel are packed for one group, without dilation, and at least two columns wide")
        return KernelRow(self.image)

    @property
    def p_outer(self) -> bool:
        return self.mapping.order[0] == "p"

    @property
    def chunks(self) -> int:
        return self.scheme.chunks

    @cached_property
    def o_blocks(self) -> int:
        """Blocks of output channels in a tile."""
        return ceil_div(min(self.mapping.size("o"), self.image.o), self.parameters.dim)

    @cached_property
    def sums(self) -> tuple[int, int]:
        """The most rows and columns of sums of a tile."""
        t = self.mapping
        return self.image.rows.tile_sums(t.size("oh")), self.image.cols.tile_sums(t.size("ow"))

    @property
    def _tile_weights(self) -> int:
        """Scratchpad rows of all weights of a tile of output channels."""
        return self.o_blocks * self.parameters.dim * self.scheme.steps * self.chunks

    @cached_property
    def rows(self) -> dict[str, int]:
        """Local rows of one slot of each operand and of C, and of one chunk of X."""
        t, x_chunk = self.mapping, self.scheme.input_rows(*self.sums)
        x, w, c = conv_residency(
            x_chunk, self.parameters.dim, self.sums[0] * self.sums[1], self.chunks, self.scheme.steps,
            ceil_div(self.image.o, t.size("o")), self.o_blocks, t.level("X") == "stream", t.level("W") == "stream",
            not self.p_outer, t.dataflow == "os")
        return {"X": int(x), "W": int(w), "C": int(c), "chunk": x_chunk}

    @property
    def demand(self) -> tuple[int, int]:
        """Rows of the scratchpad and of the accumulator."""
        t = self.mapping
        return sum(self.rows[name] * t.slots(name) for name in "XW"), self.rows["C"] * t.slots("C")

    @property
    def touched(self) -> Touched:
        """Rows of scratchpad and accumulator: nothing else depends on how many there are."""
        t, end = self.mapping, self.parameters.spad_rows
        tiles = self._across(0) * self._across(1) * ceil_div(self.image.o, t.size("o"))
        used = t.limited("C", self.image.groups * self.batch * tiles)
        x, w, c = (self.rows[name] * used.slots(name) for name in "XWC")
        return Touched(used, {"spad": ((0, x), (end - w, end)), "acc": ((0, c),)})

    def body(self) -> Nodes:
        """Configuration, then the loops over tiles."""
        t, image = self.mapping, self.image
        self.parameters.check_rows(*self.demand, str(t))
        self._check_pooling()
        dim, full = self.parameters.dim, self.epilogue.out_dtype == "int32"
        stationary = isa.WEIGHT_STATIONARY if t.dataflow == "ws" else isa.OUTPUT_STATIONARY
        nodes: Nodes = [
            isa.config_ex(dataflow=stationary, a_stride=self.scheme.col_stride),
            isa.config_ld(X, stride=self.scheme.load_step * image.pixel_bytes, block_stride=dim),
            isa.config_ld(W, stride=image.o, block_stride=dim),
            isa.config_ld(BIAS, stride=0, block_stride=dim),
        ]
        if self.epilogue.pool is None:
            nodes.append(isa.config_st(
                stride=image.groups * image.o * (4 if full else 1), relu=self.epilogue.relu,
                scale=self.epilogue.scale))
        return nodes + repeat("g", image.groups, lambda g: replace(self, image=replace(image, group=g))._group())

    def _group(self) -> Nodes:
        """The loops over tiles of one group."""
        t = self.mapping
        if self.p_outer:
            peel = t.level("W") == "interleave"
            return self._whole_weights() + self._pixels(self._channels_in, peel=peel)
        return each("ot", pieces(self.image.o, t.size("o")), self._channels_out)

    def _check_pooling(self) -> None:
        if self.epilogue.pool is None:
            return
        if self.epilogue.out_dtype != "int8":
            raise MappingError(f"max-pooling in mvout gives int8, not {self.epilogue.out_dtype}")
        extents = {"rows of a tile": self.sums[0], "columns of a tile": self.sums[1], "columns": self.y.shape[2]}
        for what, extent in extents.items():
            if extent > MOST_POOL_EXTENT:
                raise MappingError(
                    f"max-pooling over {extent} {what}: config_st states at most {MOST_POOL_EXTENT}; pool on the host"
                )

    # loops over tiles

    def _pixels(self, body: PixelBody, *, peel: bool) -> Nodes:
        """Loops over images, rows and columns of tiles; with ``peel`` the very first tile stands apart."""
        t = self.mapping
        run_h, run_w = runs(self.image.rows, t.size("oh")), runs(self.image.cols, t.size("ow"))

        def cols(b: Affine, row: Affine, rows_run: Run, first: bool) -> Nodes:
            nodes: Nodes = []
            for run in peeled(run_w, first):
                nodes += repeat("tw", run.count, lambda i, run=run: body(  # type: ignore[misc]
                    PixelTile(rows_run, run, row, i + run.first, b), first and run.first == 0))
            return nodes

        def rows(b: Affine, first: bool) -> Nodes:
            nodes: Nodes = []
            for run in peeled(run_h, first):
                nodes += repeat("th", run.count, lambda i, run=run: cols(  # type: ignore[misc]
                    b, i + run.first, run, first and run.first == 0))
            return nodes

        return each("b", pieces(self.batch, 1, peel_first=peel), lambda b, run: rows(b, peel and run.first == 0))

    def _channels_in(self, tile: PixelTile, first: bool) -> Nodes:
        """Order p, o: all output channels of one tile of pixels."""
        t = self.mapping
        number = self._pixel_number(tile)
        base = self._slot("X", number)
        nodes: Nodes = []
        if t.level("X") == "hoist":
            nodes += self.scheme.each_chunk(tile, lambda chunk: self.scheme.load(
                tile, chunk, base + chunk.number * self.rows["chunk"]))
        load_w = t.level("W") == "stream" or (t.level("W") == "interleave" and first)
        o_tiles = ceil_div(self.image.o, t.size("o"))

        def one(o: Affine, run: Piece) -> Nodes:
            tile_number = number * o_tiles + o
            load_x = t.level("X") == "stream" or (t.level("X") == "interleave" and run.is_first)
            w_base = self._slot("W", Affine(0)) + o * self._tile_weights
            return self._tile(tile, Place(
                base, w_base, self._slot("C", tile_number), o * t.size("o"), run.size, tile_number, load_x, load_w))

        return nodes + each("ot", pieces(self.image.o, t.size("o"), peel_first=t.level("X") == "interleave"), one)

    def _channels_out(self, o: Affine, run: Piece) -> Nodes:
        """Order o, p: all pixels for one tile of output channels."""
        t = self.mapping
        if t.level("X") != "stream":
            raise MappingError("the input of a convolution can stay on chip only if the loop over pixels is outer")
        o_tiles = ceil_div(self.image.o, t.size("o"))
        w_base = self._slot("W", self.image.group * o_tiles + o)
        nodes: Nodes = []
        if t.level("W") == "hoist":
            nodes += self._chunk_weights(w_base, o * t.size("o"), run.size)

        def one(tile: PixelTile, first: bool) -> Nodes:
            all_pixels = self.batch * self._across(0) * self._across(1)
            number = o * all_pixels + self._pixel_number(tile) + self.image.group * ((o_tiles - 1) * all_pixels)
            load_w = t.level("W") == "stream" or (t.level("W") == "interleave" and first)
            x_base, c_base = self._slot("X", number), self._slot("C", number)
            return self._tile(tile, Place(x_base, w_base, c_base, o * t.size("o"), run.size, number, True, load_w))

        return nodes + self._pixels(one, peel=t.level("W") == "interleave")

    def _across(self, axis: int) -> int:
        """Tiles along rows (0) or columns (1)."""
        a, name = ((self.image.rows, "oh"), (self.image.cols, "ow"))[axis]
        return ceil_div(a.outputs, self.mapping.size(name))

    def _pixel_number(self, tile: PixelTile) -> Affine:
        """Of a tile among those of all groups and images: places are taken in turn from group to group, too."""
        image = self.image.group * self.batch + tile.batch
        return (image * self._across(0) + tile.row) * self._across(1) + tile.col

    def _slot(self, operand: str, number: Affine) -> Affine:
        """Local address of the slot that tile ``number`` of ``operand`` uses."""
        t, size = self.mapping, self.rows[operand]
        base = self.parameters.spad_rows - size * t.slots("W") if operand == "W" else 0
        return (number % t.slots(operand)) * size + base

    # one tile

    def _tile(self, tile: PixelTile, place: Place) -> Nodes:
        nodes = self._init(tile, place)
        nodes += self.scheme.each_chunk(tile, lambda chunk: self._chunk(tile, place, chunk))
        return nodes + self._stores(tile, place)

    def _chunk(self, tile: PixelTile, place: Place, chunk: Chunk) -> Nodes:
        """One chunk of the reduction: its input, its weights, its products."""
        t, c = self.mapping, chunk.number
        nodes: Nodes = []
        number = place.number * self.chunks + c
        base = self._slot("X", number) if t.level("X") == "stream" else place.x_base + c * self.rows["chunk"]
        if place.load_x:
            nodes += self.scheme.load(tile, chunk, base)
        if t.dataflow == "os":
            return nodes + self._output_stationary(tile, place, chunk, base)

        def product(step: Step) -> Nodes:
            at = self._weights_at(place, c, step)
            loads = self._load_weights(step, at, place) if place.load_w else []
            return loads + self._weight_stationary(tile, place, step, base, at)

        return nodes + self.scheme.products(tile, chunk, product)

    def _weights_at(self, place: Place, c: Affine, step: Step) -> Affine:
        """Where the weight tiles of one step begin."""
        number = c * self.scheme.steps + step.number
        if self.mapping.level("W") == "stream":
            return self._slot("W", place.number * (self.chunks * self.scheme.steps) + number)
        return place.w_base + number * (self.o_blocks * self.parameters.dim)

    def _load_weights(self, step: Step, at: Affine, place: Place) -> Nodes:
        dim, image = self.parameters.dim, self.image

        def block(j: Affine, run: Piece) -> Nodes:
            return [isa.mvin(W, rows.first * image.o + place.o0 + j * dim + image.weights,
                             Block(at + j * dim + rows.at, rows.size, run.size)) for rows in step.weights]

        return each("j", pieces(place.o_size, dim), block)

    def _chunk_weights(self, base: Affine, o0: Affine, o_size: int) -> Nodes:
        """All weights of a tile of output channels."""
        place = Place(base, base, base, o0, o_size, Affine(0), False, True)
        return self.scheme.each_chunk(None, lambda chunk: self.scheme.products(
            None, chunk, lambda step: self._load_weights(step, self._weights_at(place, chunk.number, step), place)))

    def _whole_weights(self) -> Nodes:
        """All weights, where they stay for the whole convolution."""
        if self.mapping.level("W") != "hoist":
            return []
        return each("ot", pieces(self.image.o, self.mapping.size("o")), lambda o, run: self._chunk_weights(
            self._slot("W", Affine(0)) + o * self._tile_weights, o * self.mapping.size("o"), run.size))

    # sums

    def _segments(self, tile: PixelTile, body: SegmentBody, *, peel: bool = False) -> Nodes:
        """``body(r, q, rows)`` for every stretch of up to dim sums of a row."""
        dim = self.parameters.dim
        rows = pieces(tile.rows.sums, 1, peel_first=peel)
        return each("r", rows, lambda r, rrun: each(
            "q", pieces(tile.cols.sums, dim, peel_first=peel and rrun.first == 0),
            lambda q, run: body(r, q, run.size, rrun.first == 0 and run.first == 0)))

    def _c_local(self, tile: PixelTile, place: Place, j: Affine, r: Affine, q: Affine) -> Affine:
        image = self.sums[0] * self.sums[1]
        pixel = r * tile.cols.sums + q * self.parameters.dim
        return place.c_base + j * image + pixel + isa.ACCUMULATOR

    def _init(self, tile: PixelTile, place: Place) -> Nodes:
        """The bias in every row of sums, or zeros."""
        dim, bias = self.parameters.dim, self.bias

        def block(j: Affine, jrun: Piece) -> Nodes:
            source = (self._first_channel(place) + j * dim) * 4 + bias.address if bias is not None else Affine(0)
            return self._segments(tile, lambda r, q, size, first: [isa.mvin(
                BIAS, source, Block(self._c_local(tile, place, j, r, q), size, jrun.size))])

        return each("j", pieces(place.o_size, dim), block)

    def _first_channel(self, place: Place) -> Affine:
        """Number of the tile's first output channel among those of all groups."""
        return self.image.group * self.image.o + place.o0

    def _weight_stationary(self, tile: PixelTile, place: Place, step: Step, base: Affine, at: Affine) -> Nodes:
        """Each block of weights goes into the mesh once; all sums of the tile pass it."""
        dim = self.parameters.dim

        def block(j: Affine, jrun: Piece) -> Nodes:
            def rows(r: Affine, q: Affine, size: int, first: bool) -> Nodes:
                c = Block(self._c_local(tile, place, j, r, q) + isa.ACCUMULATE, size, jrun.size)
                a = Block(self._a_local(step, base, r, q), size, step.k_size)
                return isa.by_weights(a, at + j * dim, c, fresh=first)

            return self._segments(tile, rows, peel=True)

        return each("j", pieces(place.o_size, dim), block)

    def _a_local(self, step: Step, base: Affine, r: Affine, q: Affine) -> Affine:
        return base + step.a0 + r * step.row_pitch + q * (self.parameters.dim * step.col_pitch)

    def _output_stationary(self, tile: PixelTile, place: Place, chunk: Chunk, base: Affine) -> Nodes:
        """The chunk's products are summed in the mesh, one stretch of sums after the other."""
        dim = self.parameters.dim
        nodes: Nodes = []
        strip, pitch = self._strip(place, chunk.number), self.o_blocks * dim
        if place.load_w:
            nodes += self.scheme.products(
                tile, chunk, lambda step: self._load_weights(step, strip + step.number * pitch, place))

        def block(j: Affine, jrun: Piece) -> Nodes:
            def segment(r: Affine, q: Affine, rows: int, first: bool) -> Nodes:
                c = Block(self._c_local(tile, place, j, r, q) + isa.ACCUMULATE, rows, jrun.size)

                def product(step: Step, begin: bool, end: bool) -> Nodes:
                    a = Block(self._a_local(step, base, r, q), rows, step.k_size)
                    b = Block(strip + step.number * pitch + j * dim, step.k_size, jrun.size)
                    return isa.into_sums(a, b, c, first=begin, last=end)

                return self.scheme.products_with_ends(tile, chunk, product)

            return self._segments(tile, segment)

        return nodes + each("j", pieces(place.o_size, dim), block)

    def _strip(self, place: Place, c: Affine) -> Affine:
        """Where the weights of a whole chunk begin."""
        if self.mapping.level("W") == "stream":
            return self._slot("W", place.number * self.chunks + c)
        return place.w_base + c * (self.scheme.steps * self.o_blocks * self.parameters.dim)

    # stores

    def _stores(self, tile: PixelTile, place: Place) -> Nodes:
        dim = self.parameters.dim
        if self.epilogue.pool is not None:
            return [self._config_pool(tile)] + each("j", pieces(place.o_size, dim), lambda j, run: [
                self._store(tile, place, j, run.size, Affine(0), Affine(0), min(dim, tile.rows.outputs))])
        return each("j", pieces(place.o_size, dim), lambda j, jrun: self._segments(
            tile, lambda r, q, size, first: [self._store(tile, place, j, jrun.size, r, q, size)]))

    def _config_pool(self, tile: PixelTile) -> Instr:
        pool = self.epilogue.pool
        assert pool is not None
        window = PoolWindow(
            pool.size, pool.stride, tile.rows.pool_skip, tile.cols.pool_skip, self.y.shape[2], tile.rows.outputs,
            tile.cols.outputs, tile.rows.sums, tile.cols.sums,
        )
        return isa.config_st(stride=self.y.shape[3], relu=self.epilogue.relu, scale=self.epilogue.scale, pool=window)

    def _store(self, tile: PixelTile, place: Place, j: Affine, cols: int, r: Affine, q: Affine, rows: int) -> Instr:
        dim, full = self.parameters.dim, self.epilogue.out_dtype == "int32"
        _, height, width, o = self.y.shape
        row = tile.batch * height + tile.rows.output_start(tile.row) + r
        pixel = row * width + tile.cols.output_start(tile.col) + q * dim
        target = (pixel * o + self._first_channel(place) + j * dim) * (4 if full else 1) + self.y.address
        local = self._c_local(tile, place, j, r, q) + (isa.FULL_WIDTH if full else 0)
        return isa.mvout(target, Block(local, rows, cols))
