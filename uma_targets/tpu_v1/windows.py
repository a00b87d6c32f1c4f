"""Convolutions on TPU v1: images lie padded in the Unified Buffer, and the matrix unit takes their windows from there.

An image crosses the host's link once. A pixel is a row of the buffer for each panel of ``dim`` channels, and a tap of
the kernel is a product of the pixels under it with one weight tile (``convolve``): its windows are set up by addresses.
Blocks of lines of as many images as the accumulators hold take each weight tile one after the other; columns of output
channels take turns in the accumulators where two fit, groups of images in the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from archloom.mapper.costs.pipeline import cycles
from archloom.mapper.memory import Memory
from archloom.mapper.space import Space, SpaceBuilder, Table
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Stream
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Columns, Hardware, Issue, Loop, Nodes, Piece, ceil_div, divided, each, pieces
from archloom.uma_targets.kit.nest import float_bits, repeat

NONE, RELU = 0, 1


@dataclass(frozen=True)
class Geometry:
    """Sizes of a convolution in rows of the Unified Buffer; ``dim`` channels are a panel."""

    images: int
    lines: int
    pixels: int
    channels: int
    out: tuple[int, int, int]
    """lines, pixels and channels of the result"""
    taps: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    corner: tuple[int, int]
    """lines and pixels of zeros before the image"""
    dim: int

    @staticmethod
    def of(workload: Workload, dim: int) -> "Geometry":
        """That of a ``conv2d`` workload of one group without pooling; MappingError for another one."""
        if workload.groups > 1 or workload.epilogue.pool is not None:
            raise MappingError(f"{workload.name}: expected a convolution of one group without pooling")
        n, h, w, c = workload.inputs[0].shape
        kh, kw, _, o = workload.inputs[1].shape
        return Geometry(n, h, w, c, (workload.extent("oh"), workload.extent("ow"), o), (kh, kw), workload.stride,
                        workload.dilation, workload.padding[:2], dim)

    @cached_property
    def padded(self) -> tuple[int, int]:
        """Lines and pixels of an image with the zeros around it."""
        high, wide = (
            max(before + size, (out - 1) * stride + (taps - 1) * dilation + 1)
            for before, size, out, stride, taps, dilation in zip(
                self.corner, (self.lines, self.pixels), self.out, self.stride, self.taps, self.dilation))
        return high, wide

    @property
    def has_zeros(self) -> bool:
        return self.padded != (self.lines, self.pixels)

    @property
    def panels(self) -> int:
        """Panels of input channels."""
        return ceil_div(self.channels, self.dim)

    @property
    def image_rows(self) -> int:
        """Rows of the buffer that an image takes."""
        return self.panels * self.padded[0] * self.padded[1]

    def demand(self, images: int, lines: int, slots: int) -> dict[str, int]:
        """Rows of the buffer and accumulators that so many images, in ``slots`` groups, and lines of results take."""
        sums = images * lines * self.out[1]
        return {"unified_buffer": slots * images * self.image_rows + 2 * sums, "accumulator": sums}


@dataclass(frozen=True)
class Emission:
    """Writes the instructions of one convolution for groups of ``images`` and blocks of ``lines`` of results."""

    workload: Workload
    geometry: Geometry
    addresses: Mapping[str, int]
    images: int
    lines: int
    slots: int
    acc_rows: int

    @property
    def dim(self) -> int:
        return self.geometry.dim

    @property
    def sums(self) -> int:
        """Accumulators of a block of lines of a group of images."""
        return self.images * self.lines * self.geometry.out[1]

    @property
    def results(self) -> int:
        """First row of the buffer behind the images."""
        return self.slots * self.images * self.geometry.image_rows

    def body(self) -> Nodes:
        """Groups of images; blocks of lines; columns of output channels."""
        g = self.geometry
        return self._zeros() + each("ng", pieces(g.images, self.images), lambda group, images: [
            *self._load(group, images.size),
            *each("lb", pieces(g.out[0], self.lines), lambda block, lines: each(
                "ob", pieces(g.out[2], self.dim), lambda column, outs: list(
                    self._column(Block(self, group, block, images.size, lines.size), column, outs.size)))),
        ])

    def _zeros(self) -> Nodes:
        """Zeros wherever the windows reach beyond an image: a sum times 0; loads never write there."""
        if not self.geometry.has_zeros:
            return []
        most = min(self.acc_rows, self.results)
        return each("z", pieces(self.results, most), lambda i, run: [
            Instr.make("activate", acc=0, ub=i * most, rows=run.size, function=NONE, scale=float_bits(0.0))])

    def image(self, group: Affine, number: Affine) -> Affine:
        """First row of an image of a group in the buffer."""
        return (group % self.slots * self.images + number) * self.geometry.image_rows

    def _load(self, group: Affine, images: int) -> Nodes:
        g = self.geometry
        high, wide = g.padded
        # without zeros between them lines follow one another
        lines, pixels = (g.lines, g.pixels) if wide > g.pixels else (1, g.lines * g.pixels)

        def line(i: Affine, p: Affine, y: Affine, cols: int) -> Nodes:
            pixel = ((group * self.images + i) * g.lines + y) * g.pixels
            return [Instr.make(
                "read_host_memory", addr=pixel * g.channels + p * self.dim + self.addresses["X"],
                ub=self.image(group, i) + p * (high * wide) + (y + g.corner[0]) * wide + g.corner[1],
                rows=pixels, cols=cols, stride=g.channels)]

        return repeat("i", images, lambda i: each("p", pieces(g.channels, self.dim), lambda p, panel: repeat(
            "y", lines, lambda y: line(i, p, y, panel.size))))

    def _column(self, block: "Block", column: Affine, cols: int) -> Iterator[Any]:
        epilogue, turns = self.workload.epilogue, 2 if 2 * self.sums <= self.acc_rows else 1
        acc, at = column % turns * self.sums, column * self.dim
        if epilogue.bias:
            yield Instr.make("read_bias", addr=at * 4 + self.addresses["bias"], acc=acc, rows=self.sums, cols=cols)
        yield from block.products(acc, at, cols, epilogue.bias)
        yield from block.store(acc, column % 2 * self.sums + self.results, at, cols)


@dataclass(frozen=True)
class Block:
    """``lines`` lines of results of ``images`` images: block number ``number`` of group ``group``."""

    whole: Emission
    group: Affine
    number: Affine
    images: int
    lines: int

    @property
    def each_image(self) -> int:
        """Accumulators of an image."""
        return self.whole.lines * self.whole.geometry.out[1]

    def products(self, acc: Affine, at: Affine, cols: int, started: bool) -> Nodes:
        """All taps and panels: a weight tile each, for all images."""
        g, peel = self.whole.geometry, not started

        def tap(r: Affine, s: Affine, first: bool) -> Nodes:
            return each("k", pieces(g.channels, self.whole.dim, peel_first=first), lambda k, panel: [
                self._weights((r * g.taps[1] + s) * g.channels + k * self.whole.dim, panel, at, cols),
                *self._windows(acc, r, s, k, not (first and panel.is_first))])

        return each("r", pieces(g.taps[0], 1, peel_first=peel), lambda r, row: each(
            "s", pieces(g.taps[1], 1, peel_first=peel and row.is_first), lambda s, one: tap(
                r, s, peel and row.is_first and one.is_first)))

    def _weights(self, row: Affine, panel: Piece, at: Affine, cols: int) -> Instr:
        outs = self.whole.geometry.out[2]
        return Instr.make("read_weights_strided", addr=row * outs + at + self.whole.addresses["W"], rows=panel.size,
                          cols=cols, stride=outs)

    def _windows(self, acc: Affine, r: Affine, s: Affine, k: Affine, accumulate: bool) -> Nodes:
        """One tap in strips: while the sums of one come out, the next is on its way."""
        g, strip = self.whole.geometry, max(1, 2 * self.whole.dim // self.whole.geometry.out[1])
        high, wide = g.padded
        corner = k * (high * wide) + r * (g.dilation[0] * wide) + s * g.dilation[1]

        def windows(i: Affine, j: Affine, lines: int, first: bool) -> Nodes:
            line = self.number * self.whole.lines + j * strip
            return [Instr.make(
                "convolve", ub=self.whole.image(self.group, i) + corner + line * (g.stride[0] * wide),
                row_step=g.stride[0] * wide, pixel_step=g.stride[1],
                acc=acc + i * self.each_image + j * (strip * g.out[1]), height=lines, width=g.out[1],
                take=int(first), accumulate=int(accumulate))]

        return each("i", pieces(self.images, 1, peel_first=True), lambda i, image: each(
            "j", pieces(self.lines, strip, peel_first=image.is_first), lambda j, lines: windows(
                i, j, lines.size, image.is_first and lines.is_first)))

    def store(self, acc: Affine, result: Affine, at: Affine, cols: int) -> Nodes:
        """The results of one column of channels, an image after the other."""
        g, epilogue = self.whole.geometry, self.whole.workload.epilogue
        high, wide, outs = g.out

        def one(i: Affine) -> Nodes:
            offset, rows = i * self.each_image, self.lines * wide
            line = (self.group * self.whole.images + i) * high + self.number * self.whole.lines
            return [
                Instr.make("activate", acc=acc + offset, ub=result + offset, rows=rows,
                           function=RELU if epilogue.relu else NONE, scale=float_bits(epilogue.scale)),
                Instr.make("write_host_memory", addr=line * (wide * outs) + at + self.whole.addresses["Y"],
                           ub=result + offset, rows=rows, cols=cols, stride=outs)]

        return repeat("i", self.images, one)


def stream(workload: Workload, mapping: kit.TileMapping, parameters: tuple[tuple[str, int], ...]) -> Stream:
    """The stream of a convolution; the mapping's tile has ``n`` images of a group and ``oh`` lines of a block.

    MappingError where they do not fit.
    """
    sizes, memory = dict(parameters), Memory.of(workload)
    geometry = Geometry.of(workload, sizes["dim"])
    slots = dict(mapping.buffers)["X"]
    images, lines = mapping.size("n"), mapping.size("oh")
    for name, rows in geometry.demand(images, lines, slots).items():
        room = sizes["ub_rows" if name == "unified_buffer" else "acc_rows"]
        if rows > room:
            raise MappingError(f"{workload.name}: {images} images and {lines} lines need {rows} rows of {name}, "
                               f"which has {room}")
    emission = Emission(workload, geometry, {t.name: t.address for t in memory.tensors}, images, lines, slots,
                        sizes["acc_rows"])
    return memory.stream("tpu_v1", parameters, emission.body())


def space(workload: Workload, hardware: Hardware, options: Mapping[str, Any]) -> Space:
    """Groups of whole images, or blocks of lines of one; in one or two places of the buffer."""
    g, room = Geometry.of(workload, options["dim"]), {
        name: hardware.memory(name).rows for name in ("unified_buffer", "accumulator")}
    whole = [(images, g.out[0]) for images in divided(g.images, 1, g.images, limit=4)]
    blocks = [(1, lines) for lines in divided(g.out[0], 1, g.out[0], limit=8)]
    rows = sorted({(*pair, slots) for pair in (*whole, *blocks) for slots in (1, 2)})
    columns = {name: np.array(column) for name, column in zip(("n", "oh", "slots"), zip(*rows))}
    needs = {name: np.array([g.demand(*row)[name] for row in rows]) for name in room}

    def mapping(c: Columns, i: int) -> kit.TileMapping:
        return kit.TileMapping("conv2d", "", (("n", int(c["n"][i])), ("oh", int(c["oh"][i]))), ("n", "oh", "o"),
                           buffers=(("X", int(c["slots"][i])),))

    builder = SpaceBuilder(workload.name, room, "a larger unified_buffer_kib or accumulator_kib")
    builder.add(Table(columns, needs, lambda c: cycles(_loops(g, c, hardware), hardware), mapping))
    return builder.build()


def _loops(g: Geometry, c: Columns, hardware: Hardware) -> Loop:
    """What is issued; sizes are those of mean blocks."""
    (high, wide, outs), taps = g.out, g.taps[0] * g.taps[1]
    groups, blocks, columns = (np.asarray(ceil_div(e, t)) for e, t in (
        (g.images, c["n"]), (high, c["oh"]), (outs, g.dim)))
    images = g.images / groups
    sums = images * high / blocks * wide
    depth, width = g.channels / g.panels, outs / columns
    host = Issue("read_host_memory", g.panels * images, depth, g.lines * g.pixels)
    product = Issue("convolve", values={"height": sums, "width": 1, "take": 1}, beats=2 * sums)
    write = Issue("write_host_memory", images, width, sums / images)
    step = Loop(taps * g.panels, (product,), first=(Issue("read_weights_strided", 1, width, depth),),
                slots=hardware.memory("fifo").rows)
    turns = np.where(2 * c["n"] * c["oh"] * wide <= hardware.memory("accumulator").rows, 2, 1)
    column = Loop(columns, (step,), last=(Issue("activate", images, values={"rows": sums / images}, beats=2 * sums),),
                  slots=turns)
    block = Loop(blocks, (column, Issue("write_host_memory", images * columns, width, sums / images)))
    return Loop(1, (Loop(groups, (block,), first=(host,), slots=c["slots"]),), alone=(write,))
