"""The cost of attention under a causal mask: cores that begin and end at different keys, followed through their waves.

A wave's blocks end at different keys, so that its cores need one another only where keys are sent to several of them,
and the next wave begins when a core's own block is done. The cores at the corners of those that share a problem are
followed through the steps of all waves: scores, weights and weighted values in the order of the program, each waiting
for what it needs and for the place that it fills.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from acadl_models.mesh.vector import BINARY, SOFTMAX
from mapper.spatial.attention import Attention
from mapper.spatial.machine import SIDE, TILE_BYTES, Machine
from mapper.spatial.plan import PATTERNS
from mapper.spatial.space import Columns

Numbers = np.ndarray

FOLLOWED = 12
"""Steps of a wave that are followed one by one, half of them its first and half its last; those between are alike."""

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


class Waves:
    """All candidates; numbers are (cores that are followed, candidates)."""

    def __init__(
        self, attention: Attention, machine: Machine, c: Columns, bk: Numbers, step: tuple[Numbers, Numbers, Numbers],
        queried: Numbers,
    ) -> None:
        """``step``: cycles of memory and of the way of the keys and values of a step; ``queried``: of memory, for a
        tile of queries of each place."""
        self.attention, self.machine, self.c, self.bk = attention, machine, c, bk
        self.memory, self.way, self.late = step
        self.queried = queried
        self.rows, _, self.d = attention.tiles
        self.places = c["rq"] * c["cq"]
        self.waves = -(-self.rows // (c["bq"] * self.places))
        # cores that have nothing to do in the last wave, the first of kept keys, load theirs in the one before
        self.idle = (c["way"] == PATTERNS.index("none")) & (self.waves * c["bq"] * self.places - self.rows >= c["bq"])
        row, column = c["rq"] - 1, c["cq"] - 1
        # the last that has a block in the last wave has the longest of all
        blocks = -(-self.rows // c["bq"]) - (self.waves - 1) * self.places
        self.place = np.stack([
            0 * row, np.where(blocks < self.places, blocks - 1, column), row * c["cq"], self.places - 1])
        self.alone = c["way"] == PATTERNS.index("none")
        self.along, self.down = c["way"] == PATTERNS.index("row"), c["way"] == PATTERNS.index("column")

    def cycles(self) -> Numbers:
        """Until the last results are stored, from when the cores begin."""
        c, attention = self.c, self.attention
        count = -(-attention.problems // (c["rp"] * c["cp"]))
        slots = {"scored", "softened", "weighed"}
        s = _State(*(np.zeros((2,) * (f.name in slots) + self.place.shape) for f in fields(_State)))
        self.number = np.zeros(self.place.shape[1], int)
        done = took = np.zeros(self.place.shape[1])
        for number in range(min(PROBLEMS, int(count.max(initial=1)))):
            self._problem(s)
            now = np.maximum(s.stored, s.vector).max(axis=0)
            on = number < count
            took, done = np.where(on, now - done, took), np.where(on, now, done)
        return np.asarray(done + np.maximum(0, count - PROBLEMS) * took)

    def _problem(self, s: _State) -> None:
        for number in range(int(self.waves.max(initial=0))):
            on = number < self.waves
            wave = np.where(self.c["keep"] == 1, self.waves - 1 - number, number)  # kept keys: first what sees most
            self._wave(s, wave, on, np.where(self.c["keep"] == 1, number <= self.idle, on))

    def _wave(self, s: _State, wave: Numbers, on: Numbers, loads: Numbers) -> None:
        attention, bq = self.attention, self.c["bq"]
        first = wave * self.places * bq
        filled = np.clip(-(-(self.rows - first) // bq), 0, self.places)
        whole = first + self.places * bq <= self.rows
        turned = (wave % 2 == 1) & whole
        place = np.where(turned, self.places - 1 - self.place, self.place)
        there = on & (place < filled)
        begin = np.minimum(first + place * bq, self.rows - 1)
        tall = np.where(there, np.minimum(bq, self.rows - begin), 0)
        seen = np.where(there, seen_tiles(attention, begin + np.maximum(tall, 1) - 1), 0)
        clear = unmasked_tiles(attention, begin)
        longest = seen_tiles(attention, np.minimum(first + self.places * bq, self.rows) - 1)
        shortest = seen_tiles(attention, np.minimum(np.minimum(first, self.rows - 1) + bq, self.rows) - 1)
        unit, d = self.machine.vector_cycles, self.d
        share = filled / self.places
        # queries come before the keys, results of the wave before leave meanwhile
        moved = np.where(there, self.queried * bq * share, 0)
        s.came = s.came + moved
        queries = s.came + self.machine.dram_latency
        s.vector = np.where(there, np.maximum(s.vector, s.earlier) + unit * tall * SOFTMAX["begin"] * d, s.vector)
        steps = np.where(on, -(-longest // self.bk), 0)
        followed = np.minimum(steps, FOLLOWED)
        half = FOLLOWED // 2
        begun = np.zeros_like(steps)
        keys = self._keys(s, begun, self.number, steps > 0, loads, share, longest, shortest, seen)
        score = self._score(s, begun, self.number, tall, seen, np.maximum(keys[0], queries))
        for j in range(int(followed.max(initial=0))):
            going = j < followed
            at = np.where(j < half, j, j + steps - followed)
            active = going & (at * self.bk < seen)
            follows = active & ((at + 1) * self.bk < seen)
            matrix, slot, other = s.matrix, self.number + j, self.number + j + 1
            coming = self._keys(s, at + 1, other, going & (at + 1 < steps), loads, share, longest, shortest, seen)
            next_score = self._score(s, at + 1, other, np.where(follows, tall, 0), seen, coming[0])
            tiles = np.clip(seen - at * self.bk, 0, self.bk)
            masked = np.where((at + 1) * self.bk > clear, tiles, 0)
            softened = np.maximum(np.maximum(s.vector, score), _of(s.weighed, slot)) + unit * tall * (
                (SOFTMAX["soften"] + BINARY["add"] * attention.bias) * tiles + SOFTMAX["mask"] * masked)
            vector = np.maximum(softened, s.last) + unit * tall * SOFTMAX["rescale"] * d
            weighed = np.maximum(np.maximum(s.matrix, vector), keys[1]) + self._product(tall, 0 * tiles + d, tiles)
            s.softened = _with(s.softened, slot, active, softened)
            s.weighed = _with(s.weighed, slot, active, weighed)
            s.vector = np.where(active, vector, s.vector)
            s.last, s.matrix = np.where(active, weighed, s.last), np.where(active, weighed, s.matrix)
            score, keys = next_score, coming
            if j == half - 1:  # the steps that are not followed
                more = np.where(followed == FOLLOWED, steps - followed, 0)
                if more.any():
                    took = np.where(active, s.matrix - matrix, 0)
                    own = np.clip(-(-seen // self.bk) - half, 0, more) * took
                    came = s.came + (more * took).max(axis=0) * loads
                    s.later(own)
                    s.came, score, keys = came, score + own, (keys[0] + own, keys[1] + own)
        self.number = self.number + followed
        s.vector = np.where(there, np.maximum(s.vector, s.matrix) + unit * tall * SOFTMAX["finish"] * d, s.vector)
        size = tall * d * TILE_BYTES
        left = s.vector + np.maximum(size / self.machine.core_bytes, self.queried * bq * share) + (
            2 * self.machine.dram_latency)
        s.earlier, s.stored = np.where(there, s.stored, s.earlier), np.where(there, left, s.stored)

    def _product(self, m: Numbers, n: Numbers, k: Numbers) -> Numbers:
        found = self.machine.product(m, n, k)
        return np.where(found > 0, found + self.machine.block_cycles, 0)

    def _score(self, s: _State, at: Numbers, slot: Numbers, tall: Numbers, seen: Numbers, keys: Numbers) -> Numbers:
        """When the scores of a step are done, on cores that take part."""
        tiles = np.clip(seen - at * self.bk, 0, self.bk)
        product = self._product(tall, tiles, 0 * tiles + self.d)
        done = np.maximum(np.maximum(s.matrix, _of(s.softened, slot)), keys) + product
        on = product > 0
        s.matrix, s.scored = np.where(on, done, s.matrix), _with(s.scored, slot, on, done)
        return np.where(on, done, 0)

    def _keys(
        self, s: _State, at: Numbers, slot: Numbers, on: Numbers, loads: Numbers, share: Numbers,
        most: Numbers, least: Numbers, seen: Numbers,
    ) -> tuple[Numbers, Numbers]:
        """When keys and values of a step have come: they lie where those of two steps before did."""
        on, bk = on & loads, self.bk
        whole = np.clip(most - at * bk, 0, bk) / bk
        mean = (_beyond(at * bk, least, most) - _beyond((at + 1) * bk, least, most)) / bk * share
        memory = self.memory / 2 * np.where(self.alone, mean, whole)
        way = self.way / 2 * np.where(self.alone, np.clip(seen - at * bk, 0, bk) / bk, whole)
        each = np.maximum(memory, way)
        late = self.machine.dram_latency + np.maximum(memory, self.late / 2 * way / np.maximum(self.way / 2, 1e-9))
        found = []
        kept, ahead = self.c["keep"] == 1, np.maximum(0, 3 * s.weighed.min(axis=0) - 2 * s.weighed.max(axis=0))
        for free in (self._all(_of(s.scored, slot)), self._all(_of(s.weighed, slot))):
            free = np.where(kept, ahead, free)
            came = np.maximum(free + late, s.came + each)
            s.came = np.where(on, came, s.came)
            found.append(np.where(on, s.came, 0))
        return found[0], found[1]

    def _all(self, free: Numbers) -> Numbers:
        """The latest of the cores to which the same keys are sent."""
        rows = np.maximum(free, free[[1, 0, 3, 2]])
        columns = np.maximum(free, free[[2, 3, 0, 1]])
        return np.where(self.alone, free, np.where(self.along, rows, np.where(
            self.down, columns, free.max(axis=0))))


def _of(slots: Numbers, number: Numbers) -> Numbers:
    """Of the two places that steps use in turn that of step ``number``."""
    return np.where(number % 2 == 1, slots[1], slots[0])


def _with(slots: Numbers, number: Numbers, on: Numbers, value: Numbers) -> Numbers:
    """The places with ``value`` in that of step ``number`` where ``on``."""
    odd = number % 2 == 1
    return np.stack([np.where(on & ~odd, value, slots[0]), np.where(on & odd, value, slots[1])])


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
    found: Numbers = np.minimum(
        attention.keys, first // attention.group * SIDE + (attention.past or 0) + 1) // SIDE
    return found
