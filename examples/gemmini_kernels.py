"""Gemmini kernels written by hand: the tiled matmul of the TAIDL paper's Figure 19, and Exo's GEMMs of its Figure 21.

A kernel is a stream (:mod:`oracle.stream`) whose loops stay loops. ``python examples/gemmini_kernels.py`` prints one
of each as assembly, runs them through the oracle and compares the results with NumPy's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # works in a checkout that is not installed, too

from oracle.affine import Affine
from oracle.stream import HbmTensor, Instr, Loop, Node, Stream

Dataflow = Literal["OS", "WS"]

NONE = 0xFFFFFFFF
"""The local address that stands for no operand."""
ACC = 1 << 31
ADD = 1 << 30
FULL = 1 << 29
"""Bits of a local address: the accumulator, a write that adds, a read of whole i32 sums."""
ONE = 0x3F800000
"""The bits of 1.0 as f32."""
BASE = 64
"""Where tensors begin in HBM: an mvin from address 0 brings zeros."""
DMA_BYTES = 64
"""Bytes of one DMA request: an mvin brings as many columns at once."""

EXO_SIZES = (
    (12544, 64, 256), (12544, 256, 64), (784, 1024, 256), (3136, 512, 128), (3136, 128, 512), (512, 512, 512),
)
"""N x M x K of the six kernels that Exo's authors published for Gemmini: C of N x M, reduction K."""


def config_ex(dataflow: Dataflow) -> Instr:
    return Instr.make("config_ex", dataflow=int(dataflow == "WS"), act=0, sys_shift=0, a_transpose=0, b_transpose=0,
                      a_stride=1, c_stride=1, set_only_strides=0)


def config_ld(channel: int, stride: int, block: int, *, shrunk: bool = False) -> Instr:
    """Rows are ``stride`` bytes apart in HBM; every ``dim`` columns go ``block`` rows further."""
    return Instr.make("config_ld", channel=channel, stride=stride, scale=ONE, shrunk=int(shrunk), block_stride=block)


def config_st(stride: int) -> Instr:
    """Rows are ``stride`` bytes apart in HBM; no scale, activation or pooling."""
    return Instr.make("config_st", stride=stride, act=0, scale=ONE, pool_size=0, pool_stride=0, pool_upad=0,
                      pool_lpad=0, pool_out_dim=0, porows=0, pocols=0, orows=0, ocols=0)


def mvin(channel: int, dram: Affine | int, local: Affine | int, cols: int, rows: int) -> Instr:
    return Instr.make(("mvin", "mvin2", "mvin3")[channel], dram=dram, local=local, cols=cols, rows=rows)


def mvout(dram: Affine | int, local: Affine | int, cols: int, rows: int) -> Instr:
    return Instr.make("mvout", dram=dram, local=local, cols=cols, rows=rows)


def preload(bd: Affine | int, c: Affine | int, rows: int, cols: int, out_rows: int, out_cols: int) -> Instr:
    """``rows`` x ``cols`` of the operand at ``bd`` into the PEs; results of ``out_rows`` x ``out_cols`` go to ``c``."""
    return Instr.make("preload", bd=bd, c=c, bd_cols=cols, bd_rows=rows, c_cols=out_cols, c_rows=out_rows)


def compute(
    a: Affine | int, bd: Affine | int, a_rows: int, a_cols: int, bd_rows: int, bd_cols: int, *, preloaded: bool = True
) -> Instr:
    return Instr.make("compute_preloaded" if preloaded else "compute_accumulated", a=a, bd=bd, a_cols=a_cols,
                      a_rows=a_rows, bd_cols=bd_cols, bd_rows=bd_rows)


# --- tiled matmul ------------------------------------------------------------------------------------------------


def tiled_matmul(dim: int, tiles: int, dataflow: Dataflow = "WS") -> Stream:
    """C = saturate(A · B + D): A, C and D int8[tiles·dim, dim], B int8[dim, dim]; ``5·tiles + 2`` instructions and two.

    Everything is brought into the scratchpad, then every tile is computed, then all of C goes out, as in the TAIDL
    paper's artifact; the two are the strides that its moves carry themselves. Weight-stationary streams keep B in the
    array after the first tile, output-stationary ones preload each tile of D and stream B by.
    """
    n, square = tiles * dim, dim * dim
    a, b, d, c = (BASE + k * square for k in (0, tiles, tiles + 1, 2 * tiles + 1))
    rows = 3 * n + dim
    i, j, k = (Affine.variable(v) for v in "ijk")
    spad_b, spad_d, spad_c = n, n + dim, 2 * n + dim
    full = (dim, dim)
    body: list[Node] = [
        config_ld(0, dim, dim), config_st(dim),
        Loop("j", 0, 2 * tiles + 1, 1, (mvin(0, a + j * square, j * dim, *full),)),
        config_ex(dataflow),
    ]
    if dataflow == "OS":
        body.append(Loop("i", 0, tiles, 1, (
            preload(spad_d + i * dim, spad_c + i * dim, *full, *full), compute(i * dim, spad_b, *full, *full))))
    else:
        body += [preload(spad_b, spad_c, *full, *full), compute(0, spad_d, *full, *full)]
        if tiles > 1:
            body.append(Loop("i", 1, tiles, 1, (
                preload(NONE, spad_c + i * dim, *full, *full),
                compute(i * dim, spad_d + i * dim, *full, *full, preloaded=False))))
    body.append(Loop("k", 0, tiles, 1, (mvout(c + k * square, spad_c + k * dim, *full),)))
    parameters = (("dim", dim), ("spad_rows", max(16 << 10, rows)))
    arguments = (HbmTensor("A", a, (n, dim), "int8"), HbmTensor("B", b, full, "int8"),
                 HbmTensor("D", d, (n, dim), "int8"))
    return Stream("gemmini", parameters, arguments, (HbmTensor("C", c, (n, dim), "int8"),), c + n * dim, tuple(body),
                  name=f"tiled_matmul_{dataflow}_dim{dim}_i{tiles}")


# --- Exo's GEMMs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A loop over equal pieces of a dimension: they begin at ``at`` (an expression of the loop's variable)."""

    at: Affine
    number: Affine
    size: int
    var: str
    count: int

    def loop(self, *body: Node) -> Node | tuple[Node, ...]:
        return Loop(self.var, 0, self.count, 1, body) if self.count > 1 else body


def runs(var: str, total: int, step: int) -> Iterator[Run]:
    """``total`` cut into pieces of ``step``: a run of the whole ones, and one of the rest."""
    whole, rest = divmod(total, step)
    if whole:
        number = Affine.variable(var) if whole > 1 else Affine.of(0)
        yield Run(number * step, number, step, var, whole)
    if rest:
        yield Run(Affine.of(whole * step), Affine.of(whole), rest, f"{var}_rest", 1)


def flat(*nodes: Node | tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(n for node in nodes for n in (node if isinstance(node, tuple) else (node,)))


@dataclass(frozen=True)
class ExoGemm:
    """Addresses and sizes of a GEMM N x M x K in the way of Exo's kernels.

    A row of tiles of C is made at a time, ``dim`` rows by a panel of as many columns as one mvin brings: zeros into
    the accumulator, the products of all blocks of K added, and the sums out as int8.
    """

    n: int
    m: int
    k: int
    dim: int
    partials: bool
    """Whether the sums go out after every block of K and not after the last alone (Exo's 12544 x 64 x 256 does so)."""

    @property
    def panel(self) -> int:
        """Columns of a panel of B and C, and of a block of K."""
        return max(1, DMA_BYTES // self.dim) * self.dim

    @property
    def a(self) -> int:
        return BASE

    @property
    def b(self) -> int:
        return BASE + self.n * self.k

    @property
    def narrow(self) -> int:
        """Where the int8 results are."""
        return self.b + self.k * self.m

    @property
    def wide(self) -> int:
        """Where they are as int32."""
        return -(-(self.narrow + self.n * self.m) // 64) * 64

    def body(self) -> tuple[Node, ...]:
        head = (config_st(self.m), config_ex("WS"), config_ld(0, 0, self.dim), config_ld(1, self.k, self.dim),
                config_ld(2, self.m, self.dim))
        nests = (rows.loop(*flat(*(self._tile(rows, cols) for cols in runs("j", self.m, self.panel))))
                 for rows in runs("i", self.n, self.dim))
        return flat(*head, *nests)

    def _tile(self, rows: Run, cols: Run) -> Node | tuple[Node, ...]:
        clear = (p.loop(mvin(0, 0, ACC + p.at, p.size, rows.size)) for p in runs("p", cols.size, self.dim))
        out = [p.loop(mvout(self.narrow + rows.at * self.m + cols.at + p.at, ACC + p.at, p.size, rows.size))
               for p in runs("p", cols.size, self.dim)]
        blocks = [block.loop(*flat(*self._block(rows, cols, block), *(out if self.partials else ())))
                  for block in runs("ko", self.k, self.panel)]
        return cols.loop(*flat(*clear, *blocks, *(() if self.partials else out)))

    def _block(self, rows: Run, cols: Run, block: Run) -> Iterator[Node | tuple[Node, ...]]:
        """A block of K: A's tiles, then B's, one row of tiles after the other, each tile with its product."""
        place = block.number % SLOTS * self.panel
        b_place = SLOTS * self.panel + place * (self.panel // self.dim)
        yield mvin(1, self.a + rows.at * self.k + block.at, place, block.size, rows.size)
        for g in runs("g", block.size, self.dim):
            b_rows = b_place + g.number * self.panel
            products = []
            for p in runs("p", cols.size, self.dim):
                products.append(p.loop(
                    preload(b_rows + p.at, ACC + ADD + p.at, g.size, p.size, rows.size, p.size),
                    compute(place + g.at, NONE, rows.size, g.size, rows.size, p.size)))
            yield g.loop(*flat(
                mvin(2, self.b + (block.at + g.at) * self.m + cols.at, b_rows, cols.size, g.size), *products))

    def widening(self) -> tuple[Node, ...]:
        """C once more, from int8 to int32: in as elements that the accumulator widens, out as they are."""
        head = (config_ld(0, self.m, self.dim, shrunk=True), config_st(4 * self.m))
        nests = []
        for rows in runs("w", self.n, self.dim):
            tiles = []
            for cols in runs("v", self.m, self.panel):
                outs = (p.loop(mvout(self.wide + ((rows.at * self.m) + cols.at + p.at) * 4, ACC + FULL + p.at,
                                     p.size, rows.size)) for p in runs("p", cols.size, self.dim))
                tiles.append(cols.loop(*flat(
                    mvin(0, self.narrow + rows.at * self.m + cols.at, ACC, cols.size, rows.size), *outs)))
            nests.append(rows.loop(*flat(*tiles)))
        return flat(*head, *nests)


SLOTS = 2
"""Blocks of K that the scratchpad holds at a time."""


def exo_matmul(
    n: int, m: int, k: int, *, dim: int = 16, out: Literal["int8", "int32"] = "int32", partials: bool = False
) -> Stream:
    """C = saturate_int8(A · B): A int8[n, k], B int8[k, m], C int8[n, m] or int32[n, m] (still of int8's range).

    Gemmini saturates what leaves it as int8 alone, so an int32 C takes a second pass over C, int8 in and int32 out.
    """
    gemm = ExoGemm(n, m, k, dim, partials)
    wide = out == "int32"
    c = HbmTensor("C", gemm.wide if wide else gemm.narrow, (n, m), out)
    parameters = (("dim", dim), ("spad_rows", max(16 << 10, SLOTS * gemm.panel * (1 + gemm.panel // dim))),
                  ("acc_rows", max(1 << 10, gemm.panel)), ("dma_bytes", DMA_BYTES))
    arguments = (HbmTensor("A", gemm.a, (n, k), "int8"), HbmTensor("B", gemm.b, (k, m), "int8"))
    body = gemm.body() + (gemm.widening() if wide else ())
    return Stream("gemmini", parameters, arguments, (c,), c.address + n * m * (4 if wide else 1), body,
                  name=f"exo_{n}x{m}x{k}")


# --- the same mathematics in NumPy -------------------------------------------------------------------------------


def tiled_reference(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> np.ndarray:
    """C of :func:`tiled_matmul`."""
    return np.clip(a.astype(np.int32) @ b.astype(np.int32) + d, -128, 127).astype(np.int8)


def exo_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C of :func:`exo_matmul` as int32."""
    return np.clip(a.astype(np.int32) @ b.astype(np.int32), -128, 127)


def main() -> None:
    from oracle.assembly import to_text
    from oracle.taidl import load
    from oracle.xla import compile_stream

    random = np.random.default_rng(0)
    for stream in (tiled_matmul(16, 4, "WS"), exo_matmul(100, 72, 80)):
        print(to_text(stream))
        oracle = compile_stream(stream, load(stream.isa, **dict(stream.parameters)))
        given = [random.integers(-8, 8, t.shape, dtype=np.int8) for t in stream.arguments]
        want = (tiled_reference if len(given) == 3 else exo_reference)(*given)
        if not np.array_equal(np.asarray(oracle(*given)[0]), want):
            raise SystemExit(f"{stream.name}: the oracle's C is not NumPy's")
        print(f"{oracle.report}\n{stream.count()} instructions; C equals NumPy's\n")


if __name__ == "__main__":
    main()
