"""Programs of sweeps: which cores have which tiles, how these come and go, and what is done with them meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import Pair, SweepPlan
from archloom.mapper.spatial.programs.emit import bits
from archloom.mapper.spatial.programs.waves import Nodes, Wave, Zone, halves, repeat, repeat_waves, waves
from archloom.mapper.spatial.sweeps.elementwise import FUNCTIONS, Elementwise, Operation
from archloom.mapper.spatial.sweeps.reduction import LEAST, Chunks, Columns, OfChunk, OfRows, Rows
from archloom.mapper.spatial.sweeps.sweep import Sweep
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr


@dataclass(frozen=True)
class SweepEmitter(ABC):
    """The program of a sweep; ``where``: the addresses of its tensors, the result's the last."""

    work: Sweep
    plan: SweepPlan
    machine: Machine
    where: tuple[int, ...]

    @abstractmethod
    def nodes(self) -> Nodes:
        """The program after the launch."""

    @cached_property
    def waves(self) -> tuple[tuple[Wave, ...], tuple[Wave, ...]]:
        """Waves over rows and over columns of tiles."""
        m, n = (waves(self.work.tiles[i], self.plan.block[i], self.plan.rows[i], self.plan.columns[i]) for i in (0, 1))
        return m, n

    def each(self, zone: Zone, other: Zone, body: Callable[[Affine, Affine, Affine], Nodes]) -> Nodes:
        """``body`` for a core's number and its numbers along rows and columns of tiles, as loops over the cores of a
        zone of rows and one of columns of tiles."""
        _, rows_n = self.plan.rows
        columns_m, columns_n = self.plan.columns

        def core(rm: Affine, cm: Affine, rn: Affine, cn: Affine) -> Nodes:
            number = (rm * rows_n + rn) * self.machine.columns + cm * columns_n + cn
            return body(number, rm * columns_m + cm, rn * columns_n + cn)

        return repeat("rm", zone.slow, lambda rm: repeat("cm", zone.fast, lambda cm: repeat(
            "rn", other.slow, lambda rn: repeat("cn", other.fast, lambda cn: core(rm, cm, rn, cn)))))

    def tile(self, at: tuple[Affine, Affine], place: tuple[Affine, Affine]) -> tuple[Affine, Affine]:
        """The first row and column of tiles of a block."""
        row, column = ((at[i] * self.plan.spread(i) + place[i]) * self.plan.block[i] for i in (0, 1))
        return row, column

    def load(self, tensor: int, first: tuple[Affine, Affine], size: tuple[int, int], l1: Affine) -> Instr:
        """A block of a tensor as wide as X."""
        width = self.work.tiles[1]
        dram = (first[0] * width + first[1]) * TILE_BYTES + self.where[tensor]
        return Instr.make("load", dram=dram, l1=l1, rows=size[0], cols=size[1], h0=width * TILE_BYTES)

    def store(
        self, acc: Affine, first: tuple[Affine, Affine], size: tuple[int, int], width: int, relu: bool = False
    ) -> Instr:
        """Sums as a block of the result, which is ``width`` tiles wide."""
        dram = (first[0] * width + first[1]) * TILE_BYTES + self.where[-1]
        return Instr.make("store", acc=acc, dram=dram, rows=size[0], cols=size[1], h0=width * TILE_BYTES,
                          relu=int(relu))


@dataclass(frozen=True)
class ElementwiseEmitter(SweepEmitter):
    """Blocks of all operands together."""

    work: Elementwise

    def nodes(self) -> Nodes:
        last = self.waves[1][-1]

        def one(at: Affine, wave: Wave, to: Affine, other: Wave) -> Nodes:
            turn = at * (last.first + last.count) + to
            return [
                node for zone in wave.zones for beside in other.zones
                for node in self.each(zone, beside, lambda core, m, n, size=(zone.size, beside.size): (  # type: ignore[misc]
                    self.block(core, self.tile((at, to), (m, n)), size, turn)))]

        return repeat_waves("wm", self.waves[0], lambda at, wave: repeat_waves(
            "wn", self.waves[1], lambda to, other: one(at, wave, to, other)))

    def block(self, core: Affine, first: tuple[Affine, Affine], size: tuple[int, int], turn: Affine) -> Nodes:
        """All of a core's block."""
        work, (bm, bn) = self.work, self.plan.block
        whole = bm * bn * (1 + work.count("tensor")) + bn * work.count("row")
        l1 = core * self.machine.tiles + turn % self.plan.slots * whole
        acc = core * self.machine.sums + turn % min(2, self.plan.slots) * (bm * bn)
        count = size[0] * size[1]
        loads: Nodes = [self.load(0, first, size, l1)]
        steps: Nodes = [Instr.make("unpack", l1=l1, acc=acc, count=count)]
        at, number = l1 + bm * bn, 1
        for op in work.worked:
            steps.append(_operation(op, at, acc, size))
            if op.operand == "tensor":
                loads.append(self.load(number, first, size, at))
            elif op.operand == "row":
                loads.append(Instr.make(
                    "load_row", dram=first[1] * (2 * SIDE) + self.where[number], l1=at, cols=size[1]))
            if op.operand != "none":
                at, number = at + (bm * bn if op.operand == "tensor" else bn), number + 1
        return [*loads, *steps, self.store(acc, first, size, work.tiles[1], work.relu)]


def _operation(op: Operation, l1: Affine, acc: Affine, size: tuple[int, int]) -> Instr:
    m, n = size
    if op.operand == "tensor":
        return Instr.make(f"{op.kind}_tiles", l1=l1, acc=acc, count=m * n)
    if op.operand == "row":
        return Instr.make(f"{op.kind}_row", l1=l1, acc=acc, m=m, n=n)
    if op.kind == "linear":
        return Instr.make("linear", acc=acc, count=m * n, factor=bits(op.factor), shift=bits(op.shift))
    return Instr.make(FUNCTIONS[op.kind], acc=acc, count=m * n)


@dataclass(frozen=True)
class ColumnsEmitter(SweepEmitter):
    """Each core adds up its rows; cores of the same columns put together what they have, and one of them stores it."""

    work: Columns

    def nodes(self) -> Nodes:
        return repeat_waves("wn", self.waves[1], self.columns)

    def columns(self, to: Affine, other: Wave) -> Nodes:
        """All rows of the columns of a wave."""
        last = self.waves[0][-1]

        def one(at: Affine, wave: Wave) -> Nodes:
            turn, nodes = to * (last.first + last.count) + at, Nodes()
            for zone, valid in self._parts(wave):
                for beside in other.zones:
                    def block(
                        core: Affine, m: Affine, n: Affine, size: Pair = (zone.size, beside.size), valid: int = valid,
                    ) -> Nodes:
                        return self.block(core, self.tile((at, to), (m, n)), size, turn, valid)

                    nodes += self.each(zone, beside, block)
            return nodes

        rows = repeat_waves("wm", tuple(_last_apart(self.waves[0])), one)
        return [*self.begun(other), *rows, *self.combined(other), *self.stored(to, other)]

    def _parts(self, wave: Wave) -> Iterator[tuple[Zone, int]]:
        """Zones with how many rows of numbers count in their blocks: fewer where the matrix ends within a tile."""
        over = self.work.tiles[0] * SIDE - self.work.rows
        ends = wave.first + wave.count == self.waves[0][-1].first + self.waves[0][-1].count
        for zone in wave.zones:
            if not over or not ends or zone is not wave.zones[-1]:
                yield zone, zone.size * SIDE
                continue
            # the very last core of the last zone of the last wave has the end
            slow, fast = zone.slow, zone.fast
            if len(slow) > 1:
                yield Zone(slow[:-1], fast, zone.size), zone.size * SIDE
            if len(fast) > 1:
                yield Zone(slow[-1:], fast[:-1], zone.size), zone.size * SIDE
            yield Zone(slow[-1:], fast[-1:], zone.size), zone.size * SIDE - over

    def having(self, zone: Zone, other: Wave, body: Callable[[Affine, Affine, int], Nodes]) -> Nodes:
        """``body`` on the cores of a zone of rows that have columns in a wave, with how many tiles of them."""
        return [node for beside in other.zones for node in self.each(
            zone, beside, lambda core, m, n, size=beside.size: body(core, n, size))]  # type: ignore[misc]

    def begun(self, other: Wave) -> Nodes:
        """Nothing is larger yet than the least number. Sums are zero after a launch, and after a store."""
        if self.work.kind != "max":
            return []
        return self.having(Zone(range(1), range(1), 1), other, lambda core, n, size: [
            Instr.make("linear", acc=core * self.machine.sums, count=size, factor=0, shift=bits(LEAST))])

    def block(
        self, core: Affine, first: tuple[Affine, Affine], size: tuple[int, int], turn: Affine, valid: int
    ) -> Nodes:
        """A block of rows of a core's columns."""
        l1 = core * self.machine.tiles + turn % self.plan.slots * (self.plan.block[0] * self.plan.block[1])
        return [self.load(0, first, size, l1), Instr.make(
            self.work.instruction, l1=l1, acc=core * self.machine.sums, m=size[0], n=size[1], valid=valid)]

    def combined(self, other: Wave) -> Nodes:
        """Sums of the cores that have other rows of the same columns, by halves, along the columns of the mesh and then
        along its rows."""
        found: Nodes = []
        (rows_m, rows_n), (columns_m, columns_n) = self.plan.rows, self.plan.columns
        for axis, count, apart in ((1, columns_m, columns_n), (0, rows_m, rows_n * self.machine.columns)):
            for distance, alive in halves(count):
                zone = Zone(range(rows_m), alive, 1) if axis else Zone(alive, range(1), 1)

                def add(core: Affine, n: Affine, size: int, far: int = distance * apart) -> Nodes:
                    mine, theirs = core * self.machine.sums, (core + far) * self.machine.sums
                    return [Instr.make("reduce", source=theirs, target=mine, count=size),
                            Instr.make("clear", acc=theirs, count=size)]

                found += self.having(zone, other, add)
        return found

    def stored(self, to: Affine, other: Wave) -> Nodes:
        """The results of a wave."""
        def out(core: Affine, n: Affine, size: int) -> Nodes:
            acc, (_, column) = core * self.machine.sums, self.tile((Affine(0), to), (Affine(0), n))
            mean = [Instr.make("linear", acc=acc, count=size, factor=bits(1 / self.work.rows), shift=0)]
            store = self.store(acc, (Affine(0), column), (1, size), self.work.tiles[1])
            return [*(mean if self.work.kind == "mean" else []), store]

        return self.having(Zone(range(1), range(1), 1), other, out)


def _last_apart(found: tuple[Wave, ...]) -> Iterator[Wave]:
    """Runs of waves, the very last wave apart."""
    *runs, last = found
    yield from runs
    if last.count > 1:
        yield Wave(last.first, last.count - 1, last.zones)
    yield Wave(last.first + last.count - 1, 1, last.zones)


Phase = Callable[[Affine, Affine], Nodes]
"""What a core does in a phase, given its number and its row of tiles."""


@dataclass(frozen=True)
class RowsEmitter(SweepEmitter):
    """Rows of tiles one after the other: the next ones are loaded before the present ones are worked on. What cores do
    is cut into phases, each for all cores, so that a core's many instructions do not keep the others waiting."""

    work: Rows

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
                    for i in range(len(self.work.weights))]

        return self.phase(every, one) if self.work.weights else []

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
        done = [node for step in self.work.program
                for node in (run.chunks(step) if isinstance(step, Chunks) else run.statistics(step))]
        return [*done, *run.reduced()] if self.work.reduced else done


@dataclass(frozen=True)
class _Row:
    """What is done with the rows of a wave."""

    emitter: RowsEmitter
    wave: Wave
    at: Affine

    @property
    def rows(self) -> Rows:
        return self.emitter.work

    def stat(self, core: Affine, which: int) -> Affine:
        return core * self.emitter.machine.stats + (self.at % 2 * 2 + which)

    def phase(self, body: Phase) -> Nodes:
        return self.emitter.phase(self.wave, body)

    def statistics(self, step: OfRows) -> Nodes:
        """An instruction on a statistic."""
        values = {name: bits(value) for name, value in step.values}
        return self.phase(lambda core, m: [Instr.make(step.name, stat=self.stat(core, step.which), m=1, **values)])

    def chunks(self, chunks: Chunks) -> Nodes:
        """What is done with every chunk of the rows, each in one of two blocks of sums."""
        size, (width, columns) = self.emitter.plan.block[1], (self.rows.tiles[1], self.rows.columns)
        whole = columns // (size * SIDE)
        rest, found = width - whole * size, []

        def run(number: Affine, tiles: int, valid: int) -> Nodes:
            def one(core: Affine, m: Affine) -> Nodes:
                acc = core * self.emitter.machine.sums + number % 2 * size
                chunk = _Chunk(self, core, m, number * size, tiles, valid, acc)
                return [*map(chunk.instruction, chunks.steps), *([chunk.store()] if chunks.stored else [])]

            return self.phase(one)

        found += repeat("chunk", range(whole), lambda number: run(number, size, size * SIDE))
        if rest:
            found += run(Affine(whole), rest, columns - whole * size * SIDE)
        return found

    def reduced(self) -> Nodes:
        """The number of each row as a tile of the result."""
        def out(core: Affine, m: Affine) -> Nodes:
            acc = core * self.emitter.machine.sums + self.at % 2 + 2 * self.emitter.plan.block[1]
            first = self.emitter.tile((self.at, Affine(0)), (m, Affine(0)))
            return [Instr.make("row_spread", stat=self.stat(core, 0), acc=acc, m=1),
                    self.emitter.store(acc, (first[0], Affine(0)), (1, 1), 1)]

        return self.phase(out)


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

    def instruction(self, step: OfChunk) -> Instr:
        """What a step does with the chunk."""
        if step.uses == "statistic":
            stat = self.row.stat(self.core, step.which)
            counted = {"valid": self.valid} if step.name in ("row_sum", "row_maximum") else {}
            return Instr.make(step.name, acc=self.acc, stat=stat, m=1, n=self.tiles, **counted)
        if step.uses == "weights":
            l1 = self.row.emitter.weight(self.core, step.which) + self.first
            return Instr.make(step.name, l1=l1, acc=self.acc, m=1, n=self.tiles)
        places = {"source": {"l1": self.l1, "acc": self.acc}, "target": {"acc": self.acc, "l1": self.l1}}
        values = {name: bits(value) for name, value in step.values}
        return Instr.make(step.name, **places.get(step.uses, {"acc": self.acc}), count=self.tiles, **values)

    def store(self) -> Instr:
        emitter = self.row.emitter
        row, _ = emitter.tile((self.row.at, Affine(0)), (self.m, Affine(0)))
        return emitter.store(self.acc, (row, self.first), (1, self.tiles), emitter.work.tiles[1])


_EMITTERS: dict[type[Sweep], type[SweepEmitter]] = {
    Elementwise: ElementwiseEmitter, Rows: RowsEmitter, Columns: ColumnsEmitter,
}


def sweep_nodes(work: Sweep, plan: SweepPlan, machine: Machine, places: Mapping[str, int]) -> Nodes:
    """The program after the launch; tensors lie as ``work.pack`` gives them."""
    return _EMITTERS[type(work)](work, plan, machine, tuple(places.values())).nodes()
