"""A convolution engine of one's own: blocks of results, zero points, a multiplier and a shift of each channel.

Convolutions of any kernel and depthwise ones run as they are, matrix products as convolutions of 1 x 1; others become
products. ``archloom check mobilenet_v2 -t examples/targets/blocks.py`` and every other command take this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, check
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, registers, row_memory
from archloom.mapper.requantization import Requantization
from archloom.mapper.space import Space, SpaceBuilder, Table
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Node, Stream
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Instr, Nodes, TileMapping, ceil_div, divided, each, pieces, repeat
from archloom.uma_targets.kit.attention import Kernel
from archloom.uma_targets.kit.nest import Memory
from archloom.uma_targets.kit.spans import Span, spans


def blocks(
    *,
    dim: Annotated[int, Size(2, 64, "channels that go in and out at a time")] = 16,
    image_rows: Annotated[int, Size(16, 1 << 20, "pixels of dim channels in the buffer")] = 8192,
    sum_rows: Annotated[int, Size(2, 1 << 16, "accumulators of dim channels")] = 512,
    port_bytes: Annotated[int, Size(1, 1024, "width of the port to memory", "bytes")] = 32,
    memory_cycles: Annotated[int, Size(1, 10_000, "latency of memory", "cycles")] = 32,
    clock_hz: Annotated[float, Clock("clock of the engine")] = 1e9,
) -> acadl.ArchitectureGraph:
    """Images, weights, products and results, each behind a queue. TargetError that lists every option out of range."""
    check(blocks, locals())

    @acadl.generate
    def build() -> None:
        memory = acadl.DRAM("memory", data_width=8, port_width=port_bytes, max_concurrent_requests=16,
                            read_write_ports=4, read_latency=memory_cycles, write_latency=memory_cycles,
                            address_ranges=[(0, 1 << 32)])
        image = row_memory("image", 16 * dim, image_rows, requests=6, ports=4)
        sums = row_memory("sums", 32 * dim, sum_rows, requests=6, ports=4)
        tile = registers("tile", 16 * dim * dim, 2)
        channel = registers("channel", 3 * 32 * dim, 2)
        fetch = Fetch("fetch", entries=16, width=2)
        pixels = {"mac": "height * width", "mac_each": "height * width"}
        for name, interval, reads, writes in (
            ("images", {"load": 1, "clear": "rows"}, [memory], [image]),
            ("streamer", {"weights": 1, "channels": 1}, [memory], [tile, channel]),
            ("array", pixels, [image, tile, sums], [sums]),
            ("output", {"output": "rows"}, [sums, channel], [memory]),
        ):
            unit = QueuedUnit(name, fetch, set(interval), depth=4, latency=1, interval=dict(interval), in_flight=2).unit
            connect(unit, reads, writes)
        acadl.architecture("blocks", clock_hz=clock_hz,
                           parameters={"dim": dim, "image_rows": image_rows, "sum_rows": sum_rows},
                           buffers={"hbm": memory, "image": image, "sums": sums, "tile": tile, "channel": channel})

    return acadl.create_ag(build())


@dataclass(frozen=True)
class Layer:
    """A convolution, or a product as one of rows of a pixel each: the sizes of an image."""

    size: tuple[int, int, int]
    """lines, pixels and channels of the image"""
    out: tuple[int, int, int]
    taps: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    corner: tuple[int, int]
    """lines and pixels beyond the edge before the image"""
    depthwise: bool
    dim: int

    @staticmethod
    def of(w: Workload, dim: int) -> "Layer":
        kh, kw = (w.extent(d) for d in ("kh", "kw"))
        return Layer(w.inputs[0].shape[1:], w.output.shape[1:], (kh, kw), w.stride, w.dilation, w.padding[:2],
                     w.groups > 1, dim)

    @property
    def wide(self) -> int:
        """Pixels of a line with what is beyond its edges."""
        return max(self.corner[1] + self.size[1],
                   (self.out[1] - 1) * self.stride[1] + (self.taps[1] - 1) * self.dilation[1] + 1)

    @property
    def panels(self) -> int:
        return ceil_div(self.size[2], self.dim)

    def area(self, lines: int) -> int:
        """Rows of the buffer for a panel of the image under so many lines of results."""
        return ((lines - 1) * self.stride[0] + (self.taps[0] - 1) * self.dilation[0] + 1) * self.wide

    def demand(self, lines: int) -> dict[str, int]:
        return {"image": self.panels * self.area(lines), "sums": lines * self.out[1]}


@dataclass(frozen=True)
class Emission:
    """Writes one layer in blocks of ``lines`` lines; ``at`` has the byte addresses of its tensors."""

    layer: Layer
    at: Mapping[str, Affine]
    by: Requantization
    lines: int
    rooms: Mapping[str, int]

    def turns(self, room: str) -> int:
        """Whether a block is loaded, or added up, beside another one."""
        return 2 if 2 * self.layer.demand(self.lines)[room] <= self.rooms[room] else 1

    def nodes(self) -> Nodes:
        """All blocks of an image. MappingError where they do not fit."""
        g, demand = self.layer, self.layer.demand(self.lines)
        for name, rows in demand.items():
            if rows > self.rooms[name]:
                raise MappingError(f"blocks of {self.lines} lines need {rows} rows of {name}: {self.rooms[name]}")
        reach = (g.taps[0] - 1) * g.dilation[0] + 1
        nodes: Nodes = []
        for span in spans(g.out[0], self.lines, g.stride[0], reach, g.corner[0], g.size[0]):
            nodes += repeat("block", span.count, lambda i, span=span: self._block(span, i))  # type: ignore[misc]
        return nodes

    def _block(self, span: Span, number: Affine) -> Nodes:
        g, first = self.layer, number * span.size + span.first
        base = number % self.turns("image") * (g.panels * g.area(self.lines))
        nodes: Nodes = []
        if span.padded or g.wide > g.size[1]:
            nodes.append(Instr.make("clear", row=base, rows=g.panels * g.area(self.lines)))
        line = first * g.stride[0] + (span.skip - g.corner[0])
        if span.take:
            nodes += each("p", pieces(g.size[2], g.dim), lambda p, panel: [Instr.make(
                "load", dram=self.at["X"] + line * (g.size[1] * g.size[2]) + p * g.dim,
                row=base + p * g.area(self.lines) + (span.skip * g.wide + g.corner[1]), height=span.take,
                width=g.size[1], line=g.wide, pitch=g.size[1] * g.size[2], step=g.size[2], cols=panel.size,
                zero=self.by.operand_zeros[0])])
        return nodes + each("o", pieces(g.out[2], g.dim), lambda o, outs: list(
            self._column(span, first, base, o, outs.size)))

    def _column(self, span: Span, first: Affine, base: Affine, o: Affine, cols: int) -> Iterator[Node]:
        """The results of ``cols`` channels."""
        g = self.layer
        acc = o % self.turns("sums") * (self.lines * g.out[1])
        words = {name: self.at[name] + o * (4 * g.dim) for name in ("bias", "multiplier", "shift")}
        yield Instr.make("channels", **words, slot=o % 2, cols=cols)
        yield from each("r", pieces(g.taps[0], 1, peel_first=True), lambda r, row: each(
            "s", pieces(g.taps[1], 1, peel_first=row.is_first), lambda s, one: self._tap(
                span, acc, base, r, s, o, cols, one.is_first and row.is_first)))
        yield Instr.make("output", dram=self.at["Y"] + first * (g.out[1] * g.out[2]) + o * g.dim, acc=acc, slot=o % 2,
                         rows=span.size * g.out[1], cols=cols, stride=g.out[2], zero=self.by.zero_point,
                         low=self.by.low, high=self.by.high)

    def _tap(self, span: Span, acc: Affine, base: Affine, r: Affine, s: Affine, o: Affine, cols: int, starts: bool
             ) -> Nodes:
        g, tap, zero = self.layer, r * self.layer.taps[1] + s, self.by.operand_zeros[1]
        corner = base + r * (g.dilation[0] * g.wide) + s * g.dilation[1]

        def product(name: str, p: Affine, slot: Affine, add: bool) -> Instr:
            return Instr.make(name, row=corner + p * g.area(self.lines), line=g.stride[0] * g.wide, pixel=g.stride[1],
                              acc=acc, height=span.size, width=g.out[1], slot=slot, add=int(add))

        if g.depthwise:
            taps = g.taps[0] * g.taps[1]
            return [Instr.make("weights", dram=self.at["W"] + o * (g.dim * taps) + tap, slot=tap % 2, rows=cols, cols=1,
                               stride=taps, zero=zero), product("mac_each", o, tap % 2, not starts)]
        return each("k", pieces(g.size[2], g.dim, peel_first=starts), lambda k, deep: [
            Instr.make("weights", dram=self.at["W"] + (tap * g.size[2] + k * g.dim) * g.out[2] + o * g.dim,
                       slot=(tap * g.panels + k) % 2, rows=deep.size, cols=cols, stride=g.out[2], zero=zero),
            product("mac", k, (tap * g.panels + k) % 2, not (starts and deep.is_first))])


def rooms(sizes: Mapping[str, Any]) -> dict[str, int]:
    return {"image": sizes["image_rows"], "sums": sizes["sum_rows"]}


def of_product(m: int, n: int, k: int, dim: int) -> Layer:
    return Layer((m, 1, k), (m, 1, n), (1, 1), (1, 1), (1, 1), (0, 0), False, dim)


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """A product, whose rows are lines of one pixel."""
    made = gemm.requantized
    assert made is not None and gemm.bias is not None
    at = {"X": gemm.a, "W": gemm.b, "bias": gemm.bias, "multiplier": made.multiplier, "shift": made.shift, "Y": gemm.c}
    layer = of_product(gemm.m, gemm.n, gemm.k, parameters["dim"])
    return Emission(layer, at, made.by, mapping.size("m"), rooms(parameters)).nodes()


def conv2d(w: Workload, mapping: TileMapping, parameters: tuple[tuple[str, int], ...]) -> Stream:
    """A convolution, image by image."""
    sizes, memory = dict(parameters), Memory.of(w)
    layer, made = Layer.of(w, sizes["dim"]), w.epilogue.requantization
    assert made is not None
    item = {"X": w.inputs[0].size_bytes // w.inputs[0].shape[0], "Y": w.output.size_bytes // w.output.shape[0]}

    def image(n: Affine) -> Nodes:
        at = {t.name: n * item.get(t.name, 0) + t.address for t in memory.tensors}
        return Emission(layer, at, made, mapping.size("oh"), rooms(sizes)).nodes()

    return memory.stream("blocks", parameters, repeat("image", w.inputs[0].shape[0], image))


def estimate(layer: Layer, lines: np.ndarray, port: int) -> np.ndarray:
    """Cycles: products against the weights that come for each block, and the image."""
    high, wide, outs = layer.out
    tiles = layer.taps[0] * layer.taps[1] * (1 if layer.depthwise else layer.panels) * ceil_div(outs, layer.dim)
    each_tile = np.maximum(lines * wide, max(layer.dim**2 // port, layer.dim))
    blocks_ = np.asarray(ceil_div(high, lines))
    found: np.ndarray = blocks_ * (tiles * each_tile + layer.panels * layer.area(1) * lines)
    return found


def space(w: Workload, hardware: kit.Hardware, options: Mapping[str, Any]) -> Space:
    """Blocks of lines."""
    layer, room = Layer.of(w, options["dim"]), rooms(options)
    lines = np.array(divided(layer.out[0], 1, layer.out[0], limit=12))
    needs = {name: np.array([layer.demand(int(n))[name] for n in lines]) for name in room}

    def mapping(c: kit.Columns, i: int) -> TileMapping:
        return TileMapping("conv2d", "", (("oh", int(c["oh"][i])),), ("oh", "o"))

    builder = SpaceBuilder(w.name, room, "more image_rows or sum_rows")
    builder.add(Table({"oh": lines}, needs, lambda c: estimate(layer, c["oh"], options["port_bytes"]), mapping))
    return builder.build()


def tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> kit.Tiling:
    """Blocks of rows."""
    layer, room = of_product(shape.m, shape.n, shape.k, options["dim"]), rooms(options)
    most = max(1, min(room["sums"], room["image"] // layer.panels))
    return kit.Tiling({"m": divided(shape.m, 1, most, limit=12), "n": [options["dim"]], "k": [shape.k]},
                  demand={"image": lambda c: c["m"] * layer.panels, "sums": lambda c: c["m"]}, room=room,
                  help="more image_rows or sum_rows")


def one_line_fits(op: QuantizedOp, options: Mapping[str, Any]) -> str | None:
    """A convolution has one group or one channel in each, and a line of its results fits the buffers."""
    (_, c, h, w), (o, deep, *taps) = op.operands[0].shape, op.operands[1].shape
    if op.attrs["groups"] > 1 and (deep > 1 or o > c):
        return f"its {op.attrs['groups']} groups have {deep} channels"
    layer = Layer((h, w, c), (*op.shape[2:], o), (taps[0], taps[1]), tuple(op.attrs["strides"]),
                  tuple(op.attrs["dilation"]), op.attrs["padding"][:2], deep < c, options["dim"])
    for name, rows in layer.demand(1).items():
        if rows > rooms(options)[name]:
            return f"a line needs {rows} rows of {name}, which has {rooms(options)[name]}"
    return None


GRAPH = kit.GraphOptions(blocks)


class Blocks(kit.KitTarget):
    """A convolution engine with blocks of results."""

    kit = kit.GemmKit(
        name="blocks", description="a convolution engine: zero points, multiplier and shift of each channel, int8",
        isa=Path(__file__).with_suffix(".taidl"), options=GRAPH.options(), graph=GRAPH.graph, emit=emit, tiling=tiling,
        kernels={"conv2d": Kernel(conv2d, space)}, windows=(one_line_fits,),
        requantizer=kit.Requantizer(kit.HALF_UP, operand_zeros=True))


Blocks().register()
