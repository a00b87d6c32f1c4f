"""Products and convolutions of the MTE paper on its six architectures: streams, cycles, instructions and joules.

A convolution is run directly, as section V-B describes it: M is the minibatch, N output and K input channels. Images
lie as [row, column, image, channel], so that results lie as the next layer reads them, with the padding around them;
where a convolution has a stride, columns are sorted by their remainder. A block of C is of one pixel; a row of pixels
has its products one after the other.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from archloom.acadl_models import riscv_v
from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mte import MASKS, PRODUCTS, TILES
from archloom.acadl_models.timing import simulate_bound
from archloom.acadl_models.timing.energy import energy
from archloom.acadl_models.timing.machine import bind
from archloom.mapper.accelerator import Configuration
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import align
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import HbmTensor, Instr, Node, Stream
from archloom.uma_targets.kit import Gemm, ceil_div, repeat
from archloom.uma_targets.mte.emit import Machine, blocks
from archloom.uma_targets.mte.places import Taps
from archloom.uma_targets.mte.target import Mte

DATA = Path(__file__).resolve().parents[1] / "data"
CATEGORIES = {"I": 32, "II": 64, "III": 128, "IV": 256, "V": 512, "VI": 2048}
"""Most columns of C, or output channels, of each category."""

COUNTED = riscv_v.VECTOR | {*riscv_v.CONTIGUOUS_LOADS, *riscv_v.CONTIGUOUS_STORES} | MASKS | PRODUCTS | {
    f"{kind}{what}" for what in TILES for kind in ("tl", "ttl")} | {"tsc", "ttsc"}
"""What is counted as vector and matrix instructions: not those that set sizes, nor scalar ones."""

ITEM = 4

@dataclass(frozen=True)
class Cost:
    """Cycles, joules without memory, and those of vector registers, of a run or of a part of it."""

    cycles: float
    joules: float
    registers: float

    def further(self, other: "Cost", times: float) -> "Cost":
        """This and ``times`` what ``other`` has more."""
        return Cost(*(a + times * (b - a) for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Found:
    """What a case takes on an architecture; ``efficiency``: the share of the peak."""

    cycles: float
    efficiency: float
    joules: float
    registers: float
    instructions: int
    mapping: str


@dataclass(frozen=True)
class Product:
    """A product of a transformer."""

    m: int
    n: int
    k: int

    name = property(lambda self: f"{self.m}x{self.n}x{self.k}")
    kind = "transformers"

    @property
    def channels(self) -> int:
        return self.n

    @property
    def macs(self) -> int:
        return self.m * self.n * self.k

    @property
    def workload(self) -> Workload:
        return _gemm(self.m, self.n, self.k)

    def fitted(self, mapping: TileMapping) -> TileMapping:
        return mapping

    def whole(self, configuration: Configuration, mapping: TileMapping) -> Stream:
        return configuration.emit(self.workload, mapping)

    def cost(self, configuration: Configuration, mapping: TileMapping) -> Cost:
        return _cost(self.whole(configuration, mapping), configuration)


@dataclass(frozen=True)
class Convolution:
    """A convolution; ``rows`` and ``columns`` of the result, ``width`` of the padded input in pixels."""

    name: str
    images: int
    inputs: int
    channels: int
    window: tuple[int, int]
    stride: int
    rows: int
    columns: int
    width: int

    kind = "convolutions"

    @property
    def macs(self) -> int:
        return self.images * self.inputs * self.channels * math.prod(self.window) * self.rows * self.columns

    @property
    def workload(self) -> Workload:
        """The product that a pixel of the result is, by which it is mapped: M is the minibatch alone."""
        return _gemm(self.images, self.channels, math.prod(self.window) * self.inputs)

    @property
    def pixels(self) -> int:
        """Bytes from one pixel of the input to the next."""
        return self.images * self.inputs * ITEM

    @property
    def plane(self) -> int:
        """Columns of the input with one remainder."""
        return ceil_div(self.width, self.stride)

    @property
    def taps(self) -> list[Taps]:
        """Places of the window: those of columns with the same remainder lie a pixel apart."""
        down, across = self.window
        weights = self.inputs * self.channels * ITEM
        row = self.stride * self.plane * self.pixels
        return [Taps(first * self.plane * self.pixels, first * weights, (
            (down, row, across * weights), (ceil_div(across - first, self.stride), self.pixels, self.stride * weights)))
            for first in range(min(self.stride, across))]

    @property
    def height(self) -> int:
        """Rows of the padded input."""
        return (self.rows - 1) * self.stride + self.window[0]

    def stream(self, mapping: TileMapping, machine: Machine, rows: int, m: int) -> Stream:
        """So many rows of the result, of each the first ``m`` rows of C."""
        a = HbmTensor("A", 64, (self.height * self.stride * self.plane * self.images, self.inputs), "float32")
        b = HbmTensor("B", end_of(a), (math.prod(self.window) * self.inputs, self.channels), "float32")
        c = HbmTensor("C", end_of(b), (self.rows * self.columns * self.images, self.channels), "float32")
        taps, out = self.taps, self.columns * self.images * self.channels * ITEM

        def row(y: Affine) -> Sequence[Node]:
            product = Gemm(
                m, self.channels, self.inputs, y * (self.stride * self.stride * self.plane * self.pixels) + a.address,
                Affine(b.address), None, y * out + c.address, ITEM, ITEM, ITEM, False, 1.0, Affine(0), None)
            return blocks(product, mapping, machine, taps)

        parameters = tuple(vars(machine).items())
        return Stream("mte", parameters, (a, b), (c,), end_of(c), tuple(repeat("row", rows, row)), self.name)

    def fitted(self, mapping: TileMapping) -> TileMapping:
        """With blocks of K in input channels of one place of the window."""
        sizes = tuple((d, min(size, self.inputs) if d == "k" else size) for d, size in mapping.tile)
        return replace(mapping, tile=sizes)

    def whole(self, configuration: Configuration, mapping: TileMapping) -> Stream:
        return self.stream(mapping, Machine(**configuration.graph.parameters), self.rows, self.columns * self.images)

    def cost(self, configuration: Configuration, mapping: TileMapping, *, exact: bool = False) -> Cost:
        """That of all of it, by :func:`in_proportion` unless ``exact``."""
        machine, m, span = Machine(**configuration.graph.parameters), self.columns * self.images, mapping.size("m")
        if exact:
            return _cost(self.whole(configuration, mapping), configuration)
        each = counts(self.stream(mapping, machine, 1, min(m, span)).body).total()
        return in_proportion(self.rows, m, span, passed_over(configuration.graph, each), lambda rows, most: _cost(
            self.stream(mapping, machine, rows, most), configuration))


def passed_over(graph: ArchitectureGraph, each: int) -> int:
    """How many blocks of ``each`` so many instructions fill the reorder buffer twice."""
    return ceil_div(2 * (graph.fetch_stages[0].reorder_entries or 0), each)


def in_proportion(rows: int, m: int, span: int, blocks: int, cost: Callable[[int, int], Cost]) -> Cost:
    """Of ``rows`` rows of the result with ``m`` rows of C each, in blocks of ``span``, by ``cost`` of a few rows with a
    few blocks each.

    What a core can have under way goes on in one block while it waits for memory in another, so that a second block
    may take less than its products do. So many ``blocks`` (:func:`passed_over`) are passed over, and what as many more
    take, all others take; of rows alike.
    """
    few, some = (span * (1 + times * blocks) for times in (1, 2))
    first = ceil_div(blocks, ceil_div(m, span))

    def row(y: int) -> Cost:
        return cost(y, m) if m <= some else cost(y, few).further(cost(y, some), (m - few) / (some - few))

    return row(rows) if rows <= 2 * first else row(first).further(row(2 * first), (rows - first) / first)


Case: TypeAlias = Product | Convolution


def category(case: Case) -> str:
    """By output channels, or columns of C."""
    return next(name for name, most in CATEGORIES.items() if case.channels <= most)


def products() -> list[Case]:
    """The 18 of transformers."""
    return [Product(*(int(row[d]) for d in "MNK")) for row in _table("mte_gemms") if int(row["sel18_qk"])]


def convolutions(which: str) -> list[Convolution]:
    """Those of a set; of those with a window of one pixel all pixels are one row."""
    return list(map(_convolution, (row for row in _table("mte_convs") if int(row[which]))))


def _convolution(row: dict[str, str]) -> Convolution:
    number = {name: int(value) for name, value in row.items() if value.isdecimal()}
    rows, columns, stride = number["OH"], number["OW"], number["SH"]
    width = number["IW"] + 2 * number["PW"]
    if number["KH"] * number["KW"] * stride == 1:
        rows, columns = 1, rows * columns
        width = columns
    return Convolution(f"{row['network']} {row['layer']}", number["MB"], number["IC"], number["OC"],
                       (number["KH"], number["KW"]), stride, rows, columns, max(width, columns * stride))


def counted(body: Sequence[Node]) -> int:
    """Vector and matrix instructions."""
    found = counts(body)
    return sum(times for name, times in found.items() if name in COUNTED)


def counts(body: Sequence[Any]) -> Counter[str]:
    """Instructions by mnemonic, those of loops as often as they run."""
    found: Counter[str] = Counter()
    for node in body:
        if isinstance(node, Instr):
            found[node.mnemonic] += 1
        else:
            for name, times in counts(node.body).items():
                found[name] += node.extent * times
    return found


@cache
def configuration_of(architecture: str) -> Configuration:
    return Mte.kit.accelerator.configure({"architecture": architecture})


def measure(case: Case, architecture: str) -> Found:
    """By the mapping that the cost model ranks first."""
    configuration = configuration_of(architecture)
    mapping = mapping_of(case, configuration)
    cost = case.cost(configuration, mapping)
    peak = Mte.kit.macs_per_cycle(configuration.graph)
    return Found(cost.cycles, case.macs / peak / cost.cycles, cost.joules, cost.registers,
                 counted(case.whole(configuration, mapping).body), str(mapping))


@cache
def instructions_of(case: Case, architecture: str) -> int:
    """Vector and matrix instructions by the mapping that the cost model ranks first."""
    configuration = configuration_of(architecture)
    return counted(case.whole(configuration, mapping_of(case, configuration)).body)


def mapping_of(case: Case, configuration: Configuration) -> TileMapping:
    return case.fitted(configuration.space(case.workload).first()[0])


def _cost(stream: Stream, configuration: Configuration) -> Cost:
    program = bind(configuration.graph, resolve(stream, configuration.isa))
    timing = simulate_bound(program)
    found = energy(program, timing)
    return Cost(timing.cycles, found.known_joules - (found.of("memory").joules or 0.0), found.of("v").joules or 0.0)


def _gemm(m: int, n: int, k: int) -> Workload:
    return gemm(m, n, k, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")


def end_of(tensor: HbmTensor) -> int:
    """Where the next tensor may begin."""
    return align(tensor.address + math.prod(tensor.shape) * ITEM)


def _table(name: str) -> Iterator[dict[str, str]]:
    with (DATA / f"{name}.csv").open(encoding="utf-8") as file:
        yield from csv.DictReader(file)
