"""Random meshes, products and plans of the whole space for tests of products over cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.space import space
from archloom.mapper.spatial.workloads import search
from archloom.oracle.errors import MappingError
from tests.support.mapper.small_meshes import mesh


@dataclass(frozen=True)
class Case:
    """A product of extents in elements on a mesh, and one of its plans."""

    rows: int
    columns: int
    sums: int
    tiles: int
    m: int
    n: int
    k: int
    plan: Plan
    semaphores: int = 0

    @property
    def graph(self) -> ArchitectureGraph:
        return mesh(self.rows, self.columns, self.sums, self.tiles, self.semaphores)

    @property
    def machine(self) -> Machine:
        return Machine.of(self.graph)

    @property
    def gemm(self) -> TileGemm:
        return TileGemm.of(self.m, self.n, self.k)

    def operands(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """A and B in tiles, padded with zeros, and C as a matrix: whole numbers, of which f16 and f32 lose nothing."""
        random = np.random.default_rng(self.m * 4096 + self.n * 64 + self.k)
        a, b = (random.integers(-2, 3, shape) for shape in ((self.m, self.k), (self.k, self.n)))
        return {"A": tiled(a.astype(np.float16)), "B": tiled(b.astype(np.float16))}, a @ b

    def untiled(self, c: np.ndarray) -> np.ndarray:
        """C of the stream without its padding."""
        wide = np.asarray(c).transpose(0, 2, 1, 3).reshape(c.shape[0] * 32, c.shape[1] * 32)
        return wide[:self.m, :self.n]


def tiled(matrix: np.ndarray) -> np.ndarray:
    """A matrix in tiles of 32 x 32, row by row of tiles."""
    rows, columns = (-(-extent // 32) for extent in matrix.shape)
    padded = np.zeros((rows * 32, columns * 32), matrix.dtype)
    padded[:matrix.shape[0], :matrix.shape[1]] = matrix
    return padded.reshape(rows, 32, columns, 32).transpose(0, 2, 1, 3).copy()


@st.composite
def cases(draw: st.DrawFn, most: int = 9, searched: bool = False, side: int = 4, semaphores: int = 0) -> Case:
    """Extents up to ``most`` tiles, not all of them whole tiles; any plan of the space, or with ``searched`` the one
    that the search chooses."""
    rows, columns = draw(st.integers(1, side)), draw(st.integers(1, side))
    sums = draw(st.integers(1, 9))
    tiles = draw(st.integers(max(4, 7 - 2 * sums), 48))
    m, n, k = (draw(st.integers(1, 32 * most)) for _ in range(3))
    graph, gemm = mesh(rows, columns, sums, tiles), TileGemm.of(m, n, k)
    if searched:
        plan = search(gemm, graph).best.plan
    else:
        found = space(gemm, Machine.of(graph))
        if not len(found):
            raise MappingError(f"nothing fits {gemm} on {rows} x {columns} cores of {tiles} tiles and {sums} sums")
        plan = found.plan(draw(st.integers(0, len(found) - 1)))
    return Case(rows, columns, sums, tiles, m, n, k, plan, semaphores)
