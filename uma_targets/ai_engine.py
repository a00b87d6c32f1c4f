"""The UMA target ``ai_engine``: matrix products of int8 networks on all cores, with 16-bit multiplications.

Tiles of C are spread over the cores, each core with its own tiles of A and B. The mapping's dataflow ``RxC`` takes the
cores as R rows of C: tiles along m go to the rows in turn, tiles along n to the columns. What the cores do at one time
is a round; within it, all take the same step of k before the next one, so that they work side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from archloom.acadl_models.ai_engine import ai_engine
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, divided, each, pieces, repeat

GRAPH = kit.GraphOptions(ai_engine)

CoreBody: TypeAlias = Callable[["_Tile"], Nodes]


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; MappingError if a tile is larger than a core's or the cores are too few."""
    sizes = {d: mapping.size(d) for d in "mnk"}
    ways = re.fullmatch(r"(\d+)x(\d+)", mapping.dataflow)
    rows, columns = (int(w) for w in ways.groups()) if ways else (0, 0)
    if max(sizes.values()) > parameters["tile"] or not 1 <= rows * columns <= parameters["cores"]:
        raise MappingError(f"{mapping}: expected tiles of at most {parameters['tile']} elements and a dataflow such as "
                           f"2x4 of at most {parameters['cores']} cores")
    return [node for m in bands(gemm.m, sizes["m"], rows) for n in bands(gemm.n, sizes["n"], columns)
            for node in repeat("mt", m.rounds, lambda i, m=m, n=n: repeat(  # type: ignore[misc]
                "nt", n.rounds, lambda j: _Round(gemm, sizes, columns, m, n, i, j).nodes()))]


@dataclass(frozen=True)
class Part:
    """Tiles of one size on so many ``ways`` from ``way`` on."""

    way: int
    ways: int
    size: int


@dataclass(frozen=True)
class Band:
    """Rounds along a dimension that are alike: so many, after those ``before``, each with a tile on some of ``ways``.
    Tiles of all sizes of a round are computed at a time."""

    before: int
    rounds: int
    ways: int
    parts: tuple[Part, ...]


def bands(extent: int, size: int, ways: int) -> list[Band]:
    """Whole rounds of whole tiles, then one of what is left: whole tiles, and what is smaller on the next way."""
    whole, rest = divmod(extent, size)
    rounds, left = divmod(whole, ways)
    found = [Band(0, rounds, ways, (Part(0, ways, size),))] if rounds else []
    over = (*([Part(0, left, size)] if left else []), *([Part(left, 1, rest)] if rest else []))
    return [*found, Band(rounds, 1, ways, over)] if over else found


@dataclass(frozen=True)
class _Tile:
    """A tile of C: on which core, and where it begins, with its rows and columns."""

    core: Affine
    row: Affine
    column: Affine
    rows: int
    columns: int


@dataclass(frozen=True)
class _Round:
    """Round ``i`` of band ``m`` and ``j`` of band ``n``: a tile of C on each of the bands' ways."""

    gemm: Gemm
    sizes: Mapping[str, int]
    columns: int
    m: Band
    n: Band
    i: Affine
    j: Affine

    @property
    def slot(self) -> Affine:
        across = self.j + self.n.before
        return (across if self.n.before + self.n.rounds > 1 else self.i + self.m.before) % 2

    def nodes(self) -> Nodes:
        bias = self.gemm.bias is not None
        nodes = self._cores(self._bias) if bias else []
        steps = pieces(self.gemm.k, self.sizes["k"], peel_first=not bias)
        nodes += each("kt", steps, lambda k, run: self._cores(
            lambda tile: self._step(tile, k, run, bias or not run.is_first)))
        return nodes + self._cores(self._store)

    def _cores(self, body: CoreBody) -> Nodes:
        """``body`` for the tile of each core."""
        def one(tall: Part, wide: Part, a: Affine, b: Affine) -> Nodes:
            down, across = a + tall.way, b + wide.way
            row = ((self.i + self.m.before) * self.m.ways + down) * self.sizes["m"]
            column = ((self.j + self.n.before) * self.n.ways + across) * self.sizes["n"]
            return body(_Tile(down * self.columns + across, row, column, tall.size, wide.size))

        return [node for tall in self.m.parts for wide in self.n.parts for node in repeat(
            "a", tall.ways, lambda a, tall=tall, wide=wide: repeat(  # type: ignore[misc]
                "b", wide.ways, lambda b: one(tall, wide, a, b)))]

    def _bias(self, tile: _Tile) -> Nodes:
        return [Instr.make("read_bias", core=tile.core, dram=self.gemm.bias_at(tile.column), slot=self.slot,
                           rows=tile.rows, cols=tile.columns)]

    def _step(self, tile: _Tile, step: Affine, run: Piece, more: bool) -> Nodes:
        gemm, k, slot = self.gemm, step * self.sizes["k"], step % 2
        return [
            Instr.make("read_a", core=tile.core, dram=gemm.a_at(tile.row, k), pitch=gemm.strides[0], slot=slot,
                       rows=tile.rows, cols=run.size),
            Instr.make("read_b", core=tile.core, dram=gemm.b_at(k, tile.column), pitch=gemm.strides[1], slot=slot,
                       rows=run.size, cols=tile.columns),
            Instr.make("mmul", core=tile.core, a=slot, b=slot, c=self.slot, m=tile.rows, n=tile.columns, k=run.size,
                       more=int(more)),
        ]

    def _store(self, tile: _Tile) -> Nodes:
        gemm = self.gemm
        return [Instr.make(
            "write_c", core=tile.core, dram=gemm.c_at(tile.row, tile.column), pitch=gemm.strides[2], slot=self.slot,
            rows=tile.rows, cols=tile.columns, scale=gemm.scale_bits, low=gemm.lowest,
        )]


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    tile, cores = options["tile"], options["rows"] * options["columns"]
    # rows and columns as which the cores may be taken: all that leave none over
    ways = np.array([(rows, cores // rows) for rows in range(1, cores + 1) if cores % rows == 0])
    sizes = {d: divided(e, most=tile) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))}
    def loops(c: kit.Columns) -> Loop:
        """Rounds of tiles on all cores; for each step of k two streams and a product; operands and sums take turns."""
        m, n, k = (c[d] for d in "mnk")
        tall, wide = (np.asarray(ceil_div(e, t)) for e, t in ((shape.m, m), (shape.n, n)))
        rows, columns = ways[c["dataflow"], 0], ways[c["dataflow"], 1]
        rounds = ceil_div(tall, rows) * ceil_div(wide, columns)
        many = tall * wide / rounds
        deep = np.asarray(ceil_div(shape.k, k))
        depth = shape.k / deep
        read = Issue("read_a", many, depth * shape.item, m, units=many)
        mmul = Issue("mmul", many, units=many, values={"m": m, "n": n, "k": depth})
        write = Issue("write_c", many, n * shape.out_item, m, units=many)
        bias = replace(read, mnemonic="read_bias", moves=4 * n, pieces=1)
        step = Loop(deep, (mmul,), first=(read, replace(read, mnemonic="read_b", moves=n * shape.item, pieces=depth)),
                    slots=2)
        tiles = Loop(rounds, (step,), first=(bias,) if shape.bias else (), last=(write,), slots=2)
        return Loop(1, (tiles,), alone=tuple(replace(i, times=1) for i in (mmul, write)))

    return Tiling(sizes, dataflows=tuple(f"{rows}x{columns}" for rows, columns in ways), loops=loops)


class AiEngine(kit.KitTarget):
    """Versal AI Engine cores joined by streams."""

    kit = kit.GemmKit(
        name="ai_engine", isa="ai_engine", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="Versal AI Engine cores joined by 32-bit streams: FIR filters, and int8 GEMM with 16-bit products",
        patience=5)
