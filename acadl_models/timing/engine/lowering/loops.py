"""Lowering loops: how far a period of a loop moves each access below it, and what must be proven about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessSpec, H, LoopSpec
from archloom.acadl_models.timing.engine.lowering.accesses import Accesses
from archloom.acadl_models.timing.engine.lowering.conflicts import Classes
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
    """Makes the records of the loops ``texts``; the records of all accesses lie from ``place`` on."""

    def __init__(
        self, tables: Tables, expressions: Expressions, latencies: Latencies, accesses: Accesses, classes: Classes,
        place: int, sites: LoopSites, memories: MemoryTables, texts: Sequence[LoopText],
    ) -> None:
        self.tables, self.expressions, self.latencies = tables, expressions, latencies
        self.accesses, self.classes, self.place = accesses, classes, place
        self.sites, self.memories, self.texts = sites, memories, texts
        self.width = tables.header[H.MAX_AXES] + 1
        self.firsts = np.array([text.first for text in texts], np.int64)
        self.sizes = self.width * np.array([text.below for text in texts], np.int64)
        self.begins = np.cumsum(self.sizes) - self.sizes
        self.moves = self._moves()
        self.periods, self.never = self._periods()
        self.shifts = self._shifts()
        self.atoms: dict[str, list[int]] = {}
        for k, atom in enumerate(expressions.atoms):
            for variable in atom[3]:
                self.atoms.setdefault(variable, []).append(expressions.loops + k)

    def records(self) -> list[int]:
        """The LoopSpec records of all loops; rings of snapshots are counted in the header."""
        shifts = self.tables.put_array(self.shifts)
        loop, access, column, _, shift = self.moves
        moved = np.zeros(len(self.texts), bool)
        moved[loop[shift != 0]] = True
        words = (column == self.width - 1) & (shift != 0)
        multiples = self._multiples(loop[words], access[words], shift[words])
        spread = words & (self.accesses.banks[access] > 1)
        moving, cuts = self._at(access[spread]), np.searchsorted(loop[spread], np.arange(len(self.texts) + 1)).tolist()
        found: list[int] = []
        for k, text in enumerate(self.texts):
            record = self._record(k, text, multiples.get(k, 1))
            record[LoopSpec.SHIFTS] = shifts + int(self.begins[k])
            if record[LoopSpec.PERIOD] and moved[k]:
                clashes = self._at(self._clashes(k, text))
                record[LoopSpec.CLASHES] = self.tables.put_array(clashes)
                record[LoopSpec.CLASH_COUNT] = len(clashes) // 2
                mine = moving[cuts[k] : cuts[k + 1]]
                record[LoopSpec.MOVING], record[LoopSpec.MOVING_COUNT] = self.tables.put_array(mine), len(mine)
            found += record
        return found

    def _record(self, number: int, text: LoopText, multiple: int) -> list[int]:
        """The record of a loop without what moves; ``multiple``: of how many periods one must be in which caches and
        banks may repeat."""
        values, extent = text.loop.values, len(text.loop.values)
        limit = min(extent, self.expressions.limits.get(text.loop.var, extent))
        period = 0 if self.never[number] else self.periods[number]
        every = period * multiple
        repeats = 0 < 2 * every < limit and text.size >= LEAST_RUN
        record = [0] * LoopSpec.SIZE
        record[LoopSpec.START], record[LoopSpec.STEP], record[LoopSpec.EXTENT] = values.start, values.step, extent
        record[LoopSpec.LIMIT], record[LoopSpec.EACH] = limit, text.size // extent
        record[LoopSpec.BODY], record[LoopSpec.END], record[LoopSpec.PARENT] = text.body, text.end, text.parent
        record[LoopSpec.DEPTH] = text.depth
        record[LoopSpec.SITE] = self.sites.of_loop[id(text.loop)]
        record[LoopSpec.ATOMS], record[LoopSpec.ATOM_COUNT] = self.tables.list(self.atoms.get(text.loop.var, []))
        record[LoopSpec.PERIOD], record[LoopSpec.REPEATS] = every if repeats else 0, period
        record[LoopSpec.WATCHED] = int(text.size >= LEAST_BODY * extent)
        record[LoopSpec.FIRST_ACCESS], record[LoopSpec.ACCESS_COUNT] = text.first, text.below
        is_kept = 0 < 2 * period < limit and text.size >= LEAST_RUN
        record[LoopSpec.HISTORY] = self.tables.header[H.HISTORIES] if is_kept else NONE
        self.tables.header[H.HISTORIES] += int(is_kept)
        return record

    def _at(self, numbers: Array) -> Array:
        """Where the records of accesses lie."""
        return self.place + AccessSpec.SIZE * numbers

    # --- what loops move -----------------------------------------------------------------------------------------
    def _moves(self) -> Array:
        """What loops move, int64 [5, moves]: the loop, the access, the column of its row of shifts, after so many
        iterations by so much; loop by loop."""
        accesses, axes = self.accesses, self.classes.axes
        access, axis = np.nonzero(axes)
        worded = np.flatnonzero(accesses.word != NONE)
        expression = np.concatenate((accesses.offsets[access, axis], accesses.word[worded]))
        column = np.concatenate(((np.cumsum(axes, axis=1) - 1)[access, axis], np.full(len(worded), self.width - 1)))
        access = np.concatenate((access, worded))
        varying = accesses.varying[expression]
        access, column = access[varying], column[varying]
        distinct, of = np.unique(expression[varying], return_inverse=True)
        loops = {text.loop.var: number for number, text in enumerate(self.texts)}
        moves = [self.expressions.moves(accesses.expressions[k]) for k in distinct.tolist()]
        flat = np.array([(loops[name], n, by) for each in moves for name, n, by in each], np.int64).reshape(-1, 3)
        counts = np.array(list(map(len, moves)), np.int64)
        repeats = counts[of]
        cell = np.repeat(np.arange(len(access)), repeats)
        within = np.arange(len(cell)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        loop, iterations, shift = flat[(np.cumsum(counts) - counts)[of[cell]] + within].T
        by_loop = np.argsort(loop, kind="stable")
        return np.stack((loop, access[cell], column[cell], iterations, shift))[:, by_loop]

    def _periods(self) -> tuple[list[int], list[bool]]:
        """The smallest period of everything below each loop; whether a latency below it never repeats. Makes of what
        loops move that in a period."""
        loop, _, _, iterations, shift = self.moves
        arguments = [self.latencies.arguments.get(text.loop.var, (1, False)) for text in self.texts]
        periods, never = [period for period, _ in arguments], [each for _, each in arguments]
        longer = np.flatnonzero(iterations > 1)
        for k, n in {*zip(loop[longer].tolist(), iterations[longer].tolist())}:
            periods[k] = math.lcm(periods[k], n)
        shift *= np.array(periods, np.int64)[loop] // iterations
        return periods, never

    def _shifts(self) -> Array:
        """How far each axis and word of each access below a loop moves in a period: rows of ``width``, loop by loop."""
        found = np.zeros(int(self.sizes.sum()), np.int64)
        loop, access, column, _, shift = self.moves
        found[self.begins[loop] + (access - self.firsts[loop]) * self.width + column] = shift
        return found

    def _multiples(self, loop: Array, access: Array, words: Array) -> dict[int, int]:
        """Of how many periods of loops one must be in which caches and banks may repeat; ``words``: by how many
        accesses move in loops."""
        found: dict[int, int] = {}
        if self.memories.spaces:
            moving: dict[int, set[tuple[int, int]]] = {}
            for k, form, count in zip(loop.tolist(), self.accesses.form[access].tolist(), words.tolist()):
                moving.setdefault(k, set()).add((form, count))
            for k, each in moving.items():
                found[k] = self.memories.multiple((self.accesses.forms[form].place, count) for form, count in each)
        return found

    def _clashes(self, number: int, text: LoopText) -> Array:
        """Pairs below a loop that may meet and do not move together: only their ranges can prove that they never do.
        What may meet is of one class."""
        begin = int(self.begins[number])
        shifts = self.shifts[begin : begin + text.below * self.width].reshape(-1, self.width)[:, :-1]
        of = self.classes.of[text.first : text.first + text.below]
        rows, of = shifts[of != NONE], of[of != NONE]
        one = np.zeros((self.classes.count, self.width - 1), np.int64)
        one[of] = rows
        return _NOTHING if (one[of] == rows).all() else self._apart(text.first, shifts)

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """The pairs of accesses that may meet."""
        return self.classes.pairs()

    def _apart(self, first: int, shifts: Array) -> Array:
        """Pairs that may meet and move by different distances, one after the other."""
        a, b = self.pairs
        begin, end = np.searchsorted(a, (first, first + len(shifts)))
        a, b = a[begin:end], b[begin:end]
        below = b < first + len(shifts)
        a, b = a[below], b[below]
        apart = (shifts[a - first] != shifts[b - first]).any(axis=1)
        pairs: Array = np.stack((a[apart], b[apart]), axis=1).reshape(-1)
        return pairs


_NOTHING = np.zeros(0, np.int64)
