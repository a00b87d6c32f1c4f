"""The cost of candidates for attention, vectorized over columns of plans.

A step of keys takes as long as the slowest of what works on it at the same time: the matrix unit (scores and weighted
values), the vector unit (softmax), memory, the rings and the ports. Under a causal mask, where the blocks of a wave end
at different keys, cores are followed through their waves: they need one another only where keys are sent to several of
them, and the next wave begins when a core's own block is done. The cores at the corners of those that share a problem
are followed through the steps of all waves: scores, weights and weighted values in the order of the program, each
waiting for what it needs and for the place that it fills.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields

import numpy as np

from archloom.acadl_models.mesh.vector import BINARY, SOFTMAX
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import ACROSS, COLUMN, DOWN, NONE, ROW, AttentionPlan
from archloom.mapper.spatial.space import Columns, Table

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
        # cores that have nothing to do in the last wave, the first of kept keys, load theirs in the one before
        self.idle = (c["way"] == NONE) & (self.waves * c["bq"] * self.places - self.rows >= c["bq"])
        row, column = c["rq"] - 1, c["cq"] - 1
        # the last that has a block in the last wave has the longest of all
        blocks = -(-self.rows // c["bq"]) - (self.waves - 1) * self.places
        self.place = np.stack([
            0 * row, np.where(blocks < self.places, blocks - 1, column), row * c["cq"], self.places - 1])
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
            some._wave(state, wave, np.where(some.kept, number <= some.idle, True))
            s.put(rows, state)
            self.number[rows] = some.number

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
        wanted = _Wanted(loads, share, longest, shortest, seen)
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
    """Of a wave: whether keys are loaded, the share of places with a block, and tiles of keys that its longest and its
    shortest block see, and each of the cores that are followed."""

    loads: Numbers
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


@dataclass(frozen=True, eq=False)
class _Work:
    """Of a core, over all waves of queries of a problem: its blocks, tiles of keys that they see, and its steps."""

    blocks: np.ndarray
    seen: np.ndarray
    steps: np.ndarray


def attention_cycles(attention: Attention, machine: Machine, found: Table[AttentionPlan]) -> np.ndarray:
    """Estimated cycles of every candidate."""
    c = found.columns
    queries, every, d = attention.tiles
    keys = -(-every // (c["rk"] * c["ck"]))
    bq, bk = c["bq"], np.minimum(c["bk"], keys)
    places, spread = c["rq"] * c["cq"], c["rp"] * c["cp"]
    waves_p, waves_q = -(-attention.problems // spread), -(-queries // (bq * places))
    load, way, first = _load(attention, machine, c, bk, waves_p)
    # queries come to all cores of a block, results leave one of them
    rows = queries / places
    queried = d * -(-TILE_BYTES // machine.dram_bytes) * machine.cores * attention.problems / (waves_p * spread)
    if attention.past is not None:
        return machine.launch_cycles + Waves(attention, machine, c, bk, (load, way, first), queried).cycles()

    # in the last wave some cores that load by themselves have no block of queries
    load = load * np.where(c["way"] == NONE, -(-queries // bq) / (waves_q * places), 1)
    # all blocks see all keys that their cores have
    work = _Work(waves_q, keys * waves_q, -(-keys // bk) * waves_q)
    last = np.minimum(bq, queries - (waves_q - 1) * bq * places)
    tall = bq - (bq - last) / waves_q  # of a mean block of the core that has most
    core = _Core.of(attention, machine, c, (bk, last, tall), work)
    loaded = np.where(c["keep"] == 1, keys, work.seen) / bk  # a last step may have fewer tiles
    moved = queried * rows * (1 + 1 / (c["rk"] * c["ck"]))
    added = attention.bias * tall * work.seen * TILE_BYTES
    came = np.maximum(load, way) * loaded
    loads = np.maximum(load * loaded + added * machine.cores / machine.dram_bytes + moved,
                       way * loaded + added / machine.core_bytes)
    core_busy = core.busy
    if machine.port_bytes:  # values take the place of those of two steps before, behind them come keys; both pass ports
        turn = _turn(machine, c, bk * d * TILE_BYTES) * work.seen / bk + machine.dram_latency * work.steps
        core_busy = np.where(c["keep"] == 1, core.busy, np.maximum(core.busy, turn / 2 + core.score * work.steps))
    # kept keys are loaded by the first wave of a problem, while the others need none
    first = np.where(c["keep"] == 1, 1 / waves_q, 1)
    busy = np.maximum(first * core_busy, came) + (1 - first) * core_busy
    once = queried * np.minimum(bq, rows)
    begin, end = np.maximum(load, way) / 2 + once, core.score + once / (c["rk"] * c["ck"])
    end = end + _merging(machine, c, d)[0]
    worked = np.maximum(waves_p * busy + np.where(came > first * core_busy, 0, begin), waves_p * loads)
    return np.asarray(machine.launch_cycles + 3 * machine.dram_latency + worked + end, np.float64)


@dataclass(frozen=True, eq=False)
class _Core:
    """Cycles in which a core works on a problem, and those of its first scores.

    In a step scores of the next keys, and weighted values, follow each other in the matrix unit, weights and the
    rescaling of what is there in the vector unit; values are rescaled after those of the step before were added. From a
    block of queries to the next the units wait for each other: after the last values come the first two steps' scores,
    beside the ends of both blocks and the first weights.
    """

    busy: np.ndarray
    score: np.ndarray

    @staticmethod
    def of(
        attention: Attention, machine: Machine, c: Columns, block: tuple[np.ndarray, np.ndarray, np.ndarray],
        work: _Work,
    ) -> "_Core":
        """``block``: tiles of keys, and of queries in the last block and in a mean one."""
        (bk, last, tall), d, unit = block, attention.tiles[2], machine.vector_cycles
        width = np.full_like(bk, d)
        product = machine.product(c["bq"], bk, width)
        product = product - (product - machine.product(last, bk, width)) / work.blocks
        product = product * (work.seen / bk) + machine.block_cycles * work.steps
        soften = unit * tall * (SOFTMAX["soften"] + BINARY["add"] * attention.bias) * work.seen
        rescale = unit * tall * SOFTMAX["rescale"] * d * work.steps
        ends = unit * tall * (SOFTMAX["begin"] + SOFTMAX["finish"]) * d + _merging(machine, c, d)[1]
        one, weights = product / work.steps, (soften + rescale) / work.steps
        scores = one * np.minimum(2, work.steps / work.blocks)
        gap = work.blocks * np.maximum(scores, np.maximum(one, ends) + weights)
        matrix = 2 * product + gap - work.blocks * scores
        steady = (1 - work.blocks / work.steps) * (np.maximum(product, soften) + rescale)
        merged = work.blocks * sum(_merging(machine, c, d))  # one after the other, by the core that has the result
        return _Core(np.maximum.reduce([matrix, steady + work.blocks * one + gap, merged]), one)


def _merging(machine: Machine, c: Columns, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Cycles in which cores put their results of a block together: for what they hand over, which the adder takes
    beside the next block, and for what the vector unit does with it."""
    down, along = np.ceil(np.log2(c["rk"])), np.ceil(np.log2(c["ck"]))
    way = c["bq"] * (d + 1) * 2 * TILE_BYTES * (down / machine.column_sum_bytes + along / machine.sum_bytes)
    return way, (down + along) * machine.vector_cycles * c["bq"] * (2 * d + 2)


def _load(
    attention: Attention, machine: Machine, c: Columns, bk: np.ndarray, waves_p: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cycles in which keys and values of a step are read for all cores, in which their ways are busy, and in which they
    are sent if nothing was under way."""
    d = attention.tiles[2]
    rp, rq, cp, cq, way = (c[name] for name in ("rp", "rq", "cp", "cq", "way"))
    size = 2 * bk * d * TILE_BYTES
    beats = 2 * -(-bk * d * TILE_BYTES // machine.dram_bytes)
    row, column = way == ROW, way == COLUMN
    tree = (way == DOWN) | (way == ACROSS)
    copies = np.where(row, machine.cores // cq, np.where(column, machine.cores // rq, np.where(tree, 1, machine.cores)))
    # in the last wave some cores have no problem
    copies = copies * (attention.problems / (waves_p * rp * cp))
    # keys and values by themselves; who sends waits for memory, with so many transfers under way
    one = size / 2 / np.where(way == 0, machine.core_bytes, machine.ring_bytes)
    alone = one + np.where(tree, size / 2 / machine.tree_bytes, 0) if machine.tree_bytes else one
    # what the cores of a column share passes their port once
    passed = size / machine.port_bytes if machine.port_bytes else 0 * size
    one = np.maximum(one, (machine.dram_latency + one + passed / 2) / machine.in_flight)
    # on a ring those of all problems that there are, dealt out along the rows first
    along, down = np.minimum(cp, attention.problems), np.minimum(rp, -(-attention.problems // cp))
    sends = np.where(row, along * c["ck"], np.where(column, down * c["rk"], 1))
    port = passed * np.where(column | tree, 1, machine.port_cores)
    return beats * copies, np.maximum(2 * sends * one, port), np.maximum(2 * sends * alone, port)


def _turn(machine: Machine, c: Columns, size: np.ndarray) -> np.ndarray:
    """Cycles in which values of ``size`` bytes and as many keys behind them come, if only those of one core's row are
    under way: both wait for what is slower, their ring or the port that cores of a row pass in step."""
    way = c["way"]
    ring = size / np.where(way == NONE, machine.core_bytes, machine.ring_bytes)
    port = size / machine.port_bytes * np.where(way == ROW, machine.port_cores, 1)
    return ring + port + np.maximum(ring, port)
