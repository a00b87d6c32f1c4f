"""From plans of attention to streams: scores, online softmax and weighted values, one step of keys after the other.

The matrix unit works ahead: the scores of the next block of keys come before the weighted values of the present one, so
that it has work while the vector unit turns scores into weights. Which cores take part in a step, and which keys they
see, is counted beforehand: a block's loop over keys ends with the last key that any of its queries sees, and only steps
in which some query does not see all keys are masked. The blocks of a wave may end at different keys; in every second
wave they are dealt out the other way round, so that a core that had the shortest block then has the longest.

What ends at another key is written out. Where that makes too long a program, ``grain`` blocks one after the other, of
one wave or of several, go as far as the one of them that sees most: what they do beyond their own end is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from archloom.mapper.spatial.attention.space import OUT_SLOTS, SCORE_SLOTS, STREAM_SLOTS, Attention
from archloom.mapper.spatial.attention.steps import Part, Run, Turn, share, turns, without
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import AttentionPlan
from archloom.mapper.spatial.programs.emit import bits, multicast
from archloom.mapper.spatial.programs.waves import Nodes, Wave, Zone, halves, repeat, repeat_waves, waves
from archloom.oracle.affine import Affine
from archloom.oracle.nests import size
from archloom.oracle.resolve import MAX_INSTRUCTIONS
from archloom.oracle.stream import Instr


def attention_nodes(attention: Attention, plan: AttentionPlan, machine: Machine, places: Mapping[str, int]) -> Nodes:
    """The program after the launch; Q, K, V, a bias B and the result O lie in tiles at ``places``, problem by problem.

    Under a causal mask blocks of queries that end at different keys are written out. Where that is more than is
    resolved, blocks end together by twos, fours, ..., which costs them some masked steps.
    """
    grain, blocks = 1, -(-attention.tiles[0] // plan.block[0])
    while True:
        body = _Emitter(attention, plan, machine, places, grain).nodes()
        over = -(-(1 + size(body)) // MAX_INSTRUCTIONS)
        if over == 1 or grain >= blocks:
            return body
        grain <<= (over - 1).bit_length()


@dataclass(frozen=True)
class _Core:
    """The number of a core, and its numbers along problems, queries and the keys of a block."""

    number: Affine
    problem: Affine
    query: Affine
    part: Affine


@dataclass(frozen=True)
class _Step:
    """A step of keys: its number, its first tile, and which cores take part."""

    number: Affine
    first: Affine
    run: Run


@dataclass(frozen=True)
class _Block:
    """Where a wave of blocks stands: the waves' numbers, the cores along the problems, what the wave does, which blocks
    it is in all, the number of its first step, and the places that have their keys already (None: all)."""

    at: tuple[Affine, Affine]
    problems: tuple[Zone, ...]
    turn: Turn
    number: Affine
    step: Affine
    supplied: tuple[Zone, ...] | None


@dataclass(frozen=True)
class _Emitter:
    attention: Attention
    plan: AttentionPlan
    machine: Machine
    places: Mapping[str, int]
    grain: int
    """Blocks one after the other that end at the same key under a causal mask."""

    @cached_property
    def tiles(self) -> tuple[int, int, int]:
        return self.attention.tiles

    @property
    def depth(self) -> int:
        """Tiles of a whole step of keys."""
        return min(self.plan.block[1], self.share)

    @cached_property
    def share(self) -> int:
        """Tiles of keys of a core."""
        return share(self.attention, self.plan)

    @cached_property
    def wide(self) -> int:
        """Sums of a tile of queries: its values, and its statistics where keys are dealt out."""
        return self.tiles[2] + (self.plan.spread(2) > 1)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        return turns(self.attention, self.plan, self.grain)

    def nodes(self) -> Nodes:
        last = self.turns[-1]
        blocks, steps = last.first + last.count, last.before + last.count * last.steps

        def one(p: Affine, problem: Wave) -> Nodes:
            nodes: Nodes = []
            for turn, these, supplied in self.order():
                def block(q: Affine, turn: Turn = turn, supplied: tuple[Zone, ...] | None = supplied) -> Nodes:
                    step = p * steps + (q - turn.first) * turn.steps + turn.before
                    return self.wave(_Block((p, q), problem.zones, turn, p * blocks + q, step, supplied))

                nodes += repeat("wq", these, block)
            return nodes

        return repeat_waves("wp", waves(self.attention.problems, 1, self.plan.rows[0], self.plan.columns[0]), one)

    def order(self) -> Iterator[tuple[Turn, range, tuple[Zone, ...] | None]]:
        """Waves of queries in the order in which they are done, and the places that have their keys already (None:
        all).

        Kept keys are loaded by the wave that comes first; under a causal mask this must be the last, which sees most.
        Cores that have nothing to do in it load theirs in the one before.
        """
        if self.plan.keys[1] == "stream":
            yield from ((turn, range(turn.first, turn.first + turn.count), ()) for turn in self.turns)
            return
        down, last = self.attention.past is not None, self.turns[-1]
        supplied: list[tuple[Zone, ...]] = [()]
        if down and last.places < self.plan.spread(1) and self.plan.keys[0] == "none":
            supplied.append(last.zones)
        for turn in reversed(self.turns) if down else self.turns:
            these = range(turn.first, turn.first + turn.count)
            these = these[::-1] if down else these
            now, supplied = supplied[:len(these)], supplied[len(these):]
            yield from ((turn, these[i:i + 1], places) for i, places in enumerate(now))
            if len(now) < len(these):
                yield turn, these[len(now):], None

    # --- cores ---------------------------------------------------------------------------------------------------
    def each(
        self, problem: Zone, query: Zone | None, body: Callable[[_Core], Nodes],
        alone: tuple[bool, bool] = (False, False), over: Zone | None = None,
    ) -> Nodes:
        """Loops over the cores of a zone, and of those ``over`` which keys are dealt out (None: all); ``alone``: only
        the first along the rows / columns that share a problem."""
        rows = range(self.plan.rows[1]) if query is None else query.slow
        columns = range(self.plan.columns[1]) if query is None else query.fast
        rows, columns = range(1) if alone[0] else rows, range(1) if alone[1] else columns
        high, wide = self.plan.parts
        slow, fast = (range(high), range(wide)) if over is None else (over.slow, over.fast)

        def core(rp: Affine, cp: Affine, rq: Affine, cq: Affine, rk: Affine, ck: Affine) -> Nodes:
            row = (rp * self.plan.rows[1] + rq) * high + rk
            column = (cp * self.plan.columns[1] + cq) * wide + ck
            return body(_Core(
                row * self.machine.columns + column, rp * self.plan.columns[0] + cp, rq * self.plan.columns[1] + cq,
                rk * wide + ck))

        return repeat("rp", problem.slow, lambda rp: repeat("cp", problem.fast, lambda cp: repeat(
            "rq", rows, lambda rq: repeat("cq", columns, lambda cq: repeat(
                "rk", slow, lambda rk: repeat("ck", fast, lambda ck: core(rp, cp, rq, cq, rk, ck)))))))

    def both(self, block: _Block, body: Callable[[_Core, int], Nodes], over: Zone | None = None) -> Nodes:
        """``body`` on every core that has a block in a wave, with the tiles of its queries."""
        return [node for problem in block.problems for query in block.turn.zones for node in self.each(
            problem, query, lambda core, size=query.size: body(core, size), over=over)]  # type: ignore[misc]

    def parts(self, block: _Block, parts: Sequence[Part], body: Callable[[_Core, Part], Nodes]) -> Nodes:
        """``body`` on every core that takes part in a step."""
        return [node for problem in block.problems for part in parts for node in self.each(
            problem, part.zone, lambda core, part=part: body(core, part), over=part.over)]  # type: ignore[misc]

    # --- places --------------------------------------------------------------------------------------------------
    def _query(self, turn: Affine) -> Affine:
        return turn % STREAM_SLOTS * (self.plan.block[0] * self.tiles[2])

    def _weights(self, step: _Step) -> Affine:
        base = STREAM_SLOTS * self.plan.block[0] * self.tiles[2]
        return step.number % SCORE_SLOTS * (self.plan.block[0] * self.depth) + base

    def _keys(self, step: _Step, which: int) -> Affine:
        """Where keys (0) or values (1) of a step lie in L1."""
        bq, width = self.plan.block[0], self.tiles[2]
        base = STREAM_SLOTS * bq * width + SCORE_SLOTS * bq * self.depth
        if self.plan.keys[1] == "keep":
            return step.first * width + (base + which * self.share * width)
        return step.number % STREAM_SLOTS * (self.depth * width) + (base + which * STREAM_SLOTS * self.depth * width)

    def _bias(self, step: _Step) -> Affine:
        """Behind keys and values."""
        bq, width = self.plan.block[0], self.tiles[2]
        held = self.share if self.plan.keys[1] == "keep" else STREAM_SLOTS * self.depth
        base = STREAM_SLOTS * bq * width + SCORE_SLOTS * bq * self.depth + 2 * held * width
        return step.number % SCORE_SLOTS * (bq * self.depth) + base

    def _scores(self, step: _Step) -> Affine:
        return step.number % SCORE_SLOTS * (self.plan.block[0] * self.depth)

    def _out(self, turn: Affine) -> Affine:
        bq = self.plan.block[0]
        return turn % OUT_SLOTS * (bq * self.wide) + SCORE_SLOTS * bq * self.depth

    def _stat(self, turn: Affine) -> Affine:
        return turn % OUT_SLOTS * (2 * self.plan.block[0])

    def _factor(self, step: _Step) -> Affine:
        return step.number % SCORE_SLOTS * self.plan.block[0] + OUT_SLOTS * 2 * self.plan.block[0]

    # --- a wave --------------------------------------------------------------------------------------------------
    def wave(self, block: _Block) -> Nodes:
        """Blocks of queries against all keys."""
        found = self._begin(block)
        runs = block.turn.runs

        def step(run: Run, i: Affine) -> _Step:
            return _Step(block.step + i + run.first, i * self.depth + run.first * self.depth, run)

        found += self._ahead(block, step(runs[0], Affine(0)))
        for number, run in enumerate(runs):
            found += repeat("k", range(run.count - 1), lambda i, run=run: [  # type: ignore[misc]
                *self._ahead(block, step(run, i + 1)), *self._behind(block, step(run, i))])
            if number + 1 < len(runs):
                found += self._ahead(block, step(runs[number + 1], Affine(0)))
            found += self._behind(block, step(run, Affine(run.count - 1)))
        return found + self._end(block)

    def _begin(self, block: _Block) -> Nodes:
        width = self.tiles[2]

        def load(core: _Core, size: int) -> Nodes:
            row = self._row(block, core)
            return [Instr.make(
                "load", dram=row * (width * TILE_BYTES) + self.places["Q"],
                l1=core.number * self.machine.tiles + self._query(block.number), rows=1, cols=size * width, h0=0)]

        def begin(core: _Core, size: int) -> Nodes:
            return [Instr.make("begin", out=core.number * self.machine.sums + self._out(block.number),
                               stat=core.number * self.machine.stats + self._stat(block.number), m=size, d=width)]

        return self.both(block, load) + self.both(block, begin)

    def _problem(self, block: _Block, core: _Core) -> Affine:
        return block.at[0] * self.plan.spread(0) + core.problem

    def _first_query(self, block: _Block, core: _Core) -> Affine:
        place = self.plan.spread(1) - 1 - core.query if block.turn.turned else core.query
        return (block.at[1] * self.plan.spread(1) + place) * self.plan.block[0]

    def _row(self, block: _Block, core: _Core) -> Affine:
        """The first row of tiles of a core's queries among those of all problems."""
        return self._problem(block, core) * self.tiles[0] + self._first_query(block, core)

    def _first_key(self, core: _Core, step: _Step) -> Affine:
        """The first tile of keys of a core's step."""
        return core.part * self.share + step.first

    def _ahead(self, block: _Block, step: _Step) -> Nodes:
        """Keys and values of a step, and its scores."""
        found = [n for which in (0, 1) for n in self._load(block, step, which)]
        width = self.tiles[2]

        def bias(core: _Core, part: Part) -> Nodes:
            dram = self._row(block, core) * self.tiles[1] + self._first_key(core, step)
            return [Instr.make("load", dram=dram * TILE_BYTES + self.places["B"],
                               l1=core.number * self.machine.tiles + self._bias(step), rows=part.zone.size,
                               cols=part.tiles, h0=self.tiles[1] * TILE_BYTES)]

        def score(core: _Core, part: Part) -> Nodes:
            l1 = core.number * self.machine.tiles
            return [Instr.make("score", a=l1 + self._query(block.number), b=l1 + self._keys(step, 0),
                               c=core.number * self.machine.sums + self._scores(step), m=part.zone.size, n=part.tiles,
                               k=width)]

        if self.attention.bias:
            found += self.parts(block, step.run.parts, bias)
        return found + self.parts(block, step.run.parts, score)

    def _behind(self, block: _Block, step: _Step) -> Nodes:
        """Weights of a step from its scores, and its values weighted by them."""
        width = self.tiles[2]

        def work(core: _Core, part: Part) -> Nodes:
            n = core.number
            sums, stats, l1 = n * self.machine.sums, n * self.machine.stats, n * self.machine.tiles
            out, factor, weights = sums + self._out(block.number), stats + self._factor(step), l1 + self._weights(step)
            m, scores = part.zone.size, sums + self._scores(step)
            found: Nodes = []
            if self.attention.bias:
                found.append(Instr.make("add_tiles", l1=l1 + self._bias(step), acc=scores, count=m * part.tiles))
            if part.masked:
                assert self.attention.past is not None
                found.append(Instr.make(
                    "mask", scores=scores, m=m, n=part.tiles, first=self._first_query(block, core),
                    group=self.attention.group, shift=-SIDE * step.first + self.attention.past))
            return [
                *found,
                Instr.make("soften", scores=scores, weights=weights, stat=stats + self._stat(block.number),
                           factor=factor, m=m, n=part.tiles, scale=bits(self.attention.scale), valid=part.keys),
                Instr.make("rescale", out=out, factor=factor, m=m, d=width),
                Instr.make("weigh", a=weights, b=l1 + self._keys(step, 1), c=out, m=m, n=width, k=part.tiles),
            ]

        return self.parts(block, step.run.parts, work)

    def _load(self, block: _Block, step: _Step, which: int) -> Nodes:
        if block.supplied is None:
            return []
        pattern, width = self.plan.keys[0], self.tiles[2]
        tiles, (high, wide) = self.machine.tiles, self.plan.parts
        sent, alone = multicast(pattern, self.machine, (self.plan.columns[1], wide),
                                (self.plan.rows[1], high * self.machine.columns))

        def one(core: _Core, loaded: int) -> Nodes:
            row = self._problem(block, core) * self.tiles[1] + self._first_key(core, step)
            what: dict[str, Affine | int] = {
                "dram": row * (width * TILE_BYTES) + self.places["KV"[which]],
                "l1": core.number * tiles + self._keys(step, which), "rows": 1, "cols": loaded * width, "h0": 0,
            }
            return [Instr.make("load" if pattern == "none" else f"multicast_{pattern}", **what, **sent)]

        if pattern == "none":
            parts = without(step.run.parts, block.supplied)
            return self.parts(block, parts, lambda core, part: one(core, part.tiles))
        found: Nodes = []
        for problem in block.problems:
            for over, most in step.run.loads:
                found += self.each(problem, None, lambda core, most=most: one(core, most), alone, over)  # type: ignore[misc]
        return found

    def _end(self, block: _Block) -> Nodes:
        width = self.tiles[2]

        def finish(core: _Core, size: int) -> Nodes:
            out, stat = self._results(block, core.number)
            dram = self._row(block, core) * (width * TILE_BYTES) + self.places["O"]
            return [
                Instr.make("finish", out=out, stat=stat, m=size, d=width),
                Instr.make("store", acc=out, dram=dram, rows=1, cols=size * width, h0=0, relu=0),
            ]

        return self._merged(block) + self.both(block, finish, Zone(range(1), range(1), 0))

    def _results(self, block: _Block, number: Affine) -> tuple[Affine, Affine]:
        """Where a core's weighted values and statistics lie."""
        return number * self.machine.sums + self._out(block.number), (
            number * self.machine.stats + self._stat(block.number))

    def _merged(self, block: _Block) -> Nodes:
        """The results of cores that have other keys of the same block, by halves, along the columns of the mesh and
        then along its rows: a core takes those of another and adds them to its own."""
        (high, wide), width, found = self.plan.parts, self.tiles[2], Nodes()
        landing = SCORE_SLOTS * self.plan.block[0] * self.depth + OUT_SLOTS * self.plan.block[0] * self.wide
        for axis, count, apart in ((1, wide, 1), (0, high, self.machine.columns)):
            for distance, these in halves(count):
                over = Zone(range(high), these, 0) if axis else Zone(these, range(1), 0)
                far = distance * apart

                def pair(core: _Core, size: int, far: int = far) -> Nodes:
                    out, stat = self._results(block, core.number + far)
                    return [Instr.make("row_pair", stat=stat, acc=out + size * width, m=size)]

                def add(core: _Core, size: int, far: int = far) -> Nodes:
                    (theirs, _), (out, stat) = (self._results(block, core.number + n) for n in (far, 0))
                    place = core.number * self.machine.sums + landing
                    return [Instr.make("take", source=theirs, target=place, count=size * (width + 1)),
                            Instr.make("merge", out=out, stat=stat, theirs=place, m=size, d=width)]

                found += self.both(block, pair, over) + self.both(block, add, over)
        return found
