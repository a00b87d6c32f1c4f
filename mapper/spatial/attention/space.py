"""Attention over many cores: softmax(scale * Q . K^T) . V by tiles, with an online softmax; its plans and their bounds.

Every head of keys and values of every example is a *problem* of its own. A core works on a block of queries of one
problem at a time and goes over blocks of keys and values; cores that work on the same problem share these. Query heads
that share keys and values (grouped-query attention) belong to one problem. Where all queries see all keys, they are
simply that many more queries; under a causal mask the tiles of the group's heads with the same positions lie one after
the other, so that a block ends at few positions and its loop over keys can end there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.arrays import from_tiles, to_tiles
from archloom.mapper.spatial.machines.machine import SIDE, Machine
from archloom.mapper.spatial.plan import LEVELS, PATTERNS, AttentionPlan
from archloom.mapper.spatial.programs.streams import Shapes
from archloom.mapper.spatial.space import Columns, Table, crossed, joined, sizes, triples
from archloom.oracle.errors import MappingError

Number: TypeAlias = Any
"""An integer, or a column of them."""


@dataclass(frozen=True)
class Attention:
    """``problems`` of ``queries`` queries of each of ``group`` heads and ``keys`` keys, heads of ``width`` numbers.

    ``past``: None if all queries see all keys; else query ``i`` sees keys 0 to ``i + past`` (a causal mask; in a step
    of decoding ``past`` keys lie in the cache before the first query). ``bias``: whether a number of its own is added
    to each score, such as a mask's. MappingError for extents below 1 and for a ``past`` below 0, with which the first
    query would see nothing.
    """

    problems: int
    queries: int
    keys: int
    width: int
    group: int = 1
    past: int | None = None
    bias: bool = False

    def __post_init__(self) -> None:
        if min(self.problems, self.queries, self.keys, self.width, self.group) < 1:
            raise MappingError(f"{self}: every extent must be at least 1")
        if self.past is not None and self.past < 0:
            raise MappingError(f"{self}: the first query sees no key, as it stands {-self.past} before the first")

    @staticmethod
    def of(
        batch: int, heads: int, queries: int, width: int, kv_heads: int | None = None, *, keys: int | None = None,
        causal: bool = False, bias: bool = False,
    ) -> "Attention":
        """Self-attention, or attention to ``keys`` keys; under a causal mask the last query sees all of them.

        MappingError for extents below 1, heads that do not divide among ``kv_heads``, or fewer keys than queries under
        a causal mask.
        """
        kv, keys = heads if kv_heads is None else kv_heads, queries if keys is None else keys
        if min(batch, heads, queries, width, kv, keys) < 1 or heads % kv:
            raise MappingError(
                f"attention of {batch} x {heads} heads ({kv} of keys) over {queries} x {keys} x {width}: every extent "
                f"must be at least 1, and the heads of keys must divide those of queries"
            )
        # a single query at the end sees all that there is
        past = keys - queries if causal and queries > 1 else None
        return Attention(batch * kv, queries, keys, width, heads // kv, past, bias)

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.width)

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles of queries (of all heads of a problem), of keys, and of a head's width."""
        if self.past is None:
            rows = -(-self.group * self.queries // SIDE)
        else:
            rows = self.group * -(-self.queries // SIDE)
        return rows, -(-self.keys // SIDE), -(-self.width // SIDE)

    def tensors(self) -> Shapes:
        """Names and shapes in memory of all operands, the result O the last."""
        queries, keys, width = self.tiles
        shapes = {"Q": (queries, width), "K": (keys, width), "V": (keys, width)}
        if self.bias:
            shapes["B"] = queries, keys
        shapes["O"] = queries, width
        return tuple((label, (self.problems, *shape, SIDE, SIDE)) for label, shape in shapes.items())

    def seen(self, first: int, last: int) -> tuple[int, int]:
        """How many keys all queries of tiles ``first`` to ``last`` see, and how many any of them does."""
        if self.past is None:
            return self.keys, self.keys
        least, most = first // self.group * SIDE, min((last // self.group + 1) * SIDE, self.queries) - 1
        return min(self.keys, least + self.past + 1), min(self.keys, most + self.past + 1)

    @property
    def products(self) -> int:
        """Multiplications of both products that no mask makes idle."""
        if self.past is None:
            pairs = self.queries * self.keys
        else:
            pairs = sum(min(self.keys, i + self.past + 1) for i in range(self.queries))
        return 2 * self.problems * self.group * self.width * pairs

    def query_tiles(self, queries: NDArray[np.float16]) -> NDArray[np.float16]:
        """``(problems, group, queries, width)`` as the stream's tensor Q."""
        return self._rows(queries.reshape(self.problems, self.group, self.queries, self.width))

    def bias_tiles(self, bias: NDArray[np.floating[Any]]) -> NDArray[np.float16]:
        """What is added to the scaled scores, in a shape that broadcasts to ``(problems, group, queries, keys)``, as
        the stream's tensor B: over the scale, in float16 (what has no float16 is minus infinity, or plus)."""
        with np.errstate(over="ignore"):
            scaled = (np.asarray(bias, np.float32) / np.float32(self.scale)).astype(np.float16)
        return self._rows(np.broadcast_to(scaled, (self.problems, self.group, self.queries, self.keys)))

    def _rows(self, whole: NDArray[np.float16]) -> NDArray[np.float16]:
        """``(problems, group, queries, numbers)`` in tiles, in the order of the queries."""
        if self.past is None:
            return to_tiles(whole.reshape(self.problems, -1, whole.shape[-1]))
        tiles = to_tiles(whole.reshape(-1, self.queries, whole.shape[-1]))
        _, high, wide, _, _ = tiles.shape
        beside = tiles.reshape(self.problems, self.group, high, wide, SIDE, SIDE).swapaxes(1, 2)
        return beside.reshape(self.problems, -1, wide, SIDE, SIDE).copy()

    def key_tiles(self, keys: NDArray[np.float16]) -> NDArray[np.float16]:
        """``(problems, keys, width)`` as the stream's tensor K or V."""
        return to_tiles(keys.reshape(self.problems, self.keys, self.width))

    def output(self, tiles: NDArray[np.float16]) -> NDArray[np.float16]:
        """The stream's tensor O as ``(problems, group, queries, width)``."""
        if self.past is None:
            whole = from_tiles(tiles, (self.group * self.queries, self.width))
        else:
            _, high, wide, _, _ = tiles.shape
            apart = tiles.reshape(self.problems, -1, self.group, wide, SIDE, SIDE).swapaxes(1, 2)
            whole = from_tiles(apart.reshape(-1, high // self.group, wide, SIDE, SIDE), (self.queries, self.width))
        return whole.reshape(self.problems, self.group, self.queries, self.width)


SCORE_SLOTS = 2
"""Blocks of scores, and of weights, in a core: the matrix unit makes the next while the vector unit turns one into
weights."""

STREAM_SLOTS = 2
OUT_SLOTS = 2


def needs(
    attention: Attention, bq: Number, bk: Number, kept: Number, parts: Number = 1
) -> tuple[Number, Number, Number]:
    """Tiles of operands, of sums, and rows of statistics that blocks need in a core (of columns of plans, too).

    Where keys are dealt out in ``parts``, statistics lie behind the results, and a core takes those of another.
    """
    _, keys, width = attention.tiles
    keys = -(-keys // parts)
    bk = np.minimum(bk, keys)
    held = np.where(kept, keys, STREAM_SLOTS * bk)
    tiles = STREAM_SLOTS * bq * width + SCORE_SLOTS * (1 + attention.bias) * bq * bk + 2 * held * width
    sums = SCORE_SLOTS * bq * bk + np.where(parts == 1, OUT_SLOTS * bq * width, (OUT_SLOTS + 1) * bq * (width + 1))
    return tiles, sums, OUT_SLOTS * 2 * bq + SCORE_SLOTS * bq


def footprint(attention: Attention, plan: AttentionPlan) -> tuple[int, int, int]:
    """What a plan needs in a core, as :func:`needs` lists it."""
    tiles, sums, stats = needs(attention, *plan.block, plan.keys[1] == "keep", plan.spread(2))
    return int(tiles), int(sums), int(stats)


def check(attention: Attention, plan: AttentionPlan, machine: Machine) -> None:
    """MappingError that names every bound which the plan breaks."""
    plan.check(attention, faults_of(attention, plan, machine))


def faults_of(attention: Attention, plan: AttentionPlan, machine: Machine) -> Iterator[str]:
    """Every bound which the plan breaks."""
    spread = math.prod(plan.rows) * plan.parts[0], math.prod(plan.columns) * plan.parts[1]
    for fault in machine.misfits(*spread):
        yield fault
        return
    parts, keys = plan.spread(2), attention.tiles[1]
    if parts > 1 and attention.past is not None:
        yield f"keys of which queries see different ones are not dealt out to {parts} cores"
    elif -(-keys // -(-keys // parts)) < parts:
        yield f"{keys} tiles of keys are dealt out to {parts} cores, {-(-keys // parts)} each: some have none"
    if plan.keys[0] == "wave":
        yield "keys and values are not passed from core to core"
    if plan.keys[0] in ("down", "across") and plan.spread(1) != machine.cores:
        yield f"keys go to all cores ({plan.keys[0]}), but only {plan.spread(1)} cores share them"
    yield from machine.shortages(*footprint(attention, plan), statistics="rows of statistics")


MOST_WAVES = 32
"""Waves of queries with steps of their own that a program may have: it is written out for each of them."""


@dataclass(frozen=True)
class AttentionRules:
    """What plans may do: patterns and levels of keys and values, how many tiles of queries a block may have, and over
    how many cores its keys may be dealt out."""

    patterns: tuple[str, ...] = PATTERNS
    levels: tuple[str, ...] = LEVELS
    most_queries: int | None = None
    most_parts: int | None = None


ANYTHING = AttentionRules()


NAMES = ("bq", "bk", "rp", "rq", "rk", "cp", "cq", "ck", "way", "keep")


def attention_space(attention: Attention, machine: Machine, rules: AttentionRules = ANYTHING) -> Table[AttentionPlan]:
    """All candidates that fit the machine: every way to spread problems, queries and the keys of a block over the
    dimensions of the mesh, every useful block of queries and of keys, every pattern by which keys and values reach the
    cores that share them, and whether these are kept. Left out are only rows that are dominated or useless:

    * of the blocks with which a loop takes the same number of waves, or steps, only the smallest;
    * keys are kept only where another wave of the same problem uses them;
    * keys are dealt out only if every core gets some, and queries all see the same;
    * of two plans that a square mesh makes equal by exchanging its dimensions only one;
    * under a causal mask, where every wave has steps of its own, plans whose program has more than ``MOST_WAVES`` of
      them, unless all have.

    Columns: ``bq`` and ``bk``, ``rp``, ``rq``, ``rk``, ``cp``, ``cq``, ``ck`` (cores along rows and columns of the mesh
    over which problems, queries and keys are spread), ``way`` (index into PATTERNS) and ``keep``."""
    most = 1 if attention.past is not None else rules.most_parts or machine.cores
    keys = attention.tiles[1]
    parts = [
        _candidates(attention, machine, rules, rows, columns)
        for rows in triples(machine.rows) for columns in triples(machine.columns)
        for cores in [rows[2] * columns[2]]
        if cores <= most and -(-keys // -(-keys // cores)) == cores
        and (machine.rows != machine.columns or rows >= columns)
    ]
    c = joined(parts, NAMES)
    if attention.past is not None and len(c["bq"]):
        # as many waves as there are positions of blocks at most: those of a group's heads are alike
        waves = np.minimum(
            -(-attention.tiles[0] // (c["bq"] * c["rq"] * c["cq"])), attention.tiles[0] // attention.group)
        few = waves <= max(MOST_WAVES, int(waves.min()))
        c = {name: column[few] for name, column in c.items()}
    return Table(c, lambda c: AttentionPlan(
        (c["bq"], c["bk"]), (c["rp"], c["rq"]), (c["cp"], c["cq"]),
        (PATTERNS[c["way"]], "keep" if c["keep"] else "stream"), (c["rk"], c["ck"])))  # type: ignore[arg-type]


def _candidates(
    attention: Attention, machine: Machine, rules: AttentionRules, rows: tuple[int, int, int],
    columns: tuple[int, int, int],
) -> Columns:
    queries, keys, _ = attention.tiles
    keys = -(-keys // (rows[2] * columns[2]))
    share = -(-queries // (rows[1] * columns[1]))
    tall = [size for size in sizes(share) if size <= (rules.most_queries or share)]
    ways = [PATTERNS.index(way) for way in _ways(rows[1], columns[1], machine) if way in rules.patterns]
    c = crossed({
        ("bq",): [(size,) for size in tall if size <= machine.sums],
        ("bk",): [(size,) for size in sizes(keys) if size <= machine.sums], ("way",): [(way,) for way in ways],
        ("keep",): [(LEVELS.index(level),) for level in LEVELS if level in rules.levels],
    })
    for name, value in zip(("rp", "rq", "rk", "cp", "cq", "ck"), (*rows, *columns)):
        c[name] = np.full(len(c["bq"]), value)
    tiles, sums, stats = needs(attention, c["bq"], c["bk"], c["keep"] == 1, c["rk"] * c["ck"])
    chosen = (tiles <= machine.tiles) & (sums <= machine.sums) & (stats <= machine.stats)
    chosen &= (c["keep"] == 0) | (c["bq"] < share)
    return {name: c[name][chosen] for name in NAMES}


def _ways(rows: int, columns: int, machine: Machine) -> Iterator[str]:
    """Patterns for tiles that ``rows`` x ``columns`` cores share."""
    yield "none"
    yield from ["row"] * (columns > 1) + ["column"] * (rows > 1)
    yield from ["down", "across"] * (rows > 1 and columns > 1 and rows * columns == machine.cores)
