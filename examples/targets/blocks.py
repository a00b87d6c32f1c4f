"""A convolution engine of one's own: blocks of results, zero points, a multiplier and a shift of each channel.

Convolutions of any kernel and depthwise ones run as they are, matrix products as convolutions of 1 x 1; others become
products. ``archloom check mobilenet_v2 -t examples/targets/blocks.py`` and every other command take this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, registers, row_memory
from archloom.mapper.memory import Memory
from archloom.mapper.requantization import Requantization
from archloom.mapper.space import Space, SpaceBuilder, Table
from archloom.mapper.spans import Span
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Node, Stream
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Instr, Nodes, TileMapping, ceil_div, divided, each, pieces, repeat
from archloom.uma_targets.kit.attention import Kernel
from archloom.uma_targets.kit.convolution import Convolution

ISA = Path(__file__).with_suffix(".taidl")
STATED = Stated(ISA)
MOST, ROOMS = STATED.size("dim").high, ("image_rows", "sum_rows")  # channels of a row at most; what blocks need


def blocks(
    *,
    multipliers: Annotated[int, Size(128, 256, "of the array", "multipliers", 128)] = 256,
    dim: Annotated[int, STATED.size("dim", "channels of a row of the buffers")] = STATED["dim"],
    image_rows: Annotated[int, STATED.size("image_rows", "pixels of dim channels held")] = STATED["image_rows"],
    sum_rows: Annotated[int, STATED.size("sum_rows", "accumulators of dim channels")] = STATED["sum_rows"],
    sram_bytes: Annotated[int, Size(1 << 16, 1 << 30, "memory of activations", "bytes")] = 1 << 22,
    clock_hz: Annotated[float, Clock("clock of the engine")] = 500e6,
) -> acadl.ArchitectureGraph:
    """Images, weights, products and results, each behind a queue. TargetError that lists every option out of range.

    Sizes and rates are those of an Ethos-U55 and its memories, as Arm's Vela 5.2.0 states them: the array takes 8
    channels of ``lines`` x 2 pixels to 8 channels in a cycle, 32 channels at a time, or 8 under four taps of a kernel,
    for which 32 cycles of weights are decoded; an output takes 1 / (2 * ``lines``) cycles.
    """
    isa = STATED.checked(blocks, locals())
    lines = multipliers // 128

    @acadl.generate
    def build() -> None:
        # axi0 and axi1 of "Ethos_U55_High_End_Embedded": 8 bytes in a cycle, and in one of 8 cycles
        sram = acadl.DRAM("sram", port_width=8, max_concurrent_requests=8, shared_port=True, read_write_ports=9,
                          read_latency=32, write_latency=32, roles=("activations",), address_ranges=[(0, sram_bytes)])
        flash = acadl.DRAM("flash", max_concurrent_requests=2, shared_port=True, read_write_ports=9, read_latency=64,
                           roles=("weights",), address_ranges=[(sram_bytes, 1 << 30)])
        image, sums = (row_memory(*held(isa.buffer(name)), requests=6, ports=4) for name in ("image", "sums"))
        tile, channel = (registers(*held(isa.buffer(name))) for name in ("tile", "channel"))
        fetch = Fetch("fetch", entries=16, width=2)
        pixels = f"steps * max(8, cdiv(height, {lines}) * cdiv(width, 2)) * cdiv(outs, 8)"
        for name, cycles, reads, writes in (
            ("images", {"load": 1, "clear": "rows"}, [sram, flash], [image]),
            ("mover", {"copy": 1}, [sram, flash], [sram]),
            ("streamer", {"weights": 1, "channels": 1}, [sram, flash], [tile, channel]),
            ("array", {"mac": pixels, "mac_each": pixels}, [image, tile, sums], [sums]),
            ("output", {"output": f"cdiv(rows * cols, {2 * lines})"}, [sums, channel], [sram]),
        ):
            unit = QueuedUnit(name, fetch, set(cycles), depth=1024 if name == "mover" else 32, latency=dict(cycles),
                              interval=dict(cycles), in_flight=2, first_latency=1,
                              extent=(lines, 2, 8, 8) if name == "array" else ()).unit
            connect(unit, reads, writes)
        acadl.architecture("blocks", clock_hz=clock_hz, isa=isa, buffers={"hbm": [sram, flash]})

    return acadl.create_ag(build())


@dataclass(frozen=True)
class Layer:
    """A convolution on panels of ``dim`` channels."""

    of: Convolution
    dim: int

    @property
    def panels(self) -> int:
        return ceil_div(self.of.size[2], self.dim)

    def rows(self, lines: int) -> int:
        """Rows of the buffer for what a block of so many lines needs of the image at a time."""
        return (1 if self.of.depthwise else self.panels) * self.of.area(lines)

    @property
    def column_bytes(self) -> int:
        """Weights of a column of results."""
        return self.of.taps[0] * self.of.taps[1] * self.dim * (1 if self.of.depthwise else self.of.size[2])

    def cycles(self, lines: np.ndarray) -> np.ndarray:
        """About those of the array, in blocks of so many lines."""
        products = self.column_bytes // self.dim * ceil_div(self.of.out[2], 8)
        return np.asarray(products * ceil_div(self.of.out[0], lines) * np.maximum(8, lines * self.of.out[1] / 4) / 8)

    def demand(self, lines: int) -> dict[str, int]:
        return {"image_rows": self.rows(lines), "sum_rows": lines * self.of.out[1]}


@dataclass(frozen=True)
class Emission:
    """Writes one layer in blocks of ``lines`` lines; ``at`` has the byte addresses of its tensors, and of the ``room``
    in fast memory for its weights."""

    layer: Layer
    at: Mapping[str, Affine]
    by: Requantization
    lines: int
    rooms: Mapping[str, int]

    @property
    def g(self) -> Convolution:
        return self.layer.of

    def turns(self, room: str) -> int:
        """Whether a block is loaded, or added up, beside another one."""
        return 2 if 2 * self.layer.demand(self.lines)[room] <= self.rooms[room] else 1

    def nodes(self) -> Nodes:
        """An image, column by column, while the weights come."""
        blocks_, columns = self.g.spans(self.lines), pieces(self.g.out[2], self.layer.dim)
        once = blocks_[0].size == self.g.out[0] and not self.g.depthwise  # the whole image is there
        loads = self._load(blocks_[0], Affine(0), Affine(0), Affine(0), 0) if once else []
        return [*loads, *each("o", columns, lambda o, cut: self._copy(o, cut.size)), *each(
            "o", columns, lambda o, cut: self._column(blocks_, o, cut.size, once))]

    def _copy(self, o: Affine, cols: int) -> Nodes:
        """The weights of ``cols`` channels, tile by tile, to where they are fast to read."""
        dim, taps, kept = self.layer.dim, self.g.taps[0] * self.g.taps[1], self.at["room"] + o * self.layer.column_bytes
        rows, width, stride, each_o = (1, cols * taps, 0, dim * taps) if self.g.depthwise else (
            taps * self.g.size[2], cols, self.g.out[2], dim)
        return each("r", pieces(rows, dim), lambda r, cut: [Instr.make(
            "copy", source=self.at["W"] + r * (dim * stride) + o * each_o, target=kept + r * (dim * width),
            rows=cut.size, cols=width, stride=stride)])

    def _column(self, blocks_: Iterable[Span], o: Affine, cols: int, once: bool) -> Nodes:
        """The results of ``cols`` channels, block by block."""
        words = {name: self.at[name] + o * (4 * self.layer.dim) for name in ("bias", "multiplier", "shift")}
        nodes: Nodes = [Instr.make("channels", **words, slot=o % 2, cols=cols)]
        turn = o * sum(span.count for span in blocks_)
        for span in blocks_:
            def block(i: Affine, span: Span = span, turn: Affine = turn) -> Nodes:
                first = i * span.size + span.first
                base = (turn + i) % self.turns("image_rows") * (0 if once else self.layer.rows(self.lines))
                return [*([] if once else self._load(span, first, base, o, cols)),
                        *self._results(span, first, base, o, cols, turn + i)]

            nodes, turn = nodes + repeat("block", span.count, block), turn + span.count
        return nodes

    def _load(self, span: Span, first: Affine, base: Affine, o: Affine, cols: int) -> Nodes:
        """The part of the image under a block: all of its channels, or those of ``cols`` results alone."""
        g, dim, line = self.g, self.layer.dim, first * self.g.stride[0] + (span.skip - self.g.corner[0])

        def panel(p: Affine, row: Affine, cols: int) -> Instr:
            return Instr.make(
                "load", dram=self.at["X"] + line * (g.size[1] * g.size[2]) + p * dim,
                row=row + (span.skip * g.wide + g.corner[1]), height=span.take, width=g.size[1], line=g.wide,
                pitch=g.size[1] * g.size[2], step=g.size[2], cols=cols, zero=self.by.operand_zeros[0])

        edges = span.padded or g.wide > g.size[1]
        nodes: Nodes = [Instr.make("clear", row=base, rows=self.layer.rows(self.lines))] if edges else []
        panels = [panel(o, base, cols)] if g.depthwise else each("p", pieces(g.size[2], dim), lambda p, cut: [
            panel(p, base + p * g.area(self.lines), cut.size)])
        return nodes + (panels if span.take else [])

    def _results(self, span: Span, first: Affine, base: Affine, o: Affine, cols: int, turn: Affine) -> Iterator[Node]:
        """The results of a block in ``cols`` channels."""
        g, acc = self.g, turn % self.turns("sum_rows") * (self.lines * self.g.out[1])
        yield from each("r", pieces(g.taps[0], 1, peel_first=True, peel_last=True), lambda r, row: each(
            "s", pieces(g.taps[1], 1, peel_first=row.is_first, peel_last=row.is_last), lambda s, one: self._tap(
                span, acc, base, r, s, o, cols, one.is_first and row.is_first, one.is_last and row.is_last)))
        to = self.at["Y"] + first * (g.out[1] * g.out[2]) + o * self.layer.dim
        yield Instr.make("output", dram=to, acc=acc, slot=o % 2, rows=span.size * g.out[1], cols=cols, stride=g.out[2],
                         zero=self.by.zero_point, low=self.by.low, high=self.by.high)

    def _tap(self, span: Span, acc: Affine, base: Affine, r: Affine, s: Affine, o: Affine, cols: int, starts: bool,
             ends: bool) -> Nodes:
        g, tap, panels = self.g, r * self.g.taps[1] + s, self.layer.panels
        kept = self.at["room"] + o * self.layer.column_bytes
        taps, zero = g.taps[0] * g.taps[1], self.by.operand_zeros[1]
        corner = base + r * (g.dilation[0] * g.wide) + s * g.dilation[1]

        def pair(name: str, p: Affine, weights: Affine, slot: Affine, add: bool, shape: tuple[int, int, int]) -> Nodes:
            rows, width, stride = shape
            return [Instr.make("weights", dram=weights, slot=slot % 2, rows=rows, cols=width, stride=stride, zero=zero),
                    Instr.make(name, row=corner + p * g.area(self.lines), line=g.stride[0] * g.wide, pixel=g.stride[1],
                               acc=acc, height=span.size, width=g.out[1], slot=slot % 2, outs=cols,
                               steps=steps(1 if g.depthwise else rows, taps, ends), add=int(add))]

        if g.depthwise:
            return pair("mac_each", Affine(0), kept + tap, tap, not starts, (cols, 1, taps))
        return each("k", pieces(g.size[2], self.layer.dim, peel_first=starts), lambda k, deep: pair(
            "mac", k, kept + (tap * g.size[2] + k * self.layer.dim) * cols, tap * panels + k,
            not (starts and deep.is_first), (deep.size, cols, cols)))


def steps(deep: int, taps: int, ends: bool) -> int:
    """Quarters of a step of the array that one of ``taps`` takes, of ``deep`` channels in: all of a step for 32
    channels, or one for each 8 where four taps share steps and the last takes what is left of them."""
    shared, whole = ceil_div(deep, 8), 4 * ceil_div(deep, 32)
    if 4 * ceil_div(taps, 4) * shared > taps * whole:
        return whole
    return shared * (1 + (-taps % 4 if ends else 0))


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """A product of matrices."""
    made = gemm.requantized
    assert made is not None and gemm.bias is not None
    at = {"X": gemm.a, "W": gemm.b, "bias": gemm.bias, "multiplier": made.multiplier, "shift": made.shift, "Y": gemm.c,
          "room": gemm.workspace}
    layer = Layer(Convolution.of_product(gemm.m, gemm.n, gemm.k, 16), parameters["dim"])
    return Emission(layer, at, made.by, ceil_div(mapping.size("m"), layer.of.size[1]), parameters).nodes()


def conv2d(w: Workload, mapping: TileMapping, parameters: tuple[tuple[str, int], ...]) -> Stream:
    """A convolution, image by image."""
    sizes, memory = dict(parameters), Memory.of(w)
    layer, made = Layer(Convolution.of(w), sizes["dim"]), w.epilogue.requantization
    assert made is not None
    item = {"X": w.inputs[0].size_bytes // w.inputs[0].shape[0], "Y": w.output.size_bytes // w.output.shape[0]}

    def image(n: Affine) -> Nodes:
        at = {t.name: n * item.get(t.name, 0) + t.address for t in memory.tensors} | {"room": Affine(memory.end)}
        return Emission(layer, at, made, mapping.size("oh"), sizes).nodes()

    return memory.stream("blocks", parameters, repeat("image", w.inputs[0].shape[0], image),
                         layer.column_bytes * ceil_div(layer.of.out[2], layer.dim))


def space(w: Workload, hardware: kit.Hardware, options: Mapping[str, Any]) -> Space:
    """Blocks of lines."""
    layer = Layer(Convolution.of(w), options["dim"])
    lines = np.array(divided(layer.of.out[0], 1, layer.of.out[0], limit=12))
    needs = {name: np.array([layer.demand(int(n))[name] for n in lines]) for name in ROOMS}
    builder = SpaceBuilder(w.name, {name: options[name] for name in ROOMS}, f"more {' or '.join(ROOMS)}")
    builder.add(Table({"oh": lines}, needs, lambda c: layer.cycles(c["oh"]), lambda c, i: TileMapping(
        "conv2d", "", (("oh", int(c["oh"][i])),), ("oh", "o"))))
    return builder.build()


def tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> kit.Tiling:
    """Blocks of rows, of whole lines."""
    layer = Layer(Convolution.of_product(shape.m, shape.n, shape.k, 16), options["dim"])
    high, wide, _ = layer.of.size
    lines = divided(high, 1, max(1, min(options["sum_rows"], options["image_rows"] // layer.panels) // wide), limit=12)
    return kit.Tiling({"m": [wide * n for n in lines], "n": [options["dim"]], "k": [shape.k]},
                      demand={"image_rows": lambda c: c["m"] * layer.panels, "sum_rows": lambda c: c["m"]},
                      room={name: options[name] for name in ROOMS}, help=f"more {' or '.join(ROOMS)}")


def one_line_fits(op: QuantizedOp, options: Mapping[str, Any]) -> str | None:
    """A convolution has one group or one channel in each, and a line of its results fits the buffers."""
    g = Convolution.of_match(op)
    if g.groups > 1 and not g.depthwise:
        return f"its {g.groups} groups have {g.size[2] // g.groups} channels and {g.out[2] // g.groups} results"
    needs = Layer(g, options["dim"]).demand(1)
    return next((f"a line needs {rows} {name}, of {options[name]}" for name, rows in needs.items()
                 if rows > options[name]), None)


GRAPH = kit.GraphOptions(blocks)


class Blocks(kit.KitTarget):
    """A convolution engine with blocks of results, and weights in flash."""

    kit = kit.GemmKit(
        name="blocks", description="a convolution engine: zero points, multiplier and shift of each channel, int8",
        isa=ISA, options=GRAPH.options(), graph=GRAPH.graph, emit=emit, tiling=tiling,
        kernels={"conv2d": Kernel(conv2d, space)},
        workspace_bytes=lambda m, n, k, mapping: (n + MOST) * k, windows=(one_line_fits,),
        requantizer=kit.Requantizer(kit.HALF_UP, operand_zeros=True))


Blocks().register()
