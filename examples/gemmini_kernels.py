"""Gemmini kernels written by hand: the tiled matmul of the TAIDL paper's Figure 19, and Exo's GEMMs of its Figure 21.

``python examples/gemmini_kernels.py`` prints one of each as assembly, runs it and compares its results with NumPy's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # works in a checkout that is not installed, too

from archloom.oracle.kernel import Kernel, KernelIsa, isa

Dataflow = Literal["OS", "WS"]

ACC = 1 << 31
ADD = 1 << 30
FULL = 1 << 29
"""Bits of a local address: the accumulator, a write that adds, a read of whole i32 sums."""
BASE = 64
"""Where tensors begin in HBM: an mvin from address 0 brings zeros."""
DMA_BYTES = 64
"""Bytes of one DMA request: an mvin brings as many columns at once."""
SLOTS = 2
"""Blocks of the reduction that the scratchpad holds at a time in Exo's GEMMs."""

EXO_SIZES = (
    (12544, 64, 256), (12544, 256, 64), (784, 1024, 256), (3136, 512, 128), (3136, 128, 512), (512, 512, 512),
)
"""N x M x K of the six kernels that Exo's authors published for Gemmini: C of N x M, reduction K."""


def config_ex(g: KernelIsa, dataflow: Dataflow) -> None:
    """No activation, shift or transposition; rows one after the other."""
    g.api.config_ex(g.WS if dataflow == "WS" else g.OS, 0, 0, 0, 0, 1, 1, 0)


def config_ld(g: KernelIsa, channel: int, stride: int, *, shrunk: int = 0) -> None:
    """Rows are ``stride`` bytes apart in HBM; every ``dim`` columns go to the next ``dim`` rows; no scale."""
    g.api.config_ld(channel, stride, g.ONE, shrunk, g.dim)


def config_st(g: KernelIsa, stride: int) -> None:
    """Rows are ``stride`` bytes apart in HBM; no scale, activation or pooling."""
    g.api.config_st(stride, 0, g.ONE, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def tiled_matmul(dim: int, tiles: int, dataflow: Dataflow = "WS") -> Kernel:
    """C = saturate(A · B + D): A, C and D int8[tiles·dim, dim], B int8[dim, dim]; ``5·tiles + 2`` instructions and two.

    Everything is brought into the scratchpad, then every tile is computed, then all of C goes out, as in the TAIDL
    paper's artifact; the two set the strides that its moves carry themselves. Weight-stationary kernels keep B in the
    array after the first tile, output-stationary ones preload each tile of D and stream B by.
    """
    n, square, full = tiles * dim, dim * dim, (dim, dim)
    g = isa("gemmini", dim=dim, spad_rows=max(16 << 10, 3 * n + dim))
    api = g.api
    a, b, d, c = (BASE + k * square for k in (0, tiles, tiles + 1, 2 * tiles + 1))
    spad_b, spad_d, spad_c = n, n + dim, 2 * n + dim
    tall: dict[str, Any] = {"shape": (n, dim), "dtype": "int8"}

    @g.kernel(
        name=f"tiled_matmul_{dataflow}_dim{dim}_i{tiles}",
        arg=[{"name": "A", "addr": a, **tall}, {"name": "B", "addr": b, "shape": full, "dtype": "int8"},
             {"name": "D", "addr": d, **tall}],
        res=[{"name": "C", "addr": c, **tall}],
    )
    def matmul() -> None:
        config_ld(g, 0, dim)
        config_st(g, dim)
        with g.loop(2 * tiles + 1) as j:  # A, B and D lie one after the other in HBM, and in the scratchpad, too
            api.mvin(a + j * square, j * dim, *full)
        config_ex(g, dataflow)
        if dataflow == "OS":
            with g.loop(tiles) as i:
                api.preload(spad_d + i * dim, spad_c + i * dim, *full, *full)
                api.compute_preloaded(i * dim, spad_b, *full, *full)
        else:
            api.preload(spad_b, spad_c, *full, *full)
            api.compute_preloaded(0, spad_d, *full, *full)
            with g.loop(1, tiles) as i:
                api.preload(g.NONE, spad_c + i * dim, *full, *full)
                api.compute_accumulated(i * dim, spad_d + i * dim, *full, *full)
        with g.loop(tiles) as k:
            api.mvout(c + k * square, spad_c + k * dim, *full)

    return matmul


def pieces(total: int, step: int) -> Iterator[tuple[int, int, int]]:
    """``total`` cut into pieces of ``step``: (start, number of pieces, size) of the whole ones, and of the rest."""
    whole, rest = divmod(total, step)
    if whole:
        yield 0, whole, step
    if rest:
        yield whole * step, 1, rest


class _Exo:
    """The loops of one of Exo's GEMMs: C int8[n, m] at ``narrow``, and as int32 at ``wide``."""

    def __init__(self, n: int, m: int, k: int, dim: int, partials: bool) -> None:
        self.n, self.m, self.k, self.dim, self.partials = n, m, k, dim, partials
        self.panel = max(1, DMA_BYTES // dim) * dim
        self.g = isa("gemmini", dim=dim, spad_rows=max(16 << 10, SLOTS * self.panel * (1 + self.panel // dim)),
                     acc_rows=max(1 << 10, self.panel), dma_bytes=DMA_BYTES)
        self.a, self.b = BASE, BASE + n * k
        self.narrow = self.b + k * m
        self.wide = -(-(self.narrow + n * m) // 64) * 64

    def every(self, each: Any) -> None:
        """``each`` for every tile of C."""
        for top, number, rows in pieces(self.n, self.dim):
            with self.g.loop(number) as i:
                for left, count, cols in pieces(self.m, self.panel):
                    with self.g.loop(count) as j:
                        each(top + i * self.dim, rows, left + j * self.panel, cols)

    def tile(self, row: Any, rows: int, col: Any, cols: int) -> None:
        """A tile of C, summed over the whole reduction."""
        self.clear(rows, cols)
        to = self.narrow + row * self.m + col
        for at, count, depth in pieces(self.k, self.panel):
            with self.g.loop(count) as s:
                slot = (at // self.panel + s) % SLOTS
                self.block(row, rows, col, cols, at + s * self.panel, slot, depth)
                if self.partials:
                    self.store(to, rows, cols)
        if not self.partials:
            self.store(to, rows, cols)

    def block(self, row: Any, rows: int, col: Any, cols: int, start: Any, slot: Any, depth: int) -> None:
        """``depth`` steps of the reduction: A's tiles come in at once, B's a row of tiles at a time."""
        api, dim, panel = self.g.api, self.dim, self.panel
        spad_a = slot * panel
        spad_b = SLOTS * panel + slot * (panel * panel // dim)
        api.mvin2(self.a + row * self.k + start, spad_a, depth, rows)
        for at, count, height in pieces(depth, dim):
            with self.g.loop(count) as t:
                step = at + t * dim
                weights = spad_b + step * (panel // dim)
                api.mvin3(self.b + (start + step) * self.m + col, weights, cols, height)
                for left, tiles, width in pieces(cols, dim):
                    with self.g.loop(tiles) as p:
                        tile = left + p * dim
                        api.preload(weights + tile, ACC + ADD + tile, width, height, width, rows)
                        api.compute_preloaded(spad_a + step, self.g.NONE, height, rows, width, rows)

    def clear(self, rows: int, cols: int) -> None:
        """Zeros into the accumulator."""
        for at, count, width in pieces(cols, self.dim):
            with self.g.loop(count) as p:
                self.g.api.mvin(0, ACC + at + p * self.dim, width, rows)

    def store(self, to: Any, rows: int, cols: int, bits: int = 0, size: int = 1) -> None:
        """The sums to HBM."""
        for at, count, width in pieces(cols, self.dim):
            with self.g.loop(count) as p:
                self.g.api.mvout(to + (at + p * self.dim) * size, ACC + bits + at + p * self.dim, width, rows)

    def widen(self, row: Any, rows: int, col: Any, cols: int) -> None:
        """A tile of C once more, from int8 to int32."""
        self.g.api.mvin(self.narrow + row * self.m + col, ACC, cols, rows)
        self.store(self.wide + (row * self.m + col) * 4, rows, cols, FULL, 4)


def exo_matmul(
    n: int, m: int, k: int, *, dim: int = 16, out: Literal["int8", "int32"] = "int32", partials: bool = False
) -> Kernel:
    """C = saturate_int8(A · B): A int8[n, k], B int8[k, m], C int8[n, m] or int32[n, m] (still of int8's range).

    As Exo's kernels do it, C is made in tiles of ``dim`` rows by as many columns as one mvin brings: zeros into the
    accumulator, the products of all blocks of the reduction added, and the sums out as int8, after every block where
    ``partials`` (Exo's 12544 x 64 x 256 does so), else after the last. Gemmini saturates what leaves it as int8 alone,
    so an int32 C takes a second pass over C, int8 in and int32 out.
    """
    exo = _Exo(n, m, k, dim, partials)
    g = exo.g

    @g.kernel(
        name=f"exo_{n}x{m}x{k}",
        arg=[{"name": "A", "addr": exo.a, "shape": (n, k), "dtype": "int8"},
             {"name": "B", "addr": exo.b, "shape": (k, m), "dtype": "int8"}],
        res=[{"name": "C", "addr": exo.wide if out == "int32" else exo.narrow, "shape": (n, m), "dtype": out}],
    )
    def matmul() -> None:
        config_st(g, m)
        config_ex(g, "WS")
        config_ld(g, 0, 0)
        config_ld(g, 1, k)
        config_ld(g, 2, m)
        exo.every(exo.tile)
        if out == "int32":
            config_ld(g, 0, m, shrunk=1)
            config_st(g, 4 * m)
            exo.every(exo.widen)

    return matmul


# --- the same mathematics in NumPy -------------------------------------------------------------------------------


def tiled_reference(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> np.ndarray:
    """C of :func:`tiled_matmul`."""
    return np.clip(a.astype(np.int32) @ b.astype(np.int32) + d, -128, 127).astype(np.int8)


def exo_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C of :func:`exo_matmul` as int32."""
    return np.clip(a.astype(np.int32) @ b.astype(np.int32), -128, 127)


def main() -> None:
    from archloom.oracle.assembly import to_text

    random = np.random.default_rng(0)
    for kernel, reference in ((tiled_matmul(16, 4, "WS"), tiled_reference), (exo_matmul(96, 64, 80), exo_reference)):
        given = [random.integers(-8, 8, t.shape, dtype=np.int8) for t in kernel.arguments]
        if not np.array_equal(kernel.run(*given), reference(*given)):
            raise SystemExit(f"{kernel.name}: the oracle's C is not NumPy's")
        print(f"{to_text(kernel.stream)}\n{kernel.report}\n{kernel.stream.count()} instructions; C equals NumPy's\n")


if __name__ == "__main__":
    main()
