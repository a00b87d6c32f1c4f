"""Tiled float32 products on QKV: a block of rows of A meets one tile of B after the other.

``resident``: the whole block of A, all of k, is brought in once. ``streamed``: its tiles come as they are needed, for
each column of tiles again. Sums start from the bias, or at the first product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.reuse import Int
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets.kit.gemm import Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces

FLOWS = ("resident", "streamed")


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
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
