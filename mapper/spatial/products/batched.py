"""Batches of products, with operands that may lie transposed: ``act(op(A[b]) . op(B[b]) + bias + residual[b])``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.arrays import check_arrays, from_tiles, in_tiles, to_tiles
from archloom.mapper.spatial.epilogue import NOTHING, Epilogue
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES
from archloom.mapper.spatial.plan import TileGemm
from archloom.mapper.spatial.products.parts import Contraction
from archloom.mapper.spatial.products.parts_emit import PartedEmitter
from archloom.mapper.spatial.programs.emit import Place
from archloom.mapper.spatial.programs.waves import Nodes
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr


@dataclass(frozen=True, order=True)
class Product(Contraction):
    """``batch`` products of ``m x k`` by ``k x n``, in elements.

    A has the shape ``(batch, m, k)``, with ``transposed_a`` ``(batch, k, m)``; B ``(batch, k, n)``, with
    ``transposed_b`` ``(batch, n, k)``, or without the batch where one B is ``shared``. The bias has ``n`` numbers,
    residual and result ``(batch, m, n)``. All are fp16; sums are f32. A B that is shared makes the batch more rows of
    one product (unless A is transposed, where rows of different products cannot lie in one tile).
    """

    batch: int
    m: int
    n: int
    k: int
    transposed_a: bool = False
    transposed_b: bool = False
    shared: bool = False
    epilogue: Epilogue = NOTHING

    def __post_init__(self) -> None:
        if min(self.batch, self.m, self.n, self.k) < 1:
            raise MappingError(
                f"{self.batch} products of {self.m} x {self.k} by {self.k} x {self.n} elements: every extent must be "
                f"at least 1")

    @property
    def merged(self) -> bool:
        """Whether the batch is more rows of one product."""
        return self.shared and not self.transposed_a

    @property
    def problems(self) -> int:
        return 1 if self.merged else self.batch

    @property
    def gemm(self) -> TileGemm:
        return TileGemm.of(self.m * (self.batch if self.merged else 1), self.n, self.k)

    @property
    def macs(self) -> int:
        return self.batch * self.m * self.n * self.k

    def inputs(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        m, n, k = self.gemm.m, self.gemm.n, self.gemm.k
        a, b = (k, m) if self.transposed_a else (m, k), (n, k) if self.transposed_b else (k, n)
        return (("A", (self.problems, *a, SIDE, SIDE)), ("B", (1 if self.shared else self.problems, *b, SIDE, SIDE)))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the operands as arrays, in elements."""
        a = (self.k, self.m) if self.transposed_a else (self.m, self.k)
        b = (self.n, self.k) if self.transposed_b else (self.k, self.n)
        found: dict[str, tuple[int, ...]] = {"A": (self.batch, *a), "B": b if self.shared else (self.batch, *b)}
        if self.epilogue.bias:
            found["bias"] = (self.n,)
        if self.epilogue.residual:
            found["residual"] = (self.batch, self.m, self.n)
        return found

    def pack(self, arrays: Mapping[str, NDArray[np.float16]]) -> dict[str, NDArray[np.float16]]:
        """The operands as they lie in memory; MappingError for other names or shapes than :meth:`shapes`."""
        given = check_arrays(self.shapes(), arrays)
        found = {"A": to_tiles(self._rows(given["A"])), "B": to_tiles(given["B"].reshape(-1, *given["B"].shape[-2:]))}
        if "bias" in given:
            found["bias"] = in_tiles(given["bias"][None])
        if "residual" in given:
            found["residual"] = to_tiles(self._rows(given["residual"]))
        return found

    def _rows(self, array: NDArray[np.float16]) -> NDArray[np.float16]:
        return array.reshape(1, -1, array.shape[-1]) if self.merged else array

    def unpack(self, result: NDArray[np.float16]) -> NDArray[np.float16]:
        """The result ``(batch, m, n)`` from its tiles."""
        rows = self.m * (self.batch if self.merged else 1)
        return from_tiles(result, (rows, self.n)).reshape(self.batch, self.m, self.n)


@dataclass(frozen=True, kw_only=True)
class ProductEmitter(PartedEmitter):
    """The program of a :class:`Product`."""

    work: Product

    def source(
        self, loop: int, place: Place, first: tuple[Affine, Affine], size: tuple[int, int]
    ) -> tuple[Affine, dict[str, Affine | int]]:
        work, (at, k), (extent, depth) = self.work, first, size
        base, wide = (self.a, self.gemm.m) if loop == 0 else (self.b, self.gemm.n)
        start = place.problem * (wide * self.gemm.k) if loop == 0 or not work.shared else Affine(0)
        k_inside = (loop == 0) != (work.transposed_a if loop == 0 else work.transposed_b)
        row, column, rows, columns, width = (
            (at, k, extent, depth, self.gemm.k) if k_inside else (k, at, depth, extent, wide))
        dram = (start + row * width + column) * TILE_BYTES + base
        return dram, {"rows": rows, "cols": columns, "h0": width * TILE_BYTES}

    def product(self, place: Place, a: Affine, b: Affine, c: Affine, size: tuple[int, int, int]) -> Nodes:
        work, found = self.work, super().product(place, a, b, c, size)
        if not (work.transposed_a or work.transposed_b):
            return found
        lie = {"ta": int(work.transposed_a), "tb": int(work.transposed_b)}
        return [
            Instr.make("matmul_transposed", **dict(node.attributes), **lie)
            for node in found if isinstance(node, Instr)
        ]
