"""From plans to streams: one program for all cores, in which loops over waves, steps and cores stay loops.

Tensors lie in memory one after the other. Blocks are dealt out to the cores in waves: which cores have a block in a
wave, and how large it is, is said by zones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import Plan, Reduction, TileGemm
from archloom.mapper.spatial.programs.streams import Shapes
from archloom.mapper.spatial.programs.waves import (
    Nodes,
    Steps,
    Wave,
    Zone,
    cut,
    halves,
    repeat,
    repeat_peeled,
    waves,
)
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr

ZERO = Affine(0)


def tensors_of(gemm: TileGemm) -> Shapes:
    """Names and shapes in memory of A, B and C."""
    return tuple((name, (*shape, SIDE, SIDE)) for name, shape in (
        ("A", (gemm.m, gemm.k)), ("B", (gemm.k, gemm.n)), ("C", (gemm.m, gemm.n))))


def multicast(
    pattern: str, machine: Machine, along_row: tuple[int, int], along_column: tuple[int, int]
) -> tuple[dict[str, Affine | int], tuple[bool, bool]]:
    """To which cores what is loaded by a pattern goes, given how many share it along a row and along a column of the
    mesh, and how many cores lie between two of them; and whether only the first one along rows, and along columns,
    sends it."""
    sent: dict[str, Affine | int] = {}
    if pattern in ("row", "across"):
        sent = {"n0": along_row[0], "s0": along_row[1] * machine.tiles}
    elif pattern in ("column", "down"):
        sent = {"n0": along_column[0], "s0": along_column[1] * machine.tiles}
    if pattern == "down":
        sent |= {"n1": machine.columns, "s1": machine.tiles}
    elif pattern == "across":
        sent |= {"n1": machine.rows, "s1": machine.columns * machine.tiles}
    return sent, (pattern in ("column", "down", "across"), pattern in ("row", "down", "across"))


def bits(value: float) -> int:
    """Of an f32, as attributes have them."""
    found: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return found


@dataclass(frozen=True)
class Place:
    """Where a core stands: for m, n and k its number along the rows and along the columns of the mesh.

    ``problem``: which of several products it works on; ``origin``: the first core of those that do.
    """

    row: tuple[Affine, Affine, Affine]
    column: tuple[Affine, Affine, Affine]
    problem: Affine = ZERO
    origin: Affine = ZERO


@dataclass(frozen=True)
class Emitter:
    """The program of a product: subclasses say where blocks lie in memory, how they are multiplied and stored."""

    gemm: TileGemm
    plan: Plan
    machine: Machine
    a: int
    b: int
    c: int
    turns: Affine = ZERO
    """Waves of blocks before."""

    @property
    def grain(self) -> int:
        """So many tiles of the reduction are dealt out together."""
        return 1

    @cached_property
    def reduction(self) -> Reduction:
        """How the reduction is dealt out."""
        rows, columns = self.plan.rows[2], self.plan.columns[2]
        return Reduction.of(self.gemm.k, rows, columns, self.plan.outer, self.grain)

    @property
    def depth(self) -> int:
        """Tiles of the reduction of one core."""
        return self.reduction.depth

    def steps(self, rising: bool) -> tuple[Steps, ...]:
        """All steps of a core; ``rising``: in a wave that begins with shallow ones."""
        bk, rest = min(self.plan.block[2], self.depth), self.reduction.rest
        found, first, depth = list[Steps](), 0, self.plan.lead
        while rising and 0 < depth < bk and first + depth < self.depth:
            found += cut(first, first + depth, depth, rest)
            first, depth = first + depth, 2 * depth
        return (*found, *cut(first, self.depth, bk, rest))

    def rising(self, first_out: bool, first_in: bool) -> bool:
        """Whether a wave begins with shallow steps: the very first, and those that use tiles which it kept, if they
        lie step by step. Whole blocks of B lie row by row, in steps of any depth."""
        together = {0: self.plan.block[0] > 1, 1: self.gemm.n % self.plan.block[1] > 0}
        kept = any(
            way[1] == "keep" and together[loop] and (first_out if self.plan.order[0] == "mn"[loop] else first_in)
            for loop, way in enumerate((self.plan.a, self.plan.b)))
        return self.plan.lead > 0 and ((first_out and first_in) or kept)

    def steps_before(self, at: tuple[Affine, Affine], first_out: bool, first_in: bool) -> Affine:
        """Steps of all waves before wave ``at`` (outer, inner), those of other products included."""
        def counts(out: bool) -> tuple[int, int]:
            first, other = (sum(s.count for s in self.steps(self.rising(out, inside))) for inside in (True, False))
            return first, other

        last = self.waves(0 if self.plan.order == "nm" else 1)[-1]
        inner = last.first + last.count
        (top, top_other), (head, other) = counts(True), counts(False)
        if not self.plan.lead:  # first waves are not apart
            return (at[0] * inner + at[1] + self.turns) * other
        start, rest = (top, top_other) if first_out else (head, other)
        row, top_row = head + (inner - 1) * other, top + (inner - 1) * top_other
        found = self.turns * other + (ZERO if first_out else (at[0] - 1) * row + top_row)
        return found if first_in else found + (at[1] - 1) * rest + start

    def waves(self, loop: int) -> tuple[Wave, ...]:
        return waves((self.gemm.m, self.gemm.n)[loop], self.plan.block[loop], *self.ways(loop))

    def ways(self, loop: int) -> tuple[int, int]:
        """Over how many cores a loop is spread along the dimension of the mesh that counts slower, and along the other.
        """
        over = self.plan.rows[loop], self.plan.columns[loop]
        return over if self.plan.outer == "rows" else over[::-1]

    def nodes(self) -> Nodes:
        """The program after the launch: all waves, the first iterations of kept operands' loops apart."""
        outer, inner = (0, 1) if self.plan.order == "mn" else (1, 0)
        kept = (self.plan.a[1] == "keep", self.plan.b[1] == "keep")
        led = self.plan.lead > 0

        # the operand that the outer loop indexes is loaded in the first iteration of the inner loop, and vice versa
        def one(w: Affine, wave: Wave, first_out: bool) -> Nodes:
            def body(v: Affine, other: Wave, first_in: bool) -> Nodes:
                loads = {outer: first_in or not kept[outer], inner: first_out or not kept[inner]}
                at, these = ((w, v), (wave, other)) if outer == 0 else ((v, w), (other, wave))
                before = self.steps_before((w, v), first_out, first_in)
                steps = self.steps(self.rising(first_out, first_in))
                return self.wave(at, these, (loads[0], loads[1]), steps, before)

            return repeat_peeled(f"w{inner}", self.waves(inner), kept[outer] or led, body)

        return repeat_peeled(f"w{outer}", self.waves(outer), kept[inner] or led, one)

    def wave(
        self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], loads: tuple[bool, bool],
        steps: tuple[Steps, ...], before: Affine,
    ) -> Nodes:
        """All steps of the blocks of a wave, and what is done with its sums; ``before``: steps of earlier waves."""
        bm, bn, _ = self.plan.block
        sums = (self.turn_of(at) % self.plan.outputs) * (bm * bn) if self.plan.outputs > 1 else ZERO
        found: Nodes = []
        for run in steps:
            def step(i: Affine, run: Steps = run, before: Affine = before) -> Nodes:
                return self.step(at, these, loads, i * run.deep + run.first, run, before + i, sums)

            found += repeat("k", range(run.count), step)
            before = before + run.count
        return found + self.reduce(these, sums) + self.store(at, these, sums)

    def turn_of(self, at: tuple[Affine, Affine]) -> Affine:
        """Which wave ``at`` (along m and n) is in all, those of other products included."""
        numbers = [w.first + w.count for w in (self.waves(0)[-1], self.waves(1)[-1])]
        return self.turns + (at[0] * numbers[1] + at[1] if self.plan.order == "mn" else at[1] * numbers[0] + at[0])

    # --- places --------------------------------------------------------------------------------------------------
    def core(self, place: Place) -> Affine:
        (rm, rn, rk), (cm, cn, ck) = place.row, place.column
        (_, rows_n, rows_k), (_, columns_n, columns_k) = self.plan.rows, self.plan.columns
        row = (rm * rows_n + rn) * rows_k + rk
        column = (cm * columns_n + cn) * columns_k + ck
        return row * self.machine.columns + column + place.origin

    def index(self, place: Place, loop: int) -> Affine:
        """Which of the blocks of a wave along ``loop`` a core has."""
        row, column = place.row[loop], place.column[loop]
        if self.plan.outer == "rows":
            return row * self.plan.columns[loop] + column
        return column * self.plan.rows[loop] + row

    def ranges(self, loop: int, zone: Zone | None) -> tuple[range, range]:
        """The places of a zone along rows and columns; of all cores without one."""
        if zone is None:
            return range(self.plan.rows[loop]), range(self.plan.columns[loop])
        return (zone.slow, zone.fast) if self.plan.outer == "rows" else (zone.fast, zone.slow)

    def each(self, spans: list[tuple[range, range]], body: Callable[[Place], Nodes]) -> Nodes:
        """Loops over the cores whose places along m, n and k lie in ``spans``."""
        names = [(f"r{x}", spans[i][0], f"c{x}", spans[i][1]) for i, x in enumerate("mnk")]
        flat = [(var, values) for v, r, w, c in names for var, values in ((v, r), (w, c))]

        def nest(rest: list[tuple[str, range]], known: list[Affine]) -> Nodes:
            if not rest:
                return body(Place((known[0], known[2], known[4]), (known[1], known[3], known[5])))
            return repeat(rest[0][0], rest[0][1], lambda v: nest(rest[1:], [*known, v]))

        return nest(flat, [])

    def having(
        self, these: tuple[Wave, Wave], along_k: tuple[range, range], body: Callable[[Place, int, int], Nodes]
    ) -> Nodes:
        """``body`` on the cores that have blocks in two waves, with their sizes."""
        return [node for zone in these[0].zones for other in these[1].zones for node in self.each(
            [self.ranges(0, zone), self.ranges(1, other), along_k],
            lambda place, m=zone.size, n=other.size: body(place, m, n))]  # type: ignore[misc]

    # --- a step --------------------------------------------------------------------------------------------------
    def step(
        self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], loads: tuple[bool, bool], k: Affine, run: Steps,
        number: Affine, sums: Affine,
    ) -> Nodes:
        where = [self.held(loop, at[loop], k, number) for loop in (0, 1)]
        found: Nodes = []
        for loop in (0, 1):
            if loads[loop]:
                for zone, depth in self.along_k(run):
                    found += self.load(loop, at[loop], these, k, (zone, depth), where[loop])
        for zone, depth in self.along_k(run):
            found += self.having(these, self.ranges(2, zone), lambda place, m, n, depth=depth: self.product(  # type: ignore[misc]
                place, where[0], where[1], sums, (m, n, depth)))
        return found

    def along_k(self, run: Steps) -> list[tuple[Zone, int]]:
        """The cores along k that have something to do in a step, and how deep it is there."""
        slow, fast = self.ways(2)
        zones = waves(self.gemm.k, self.depth, slow, fast)[0].zones
        found = [(zone, run.deep if zone.size == self.depth else run.rest) for zone in zones]
        return [(zone, depth) for zone, depth in found if depth]

    def product(self, place: Place, a: Affine, b: Affine, c: Affine, size: tuple[int, int, int]) -> Nodes:
        """A core's product of blocks that lie at ``a`` and ``b`` of its L1, added to its sums from ``c`` on."""
        core, (m, n, k) = self.core(place), size
        tiles = core * self.machine.tiles
        sums = core * self.machine.sums + c
        return [Instr.make("matmul", a=tiles + a, b=tiles + b, c=sums, m=m, n=n, k=k)]

    def held(self, loop: int, wave: Affine, k: Affine, number: Affine) -> Affine:
        """Where in a core's L1 the tiles of an operand for a step lie."""
        size, bk = self.plan.block[loop], min(self.plan.block[2], self.depth)
        streamed = (self.plan.a, self.plan.b)[loop][1] == "stream"
        base = self.region(0) if loop else 0
        if streamed:
            return (number % self.plan.slots) * (size * bk) + base if self.plan.slots > 1 else Affine(base)
        is_outer = self.plan.order[0] == "mn"[loop]
        start = k * size + base
        return start if is_outer else start + wave * (size * self.depth)

    def region(self, loop: int) -> int:
        """Tiles that an operand takes in a core."""
        size, streamed = self.plan.block[loop], (self.plan.a, self.plan.b)[loop][1] == "stream"
        if streamed:
            return self.plan.slots * size * min(self.plan.block[2], self.depth)
        last = self.waves(loop)[-1]
        return size * self.depth * (1 if self.plan.order[0] == "mn"[loop] else last.first + last.count)

    def load(
        self, loop: int, wave: Affine, these: tuple[Wave, Wave], k: Affine, deep: tuple[Zone, int], where: Affine
    ) -> Nodes:
        """The loads of one operand for a step, by its pattern; ``deep``: cores along k, and the step's depth there."""
        pattern = (self.plan.a, self.plan.b)[loop][0]
        found: Nodes = []
        if pattern == "wave":
            for zone in these[loop].zones:
                found += self._wave(loop, wave, zone, k, deep, where)
            return found
        for zone in these[loop].zones:
            others = these[1 - loop].zones if pattern == "none" else (None,)
            for other in others:
                found += self._load_zone(loop, pattern, wave, zone, other, k, deep, where)
        return found

    def _wave(self, loop: int, wave: Affine, zone: Zone, k: Affine, deep: tuple[Zone, int], where: Affine) -> Nodes:
        """The first core of each line loads a block; the others get it hop by hop."""
        shared = 1 - loop
        rows, columns = self.plan.rows[shared], self.plan.columns[shared]
        first = self._load_zone(loop, "none", wave, zone, Zone(range(1), range(1), 0), k, deep, where)
        far = self.step_between(shared, "columns" if columns > 1 else "rows") * self.machine.tiles
        mine = self.ranges(loop, zone)

        def hop(i: Affine) -> Nodes:
            def send(place: Place) -> Nodes:
                l1 = self.core(place) * self.machine.tiles + where + i * far
                return [Instr.make("forward", source=l1, target=l1 + far, count=zone.size * deep[1])]

            alone = (range(1), range(1))
            spans = [mine, alone] if loop == 0 else [alone, mine]
            return self.each([*spans, self.ranges(2, deep[0])], send)

        return first + repeat("hop", range(rows * columns - 1), hop)

    def _load_zone(
        self, loop: int, pattern: str, wave: Affine, zone: Zone, other: Zone | None, k: Affine, deep: tuple[Zone, int],
        where: Affine,
    ) -> Nodes:
        shared = 1 - loop
        mine, theirs = self.ranges(loop, zone), self.ranges(shared, other)
        sent, alone = multicast(
            pattern, self.machine, (len(theirs[1]), self.step_between(shared, "columns")),
            (len(theirs[0]), self.step_between(shared, "rows")))
        theirs = range(1) if alone[0] else theirs[0], range(1) if alone[1] else theirs[1]
        spans = [mine, theirs] if loop == 0 else [theirs, mine]
        mnemonic = self.mnemonic(loop, pattern)

        def one(place: Place) -> Nodes:
            block = wave * self.plan.spread(loop) + self.index(place, loop)
            kk = self.index(place, 2) * self.depth + k
            dram, shape = self.source(loop, place, (block * self.plan.block[loop], kk), (zone.size, deep[1]))
            l1 = self.core(place) * self.machine.tiles + where
            return [Instr.make(mnemonic, dram=dram, l1=l1, **shape, **sent)]

        return self.each([*spans, self.ranges(2, deep[0])], one)

    def mnemonic(self, loop: int, pattern: str) -> str:
        """The instruction that loads blocks of an operand by a pattern."""
        return "load" if pattern == "none" else f"multicast_{pattern}"

    def source(
        self, loop: int, place: Place, first: tuple[Affine, Affine], size: tuple[int, int]
    ) -> tuple[Affine, dict[str, Affine | int]]:
        """Where a block of an operand lies in memory; ``first`` and ``size``: its tiles along ``loop`` and along k."""
        if loop == 0:
            (row, column), (rows, columns), width, base = first, size, self.gemm.k, self.a
        else:
            (column, row), (columns, rows), width, base = first, size, self.gemm.n, self.b
        return (row * width + column) * TILE_BYTES + base, {"rows": rows, "cols": columns, "h0": width * TILE_BYTES}

    def step_between(self, loop: int, dimension: str) -> int:
        """Cores between neighbours along ``loop`` on a dimension of the mesh."""
        if dimension == "columns":
            _, n, k = self.plan.columns
            return n * k if loop == 0 else k if loop == 1 else 1
        _, n, k = self.plan.rows
        return (n * k if loop == 0 else k if loop == 1 else 1) * self.machine.columns

    # --- sums ----------------------------------------------------------------------------------------------------
    def reduce(self, these: tuple[Wave, Wave], sums: Affine) -> Nodes:
        """Sums of the cores that share a block, by halves, along the columns of the mesh and then along its rows."""
        found: Nodes = []
        rows, columns = self.reduction.rows, self.reduction.columns
        for axis, count in ((1, columns), (0, rows)):
            alive = [range(rows), range(columns)]
            if axis == 0:
                alive[1] = range(1)
            between = self.step_between(2, "columns" if axis else "rows") * self.machine.sums
            for distance, these_k in halves(count):
                spans_k = list(alive)
                spans_k[axis] = these_k

                def add(place: Place, m: int, n: int, far: int = distance * between) -> Nodes:
                    mine = self.core(place) * self.machine.sums + sums
                    return [Instr.make("reduce", source=mine + far, target=mine, count=m * n),
                            Instr.make("clear", acc=mine + far, count=m * n)]

                found += self.having(these, (spans_k[0], spans_k[1]), add)
        return found

    def store(self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], sums: Affine) -> Nodes:
        bm, bn, _ = self.plan.block

        def out(place: Place, m: int, n: int) -> Nodes:
            row = (at[0] * self.plan.spread(0) + self.index(place, 0)) * bm
            column = (at[1] * self.plan.spread(1) + self.index(place, 1)) * bn
            return self.out(place, (row, column), (m, n), self.core(place) * self.machine.sums + sums)

        return self.having(these, (range(1), range(1)), out)

    def out(self, place: Place, first: tuple[Affine, Affine], size: tuple[int, int], acc: Affine) -> Nodes:
        """What a core does with a block of finished sums at ``acc``: its ``first`` tile of C and its ``size``."""
        dram = (first[0] * self.gemm.n + first[1]) * TILE_BYTES + self.c
        return [Instr.make("store", acc=acc, dram=dram, rows=size[0], cols=size[1], h0=self.gemm.n * TILE_BYTES,
                           relu=0)]
