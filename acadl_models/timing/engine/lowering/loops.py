"""Lowering loops: how far a period of a loop moves each access below it, and what must be proven about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import H, LoopSpec
from archloom.acadl_models.timing.engine.lowering.accesses import Classes, Entry
from archloom.acadl_models.timing.engine.lowering.expressions import Expressions, Latencies
from archloom.acadl_models.timing.engine.lowering.memories import MemoryTables
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables
from archloom.acadl_models.timing.engine.remembered import LEAST_BODY, LEAST_RUN
from archloom.acadl_models.timing.loops import LoopSites
from archloom.acadl_models.timing.program import StaticLoop


@dataclass(frozen=True)
class LoopText:
    """A loop of the program text: the loops around it, its instances, where its code and its accesses lie."""

    loop: StaticLoop
    parent: int
    depth: int
    body: int
    end: int
    size: int
    first: int
    below: int


class LoopLowering:
    """Makes the records of all loops; ``places`` are the positions of the records of all accesses."""

    def __init__(
        self, tables: Tables, expressions: Expressions, latencies: Latencies, entries: Sequence[Entry],
        classes: Classes, places: Sequence[int], sites: LoopSites, memories: MemoryTables,
    ) -> None:
        self.tables, self.expressions, self.latencies = tables, expressions, latencies
        self.entries, self.classes, self.places = entries, classes, places
        self.sites, self.memories = sites, memories
        self.width = tables.header[H.MAX_AXES] + 1
        self.moves: dict[str, list[tuple[int, int, int, int]]] = {}
        for e in entries:
            offsets = e.offsets
            columns = [(column, x) for column, axis in enumerate(e.axes) if (x := offsets[axis]).terms]
            if e.word.terms:
                columns.append((self.width - 1, e.word))
            for column, x in columns:
                for variable, iterations, shift in expressions.moves(x):
                    moves = self.moves.get(variable)
                    if moves is None:
                        moves = self.moves[variable] = []
                    moves.append((e.order, column, iterations, shift))
        self.atoms: dict[str, list[int]] = {}
        for k, atom in enumerate(expressions.atoms):
            for variable in atom[3]:
                self.atoms.setdefault(variable, []).append(expressions.loops + k)

    def record(self, text: LoopText) -> list[int]:
        """The LoopSpec record of a loop; rings of snapshots are counted in the header."""
        values, extent = text.loop.values, len(text.loop.values)
        limit = min(extent, self.expressions.limits.get(text.loop.var, extent))
        period, shifts = self._shifts(text)
        every = period * self._multiple(text, shifts)
        repeats = 0 < 2 * every < limit and text.size >= LEAST_RUN
        moving = []
        clashes: list[int] = []
        if repeats and any(shifts):
            clashes = [self.places[order] for order in self._clashes(text.first, shifts)]
            moves = shifts[self.width - 1 :: self.width]
            below = self.entries[text.first : text.first + text.below]
            moving = [self.places[e.order] for e, words in zip(below, moves) if words and e.form.is_spread]
        record = [0] * LoopSpec.SIZE
        record[LoopSpec.START], record[LoopSpec.STEP], record[LoopSpec.EXTENT] = values.start, values.step, extent
        record[LoopSpec.LIMIT], record[LoopSpec.EACH] = limit, text.size // extent
        record[LoopSpec.BODY], record[LoopSpec.END], record[LoopSpec.PARENT] = text.body, text.end, text.parent
        record[LoopSpec.DEPTH] = text.depth
        record[LoopSpec.SITE] = self.sites.of_loop[id(text.loop)]
        record[LoopSpec.ATOMS], record[LoopSpec.ATOM_COUNT] = self.tables.list(self.atoms.get(text.loop.var, []))
        record[LoopSpec.PERIOD], record[LoopSpec.REPEATS] = every if repeats else 0, period
        record[LoopSpec.SHIFTS] = self.tables.put(shifts)
        record[LoopSpec.WATCHED] = int(text.size >= LEAST_BODY * extent)
        record[LoopSpec.FIRST_ACCESS], record[LoopSpec.ACCESS_COUNT] = text.first, text.below
        record[LoopSpec.CLASHES], record[LoopSpec.CLASH_COUNT] = self.tables.put(clashes), len(clashes) // 2
        record[LoopSpec.MOVING], record[LoopSpec.MOVING_COUNT] = self.tables.list(moving)
        is_kept = 0 < 2 * period < limit and text.size >= LEAST_RUN
        record[LoopSpec.HISTORY] = self.tables.header[H.HISTORIES] if is_kept else NONE
        self.tables.header[H.HISTORIES] += int(is_kept)
        return record

    def _multiple(self, text: LoopText, shifts: Sequence[int]) -> int:
        """Of how many periods one must be in which caches and banks may repeat."""
        if not self.memories.spaces:
            return 1
        below = (e.form.place for e in self.entries[text.first : text.first + text.below])
        return self.memories.multiple(zip(below, shifts[self.width - 1 :: self.width]))

    def _shifts(self, text: LoopText) -> tuple[int, list[int]]:
        """The smallest period of everything below a loop, and how far each axis and word moves in it.

        The period is 0 where a latency below the loop never repeats.
        """
        moves = self.moves.get(text.loop.var, ())
        period, never = self.latencies.arguments.get(text.loop.var, (1, False))
        period = math.lcm(period, *{iterations for _, _, iterations, _ in moves})
        table = [0] * (text.below * self.width)
        for order, column, iterations, shift in moves:
            table[(order - text.first) * self.width + column] = shift * (period // iterations)
        return (0 if never else period), table

    def _clashes(self, first: int, shifts: Sequence[int]) -> list[int]:
        """Pairs below a loop that may meet and do not move together: only their ranges can prove that they never do.

        ``shifts`` are those of the accesses from number ``first`` on. What may meet is of one class.
        """
        width, together = self.width, dict[int, Sequence[int]]()
        for k in range(len(shifts) // width):
            number = self.entries[first + k].conflict_class
            row = shifts[k * width : (k + 1) * width - 1]
            if number != NONE and together.setdefault(number, row) != row:
                return self._apart(first, np.array(shifts, np.int64).reshape(-1, width)[:, :-1])
        return []

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """The pairs of accesses that may meet."""
        return self.classes.pairs()

    def _apart(self, first: int, shifts: Array) -> list[int]:
        """Pairs that may meet and move by different distances."""
        a, b = self.pairs
        begin, end = np.searchsorted(a, (first, first + len(shifts)))
        a, b = a[begin:end], b[begin:end]
        below = b < first + len(shifts)
        a, b = a[below], b[below]
        apart = (shifts[a - first] != shifts[b - first]).any(axis=1)
        pairs: list[int] = np.stack((a[apart], b[apart]), axis=1).reshape(-1).tolist()
        return pairs
