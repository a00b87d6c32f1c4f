"""Waves of attention, followed core by core: when matrix and vector units and loads are done."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields

import numpy as np

from archloom.acadl_models.mesh.vector import BINARY, SOFTMAX
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import COLUMN, NONE, ROW
from archloom.mapper.spatial.space import Columns

Numbers = np.ndarray

FOLLOWED = 12
"""Steps of a wave that are followed one by one, half of them its first and half its last; those between are alike."""
_SLOTS = np.array([False, True])[:, None, None]
PROBLEMS = 2
"""Problems that are followed one after the other; the others take as long as the last of them."""


@dataclass(eq=False)
class _State:
    """When each followed core's matrix and vector unit are done, when its last keys or values came, when values were
    last weighted; of both places, when the scores that lay there were made, turned into weights, and their values
    weighted; and when the results of the last wave and of the one before are stored."""

    matrix: Numbers
    vector: Numbers
    came: Numbers
    last: Numbers
    scored: Numbers
    softened: Numbers
    weighed: Numbers
    stored: Numbers
    earlier: Numbers

    def later(self, cycles: Numbers) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + cycles)

    def taken(self, rows: "slice | Numbers") -> "_State":
        """Those of some of the candidates."""
        return _State(*(getattr(self, f.name)[..., rows] for f in fields(self)))

    def put(self, rows: "slice | Numbers", other: "_State") -> None:
        """Let these candidates be as in ``other``."""
        for f in fields(self):
            getattr(self, f.name)[..., rows] = getattr(other, f.name)


class Waves:
    """All candidates; numbers are (cores that are followed, candidates)."""

    def __init__(
        self, attention: Attention, machine: Machine, c: Columns, bk: Numbers, step: tuple[Numbers, Numbers, Numbers],
        queried: Numbers,
    ) -> None:
        """``step``: cycles of memory and of the way of the keys and values of a step; ``queried``: of memory, for a
        tile of queries of each place."""
        self.attention, self.machine = attention, machine
        self.rows, _, self.d = attention.tiles
        self.bq, self.bk, self.kept, self.queried = c["bq"], bk, c["keep"] == 1, queried
        self.memory, self.way, self.late = (cycles / 2 for cycles in step)  # of keys or values
        self.least = np.maximum(self.way, 1e-9)
        self.problems = -(-attention.problems // (c["rp"] * c["cp"]))
        self.places = c["rq"] * c["cq"]
        self.waves = -(-self.rows // (c["bq"] * self.places))
        row, column = c["rq"] - 1, c["cq"] - 1
        # the last that has a block in the last wave has the longest of all
        self.blocks = -(-self.rows // c["bq"]) - (self.waves - 1) * self.places
        self.place = np.stack([
            0 * row, np.where(self.blocks < self.places, self.blocks - 1, column), row * c["cq"], self.places - 1])
        self.alone = c["way"] == NONE
        self.along, self.down = c["way"] == ROW, c["way"] == COLUMN
        self.number = np.zeros(len(bk), int)

    def _taken(self, rows: "slice | Numbers") -> "Waves":
        """Some of the candidates, by themselves."""
        found = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and value.ndim:
                setattr(found, name, value[..., rows])
        return found

    def cycles(self) -> Numbers:
        """Until the last results are stored, from when the cores begin."""
        # those with most waves first, so that those which still have one are the first ones
        order = np.argsort(-self.waves, kind="stable")
        now = np.zeros(len(order))
        now[order] = self._taken(order)._in_order()
        return now

    def _in_order(self) -> Numbers:
        slots = {"scored", "softened", "weighed"}
        s = _State(*(np.zeros((2,) * (f.name in slots) + self.place.shape) for f in fields(_State)))
        done, took = np.zeros((2, self.place.shape[1]))
        for number in range(min(PROBLEMS, int(self.problems.max(initial=1)))):
            on = np.nonzero(number < self.problems)[0]
            some, state = self._taken(on), s.taken(on)
            some._problem(state)
            s.put(on, state)
            self.number[on] = some.number
            now = np.maximum(state.stored, state.vector).max(axis=0)
            took[on], done[on] = now - done[on], now
        return np.asarray(done + np.maximum(0, self.problems - PROBLEMS) * took)

    def _problem(self, s: _State) -> None:
        for number in range(int(self.waves.max(initial=0))):
            rows = slice(int((number < self.waves).sum()))
            some, state = self._taken(rows), s.taken(rows)
            wave = np.where(some.kept, some.waves - 1 - number, number)  # kept keys: first what sees most
            some._wave(state, wave, some._loads(number))
            s.put(rows, state)
            self.number[rows] = some.number

    def _loads(self, number: int) -> Numbers:
        """Which cores load keys in a wave: kept ones in the first, and those that have nothing to do there in the next
        one, where each loads its own."""
        idle = self.alone & (self.place >= self.blocks)
        return ~self.kept | (number == 0) | (idle if number == 1 else False)

    def _wave(self, s: _State, wave: Numbers, loads: Numbers) -> None:
        attention, bq, bk = self.attention, self.bq, self.bk
        first = wave * self.places * bq
        filled = _clip(-(-(self.rows - first) // bq), self.places)
        whole = first + self.places * bq <= self.rows
        turned = (wave % 2 == 1) & whole
        place = np.where(turned, self.places - 1 - self.place, self.place)
        there = place < filled
        begin = np.minimum(first + place * bq, self.rows - 1)
        tall = np.where(there, np.minimum(bq, self.rows - begin), 0)
        seen = np.where(there, seen_tiles(attention, begin + np.maximum(tall, 1) - 1), 0)
        clear = unmasked_tiles(attention, begin)
        longest = seen_tiles(attention, np.minimum(first + self.places * bq, self.rows) - 1)
        shortest = seen_tiles(attention, np.minimum(np.minimum(first, self.rows - 1) + bq, self.rows) - 1)
        unit, d = self.machine.vector_cycles, self.d
        share = filled / self.places
        second = self.kept & (wave == self.waves - 2)
        wanted = _Wanted(np.where(second, 1 - self.blocks / self.places, share), longest, shortest, seen)
        # queries come before the keys, results of the wave before leave meanwhile
        moved = np.where(there, self.queried * bq * share, 0)
        s.came = s.came + moved
        queries = s.came + self.machine.dram_latency
        s.vector = np.where(there, np.maximum(s.vector, s.earlier) + unit * tall * SOFTMAX["begin"] * d, s.vector)
        steps = -(-longest // bk)
        followed = np.minimum(steps, FOLLOWED)
        half = FOLLOWED // 2
        start, odd = np.zeros_like(steps), self.number % 2 == 1
        keys = self._keys(s, start, odd, loads, wanted)
        score = self._score(s, start, odd, tall, seen, np.maximum(keys[0], queries))
        rescaled = unit * tall * SOFTMAX["rescale"] * d
        for j in range(int(followed.max(initial=0))):
            going = j < followed
            at = np.where(j < half, j, j + steps - followed)
            start, end = at * bk, (at + 1) * bk
            active = going & (start < seen)
            follows = active & (end < seen)
            matrix, other = s.matrix, ~odd
            coming = self._keys(s, end, other, going & (at + 1 < steps) & loads, wanted)
            next_score = self._score(s, end, other, np.where(follows, tall, 0), seen, coming[0])
            tiles = _clip(seen - start, bk)
            masked = np.where(end > clear, tiles, 0)
            softened = np.maximum(np.maximum(s.vector, score), _of(s.weighed, odd)) + unit * tall * (
                (SOFTMAX["soften"] + BINARY["add"] * attention.bias) * tiles + SOFTMAX["mask"] * masked)
            vector = np.maximum(softened, s.last) + rescaled
            weighed = np.maximum(np.maximum(s.matrix, vector), keys[1]) + self._product(tall, 0 * tiles + d, tiles)
            s.softened = _with(s.softened, odd, active, softened)
            s.weighed = _with(s.weighed, odd, active, weighed)
            s.vector = np.where(active, vector, s.vector)
            s.last, s.matrix = np.where(active, weighed, s.last), np.where(active, weighed, s.matrix)
            score, keys, odd = next_score, coming, other
            if j == half - 1:  # the steps that are not followed
                more = np.where(followed == FOLLOWED, steps - followed, 0)
                own = self._repeat(s, np.where(active, s.matrix - matrix, 0), more, -(-seen // bk) - half, loads)
                score, keys = score + own, (keys[0] + own, keys[1] + own)
        self.number = self.number + followed
        s.vector = np.where(there, np.maximum(s.vector, s.matrix) + unit * tall * SOFTMAX["finish"] * d, s.vector)
        size = tall * d * TILE_BYTES
        left = s.vector + np.maximum(size / self.machine.core_bytes, self.queried * bq * share) + (
            2 * self.machine.dram_latency)
        s.earlier, s.stored = np.where(there, s.stored, s.earlier), np.where(there, left, s.stored)

    @staticmethod
    def _repeat(s: _State, took: Numbers, more: Numbers, left: Numbers, loads: Numbers) -> Numbers:
        """Let ``more`` steps pass that take as long as the one that ``took`` so many cycles, of which a core has
        ``left`` at most; returns the cycles of each core. Keys go on coming at the pace of the slowest."""
        own: Numbers = _clip(left, more) * took
        came = s.came + (more * took).max(axis=0) * loads
        s.later(own)
        s.came = came
        return own

    def _product(self, m: Numbers, n: Numbers, k: Numbers) -> Numbers:
        found = self.machine.product(m, n, k)
        return np.where(found > 0, found + self.machine.block_cycles, 0)

    def _score(self, s: _State, start: Numbers, odd: Numbers, tall: Numbers, seen: Numbers, keys: Numbers) -> Numbers:
        """When the scores of a step from tile ``start`` of keys on are done, on cores that take part."""
        tiles = _clip(seen - start, self.bk)
        product = self._product(tall, tiles, 0 * tiles + self.d)
        done = np.maximum(np.maximum(s.matrix, _of(s.softened, odd)), keys) + product
        on = product > 0
        s.matrix, s.scored = np.where(on, done, s.matrix), _with(s.scored, odd, on, done)
        return np.where(on, done, 0)

    def _keys(self, s: _State, start: Numbers, odd: Numbers, on: Numbers, of: "_Wanted") -> tuple[Numbers, Numbers]:
        """When keys and values of a step have come: they lie where those of two steps before did."""
        bk = self.bk
        whole = _clip(of.longest - start, bk) / bk
        mean = (_beyond(start, of.shortest, of.longest) - _beyond(start + bk, of.shortest, of.longest)) / bk * of.share
        memory = self.memory * np.where(self.alone, mean, whole)
        way = self.way * np.where(self.alone, _clip(of.seen - start, bk) / bk, whole)
        each = np.maximum(memory, way)
        late = self.machine.dram_latency + np.maximum(memory, self.late * way / self.least)
        found = []
        ahead = np.maximum(0, 3 * s.weighed.min(axis=0) - 2 * s.weighed.max(axis=0))
        for slots in (s.scored, s.weighed):
            free = np.where(self.kept, ahead, self._all(_of(slots, odd)))
            came = np.maximum(free + late, s.came + each)
            s.came = np.where(on, came, s.came)
            found.append(np.where(on, s.came, 0))
        return found[0], found[1]

    def _all(self, free: Numbers) -> Numbers:
        """The latest of the cores to which the same keys are sent."""
        rows = np.maximum(free, free[[1, 0, 3, 2]])
        columns = np.maximum(free, free[[2, 3, 0, 1]])
        return np.where(self.alone, free, np.where(self.along, rows, np.where(self.down, columns, free.max(axis=0))))


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Of a wave: the share of places that load keys, and tiles of keys that its longest and its shortest block see, and
    each of the cores that are followed."""

    share: Numbers
    longest: Numbers
    shortest: Numbers
    seen: Numbers


def _clip(values: Numbers, most: Numbers) -> Numbers:
    """From 0 to ``most``."""
    found: Numbers = np.minimum(np.maximum(values, 0), most)
    return found


def _of(slots: Numbers, odd: Numbers) -> Numbers:
    """Of the two places that steps use in turn that of an ``odd`` step, or of one that is not."""
    return np.where(odd, slots[1], slots[0])


def _with(slots: Numbers, odd: Numbers, on: Numbers, value: Numbers) -> Numbers:
    """The places with ``value`` in that of an ``odd`` step, or of one that is not, where ``on``."""
    return np.where((odd == _SLOTS) & on, value, slots)


def _beyond(tile: Numbers, least: Numbers, most: Numbers) -> Numbers:
    """How many tiles of keys lie behind ``tile``, in the mean of blocks that see ``least`` to ``most``."""
    between = np.maximum(0, most - tile) ** 2 / (2 * np.maximum(1, most - least))
    return np.where(tile <= least, (least + most) / 2 - tile, between)


def seen_tiles(attention: Attention, last: Numbers) -> Numbers:
    """Tiles of keys that the last query of a tile of queries sees."""
    query = np.minimum((last // attention.group + 1) * SIDE, attention.queries) - 1
    return -(-np.minimum(attention.keys, query + (attention.past or 0) + 1) // SIDE)


def unmasked_tiles(attention: Attention, first: Numbers) -> Numbers:
    """Tiles of keys of which the first query of a tile of queries sees all."""
    found: Numbers = np.minimum(attention.keys, first // attention.group * SIDE + (attention.past or 0) + 1) // SIDE
    return found
