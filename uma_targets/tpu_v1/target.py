"""The UMA target ``tpu_v1``: products of quantized networks in blocks of rows, a column of C at a time; convolutions
are in :mod:`~archloom.uma_targets.tpu_v1.windows`.

A block of A comes into the Unified Buffer as panels of ``dim`` columns, weight tiles through the FIFO. Each column of C
takes all its weight tiles one after the other, its sums start from the bias or at the first product, and while it is
activated and written out the next one is multiplied: where two blocks of sums fit, columns take turns in the
accumulators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from archloom.acadl_models.tpu_v1 import tpu_v1
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, divided, each, pieces
from archloom.uma_targets.kit.attention import Kernel
from archloom.uma_targets.kit.strategies import conv2d
from archloom.uma_targets.tpu_v1 import windows
from archloom.uma_targets.tpu_v1.windows import NONE, RELU

GRAPH = kit.GraphOptions(tpu_v1)


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; the mapping's tile of m is a block of rows."""
    return Emission(gemm, mapping.size("m"), *(parameters[name] for name in ("dim", "ub_rows", "acc_rows"))).body()


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
        at, strip = n * self.dim, 2 * self.dim
        sets = 2 if 2 * self.rows <= self.acc_rows else 1
        acc, result = n % sets * self.rows, n % 2 * self.rows + 2 * self.deep * self.rows
        if self.gemm.bias is not None:
            yield Instr.make("read_bias", addr=self.gemm.bias_at(at), acc=acc, rows=rows, cols=cols)
        yield from each("kt", pieces(self.gemm.k, self.dim, peel_first=self.gemm.bias is None), lambda k, step: [
            Instr.make("read_weights_strided", addr=self.gemm.b_at(k * self.dim, at), rows=step.size, cols=cols,
                       stride=self.gemm.strides[1]),
            # a weight tile for all rows, in strips: while the sums of one come out, the next is on its way
            *each("r", pieces(rows, strip, peel_first=True), lambda r, run: [Instr.make(
                "matrix_multiply", ub=source + k * self.rows + r * strip, acc=acc + r * strip, rows=run.size,
                take=int(run.is_first), accumulate=int(not step.is_first or self.gemm.bias is not None))]),
        ])
        yield Instr.make("activate", acc=acc, ub=result, rows=rows, function=RELU if self.gemm.relu else NONE,
                         scale=self.gemm.scale_bits)
        yield Instr.make("write_host_memory", addr=self.gemm.c_at(first, at), ub=result, rows=rows, cols=cols,
                         stride=self.gemm.strides[2])


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of rows: the more, the less often the weights come; two blocks of sums, or one."""
    dim, acc, buffer = options["dim"], hardware.memory("accumulator").rows, hardware.memory("unified_buffer").rows
    room = max(1, min(acc, buffer // panels_of(shape.k, dim)))
    blocks = sorted({*divided(shape.m, 1, room, limit=3), *divided(shape.m, 1, max(1, room // 2), limit=3)})
    return Tiling(
        {"m": blocks, "n": [dim], "k": [dim]},
        demand={"unified_buffer": lambda c: c["m"] * panels_of(shape.k, dim)}, room={"unified_buffer": buffer},
        loops=lambda c: _loops(shape, c, dim, acc, hardware.memory("fifo").rows), help="a larger unified_buffer_kib",
    )


def _loops(shape: kit.Shape, c: kit.Columns, dim: int, acc_rows: int, fifo: int) -> Loop:
    """Blocks of rows from the host; columns of weight tiles through the FIFO; columns take turns in the accumulators
    where two fit, and blocks in the Unified Buffer. Sizes are those of mean tiles."""
    blocks, deep, wide = (np.asarray(ceil_div(e, t)) for e, t in ((shape.m, c["m"]), (shape.k, dim), (shape.n, dim)))
    rows, depth, columns = shape.m / blocks, shape.k / deep, shape.n / wide
    host = Issue("read_host_memory", deep, depth * shape.item, rows)
    product = Issue("matrix_multiply", values={"rows": rows, "take": 1}, beats=2 * rows)
    write = Issue("write_host_memory", 1, columns * shape.out_item, rows)
    step = Loop(deep, (product,), first=(Issue("read_weights_strided", 1, columns * shape.item, depth),), slots=fifo)
    column = Loop(wide, (step,), last=(Issue("activate", values={"rows": rows}, beats=2 * rows),),
                  slots=np.where(2 * c["m"] <= acc_rows, 2, 1))
    written = Loop(1, (column, replace(write, times=wide)))
    return Loop(1, (Loop(blocks, (written,), first=(host,), slots=2),), alone=(write,))


def image_fits(op: QuantizedOp, options: Mapping[str, Any]) -> str | None:
    """An image with its padding, all channels, and two lines of results fit the Unified Buffer, a line of sums the
    accumulators.

    Images are not cut into parts.
    """
    found = dict(TpuV1.kit.accelerator.isa(options).parameters)
    least = windows.Geometry.of(conv2d(op).workload, found["dim"]).demand(1, 1, 1)
    for name, room in (("unified_buffer", found["ub_rows"]), ("accumulator", found["acc_rows"])):
        if least[name] > room:
            return f"it needs {least[name]} rows of {name}, which has {room}"
    return None


class TpuV1(kit.KitTarget):
    """TPU v1: a weight-stationary array behind a weight FIFO."""

    kit = kit.GemmKit(
        name="tpu_v1", isa="tpu_v1", graph=GRAPH.graph, options=GRAPH.options(),
        emit=emit, tiling=_tiling, kernels={"conv2d": Kernel(windows.stream, windows.space)}, windows=(image_fits,),
        description="256 x 256 weight-stationary int8 array with a Unified Buffer and a weight FIFO (Jouppi et al.)")
