"""The UMA target ``plasticine``: products of float32 networks as streams of Plasticine's patterns.

C is cut into tiles of ``down * across`` blocks, one for each pair of units. Over the inner dimension, blocks of A and B
are loaded to all pairs that need them (a load fills the PMUs of a row or a column of blocks), while the PCUs fold the
blocks before: each row of a block is one ``fold_product``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from archloom.acadl_models.plasticine import plasticine
from archloom.mapper.costs.rates import Number
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.spans import Group, groups, kinds
from archloom.oracle.affine import Affine
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Instr, Issue, Loop, Nodes, repeat
from archloom.uma_targets.plasticine import plan
from archloom.uma_targets.plasticine.plan import WORD_BYTES, Column, Machine, Tiling

GRAPH = kit.GraphOptions(plasticine)


def emit(gemm: kit.Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; the mapping's tile is the block of one pair of units."""
    machine = Machine.of(parameters)
    block = mapping.size("m"), machine.groups(mapping.size("n")), mapping.size("k")
    tiling = plan.tiling_of(gemm.m, gemm.n, block, machine)
    return Tiled(**vars(gemm), tiling=tiling, machine=machine).nodes()


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> kit.Tiling:
    """Blocks that fit into a PMU, ranked by compute against DRAM."""
    machine = Machine.of(GRAPH.graph(options).parameters)
    rows, vectors, depths = plan.sizes(shape.m, shape.n, shape.k, machine)

    def block(c: kit.Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return c["m"], -(-c["n"] // machine.lanes), c["k"]

    return kit.Tiling(
        {"m": rows, "n": [n * machine.lanes for n in vectors], "k": depths},
        demand={"pmu": lambda c: plan.demand(machine, *block(c))}, room={"pmu": machine.vectors},
        loops=lambda c: _loops(shape, block(c), machine),
        help="a larger pmu_kib",
    )


class Run(NamedTuple):
    """``groups`` of ``blocks`` blocks, each of ``size`` rows or vectors."""

    groups: np.ndarray
    size: np.ndarray
    blocks: np.ndarray


def _loops(shape: kit.Shape, block: tuple[Column, Column, Column], machine: Machine) -> Loop:
    """Tiles of C, one for each group of rows and each of columns, as they are cut: those that are alike are counted.
    They are parts of one loop, as all but the very first overlap what is before them, however few are alike."""
    m, n, k = block
    down, across, sums = plan.tilings(shape.m, shape.n, block, machine)
    one, vectors = np.ones_like(m), machine.groups(shape.n)
    rows = [Run(*run) for run in kinds(shape.m, m, down, one) if run[0].any()]
    columns = [Run(*run) for run in kinds(vectors, n, across, one) if run[0].any()]
    tiles = sum(run.groups for run in rows) * sum(run.groups for run in columns)
    parts, lengths = [], [run.groups for run in columns]
    for i, run in enumerate(columns):
        # the very last vector has fewer words than lanes
        last = (run.groups > 0) & (sum(lengths[i + 1:]) == 0)
        lacks = np.where(last, (vectors - shape.n / machine.lanes) / np.maximum(run.groups, 1), 0)
        parts += [Loop(of.groups * run.groups / tiles, (_tile(shape, machine, k, sums, of, run, lacks),))
                  for of in rows]
    high, broad, rest = _last(rows), _last(columns), shape.k % k
    deep = np.select([rest % machine.lanes > 0, rest > 0], [rest % machine.lanes, rest], k)
    store = Issue("store", 1, broad.size * machine.lanes * WORD_BYTES, high.size, beats=high.size * broad.size)
    return Loop(1, (Loop(tiles, tuple(parts)),), alone=(replace(_fold(machine, deep, high, broad), times=1), store))


def _last(runs: list[Run]) -> Run:
    """The last of them of which there are any."""
    found = runs[0]
    for run in runs[1:]:
        found = Run(*(np.where(run.groups > 0, of, before) for of, before in zip(run, found)))
    return found


def _tile(
    shape: kit.Shape, machine: Machine, k: Column, sums: Column, rows: Run, columns: Run, lacks: np.ndarray
) -> Loop:
    """A tile of all pairs of units, ``lacks`` vectors less broad: while a step of k is folded, the next blocks come."""
    lanes, rest = machine.lanes, shape.k % k
    steps = shape.k // k + (rest >= lanes) + (rest % lanes > 0)
    broad = (columns.size - lacks / columns.blocks) * lanes * WORD_BYTES
    move = Issue("load", columns.blocks, broad, words={"pmu": 0})

    def step(times: Number, deep: Number, slots: Number) -> Loop:
        scalars = rows.size * np.ceil(deep / lanes)
        across = Issue("load", rows.blocks, deep * WORD_BYTES, rows.size, words={"pmu": 0}, beats=scalars)
        own = replace(move, pieces=deep, beats=deep * columns.size)
        return Loop(times, (_fold(machine, deep, rows, columns),), first=(across, own), slots=slots)

    # the first blocks of a tile lie where those of the third step did, too
    first = step(1, k, np.where(steps % 2 == 1, 1, 2))
    others = step(steps - 1, np.maximum(shape.k - k, 1) / np.maximum(steps - 1, 1), 2)
    bias = replace(move, times=columns.blocks * shape.bias, pieces=rows.size, beats=rows.size * columns.size)
    store = Issue("store", rows.blocks * columns.blocks, broad, rows.size, beats=rows.size * columns.size)
    return Loop(1, (first, others), first=(bias,), last=(store,), slots=sums)


def _fold(machine: Machine, deep: Number, rows: Run, columns: Run) -> Issue:
    """The patterns of a step: each reads a vector of scalars and a block of B, and reads and writes its sums over the
    port of its PMU, which also takes what is loaded, once for all patterns of a step."""
    scalars, vectors = np.ceil(deep / machine.lanes), deep * columns.size
    words = vectors + scalars + 2 * columns.size + 2
    pairs = rows.blocks * columns.blocks
    return Issue("fold_product", pairs * rows.size, words={"pmu": words + scalars + vectors / rows.size}, units=pairs,
                 values={"k": deep, "n": columns.size}, beats=words)


# emission


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
        plan.check(self.tiling, self.machine)
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
        g, k0 = self.gemm, index * depth.size + depth.first
        k_groups = self.machine.groups(depth.size)
        found = repeat("la", self.rows.down, lambda d: [Instr.make(
            "load", dram=g.a_at(self.m0 + d * self.rows.each, k0),
            vector=self.vector(d, 0, self._a(slot)), rows=self.rows.each, groups=k_groups,
            width=min(depth.size, self.machine.lanes), h0=g.strides[0], d0=k_groups, n0=self.cols.down,
            s0=self.machine.vectors,
        )])
        for cols in self._columns():
            found += self._to_columns("lb", g.b_at(k0, 0), self._b(slot), cols, depth.size, g.strides[1])
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
        def store(d: Affine, i: Affine) -> Nodes:
            row = self.gemm.c_at(self.m0 + d * self.rows.each, 0)
            return [Instr.make(
                "store", dram=self._word(row, i, cols.first), vector=self.vector(d, i, self._c + cols.first),
                rows=self.rows.each, groups=cols.size, width=cols.words, h0=self.gemm.strides[2], d0=self.cols.each,
            )]

        return repeat("sd", self.rows.down, lambda d: repeat("sa", cols.count, lambda i: store(d, i + cols.across)))


class Plasticine(kit.KitTarget):
    """Plasticine: pattern compute and memory units in a checkerboard."""

    kit = kit.GemmKit(
        name="plasticine", isa="plasticine", graph=GRAPH.graph, options=GRAPH.options(),
        description="checkerboard of SIMD pipelines and scratchpads for parallel patterns, float32 (Plasticine)",
        emit=emit, tiling=_tiling, numbers="float32")
