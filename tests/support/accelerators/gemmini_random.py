"""Hypothesis strategies for valid Gemmini streams: random nests over small memories, and tiled GEMMs.

Random nests draw every field freely within bounds that hold for all configurations drawn, so that any order of
configuration, loading, computing and storing is valid, and small memories make addresses collide.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from tests.support.accelerators import gemmini_streams as g

DIMS = (4, 5, 8, 16)
HBM_BYTES = 4096
_STRIDES = (64, 80, 100)
_SCALES = (g.ONE, g.ONE, g.bits(0.5), g.bits(0.37), g.bits(-1.25))


@dataclass
class _Draw:
    """Draws instructions; ``loops`` are the enclosing ones, outermost first, as (variable, first, last)."""

    draw: st.DrawFn
    dim: int
    loops: list[tuple[str, int, int]] = field(default_factory=list)
    budget: int = 120
    serial: int = 0

    @property
    def spad_rows(self) -> int:
        return max(64, 8 * self.dim)

    @property
    def acc_rows(self) -> int:
        return max(16, 6 * self.dim)

    def pick(self, *choices: int) -> int:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    # expressions

    def affine(self, low: int, high: int, step: int = 1) -> Affine:
        """An expression with values in ``low..high``."""
        e = Affine(0)
        for var, _, _ in self.loops:
            kind = self.number(0, 4)
            if kind >= 3:
                coefficient = step * self.pick(1, 1, 2, 3, -1)
                v = Affine.variable(var)
                if kind == 4:
                    v = self.pick_of([v % 2, v // 2, (v + 1) % 3, v % 3])
                e = e + v * coefficient
        least, most = e.range({v: (a, b) for v, a, b in self.loops})
        if most - least > high - low:
            return Affine(self.number(low, high))
        base = self.number(low - least, high - most)
        return e + base

    def pick_of(self, choices: list[Affine]) -> Affine:
        return self.draw(st.sampled_from(choices))

    def size(self, most: int) -> Affine:
        """A number of rows or columns: usually the same for all iterations."""
        kind = self.number(0, 7)
        if kind == 0:
            return self.affine(1, most)
        return Affine(most if kind < 4 else self.number(1, most))

    # instructions

    def instr(self) -> list[Instr]:
        self.budget -= 1
        kinds = [self.config, self.load, self.load, self.store, self.store_pooled, self.preload, self.compute,
                 self.preload_compute, self.preload_compute]
        return self.draw(st.sampled_from(kinds))()

    def config(self) -> list[Instr]:
        which = self.number(0, 2)
        if which == 0:
            return [self.config_ex()]
        return [self.config_ld(self.number(0, 2)) if which == 1 else self.config_st()]

    def config_ex(self) -> Instr:
        dataflow = self.pick(g.OS, g.WS)
        a, b = self.draw(st.sampled_from([(0, 0), (1, 0), (1, 1)] if dataflow == g.OS else [(0, 0), (1, 0), (0, 1)]))
        return g.config_ex(dataflow, act=self.number(0, 1), sys_shift=self.pick(0, 0, 1, 7), a_transpose=a,
                           b_transpose=b, a_stride=self.pick(1, 1, 1, 2), c_stride=self.pick(1, 1, 1, 2),
                           set_only_strides=self.pick(0, 0, 0, 1))

    def config_ld(self, channel: int) -> Instr:
        return g.config_ld(self.pick(0, *_STRIDES), channel, scale=self.pick(*_SCALES), shrunk=self.number(0, 1),
                           block_stride=self.pick(self.dim, self.dim + 1))

    def config_st(self) -> Instr:
        return g.config_st(self.pick(*_STRIDES), act=self.number(0, 1), scale=self.pick(*_SCALES))

    def load(self) -> list[Instr]:
        rows = self.size(self.dim)
        accumulator = self.number(0, 1)
        most = max(self.dim, 16 if accumulator else 64)
        cols = self.size(min(most, 2 * self.dim + 3))
        blocks = -(-(2 * self.dim + 3) // self.dim)
        span = (blocks - 1) * (self.dim + 1) + self.dim
        local = self.affine(0, (self.acc_rows if accumulator else self.spad_rows) - span)
        if accumulator:
            local = local + g.ACC + self.pick(0, g.ADD)
        reach = (self.dim - 1) * max(_STRIDES) + 4 * (2 * self.dim + 3)
        dram = Affine(0) if self.number(0, 7) == 0 else self.affine(self.pick(0, 64), HBM_BYTES - reach)
        return [Instr.make(("mvin", "mvin2", "mvin3")[self.number(0, 2)], dram=dram, local=local, cols=cols, rows=rows)]

    def store(self) -> list[Instr]:
        rows = self.size(self.dim)
        source = self.number(0, 2)
        cols = self.size(min(self.dim + 3, 16))
        local = self.affine(0, (self.acc_rows if source else self.spad_rows) - 2 * self.dim)
        local = local + (0, g.ACC, g.ACC + g.FULL)[source]
        dram = self.affine(64, HBM_BYTES - (self.dim - 1) * max(_STRIDES) - 4 * (self.dim + 3))
        return [Instr.make("mvout", dram=dram, local=local, cols=cols, rows=rows)]

    def store_pooled(self) -> list[Instr]:
        size, stride = self.number(1, 3), self.number(1, 3)
        orows, ocols = self.number(1, 4), self.number(1, 4)
        up, left = self.number(0, size - 1), self.number(0, size - 1)
        porows, pocols = self.number(1, 3), self.number(1, 3)
        # the covered part ends at or behind the image, as pad needs no negative amounts then
        porows = max(porows, -(-(orows + up - size) // stride) + 1)
        pocols = max(pocols, -(-(ocols + left - size) // stride) + 1)
        pool = g.config_st(64, act=self.number(0, 1), scale=self.pick(*_SCALES), pool_size=size, pool_stride=stride,
                           pool_upad=up, pool_lpad=left, pool_out_dim=pocols + self.number(0, 1), porows=porows,
                           pocols=pocols, orows=orows, ocols=ocols)
        accumulator = self.number(0, 1)
        local = self.affine(0, (self.acc_rows if accumulator else self.spad_rows) - 16) + accumulator * g.ACC
        reach = ((porows - 1) * (pocols + 1) + pocols) * 64
        dram = self.affine(64, max(64, HBM_BYTES - reach))
        cols = Affine(self.number(1, self.dim))
        if dram.range({v: (a, b) for v, a, b in self.loops})[1] + reach > HBM_BYTES:
            return [self.config_st()]
        return [pool, Instr.make("mvout", dram=dram, local=local, cols=cols, rows=1), self.config_st()]

    def spad(self) -> Affine | int:
        return self.affine(0, self.spad_rows - 2 * self.dim) if self.number(0, 4) else g.NONE

    def preload(self) -> list[Instr]:
        target = self.number(0, 6)
        c: Affine | int = g.NONE
        if target:
            c = self.affine(0, (self.spad_rows if target == 1 else self.acc_rows) - 2 * self.dim)
            c = c + (0 if target == 1 else g.ACC if target < 4 else g.ACC + g.ADD)
        sizes = [self.size(self.dim) for _ in range(4)]
        return [Instr.make("preload", bd=self.spad(), c=c, bd_cols=sizes[0], bd_rows=sizes[1], c_cols=sizes[2],
                           c_rows=sizes[3])]

    def compute(self) -> list[Instr]:
        sizes = [self.size(self.dim) for _ in range(4)]
        name = self.draw(st.sampled_from(["compute_preloaded", "compute_accumulated"]))
        return [Instr.make(name, a=self.spad(), bd=self.spad(), a_cols=sizes[0], a_rows=sizes[1], bd_cols=sizes[2],
                           bd_rows=sizes[3])]

    def preload_compute(self) -> list[Instr]:
        return self.preload() + self.compute()

    # nests

    def nodes(self, depth: int) -> tuple[Instr | Loop, ...]:
        result: list[Instr | Loop] = []
        for _ in range(self.number(1, 4)):
            if depth and self.budget > 8 and self.number(0, 2) < 2:
                result.append(self.loop(depth))
            else:
                result += self.instr()
        return tuple(result)

    def loop(self, depth: int) -> Loop:
        extent, step = self.pick(1, 2, 2, 3, 3, 4, 5, 0), self.pick(1, 1, 1, 2, -1)
        start = self.pick(0, 0, 0, 1) if step > 0 else extent
        self.serial += 1
        var = f"v{self.serial}" if self.number(0, 1) else f"i{depth}"
        outer = self.budget
        self.budget = outer // max(extent, 1)
        last = start + step * max(extent - 1, 0)
        self.loops.append((var, min(start, last), max(start, last)))
        body = self.nodes(depth - 1)
        self.loops.pop()
        self.budget = outer - (outer // max(extent, 1) - self.budget) * max(extent, 1)
        return Loop(var, start, start + step * extent, step, body)


@st.composite
def gemmini_streams(draw: st.DrawFn, dims: tuple[int, ...] = DIMS, depth: int = 3) -> Stream:
    """Valid streams of arbitrary Gemmini instructions; one argument and one result cover HBM from byte 64 on."""
    d = _Draw(draw, draw(st.sampled_from(dims)))
    head = [d.config_ex(), *(d.config_ld(c) for c in range(3)), d.config_st()]
    body = (*head, *d.nodes(depth), *d.nodes(depth))
    parameters = (("dim", d.dim), ("spad_rows", d.spad_rows), ("acc_rows", d.acc_rows), ("dma_bytes", 64))
    memory = HbmTensor("M", 64, (HBM_BYTES - 64,), "int8")
    return Stream("gemmini", parameters, (memory,), (memory,), HBM_BYTES, body, "random")


# --- tiled GEMMs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gemm:
    """``C = A . B (+ bias)`` of ``m x n x k`` in blocks of ``dim``, with the choices that a compiler has."""

    dim: int
    m: int
    n: int
    k: int
    dataflow: int = g.WS
    bias: bool = True
    full: bool = False
    scale: int = g.ONE
    act: int = 0
    slots: int = 2
    hoist: bool = False
    late_preload: bool = False

    def stream(self) -> Stream:
        """The stream; its blocks at the edges are peeled, and loads take turns in ``slots`` places."""
        d, size = self.dim, 4 if self.full else 1
        a, b = 64, 64 + self.m * self.k
        bias = -(-(b + self.k * self.n) // 4) * 4
        c = bias + 4 * self.n
        end = c + self.m * self.n * size
        arguments = [HbmTensor("A", a, (self.m, self.k), "int8"), HbmTensor("B", b, (self.k, self.n), "int8")]
        if self.bias:
            arguments.append(HbmTensor("bias", bias, (self.n,), "int32"))
        result = HbmTensor("C", c, (self.m, self.n), "int32" if self.full else "int8")
        body: list[Instr | Loop] = [
            g.config_ex(self.dataflow), g.config_ld(self.k, 0, block_stride=d),
            g.config_ld(self.n, 1, block_stride=d), g.config_ld(0, 2, block_stride=d),
            g.config_st(self.n * size, act=self.act, scale=self.scale),
        ]
        for i, i_size, i_wrap in _blocks("i", self.m, d):
            for j, j_size, j_wrap in _blocks("j", self.n, d):
                inner = self.tile(i, i_size, j, j_size, (a, b, bias, c))
                body += i_wrap(j_wrap(inner))
        parameters = {"dim": d, "spad_rows": max(64, 8 * d), "acc_rows": max(16, 4 * d), "dma_bytes": 64}
        return Stream("gemmini", tuple(parameters.items()), tuple(arguments), (result,), end, tuple(body), "gemm")

    def tile(self, i: Affine, rows: int, j: Affine, cols: int, at: tuple[int, int, int, int]) -> list[Instr | Loop]:
        """One block of C at block row ``i`` and block column ``j``."""
        d, size = self.dim, 4 if self.full else 1
        a, b, bias, c = at
        acc = g.ACC + (i + j) % self.slots * d
        body: list[Instr | Loop] = []
        if self.bias:
            body.append(g.mvin(bias + 4 * d * j, acc, cols, rows, 2))
        else:
            body.append(g.mvin(0, acc, cols, rows, 2))
        for k, k_size, wrap in _blocks("k", self.k, d):
            slot = k % self.slots * (2 * d)
            load = [g.mvin(a + d * self.k * i + d * k, slot, k_size, rows, 0),
                    g.mvin(b + d * self.n * k + d * j, slot + d, cols, k_size, 1)]
            if self.dataflow == g.WS:
                work = [g.preload(slot + d, acc + g.ADD, cols, k_size, cols, rows),
                        g.compute(slot, g.NONE, k_size, rows, d, d)]
            else:
                work = [g.preload(g.NONE, acc + g.ADD, d, d, cols, rows),
                        g.compute(slot, slot + d, k_size, rows, cols, k_size)]
            if self.hoist:
                body += wrap(load[:1] + load[1:] + work)
            elif self.late_preload and self.dataflow == g.WS:
                # the loads of a block and its preload in one loop, its computation in the next instruction's shadow
                body += wrap([*load, work[0], g.mvin(0, 6 * d, d, d, 1), work[1]])
            else:
                body += wrap([*load, *work])
        flag = g.FULL if self.full else 0
        body.append(g.mvout(c + (d * self.n * i + d * j) * size, acc + flag, cols, rows))
        return body


def _blocks(var: str, extent: int, dim: int) -> list:
    """Full blocks in a loop and the rest by itself: (block number, size, wrapper of a body) for each."""
    whole, rest = divmod(extent, dim)
    pieces: list = []
    if whole:
        pieces.append((Affine.variable(var), dim, lambda body: [Loop(var, 0, whole, 1, tuple(body))]))
    if rest:
        pieces.append((Affine(whole), rest, lambda body: list(body)))
    return pieces


@st.composite
def gemms(draw: st.DrawFn, dims: tuple[int, ...] = DIMS, most: int = 3) -> Gemm:
    """Tiled GEMMs of up to ``most`` blocks along each axis, edges included."""
    dim = draw(st.sampled_from(dims))
    sizes = st.integers(1, most * dim)
    full = draw(st.booleans())
    return Gemm(
        dim, draw(sizes), draw(sizes), draw(sizes), draw(st.sampled_from([g.OS, g.WS])), draw(st.booleans()), full,
        draw(st.sampled_from(_SCALES)), draw(st.integers(0, 1)), draw(st.integers(1, 2)), draw(st.booleans()),
        draw(st.booleans()),
    )
