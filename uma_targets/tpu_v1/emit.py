"""Tiled products on TPU v1: blocks of rows in the Unified Buffer, weight tiles through the FIFO, a column at a time.

A block of A comes in as panels of ``dim`` columns. Each column of C takes all its weight tiles one after the other, its
sums start from the bias or at the first product, and while it is activated and written out the next one is multiplied:
where two blocks of sums fit, columns take turns in the accumulators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from archloom.mapper.mapping import Mapping as TileMapping
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets.kit.gemm import Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces

NONE, RELU = 0, 1


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; the mapping's tile of m is a block of rows."""
    return Emission(gemm, mapping.size("m"), **parameters).body()


def panels_of(k: int, dim: int) -> int:
    """Rows of the Unified Buffer that a block takes for each of its own: two sets of panels of A, two of C."""
    return 2 * ceil_div(k, dim) + 2


@dataclass(frozen=True)
class Emission:
    """Writes the instructions of one product in blocks of ``rows``."""

    gemm: Gemm
    rows: int
    dim: int
    ub_rows: int
    acc_rows: int

    @cached_property
    def deep(self) -> int:
        """Panels of A, and weight tiles of a column."""
        return ceil_div(self.gemm.k, self.dim)

    def body(self) -> Nodes:
        """A loop over blocks, in it one over columns."""
        if self.rows > self.acc_rows or self.rows * panels_of(self.gemm.k, self.dim) > self.ub_rows:
            raise MappingError(
                f"blocks of {self.rows} rows need as many accumulators, of {self.acc_rows}, and "
                f"{self.rows * panels_of(self.gemm.k, self.dim)} rows of the Unified Buffer, of {self.ub_rows}")
        return each("mt", pieces(self.gemm.m, self.rows), self._block)

    def _block(self, number: Affine, block: Piece) -> Nodes:
        first, source = number * self.rows, number % 2 * (self.deep * self.rows)
        nodes = each("p", pieces(self.gemm.k, self.dim), lambda p, panel: [Instr.make(
            "read_host_memory", addr=self.gemm.a_at(first, p * self.dim), ub=source + p * self.rows, rows=block.size,
            cols=panel.size, stride=self.gemm.strides[0])])
        return nodes + each("nt", pieces(self.gemm.n, self.dim), lambda n, column: list(
            self._column(first, source, block.size, n, column.size)))

    def _column(self, first: Affine, source: Affine, rows: int, n: Affine, cols: int) -> Iterator[Node]:
        at = n * self.dim
        sets = 2 if 2 * self.rows <= self.acc_rows else 1
        acc, result = n % sets * self.rows, n % 2 * self.rows + 2 * self.deep * self.rows
        if self.gemm.bias is not None:
            yield Instr.make("read_bias", addr=self.gemm.bias_at(at), acc=acc, rows=rows, cols=cols)
        yield from each("kt", pieces(self.gemm.k, self.dim, peel_first=self.gemm.bias is None), lambda k, step: [
            Instr.make("read_weights_strided", addr=self.gemm.b_at(k * self.dim, at), rows=step.size, cols=cols,
                       stride=self.gemm.strides[1]),
            *self._products(source + k * self.rows, acc, rows, step.is_first and self.gemm.bias is None),
        ])
        yield Instr.make("activate", acc=acc, ub=result, rows=rows, function=RELU if self.gemm.relu else NONE,
                         scale=self.gemm.scale_bits)
        yield Instr.make("write_host_memory", addr=self.gemm.c_at(first, at), ub=result, rows=rows, cols=cols,
                         stride=self.gemm.strides[2])

    def _products(self, source: Affine, acc: Affine, rows: int, starts: bool) -> Nodes:
        """A weight tile for all rows, in strips: while the sums of one come out, the next is on its way."""
        return each("r", pieces(rows, 2 * self.dim, peel_first=True), lambda r, strip: [Instr.make(
            "matrix_multiply", ub=source + r * (2 * self.dim), acc=acc + r * (2 * self.dim), rows=strip.size,
            take=int(strip.is_first), accumulate=int(not starts))])
