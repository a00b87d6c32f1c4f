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

CoreBody: TypeAlias = Callable[[Affine, Affine, Affine], Nodes]


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
class Band:
    """Tiles of one size along a dimension: from ``first`` on, ``rounds`` of one for each of ``ways`` from ``way``."""

    first: int
    rounds: int
    way: int
    ways: int
    size: int


def bands(extent: int, size: int, ways: int) -> list[Band]:
    """Whole rounds of whole tiles, the tiles that are left over, and what is smaller than a tile on the next way."""
    found = []
    for run in pieces(extent, size):
        rounds, left = divmod(run.count, ways)
        if run.size < size:
            found.append(Band(run.first, 1, run.first % ways, 1, run.size))
            continue
        found += [Band(0, rounds, 0, ways, size)] if rounds else []
        found += [Band(rounds * ways, 1, 0, left, size)] if left else []
    return found


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
        return (self.j if self.n.rounds > 1 else self.i) % 2

    def nodes(self) -> Nodes:
        bias = self.gemm.bias is not None
        nodes = self._cores(self._bias) if bias else []
        steps = pieces(self.gemm.k, self.sizes["k"], peel_first=not bias)
        nodes += each("kt", steps, lambda k, run: self._cores(
            lambda core, row, column: self._step(core, row, column, k, run, bias or not run.is_first)))
        return nodes + self._cores(self._store)

    def _cores(self, body: CoreBody) -> Nodes:
        """``body`` for each core, given its number and the first row and column of its tile."""
        m, n = self.m, self.n

        def one(a: Affine, b: Affine) -> Nodes:
            row = (self.i * m.ways + a + m.first) * self.sizes["m"]
            column = (self.j * n.ways + b + n.first) * self.sizes["n"]
            return body((a + m.way) * self.columns + b + n.way, row, column)

        return repeat("a", m.ways, lambda a: repeat("b", n.ways, lambda b: one(a, b)))

    def _bias(self, core: Affine, row: Affine, column: Affine) -> Nodes:
        return [Instr.make("read_bias", core=core, dram=self.gemm.bias_at(column), slot=self.slot, rows=self.m.size,
                           cols=self.n.size)]

    def _step(self, core: Affine, row: Affine, column: Affine, step: Affine, run: Piece, more: bool) -> Nodes:
        gemm, k, slot = self.gemm, step * self.sizes["k"], step % 2
        return [
            Instr.make("read_a", core=core, dram=gemm.a_at(row, k), pitch=gemm.strides[0], slot=slot, rows=self.m.size,
                       cols=run.size),
            Instr.make("read_b", core=core, dram=gemm.b_at(k, column), pitch=gemm.strides[1], slot=slot, rows=run.size,
                       cols=self.n.size),
            Instr.make("mmul", core=core, a=slot, b=slot, c=self.slot, m=self.m.size, n=self.n.size, k=run.size,
                       more=int(more)),
        ]

    def _store(self, core: Affine, row: Affine, column: Affine) -> Nodes:
        gemm = self.gemm
        return [Instr.make(
            "write_c", core=core, dram=gemm.c_at(row, column), pitch=gemm.strides[2], slot=self.slot, rows=self.m.size,
            cols=self.n.size, scale=gemm.scale_bits, low=gemm.lowest,
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
