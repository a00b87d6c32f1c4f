"""Attention on QKV as one program: a tile of queries meets all keys; softmax makes operands of its scores.

Neighbouring products go to different sums, so that none waits. Tiles of queries take turns in two sets of rows where
there is room: one is stored while the next is computed. Tiles of keys and values pass through a ring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.pipeline import Issue, Loop, Number, cycles
from archloom.mapper.space import Columns, Space, SpaceBuilder, Table, product
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr
from archloom.tvm_backend.ir.attention import AttentionShape
from archloom.uma_targets.kit.attention import ITEM, AttentionKernel, Head, Matrix, rows_of, shape_of
from archloom.uma_targets.kit.nest import Nodes, Piece, each, pieces

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


def space(workload: Workload, hardware: Hardware, options: Mapping[str, Any]) -> Space:
    """All sets and rings that fit; MappingError if none does."""
    shape, dim = shape_of(workload), options["dim"]
    columns = product({"sets": SETS, "slots": SLOTS})
    needed = np.array([rows(shape, dim, int(t), int(s)) for t, s in zip(columns["sets"], columns["slots"])])

    def estimate(c: Columns) -> np.ndarray:
        return cycles(_loops(shape, workload.epilogue.bias, c, dim), hardware)

    def mapping(c: Columns, i: int) -> TileMapping:
        return TileMapping("attention", "", (("q", dim), ("k", dim)),
                           buffers=(("Q", int(c["sets"][i])), ("K", int(c["slots"][i]))))

    room = {name: hardware.memory(memory).rows for name, memory in (("operand_rows", "operands"), ("sum_rows", "sums"))}
    builder = SpaceBuilder(workload.name, room, "more operand_rows or sum_rows")
    builder.add(Table(columns, dict(zip(room, needed.T)), estimate, mapping))
    return builder.build()


def _loops(shape: AttentionShape, bias: bool, c: Columns, dim: int) -> Loop:
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


def emit(head: Head, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
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


ATTENTION = AttentionKernel(fits, emit, space)
