"""The UMA target ``qkv``: tiled float32 products, with bias and ReLU, and attention as one operator.

A block of rows of A meets one tile of B after the other. ``resident``: the whole block of A, all of k, is brought in
once. ``streamed``: its tiles come as they are needed, for each column of tiles again. Sums start from the bias, or at
the first product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from archloom.acadl_models.qkv import qkv
from archloom.mapper.reuse import Int
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, divided, each, pieces
from archloom.uma_targets.qkv.attention import ATTENTION, moved

GRAPH = kit.GraphOptions(qkv)
FLOWS = ("resident", "streamed")


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; the mapping's tile of m is a block of rows, its dataflow one of ``FLOWS``."""
    return Emission(gemm, ceil_div(mapping.size("m"), parameters["dim"]), mapping.dataflow == FLOWS[0],
                    **parameters).body()


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
        loops=lambda c: _loops(shape, c, dim, deep, sums), help="more operand_rows or sum_rows",
    )


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


class Qkv(kit.KitTarget):
    """QKV: load, gemm, softmax, store on float32."""

    kit = kit.GemmKit(
        name="qkv", isa="qkv", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="a small float32 attention accelerator for tutorials: load, gemm, softmax, store",
        numbers="float32", attention=ATTENTION)
