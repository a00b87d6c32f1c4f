"""GEMM as a Gemmini stream: weight stationary (weights stay in the mesh) and output stationary (sums stay).

Local addresses: blocks of dim rows. A block (i, kb) of a slot lies at row ``(kb * a_width + i) * dim``, of B (kb, j)
at ``(kb * b_width + j) * dim``, of C (i, j) in the accumulator at ``(j * tm_blocks + i) * dim``. A grows from the
bottom of the scratchpad, B ends at its top, so that they lie in different banks where there is room.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from archloom.mapper.known import Touched
from archloom.mapper.mapping import Mapping
from archloom.mapper.reuse import GemmResidency, gemm_residency
from archloom.mapper.workload import Epilogue
from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor
from archloom.uma_targets.gemmini import instructions as isa
from archloom.uma_targets.gemmini.instructions import Block, GemminiParameters
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces, repeat

A, B, BIAS = 0, 1, 2
"""Load channels."""


@dataclass(frozen=True)
class GemmProblem:
    """``C[b, m, n] = epilogue(A[b, m, k] · B[b, k, n] + bias[b, n])`` on matrices in HBM (B and bias may be shared)."""

    batch: int
    m: int
    n: int
    k: int
    a: HbmTensor
    b: HbmTensor
    bias: HbmTensor | None
    c: HbmTensor
    shared_b: bool
    epilogue: Epilogue

    @property
    def out_bytes(self) -> int:
        """Bytes of an element of C."""
        return 4 if self.epilogue.out_dtype == "int32" else 1


@dataclass(frozen=True)
class Tile:
    """The tile at hand: sizes in elements, first row and column, numbers of slots, and where it stands in its loops."""

    m_size: int
    n_size: int
    m0: Affine
    n0: Affine
    a_base: Affine
    b_base: Affine
    c_base: Affine
    number: Affine
    batch: Affine
    load_a: bool
    load_b: bool


@dataclass(frozen=True)
class GemmEmission:
    """Writes the stream's body for one problem and mapping."""

    parameters: GemminiParameters
    problem: GemmProblem
    mapping: Mapping

    @cached_property
    def residency(self) -> GemmResidency:
        p, t = self.problem, self.mapping
        return gemm_residency(
            p.m, p.n, p.k, t.size("m"), t.size("n"), t.size("k"), self.m_outer,
            self.streamed("A"), self.streamed("B"), self.parameters.dim,
        )

    @property
    def demand(self) -> tuple[int, int]:
        """Rows of the scratchpad and of the accumulator."""
        r, t = self.residency, self.mapping
        spad = int(r.a_rows) * t.slots("A") + int(r.b_rows) * t.slots("B")
        return spad, int(r.c_rows) * t.slots("C")

    @property
    def touched(self) -> Touched:
        """Rows of scratchpad and accumulator: nothing else depends on how many there are."""
        p, t, r, end = self.problem, self.mapping, self.residency, self.parameters.spad_rows
        used = t.limited("C", p.batch * ceil_div(p.m, t.size("m")) * ceil_div(p.n, t.size("n")))
        a, b, c = (int(rows) * used.slots(name) for name, rows in (("A", r.a_rows), ("B", r.b_rows), ("C", r.c_rows)))
        return Touched(used, {"spad": ((0, a), (end - b, end)), "acc": ((0, c),)})

    @property
    def m_outer(self) -> bool:
        return self.mapping.order[0] == "m"

    def streamed(self, operand: str) -> bool:
        return self.mapping.level(operand) == "stream"

    def body(self) -> Nodes:
        """Configuration, then the loops over batch and tiles."""
        p, dim = self.problem, self.parameters.dim
        self.parameters.check_rows(*self.demand, str(self.mapping))
        stationary = isa.WEIGHT_STATIONARY if self.mapping.dataflow == "ws" else isa.OUTPUT_STATIONARY
        nodes: Nodes = [
            isa.config_ex(dataflow=stationary),
            isa.config_ld(A, stride=p.k, block_stride=dim),
            isa.config_ld(B, stride=p.n, block_stride=dim),
        ]
        if p.bias is not None:
            nodes.append(isa.config_ld(BIAS, stride=0, block_stride=dim))
        nodes.append(isa.config_st(stride=p.n * p.out_bytes, relu=p.epilogue.relu, scale=p.epilogue.scale))
        return nodes + repeat("b", p.batch, self._batch)

    def _batch(self, b: Affine) -> Nodes:
        outer, inner = self._runs()
        whole = "B" if self.m_outer else "A"
        nodes: Nodes = []
        if self.mapping.level(whole) == "hoist":
            nodes += self._load_all(whole, self._slot(whole, b), b)
        first_only = self.mapping.level(whole) == "interleave"

        def one(o: Affine, run: Piece) -> Nodes:
            return self._outer(b, o, run, inner, load_whole=first_only and run.is_first)

        return nodes + each("mt" if self.m_outer else "nt", outer, one)

    def _runs(self) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
        """Tiles of the outer and of the inner loop, first ones apart where they load what later ones reuse."""
        p, t = self.problem, self.mapping
        mine, whole = ("A", "B") if self.m_outer else ("B", "A")
        sizes = (p.m, t.size("m")), (p.n, t.size("n"))
        (outer, outer_tile), (inner, inner_tile) = sizes if self.m_outer else sizes[::-1]
        return (
            pieces(outer, outer_tile, peel_first=t.level(whole) == "interleave"),
            pieces(inner, inner_tile, peel_first=t.level(mine) == "interleave"),
        )

    def _outer(self, b: Affine, o: Affine, run: Piece, inner: tuple[Piece, ...], *, load_whole: bool) -> Nodes:
        """One iteration of the outer loop over tiles: the operand that it indexes, then the inner loop."""
        p, t = self.problem, self.mapping
        mine, whole = ("A", "B") if self.m_outer else ("B", "A")
        tile = t.size("m" if self.m_outer else "n")
        outer_tiles = ceil_div(p.m if self.m_outer else p.n, tile)
        inner_tiles = ceil_div(p.n if self.m_outer else p.m, t.size("n" if self.m_outer else "m"))
        mine_base = self._slot(mine, b * outer_tiles + o)
        nodes: Nodes = []
        if t.level(mine) == "hoist":
            nodes += self._load(mine, mine_base, o * tile, run.size, Affine(0), p.k, b)

        def one(i: Affine, irun: Piece) -> Nodes:
            number = (b * outer_tiles + o) * inner_tiles + i
            load_mine = self.streamed(mine) or (t.level(mine) == "interleave" and irun.is_first)
            load_other = self.streamed(whole) or load_whole
            mt, mrun, nt, nrun = (o, run, i, irun) if self.m_outer else (i, irun, o, run)
            bases = {mine: mine_base, whole: self._inner_base(whole, self._slot(whole, b), i)}
            return self._tile(Tile(
                mrun.size, nrun.size, mt * t.size("m"), nt * t.size("n"), bases["A"], bases["B"],
                self._slot("C", number), number, b,
                load_mine if mine == "A" else load_other, load_mine if mine == "B" else load_other,
            ))

        return nodes + each("nt" if self.m_outer else "mt", inner, one)

    def _slot(self, operand: str, number: Affine) -> Affine:
        """Local address of the slot that the tile ``number`` of ``operand`` uses."""
        r, t = self.residency, self.mapping
        rows = int({"A": r.a_rows, "B": r.b_rows, "C": r.c_rows}[operand])
        base = 0
        if operand == "B":
            base = self.parameters.spad_rows - rows * t.slots("B")
        return (number % t.slots(operand)) * rows + base

    def _inner_base(self, operand: str, base: Affine, i: Affine) -> Affine:
        """Where tile ``i`` of the operand that is kept whole begins."""
        step = ceil_div(self.mapping.size("n" if operand == "B" else "m"), self.parameters.dim)
        return base if self.streamed(operand) else base + i * (step * self.parameters.dim)

    def _tile(self, tile: Tile) -> Nodes:
        """Bias, the chunks of the reduction, and the stores."""
        p, t = self.problem, self.mapping
        apart = t.store == "interleave"
        chunks = pieces(p.k, t.size("k"), peel_first=p.bias is None, peel_last=apart)

        def chunk(kt: Affine, run: Piece) -> Nodes:
            at = self._chunk_bases(tile, kt, len_k=ceil_div(p.k, t.size("k")))
            k0 = kt * t.size("k")
            nodes: Nodes = []
            if tile.load_a:
                nodes += self._load("A", at.a_base, tile.m0, tile.m_size, k0, run.size, tile.batch)
            if tile.load_b:
                nodes += self._load("B", at.b_base, tile.n0, tile.n_size, k0, run.size, tile.batch)
            start = p.bias is None and run.is_first
            store = apart and run.is_last
            if t.dataflow == "ws":
                return nodes + self._weight_stationary(at, run.size, start, store)
            return nodes + self._output_stationary(at, run.size, start, store)

        nodes = self._load_bias(tile) if p.bias is not None else []
        nodes += each("kt", chunks, chunk)
        return nodes if apart else nodes + self._stores(tile)

    def _chunk_bases(self, tile: Tile, kt: Affine, len_k: int) -> Tile:
        """The tile with the addresses of chunk ``kt`` of A and B."""
        r, dim = self.residency, self.parameters.dim
        blocks = ceil_div(self.mapping.size("k"), dim)
        number = tile.number * len_k + kt
        a = self._slot("A", number) if self.streamed("A") else tile.a_base + kt * (blocks * int(r.a_width) * dim)
        b = self._slot("B", number) if self.streamed("B") else tile.b_base + kt * (blocks * int(r.b_width) * dim)
        return replace(tile, a_base=a, b_base=b)

    # loads and stores

    def _load_all(self, operand: str, base: Affine, b: Affine) -> Nodes:
        """The whole operand, tile by tile of the inner loop."""
        p, t = self.problem, self.mapping
        extent, tile = (p.m, t.size("m")) if operand == "A" else (p.n, t.size("n"))
        return each("t", pieces(extent, tile), lambda i, run: self._load(
            operand, self._inner_base(operand, base, i), i * tile, run.size, Affine(0), p.k, b))

    def _load(self, operand: str, base: Affine, first: Affine, size: int, k0: Affine, k_size: int, b: Affine) -> Nodes:
        """``size`` rows of A, or columns of B, from ``first`` on, over ``k_size`` of the reduction from ``k0`` on."""
        p, dim, r = self.problem, self.parameters.dim, self.residency
        of_a, matrix = operand == "A", Affine(0) if p.shared_b else b * (p.k * p.n)
        width = int(r.a_width if of_a else r.b_width)

        def block(kb: Affine, krun: Piece, i: Affine, run: Piece) -> Nodes:
            local = base + (kb * width + i) * dim
            if of_a:
                row = (b * p.m + first + i * dim) * p.k + k0 + kb * dim
                return [isa.mvin(A, row + p.a.address, Block(local, run.size, krun.size))]
            row = matrix + (k0 + kb * dim) * p.n + first + i * dim
            return [isa.mvin(B, row + p.b.address, Block(local, krun.size, run.size))]

        return each("kb", pieces(k_size, dim), lambda kb, krun: each(
            "i" if of_a else "j", pieces(size, dim), lambda i, run: block(kb, krun, i, run)))

    def _c_local(self, tile: Tile, i: Affine, j: Affine) -> Affine:
        width = ceil_div(self.mapping.size("m"), self.parameters.dim)
        return tile.c_base + (j * width + i) * self.parameters.dim + isa.ACCUMULATOR

    def _load_bias(self, tile: Tile) -> Nodes:
        bias, dim = self.problem.bias, self.parameters.dim
        assert bias is not None
        first = tile.n0 + tile.batch * self.problem.n if len(bias.shape) > 1 else tile.n0

        def block(j: Affine, jrun: Piece, i: Affine, run: Piece) -> Nodes:
            return [isa.mvin(BIAS, (first + j * dim) * 4 + bias.address,
                             Block(self._c_local(tile, i, j), run.size, jrun.size))]

        return each("j", pieces(tile.n_size, dim), lambda j, jrun: each(
            "i", pieces(tile.m_size, dim), lambda i, run: block(j, jrun, i, run)))

    def _stores(self, tile: Tile) -> Nodes:
        dim = self.parameters.dim
        return each("j", pieces(tile.n_size, dim), lambda j, jrun: each(
            "i", pieces(tile.m_size, dim), lambda i, run: self._store(tile, i, run.size, j, jrun.size)))

    def _store(self, tile: Tile, i: Affine, rows: int, j: Affine, cols: int) -> Nodes:
        p, dim = self.problem, self.parameters.dim
        first = (tile.batch * p.m + tile.m0 + i * dim) * p.n + tile.n0 + j * dim
        local = self._c_local(tile, i, j) + (isa.FULL_WIDTH if p.out_bytes == 4 else 0)
        return [isa.mvout(first * p.out_bytes + p.c.address, Block(local, rows, cols))]

    # computation

    def _weight_stationary(self, tile: Tile, k_size: int, start: bool, store: bool) -> Nodes:
        """For each block of B: into the mesh once, then all rows of A through it."""
        dim, r = self.parameters.dim, self.residency
        runs_m = pieces(tile.m_size, dim, peel_first=True)

        def step(kb: Affine, krun: Piece) -> Nodes:
            overwrite, last = start and krun.is_first, store and krun.is_last
            return each("j", pieces(tile.n_size, dim), lambda j, jrun: each(
                "i", runs_m, lambda i, run: rows(kb, krun, j, jrun, i, run, overwrite, last)))

        def rows(
            kb: Affine, krun: Piece, j: Affine, jrun: Piece, i: Affine, run: Piece, overwrite: bool, last: bool
        ) -> Nodes:
            c = Block(self._c_local(tile, i, j) + (0 if overwrite else isa.ACCUMULATE), run.size, jrun.size)
            a = Block(tile.a_base + (kb * int(r.a_width) + i) * dim, run.size, krun.size)
            nodes = isa.by_weights(a, tile.b_base + (kb * int(r.b_width) + j) * dim, c, fresh=run.first == 0)
            return nodes + (self._store(tile, i, run.size, j, jrun.size) if last else [])

        return each("kb", pieces(k_size, dim, peel_first=start, peel_last=store), step)

    def _output_stationary(self, tile: Tile, k_size: int, start: bool, store: bool) -> Nodes:
        """For each block of C: the chunk's products are summed in the mesh and leave it once."""
        dim, r = self.parameters.dim, self.residency
        runs_k = pieces(k_size, dim, peel_first=True, peel_last=True)

        def block(j: Affine, jrun: Piece, i: Affine, run: Piece) -> Nodes:
            c = Block(self._c_local(tile, i, j) + (0 if start else isa.ACCUMULATE), run.size, jrun.size)

            def step(kb: Affine, krun: Piece) -> Nodes:
                a = Block(tile.a_base + (kb * int(r.a_width) + i) * dim, run.size, krun.size)
                b = Block(tile.b_base + (kb * int(r.b_width) + j) * dim, krun.size, jrun.size)
                return isa.into_sums(a, b, c, first=krun.is_first, last=krun.is_last)

            nodes = each("kb", runs_k, step)
            return nodes + (self._store(tile, i, run.size, j, jrun.size) if store else [])

        return each("j", pieces(tile.n_size, dim), lambda j, jrun: each(
            "i", pieces(tile.m_size, dim), lambda i, run: block(j, jrun, i, run)))
