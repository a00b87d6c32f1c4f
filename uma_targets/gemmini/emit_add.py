"""Residual addition as a Gemmini stream: both operands meet in the accumulator, the sum leaves scaled.

The tensors are read as matrices of dim columns, whatever their shape; a tile is a number of their rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue
from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor
from archloom.uma_targets.gemmini import instructions as isa
from archloom.uma_targets.gemmini.instructions import Block, GemminiParameters
from archloom.uma_targets.kit.nest import Nodes, each, pieces


@dataclass(frozen=True)
class AddEmission:
    """Writes the stream's body of ``C[i] = epilogue(A[i] + B[i])``."""

    parameters: GemminiParameters
    size: int
    a: HbmTensor
    b: HbmTensor
    c: HbmTensor
    epilogue: Epilogue
    mapping: Mapping

    def body(self) -> Nodes:
        """Configuration, whole tiles, the rows that are left, and the elements of the last row."""
        dim, tile, slots = self.parameters.dim, self.mapping.size("rows"), self.mapping.slots("C")
        self.parameters.check_rows(0, tile * slots, str(self.mapping))
        out_bytes = self._out_bytes
        nodes: Nodes = [
            isa.config_ld(0, stride=dim, block_stride=dim, shrunk=True),
            isa.config_ld(1, stride=dim, block_stride=dim, shrunk=True),
            isa.config_st(stride=dim * out_bytes, relu=self.epilogue.relu, scale=self.epilogue.scale),
        ]
        rows, rest = divmod(self.size, dim)
        if rows:
            nodes += each("t", pieces(rows, tile), lambda t, run: self._tile(
                t * tile, (t % slots) * tile, run.size, dim))
        if rest:
            nodes += self._tile(Affine(rows), Affine((-(-rows // tile)) % slots * tile), 1, rest)
        return nodes

    @property
    def _out_bytes(self) -> int:
        return 4 if self.epilogue.out_dtype == "int32" else 1

    def _tile(self, first: Affine, local: Affine, rows: int, cols: int) -> Nodes:
        """``rows`` rows from row ``first`` on, at accumulator row ``local``."""
        dim = self.parameters.dim
        base = local + isa.ACCUMULATOR
        full = isa.FULL_WIDTH if self._out_bytes == 4 else 0
        parts = pieces(rows, dim)
        nodes: Nodes = []
        for channel, source, mode in ((0, self.a, 0), (1, self.b, isa.ACCUMULATE)):
            nodes += each("i", parts, lambda i, run, channel=channel, source=source, mode=mode: [isa.mvin(  # type: ignore[misc]
                channel, (first + i * dim) * dim + source.address, Block(base + i * dim + mode, run.size, cols))])
        return nodes + each("i", parts, lambda i, run: [isa.mvout(
            (first + i * dim) * (dim * self._out_bytes) + self.c.address,
            Block(base + i * dim + full, run.size, cols))])
