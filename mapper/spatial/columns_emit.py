"""Programs of reductions of columns, whose rows may be dealt out to several cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from archloom.mapper.spatial.emit import Nodes, bits, repeat
from archloom.mapper.spatial.machine import SIDE
from archloom.mapper.spatial.reduction import Columns
from archloom.mapper.spatial.sweep import Pair
from archloom.mapper.spatial.sweep_parts import LEAST, SweepEmitter
from archloom.mapper.spatial.zones import Wave, Zone, halves
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr


@dataclass(frozen=True)
class ColumnsEmitter(SweepEmitter):
    """Each core adds up its rows; cores of the same columns put together what they have, and one of them stores it."""

    @property
    def kind(self) -> str:
        assert isinstance(self.work, Columns)
        return self.work.kind

    def nodes(self) -> Nodes:
        found: Nodes = []
        for other in self.waves[1]:
            found += repeat("wn", range(other.first, other.first + other.count),
                            lambda to, other=other: self.columns(to, other))  # type: ignore[misc]
        return found

    def columns(self, to: Affine, other: Wave) -> Nodes:
        """All rows of the columns of a wave."""
        found: Nodes = self.begun(other)
        last = self.waves[0][-1]
        for wave in _last_apart(self.waves[0]):
            def one(at: Affine, wave: Wave = wave) -> Nodes:
                turn, nodes = to * (last.first + last.count) + at, []
                for zone, valid in self._parts(wave):
                    for beside in other.zones:
                        def block(
                            core: Affine, m: Affine, n: Affine, size: Pair = (zone.size, beside.size),
                            valid: int = valid,
                        ) -> Nodes:
                            return self.block(core, self.tile((at, to), (m, n)), size, turn, valid)

                        nodes += self.each(zone, beside, block)
                return nodes

            found += repeat("wm", range(wave.first, wave.first + wave.count), one)
        return found + self.combined(other) + self.stored(to, other)

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

    def begun(self, other: Wave) -> Nodes:
        """Nothing is larger yet than the least number. Sums are zero after a launch, and after a store."""
        if self.kind != "max":
            return []
        alone = Zone(range(1), range(1), 1)
        found: Nodes = []
        for beside in other.zones:
            def one(core: Affine, m: Affine, n: Affine, size: int = beside.size) -> Nodes:
                return [Instr.make(
                    "linear", acc=core * self.machine.sums, count=size, factor=0, shift=bits(LEAST))]

            found += self.each(alone, beside, one)
        return found

    def block(
        self, core: Affine, first: tuple[Affine, Affine], size: tuple[int, int], turn: Affine, valid: int
    ) -> Nodes:
        """A block of rows of a core's columns."""
        l1 = core * self.machine.tiles + turn % self.plan.slots * (self.plan.block[0] * self.plan.block[1])
        name = "column_maximum" if self.kind == "max" else "column_sum"
        return [self.load(0, first, size, l1), Instr.make(
            name, l1=l1, acc=core * self.machine.sums, m=size[0], n=size[1], valid=valid)]

    def combined(self, other: Wave) -> Nodes:
        """Sums of the cores that have other rows of the same columns, by halves, along the columns of the mesh and then
        along its rows."""
        found: Nodes = []
        (rows_m, rows_n), (columns_m, columns_n) = self.plan.rows, self.plan.columns
        for axis, count, apart in ((1, columns_m, columns_n), (0, rows_m, rows_n * self.machine.columns)):
            for distance, alive in halves(count):
                zone = Zone(range(rows_m), alive, 1) if axis else Zone(alive, range(1), 1)
                for beside in other.zones:
                    def add(core: Affine, m: Affine, n: Affine, size: int = beside.size, far: int = distance * apart
                            ) -> Nodes:
                        mine, theirs = core * self.machine.sums, (core + far) * self.machine.sums
                        return [Instr.make("reduce", source=theirs, target=mine, count=size),
                                Instr.make("clear", acc=theirs, count=size)]

                    found += self.each(zone, beside, add)
        return found

    def stored(self, to: Affine, other: Wave) -> Nodes:
        """The results of a wave."""
        def out(core: Affine, m: Affine, n: Affine, size: int) -> Nodes:
            acc, (_, column) = core * self.machine.sums, self.tile((Affine(0), to), (Affine(0), n))
            mean = [Instr.make("linear", acc=acc, count=size, factor=bits(1 / self.work.rows), shift=0)]
            store = self.store(acc, (Affine(0), column), (1, size), self.work.tiles[1])
            return [*(mean if self.kind == "mean" else []), store]

        alone = Zone(range(1), range(1), 1)
        found: Nodes = []
        for beside in other.zones:
            found += self.each(alone, beside, partial(out, size=beside.size))
        return found


def _last_apart(found: tuple[Wave, ...]) -> Iterator[Wave]:
    """Runs of waves, the very last wave apart."""
    *runs, last = found
    yield from runs
    if last.count > 1:
        yield Wave(last.first, last.count - 1, last.zones)
    yield Wave(last.first + last.count - 1, 1, last.zones)
