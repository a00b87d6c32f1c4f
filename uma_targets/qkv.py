"""The UMA target ``qkv``: tiled float32 products, with bias and ReLU, and attention as one operator.

A block of rows of A meets one tile of B after the other. ``resident``: the whole block of A, all of k, is brought in
once. ``streamed``: its tiles come as they are needed, for each column of tiles again. Sums start from the bias, or at
the first product.

Attention is one program: a tile of queries meets all keys; softmax makes operands of its scores. Neighbouring products
go to different sums, so that none waits. Tiles of queries take turns in two sets of rows where there is room: one is
stored while the next is computed. Tiles of keys and values pass through a ring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from archloom.acadl_models.qkv import qkv
from archloom.mapper.costs.pipeline import cycles
from archloom.mapper.costs.rates import Number
from archloom.mapper.reuse import Int
from archloom.mapper.space import Space, SpaceBuilder, Table, product
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.tvm_backend.ir.attention import AttentionShape
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, divided, each, pieces
from archloom.uma_targets.kit.attention import ITEM, AttentionKernel, Head, Matrix, rows_of, shape_of

GRAPH = kit.GraphOptions(qkv)
FLOWS = ("resident", "streamed")


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; the mapping's tile of m is a block of rows, its dataflow one of ``FLOWS``."""
    return Emission(gemm, ceil_div(mapping.size("m"), parameters["dim"]), mapping.dataflow == FLOWS[0],
                    *(parameters[name] for name in ("dim", "operand_rows", "sum_rows"))).body()


def operand_tiles(block: Int, k_tiles: int, resident: bool | np.ndarray) -> np.ndarray:
    """Tiles of operands that blocks of so many tiles of rows need: A's, and two of B in turn."""
    return np.where(resident, block * k_tiles, 2) + 2


@dataclass(frozen=True)
class Emission:
    """Writes the instructions of one product in blocks of ``block`` tiles of rows."""

    gemm: Gemm
    block: int
    resident: bool
    dim: int
    operand_rows: int
    sum_rows: int

    @cached_property
    def deep(self) -> int:
        return ceil_div(self.gemm.k, self.dim)

    def body(self) -> Nodes:
        """A loop over blocks, in it one over columns of tiles."""
        need = operand_tiles(self.block, self.deep, self.resident) * self.dim
        if need > self.operand_rows or self.block * self.dim > self.sum_rows:
            raise MappingError(
                f"blocks of {self.block} tiles need {need} operand_rows, of {self.operand_rows}, and "
                f"{self.block * self.dim} sum_rows, of {self.sum_rows}")
        return each("mt", pieces(self.gemm.m, self.block * self.dim), self._block)

    def _block(self, number: Affine, block: Piece) -> Nodes:
        first = number * (self.block * self.dim)
        nodes: Nodes = []
        if self.resident:
            nodes += each("r", pieces(block.size, self.dim), lambda r, rows: each(
                "k", pieces(self.gemm.k, self.dim), lambda k, depth: [self._load_a(
                    first, r, rows, k, depth, (2 + r * self.deep + k) * self.dim)]))
        return nodes + each("nt", pieces(self.gemm.n, self.dim), lambda n, column: self._column(
            first, block.size, n, column))

    def _column(self, first: Affine, height: int, n: Affine, column: Piece) -> Nodes:
        bias = self.gemm.bias is not None
        rows, tall = pieces(height, self.dim), ceil_div(height, self.dim)
        sets = 2 if 2 * self.block * self.dim <= self.sum_rows else 1
        base = n % sets * (self.block * self.dim)
        nodes: Nodes = []
        if bias:
            nodes += each("r", rows, lambda r, strip: [Instr.make(
                "load_sums", dram=self.gemm.bias_at(n * self.dim), row=base + r * self.dim, rows=strip.size,
                cols=column.size, stride=0)])

        def step(k: Affine, depth: Piece) -> Nodes:
            number = n * self.deep + k  # counts on from column to column, so that tiles always take turns
            b = number % 2 * self.dim

            def product(r: Affine, strip: Piece) -> list[Node]:
                a = (2 + (r * self.deep + k if self.resident else (number * tall + r) % 2)) * self.dim
                gemm = Instr.make("gemm", a=a, b=b, c=base + r * self.dim, transpose=0,
                                  accumulate=int(bias or not depth.is_first))
                return [gemm] if self.resident else [self._load_a(first, r, strip, k, depth, a), gemm]

            return [Instr.make("load", dram=self.gemm.b_at(k * self.dim, n * self.dim), row=b, rows=depth.size,
                               cols=column.size, stride=self.gemm.strides[1]), *each("r", rows, product)]

        nodes += each("k", pieces(self.gemm.k, self.dim, peel_first=not bias), step)
        return nodes + each("r", rows, lambda r, strip: [Instr.make(
            "store", dram=self.gemm.c_at(first + r * self.dim, n * self.dim), row=base + r * self.dim,
            rows=strip.size, cols=column.size, stride=self.gemm.strides[2], relu=int(self.gemm.relu))])

    def _load_a(self, first: Affine, r: Affine, rows: Piece, k: Affine, depth: Piece, to: Affine) -> Node:
        return Instr.make("load", dram=self.gemm.a_at(first + r * self.dim, k * self.dim), row=to,
                          rows=rows.size, cols=depth.size, stride=self.gemm.strides[0])


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of rows, with all of their part of A in the operands, or with two tiles of it in turn."""
    dim, deep = options["dim"], int(ceil_div(shape.k, options["dim"]))
    operands, sums = hardware.memory("operands").rows, hardware.memory("sums").rows

    return Tiling(
        {"m": divided(shape.m, dim, sums // dim * dim), "n": [dim], "k": [dim]}, dataflows=FLOWS,
        demand={"operand_rows": lambda c: operand_tiles(c["m"] // dim, deep, c["dataflow"] == 0) * dim},
        room={"operand_rows": operands},
        loops=lambda c: _loops(shape, c, dim, deep, sums), least=lambda c: _least(shape, c, hardware),
        help="more operand_rows or sum_rows",
    )


def _least(shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware) -> np.ndarray:
    """Cycles that no product in these tiles takes fewer than, as operands take turns in two places.

    What is loaded into a place waits for all products that read what was there before, and these for its load. So the
    uses of a place follow one another, and the longer of two such chains is at least half of both:

        tiles of B:           sum of (load + (products - 1) interval + product) / 2
        streamed tiles of A:  sum of (load + product) / 2

    A load takes the latency and the beats of memory, its own latency, and the beats of a whole tile of operands; a
    product the beats of its operands, its own latency, and the beats of its sums. By hand: 96 x 192 by 192 x 192 in
    tiles of 8 with 8 bytes a cycle streams 12 * 24 * 24 = 6912 tiles of A. Each is there after 50 + 32 - 1, 1 and 8
    cycles, its product takes 8 + 8 + 8: 6912 * (90 + 24) / 2 = 393984 cycles. It is simulated in 394092.
    """
    dim, memory, operands = hardware.dim, hardware.memory("hbm"), hardware.memory("operands")
    tall, wide, deep = (int(ceil_div(e, dim)) for e in (shape.m, shape.n, shape.k))
    blocks = np.asarray(ceil_div(shape.m, c["m"]))
    tile, sums = int(ceil_div(dim, operands.words_per_cycle)), ceil_div(dim, hardware.memory("sums").words_per_cycle)
    product = int(tile + hardware.latency_columns("gemm", {}) + sums)
    interval = int(hardware.interval_columns("gemm", {}))

    def loads(rows: int, columns: int) -> int:
        """Of all tiles of a matrix once, one after the other."""
        each = memory.read_latency_cycles - 1 + int(hardware.latency_columns("load", {})) + tile
        return sum([i * j * (each + ceil_div(r * k * ITEM, int(memory.bytes_per_cycle)))
                    for r, i in _edges(rows, dim) for k, j in _edges(columns, dim)])

    of_b = blocks * loads(shape.k, shape.n) + wide * deep * ((tall - blocks) * interval + blocks * product)
    of_a = np.where(c["dataflow"] == 0, 0, wide * (loads(shape.m, shape.k) + tall * deep * product))
    return np.asarray(ceil_div(shape.batch * np.maximum(of_a, of_b), 2))


def _edges(extent: int, dim: int) -> list[tuple[int, int]]:
    """Sizes of tiles along a dimension, each with how many have it."""
    return [(dim, extent // dim), (extent % dim, 1 if extent % dim else 0)]


def _loops(shape: kit.Shape, c: kit.Columns, dim: int, deep: int, sum_rows: int) -> Loop:
    """Blocks of rows, columns of tiles, steps of k; a tile of A is loaded for its block or for each column. Tiles of B
    take turns, and so do those of A that are streamed; so do sums of a column where two blocks fit. Sizes are those of
    mean tiles."""
    tall, wide, resident = int(ceil_div(shape.m, dim)), int(ceil_div(shape.n, dim)), c["dataflow"] == 0
    blocks = np.asarray(ceil_div(shape.m, c["m"]))
    block, rows, depth, columns = tall / blocks, shape.m / tall, shape.k / deep, shape.n / wide

    a, b, gemm = moved("load", 1, rows, depth), moved("load", 1, depth, columns), Issue("gemm", beats=2 * dim)
    store = moved("store", block, rows, columns)
    streamed = replace(a, times=np.where(resident, 0, 1))
    step = Loop(deep, (Loop(block, (gemm,), first=(streamed,), slots=2),), first=(b,), slots=2)
    column = Loop(wide, (step,), first=(moved("load_sums", block * shape.bias, rows, columns),), last=(store,),
                  slots=np.where(2 * c["m"] <= sum_rows, 2, 1))
    tiles = Loop(blocks, (column,), first=(replace(a, times=np.where(resident, block * deep, 0)),), slots=1)
    return Loop(1, (tiles,), alone=(gemm, store))


# attention


SETS, SLOTS = (2, 1), (16, 8, 4, 2)
"""Sets of rows for tiles of queries, and tiles of keys and values at hand: what there is to choose."""


def rows(shape: AttentionShape | Head, dim: int, sets: int, slots: int) -> tuple[int, int]:
    """Rows of operands and of sums."""
    deep, long, wide = (rows_of(n, dim) for n in (shape.depth, shape.keys, shape.values))
    return slots * dim + sets * (deep + long), sets * (long + wide)


def moved(name: str, times: Number, rows: float, columns: float) -> Issue:
    """``times`` loads or stores of a tile of so many float32 numbers, of all candidates: a row at a time."""
    return Issue(name, times, columns * ITEM, rows, values={"rows": rows}, beats=rows)


def fits(shape: AttentionShape, options: Mapping[str, Any]) -> tuple[str, str] | None:
    """The scores of a tile of queries, their shares and sums fit in operand_rows and sum_rows."""
    operands, sums = rows(shape, options["dim"], min(SETS), min(SLOTS))
    seen = [f"{need} {name}, of {options[name]}" for name, need in (("operand_rows", operands), ("sum_rows", sums))
            if need > options[name]]
    if not seen:
        return None
    return (f"attention to {shape.keys} keys of depth {shape.depth} needs {' and '.join(seen)}",
            f"attention whose scores of a tile of queries fit: operand_rows={operands} and sum_rows={sums} would do; "
            "else its two products, with softmax on the host")


def attention_space(workload: Workload, hardware: kit.Hardware, options: Mapping[str, Any]) -> Space:
    """All sets and rings that fit; MappingError if none does."""
    shape, dim = shape_of(workload), options["dim"]
    columns = product({"sets": SETS, "slots": SLOTS})
    needed = np.array([rows(shape, dim, int(t), int(s)) for t, s in zip(columns["sets"], columns["slots"])])

    def estimate(c: kit.Columns) -> np.ndarray:
        return cycles(_attention_loops(shape, workload.epilogue.bias, c, dim), hardware)

    def mapping(c: kit.Columns, i: int) -> kit.TileMapping:
        return kit.TileMapping("attention", "", (("q", dim), ("k", dim)),
                           buffers=(("Q", int(c["sets"][i])), ("K", int(c["slots"][i]))))

    room = {name: hardware.memory(memory).rows for name, memory in (("operand_rows", "operands"), ("sum_rows", "sums"))}
    builder = SpaceBuilder(workload.name, room, "more operand_rows or sum_rows")
    builder.add(Table(columns, dict(zip(room, needed.T)), estimate, mapping))
    return builder.build()


def _attention_loops(shape: AttentionShape, bias: bool, c: kit.Columns, dim: int) -> Loop:
    """Tiles of queries in turn; keys and values come through the ring, shares when all scores are there."""
    deep, long, wide = (rows_of(n, dim) // dim for n in (shape.depth, shape.keys, shape.values))
    tiles = -(-shape.queries // dim)
    rows, keys = shape.queries / tiles, shape.keys / long

    gemm, softmax = Issue("gemm", beats=2 * dim), Issue("softmax", values={"keys": shape.keys}, beats=2 * dim * long)
    depth, values, sets = shape.depth / deep, shape.values / wide, c["sets"]
    store = moved("store", wide, rows, values)
    scores, sums = (Loop(count, (gemm,), first=(moved("load", 1, keys, columns),), slots=c["slots"])
                    for count, columns in ((deep * long, depth), (long * wide, values)))
    queries = (moved("load", deep, rows, depth), moved("load_sums", bias * long, rows, keys))
    # rows of a turn are free as soon as they are done with: those of queries after the scores, those of scores, which
    # may begin with the bias, after the shares, those of the sums of values once they are stored
    products, mixed = replace(gemm, times=deep * long), replace(gemm, times=long * wide)
    rings = tuple((ring, sets) for ring in ((queries[0], products), (queries[1], products, softmax), (mixed, store)))
    tile = Loop(shape.batch * shape.heads * tiles, (scores, Loop(1, (), first=(softmax,)), sums), first=queries,
                last=(store,), rings=rings)
    return Loop(1, (tile,), alone=(gemm, store))


def emit_head(head: Head, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one head."""
    dim, sets, slots = parameters["dim"], mapping.slots("Q"), mapping.slots("K")
    need = rows(head, dim, sets, slots)
    if need[0] > parameters["operand_rows"] or need[1] > parameters["sum_rows"]:
        raise MappingError(f"{sets} turns and a ring of {slots} tiles need {need[0]} operand_rows, of "
                           f"{parameters['operand_rows']}, and {need[1]} sum_rows, of {parameters['sum_rows']}")
    deep, long, wide = (rows_of(n, dim) for n in (head.depth, head.keys, head.values))
    ring, tiles_of_keys, tiles_of_values = slots * dim, long // dim, wide // dim
    products = deep // dim * tiles_of_keys, tiles_of_keys * tiles_of_values
    before = head.number * (rows_of(head.queries, dim) // dim)

    def load(matrix: Matrix, to: Affine, row: tuple[Affine, Piece], column: tuple[Affine, Piece], name: str = "load"
             ) -> Instr:
        return Instr.make(name, dram=matrix.at(row[0] * dim, column[0] * dim), row=to, rows=row[1].size,
                          cols=column[1].size, stride=matrix.stride)

    def block(i: Affine, query: Piece) -> Nodes:
        """A tile of queries: scores, shares, and the sums of values."""
        tile, here = before + i, (i, query)  # counts on over heads, so that places always take turns
        turn, number = tile % sets, tile * sum(products)
        q, p = turn * deep + ring, turn * long + ring + sets * deep
        scores, out = turn * long, turn * wide + sets * long

        def score(e: Affine, depth: Piece, j: Affine, key: Piece) -> Nodes:
            slot = (number + e * tiles_of_keys + j) % slots * dim
            return [load(head.k, slot, (j, key), (e, depth)), Instr.make(
                "gemm", a=q + e * dim, b=slot, c=scores + j * dim, transpose=1,
                accumulate=int(head.bias is not None or not depth.is_first))]

        def mix(j: Affine, key: Piece, c: Affine, column: Piece) -> Nodes:
            slot = (number + products[0] + j * tiles_of_values + c) % slots * dim
            return [load(head.v, slot, (j, key), (c, column)), Instr.make(
                "gemm", a=p + j * dim, b=slot, c=out + c * dim, transpose=0, accumulate=int(not key.is_first))]

        nodes = each("e", pieces(head.depth, dim), lambda e, depth: [load(head.q, q + e * dim, here, (e, depth))])
        bias = head.bias
        if bias is not None:
            nodes += each("j", pieces(head.keys, dim), lambda j, key: [
                load(bias, scores + j * dim, here, (j, key), "load_sums")])
        nodes += each("e", pieces(head.depth, dim, peel_first=True), lambda e, depth: each(
            "j", pieces(head.keys, dim), lambda j, key: score(e, depth, j, key)))
        nodes.append(Instr.make("softmax", row=scores, to=p, keys=head.keys, scale=head.scale_bits))
        nodes += each("j", pieces(head.keys, dim, peel_first=True), lambda j, key: each(
            "c", pieces(head.values, dim), lambda c, column: mix(j, key, c, column)))
        return nodes + each("c", pieces(head.values, dim), lambda c, column: [Instr.make(
            "store", dram=head.o.at(i * dim, c * dim), row=out + c * dim, rows=query.size, cols=column.size,
            stride=head.o.stride, relu=0)])

    return each("i", pieces(head.queries, dim), block)


ATTENTION = AttentionKernel(fits, emit_head, attention_space)


class Qkv(kit.KitTarget):
    """QKV: load, gemm, softmax, store on float32."""

    kit = kit.GemmKit(
        name="qkv", isa="qkv", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="a small float32 attention accelerator for tutorials: load, gemm, softmax, store",
        numbers="float32", attention=ATTENTION, is_bounded=True)
