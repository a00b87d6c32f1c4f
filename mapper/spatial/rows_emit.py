"""Programs of what is done with whole rows: reductions, softmax and norms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from archloom.mapper.spatial.emit import Nodes, bits, repeat
from archloom.mapper.spatial.machine import SIDE
from archloom.mapper.spatial.reduction import Rows
from archloom.mapper.spatial.sweep_parts import LEAST, SweepEmitter
from archloom.mapper.spatial.zones import Wave, Zone
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr

Phase = Callable[[Affine, Affine], Nodes]
"""What a core does in a phase, given its number and its row of tiles."""


@dataclass(frozen=True)
class RowsEmitter(SweepEmitter):
    """Rows of tiles one after the other: the next ones are loaded before the present ones are worked on. What cores do
    is cut into phases, each for all cores, so that a core's many instructions do not keep the others waiting."""

    @property
    def rows(self) -> Rows:
        assert isinstance(self.work, Rows)
        return self.work

    def nodes(self) -> Nodes:
        found, runs = self.weights(), self.waves[0]
        found += self.ahead(runs[0], Affine(runs[0].first))
        for number, run in enumerate(runs):
            found += repeat("wm", range(run.first, run.first + run.count - 1), lambda at, run=run: [  # type: ignore[misc]
                *(self.ahead(run, at + 1) if self.plan.slots > 1 else []), *self.behind(run, at),
                *(self.ahead(run, at + 1) if self.plan.slots == 1 else [])])
            following = runs[number + 1] if number + 1 < len(runs) else None
            load = self.ahead(following, Affine(following.first)) if following else []
            last = self.behind(run, Affine(run.first + run.count - 1))
            found += [*load, *last] if self.plan.slots > 1 else [*last, *load]
        return found

    def phase(self, wave: Wave, body: Phase) -> Nodes:
        """What all cores of a wave do; all columns of tiles are theirs."""
        alone = Zone(range(1), range(1), self.work.tiles[1])
        return [node for zone in wave.zones for node in self.each(zone, alone, lambda core, m, n: body(core, m))]

    def weights(self) -> Nodes:
        """gamma and beta, behind the rows in L1."""
        n, every = self.work.tiles[1], Wave(0, 1, (Zone(range(self.plan.rows[0]), range(self.plan.columns[0]), 1),))
        def one(core: Affine, m: Affine) -> Nodes:
            return [Instr.make("load_row", dram=self.where[1 + i], l1=self.weight(core, i), cols=n)
                    for i in range(len(self.rows.weights))]

        return self.phase(every, one) if self.rows.weights else []

    def weight(self, core: Affine, number: int) -> Affine:
        return core * self.machine.tiles + (self.plan.slots + number) * self.work.tiles[1]

    def l1(self, core: Affine, at: Affine) -> Affine:
        """The row of tiles of a wave in a core."""
        return core * self.machine.tiles + at % self.plan.slots * self.work.tiles[1]

    def ahead(self, wave: Wave, at: Affine) -> Nodes:
        """The loads of a wave."""
        def one(core: Affine, m: Affine) -> Nodes:
            first = self.tile((at, Affine(0)), (m, Affine(0)))
            return [self.load(0, first, (1, self.work.tiles[1]), self.l1(core, at))]

        return self.phase(wave, one)

    def behind(self, wave: Wave, at: Affine) -> Nodes:
        """The work of a wave."""
        run = _Row(self, wave, at)
        return {"softmax": run.softmax, "layer_norm": run.layer_norm, "rms_norm": run.rms_norm}.get(
            self.rows.kind, run.reduction)()


@dataclass(frozen=True)
class _Row:
    """What is done with the rows of a wave."""

    emitter: RowsEmitter
    wave: Wave
    at: Affine

    @property
    def rows(self) -> Rows:
        return self.emitter.rows

    def stat(self, core: Affine, which: int) -> Affine:
        return core * self.emitter.machine.stats + (self.at % 2 * 2 + which)

    def phase(self, body: Phase) -> Nodes:
        return self.emitter.phase(self.wave, body)

    def begin(self, which: int, value: float) -> Nodes:
        return self.phase(lambda core, m: [
            Instr.make("row_begin", stat=self.stat(core, which), m=1, value=bits(value))])

    def change(self, which: int, name: str, factor: float = 1, shift: float = 0) -> Nodes:
        """A function of a statistic."""
        more = {"factor": bits(factor), "shift": bits(shift)} if name == "row_linear" else {}
        return self.phase(lambda core, m: [Instr.make(name, stat=self.stat(core, which), m=1, **more)])

    def chunks(self, *steps: Callable[["_Chunk"], Instr]) -> Nodes:
        """``steps`` on every chunk of the rows, each chunk in one of two blocks of sums."""
        size, (width, columns) = self.emitter.plan.block[1], (self.rows.tiles[1], self.rows.columns)
        whole = columns // (size * SIDE)
        rest, found = width - whole * size, []

        def run(number: Affine, tiles: int, valid: int) -> Nodes:
            def one(core: Affine, m: Affine) -> Nodes:
                acc = core * self.emitter.machine.sums + number % 2 * size
                chunk = _Chunk(self, core, m, number * size, tiles, valid, acc)
                return [chunk.unpack(), *(step(chunk) for step in steps)]

            return self.phase(one)

        found += repeat("chunk", range(whole), lambda number: run(number, size, size * SIDE))
        if rest:
            found += run(Affine(whole), rest, columns - whole * size * SIDE)
        return found

    # --- what is done --------------------------------------------------------------------------------------------
    def reduction(self) -> Nodes:
        largest = self.rows.kind == "max"
        found = self.begin(0, LEAST if largest else 0)
        found += self.chunks(lambda c: c.gather("row_maximum" if largest else "row_sum", 0))
        if self.rows.kind == "mean":
            found += self.change(0, "row_linear", 1 / self.rows.columns)

        def out(core: Affine, m: Affine) -> Nodes:
            acc = core * self.emitter.machine.sums + self.at % 2 + 2 * self.emitter.plan.block[1]
            first = self.emitter.tile((self.at, Affine(0)), (m, Affine(0)))
            return [Instr.make("row_spread", stat=self.stat(core, 0), acc=acc, m=1),
                    self.emitter.store(acc, (first[0], Affine(0)), (1, 1), 1)]

        return found + self.phase(out)

    def softmax(self) -> Nodes:
        scaled = [] if self.rows.scale == 1 else [lambda c: c.linear(self.rows.scale)]
        return [
            *self.begin(0, -1e30), *self.begin(1, 0),
            *self.chunks(*scaled, lambda c: c.gather("row_maximum", 0)),
            *self.chunks(*scaled, lambda c: c.apply("row_subtract", 0), lambda c: c.all("exponential"),
                         lambda c: c.gather("row_sum", 1), lambda c: c.pack()),
            *self.change(1, "row_reciprocal"),
            *self.chunks(lambda c: c.apply("row_multiply", 1), lambda c: c.store()),
        ]

    def layer_norm(self) -> Nodes:
        share = 1 / self.rows.columns
        return [
            *self.begin(0, 0), *self.begin(1, 0),
            *self.chunks(lambda c: c.gather("row_sum", 0)), *self.change(0, "row_linear", share),
            *self.chunks(lambda c: c.apply("row_subtract", 0), lambda c: c.all("square"),
                         lambda c: c.gather("row_sum", 1)),
            *self.change(1, "row_linear", share, self.rows.epsilon), *self.change(1, "row_root"),
            *self.chunks(lambda c: c.apply("row_subtract", 0), lambda c: c.apply("row_multiply", 1),
                         lambda c: c.weigh("multiply_row", 0), lambda c: c.weigh("add_row", 1), lambda c: c.store()),
        ]

    def rms_norm(self) -> Nodes:
        return [
            *self.begin(1, 0), *self.chunks(lambda c: c.all("square"), lambda c: c.gather("row_sum", 1)),
            *self.change(1, "row_linear", 1 / self.rows.columns, self.rows.epsilon), *self.change(1, "row_root"),
            *self.chunks(lambda c: c.apply("row_multiply", 1), lambda c: c.weigh("multiply_row", 0),
                         lambda c: c.store()),
        ]


@dataclass(frozen=True)
class _Chunk:
    """Tiles of a row from ``first`` on, of which ``valid`` columns count, as sums at ``acc``."""

    row: _Row
    core: Affine
    m: Affine
    first: Affine
    tiles: int
    valid: int
    acc: Affine

    @property
    def l1(self) -> Affine:
        return self.row.emitter.l1(self.core, self.row.at) + self.first

    def unpack(self) -> Instr:
        return Instr.make("unpack", l1=self.l1, acc=self.acc, count=self.tiles)

    def pack(self) -> Instr:
        return Instr.make("pack", acc=self.acc, l1=self.l1, count=self.tiles)

    def all(self, name: str) -> Instr:
        return Instr.make(name, acc=self.acc, count=self.tiles)

    def linear(self, factor: float) -> Instr:
        return Instr.make("linear", acc=self.acc, count=self.tiles, factor=bits(factor), shift=0)

    def gather(self, name: str, which: int) -> Instr:
        """A statistic of the rows."""
        stat = self.row.stat(self.core, which)
        return Instr.make(name, acc=self.acc, stat=stat, m=1, n=self.tiles, valid=self.valid)

    def apply(self, name: str, which: int) -> Instr:
        """What a statistic does to its row."""
        return Instr.make(name, acc=self.acc, stat=self.row.stat(self.core, which), m=1, n=self.tiles)

    def weigh(self, name: str, which: int) -> Instr:
        """gamma or beta of the columns."""
        l1 = self.row.emitter.weight(self.core, which) + self.first
        return Instr.make(name, l1=l1, acc=self.acc, m=1, n=self.tiles)

    def store(self) -> Instr:
        emitter = self.row.emitter
        row, _ = emitter.tile((self.row.at, Affine(0)), (self.m, Affine(0)))
        return emitter.store(self.acc, (row, self.first), (1, self.tiles), emitter.work.tiles[1])
