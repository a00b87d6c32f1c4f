"""Products as streams of Plasticine's patterns.

C is cut into tiles of ``down * across`` blocks, one for each pair of units. Over the inner dimension, blocks of A and B
are loaded to all pairs that need them (a load fills the PMUs of a row or a column of blocks), while the PCUs fold the
blocks before: each row of a block is one ``fold_product``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.gemm import Gemm
from archloom.uma_targets.kit.nest import Nodes, repeat
from archloom.uma_targets.kit.spans import Group, groups
from archloom.uma_targets.plasticine.plan import WORD_BYTES, Machine, Tiling, check


@dataclass(frozen=True)
class Depth:
    """``count`` pieces of ``size`` of the inner dimension from ``first`` on."""

    first: int
    count: int
    size: int


@dataclass(frozen=True)
class Columns:
    """``count`` columns of blocks from ``across`` on, and in each of their rows ``size`` vectors from ``first`` on.

    Each vector has ``words`` words of C: as many as lanes, or what is left at the end of its rows.
    """

    across: int
    count: int
    first: int
    size: int
    words: int


@dataclass(frozen=True)
class Tiled(Gemm):
    """A product, how it is tiled, and the machine."""

    tiling: Tiling
    machine: Machine

    def nodes(self) -> Nodes:
        """All tiles of C. MappingError if the tiling does not fit."""
        check(self.tiling, self.machine)
        found: Nodes = []
        number = 0
        for rows in groups(self.m, self.tiling.m, self.tiling.down):
            for cols in self._column_groups():
                found += self._tiles(rows, cols, number)
                number += rows.count * cols.count
        return found

    def _tiles(self, rows: Group, cols: Group, number: int) -> Nodes:
        """The tiles of a run of rows and a run of columns, which begin with tile ``number``."""
        def tile(i: Affine, j: Affine) -> Nodes:
            m0, n0 = i * rows.size + rows.first, j * cols.size + cols.first
            return Tile(self, rows, cols, m0, n0, i * cols.count + j + number).nodes()

        return repeat("mt", rows.count, lambda i: repeat("nt", cols.count, lambda j: tile(i, j)))

    def _column_groups(self) -> Iterator[Group]:
        """Groups of vectors of C; the last stands alone where its last vector has fewer words than lanes."""
        found = list(groups(self.machine.groups(self.n), self.tiling.n, self.tiling.across))
        last = found[-1]
        if self.n % self.machine.lanes and last.count > 1:
            head, alone = last.count - 1, last.first + (last.count - 1) * last.size
            found[-1:] = [replace(last, count=head), replace(last, first=alone, count=1)]
        yield from found


@dataclass(frozen=True)
class Tile:
    """A tile of C: rows from ``m0`` and vectors from ``n0`` on."""

    gemm: Tiled
    rows: Group
    cols: Group
    m0: Affine
    n0: Affine
    turn: Affine

    @property
    def machine(self) -> Machine:
        return self.gemm.machine

    def vector(self, down: Affine | int, across: Affine | int, place: Affine | int) -> Affine:
        """Number of a vector in the PMU of a block."""
        unit = Affine.of(down) * self.cols.down + across
        return unit * self.machine.vectors + place

    # --- places in a PMU ---------------------------------------------------------------------------------------

    def _a(self, slot: Affine) -> Affine:
        t = self.gemm.tiling
        return slot * (t.m * self.machine.groups(t.k))

    def _b(self, slot: Affine) -> Affine:
        t = self.gemm.tiling
        return slot * (t.k * t.n) + 2 * t.m * self.machine.groups(t.k)

    @property
    def _c(self) -> Affine:
        t = self.gemm.tiling
        slot = self.turn % 2 if t.sums == 2 else Affine(0)
        return slot * (t.m * t.n) + 2 * (t.m * self.machine.groups(t.k) + t.k * t.n)

    # --- the inner dimension -----------------------------------------------------------------------------------

    def nodes(self) -> Nodes:
        """Load the first blocks; load those after while the ones before are folded; store."""
        depths = list(self._depths())
        found = [*self._bias(), *self._load(depths[0], Affine(0), Affine(0))]
        for index, depth in enumerate(depths):
            after = depths[index + 1] if index + 1 < len(depths) else None
            found += self._fold(depth, after)
        return found + self._store()

    def _depths(self) -> Iterator[Depth]:
        """The pieces of the inner dimension: the first, whole ones, a last of whole vectors, what is left."""
        k, size, lanes = self.gemm.k, self.gemm.tiling.k, self.machine.lanes
        whole, rest = divmod(k, size)
        if whole:
            yield Depth(0, 1, size)
        if whole > 1:
            yield Depth(size, whole - 1, size)
        first = whole * size
        for piece in (rest - rest % lanes, rest % lanes):
            if piece:
                yield Depth(first, 1, piece)
                first += piece

    def _number(self, depth: Depth) -> int:
        """How many pieces come before, which decides the slot."""
        return sum(other.count for other in self._depths() if other.first < depth.first)

    def _fold(self, depth: Depth, after: Depth | None) -> Nodes:
        number = self._number(depth)

        onto = depth.first > 0 or self.gemm.bias is not None

        def step(i: Affine, following: Depth | None, ahead: Affine) -> Nodes:
            found = [] if following is None else self._load(following, ahead, (i + number + 1) % 2)
            return [*found, *self._patterns(depth, (i + number) % 2, onto=onto)]

        within = repeat("kt", depth.count - 1, lambda i: step(i, depth, i + 1))
        return within + step(Affine(depth.count - 1), after, Affine(0))

    def _bias(self) -> Nodes:
        bias = self.gemm.bias
        if bias is None:
            return []
        return [n for cols in self._columns() for n in self._to_columns("bi", bias, self._c, cols, self.rows.each, 0)]

    def _to_columns(self, var: str, base: Affine, place: Affine, cols: Columns, rows: int, row_bytes: int) -> Nodes:
        """``rows`` rows of N words from ``base`` on to ``place`` in all PMUs of these columns of blocks."""
        return repeat(var, cols.count, lambda i: [Instr.make(
            "load", dram=self._word(base, i + cols.across, cols.first),
            vector=self.vector(0, i + cols.across, place + cols.first), rows=rows, groups=cols.size, width=cols.words,
            h0=row_bytes, d0=self.cols.each, n0=self.rows.down, s0=self.cols.down * self.machine.vectors,
        )])

    def _word(self, base: Affine, across: Affine, first: int) -> Affine:
        """Address in a row of N words of vector ``first`` of a column of blocks."""
        return base + (self.n0 + (across * self.cols.each + first)) * (self.machine.lanes * WORD_BYTES)

    def _load(self, depth: Depth, index: Affine, slot: Affine) -> Nodes:
        """The blocks of A to the rows of blocks, those of B to the columns."""
        g = self.gemm
        k0 = index * depth.size + depth.first
        row_bytes, col_bytes = g.k * WORD_BYTES, g.n * WORD_BYTES
        k_groups = self.machine.groups(depth.size)
        found = repeat("la", self.rows.down, lambda d: [Instr.make(
            "load", dram=g.a + (self.m0 + d * self.rows.each) * row_bytes + k0 * WORD_BYTES,
            vector=self.vector(d, 0, self._a(slot)), rows=self.rows.each, groups=k_groups,
            width=min(depth.size, self.machine.lanes), h0=row_bytes, d0=k_groups, n0=self.cols.down,
            s0=self.machine.vectors,
        )])
        for cols in self._columns():
            found += self._to_columns("lb", g.b + k0 * col_bytes, self._b(slot), cols, depth.size, col_bytes)
        return found

    def _columns(self) -> Iterator[Columns]:
        """The columns of blocks, apart where the last vector of the last has fewer words than lanes."""
        lanes, each, across = self.machine.lanes, self.cols.each, self.cols.down
        tail = self.gemm.n % lanes
        if not (tail and self.cols.first + self.cols.count * self.cols.size == self.machine.groups(self.gemm.n)):
            yield Columns(0, across, 0, each, lanes)
            return
        if across > 1:
            yield Columns(0, across - 1, 0, each, lanes)
        if each > 1:
            yield Columns(across - 1, 1, 0, each - 1, lanes)
        yield Columns(across - 1, 1, each - 1, 1, tail)

    def _patterns(self, depth: Depth, slot: Affine, *, onto: bool) -> Nodes:
        """A row of every block after the other, so that all PCUs have work."""
        k_groups = self.machine.groups(depth.size)

        def fold(x: Affine, d: Affine, i: Affine) -> Nodes:
            return [Instr.make(
                "fold_product", a=self.vector(d, i, self._a(slot) + x * k_groups),
                b=self.vector(d, i, self._b(slot)), c=self.vector(d, i, self._c + x * self.cols.each), k=depth.size,
                n=self.cols.each, bs=self.cols.each, onto=int(onto),
            )]

        return repeat("x", self.rows.each, lambda x: repeat("d", self.rows.down, lambda d: repeat(
            "a", self.cols.down, lambda i: fold(x, d, i))))

    def _store(self) -> Nodes:
        found: Nodes = []
        if self.gemm.relu:
            found += repeat("d", self.rows.down, lambda d: repeat("a", self.cols.down, lambda i: [Instr.make(
                "relu", a=self.vector(d, i, self._c), c=self.vector(d, i, self._c),
                count=self.rows.each * self.cols.each,
            )]))
        return found + [node for cols in self._columns() for node in self._from_columns(cols)]

    def _from_columns(self, cols: Columns) -> Nodes:
        """The sums in these columns of blocks to C."""
        row_bytes = self.gemm.n * WORD_BYTES

        def store(d: Affine, i: Affine) -> Nodes:
            row = self.gemm.c + (self.m0 + d * self.rows.each) * row_bytes
            return [Instr.make(
                "store", dram=self._word(row, i, cols.first), vector=self.vector(d, i, self._c + cols.first),
                rows=self.rows.each, groups=cols.size, width=cols.words, h0=row_bytes, d0=self.cols.each,
            )]

        return repeat("sd", self.rows.down, lambda d: repeat("sa", cols.count, lambda i: store(d, i + cols.across)))
