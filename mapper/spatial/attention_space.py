"""The space of plans of attention, as columns of arrays like that of products: a candidate is a row.

Every way to spread problems, queries and the keys of a block over the dimensions of the mesh, every useful block of
queries and of keys, every pattern by which keys and values reach the cores that share them, and whether these are kept.
Left out are only rows that are dominated or useless:

* of the blocks with which a loop takes the same number of waves, or steps, only the smallest;
* keys are kept only where another wave of the same problem uses them;
* keys are dealt out only if every core gets some, and queries all see the same;
* of two plans that a square mesh makes equal by exchanging its dimensions only one;
* under a causal mask, where every wave has steps of its own, plans whose program has more than ``MOST_WAVES`` of them,
  unless all have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from archloom.mapper.spatial.attention import Attention, needs
from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.plan import LEVELS, PATTERNS, AttentionPlan
from archloom.mapper.spatial.space import Columns, Table, crossed, joined, sizes, triples

MOST_WAVES = 32
"""Waves of queries with steps of their own that a program may have: it is written out for each of them."""


@dataclass(frozen=True)
class AttentionRules:
    """What plans may do: patterns and levels of keys and values, how many tiles of queries a block may have, and over
    how many cores its keys may be dealt out."""

    patterns: frozenset[str] = frozenset(PATTERNS)
    levels: frozenset[str] = frozenset(LEVELS)
    most_queries: int | None = None
    most_parts: int | None = None

    @property
    def text(self) -> str:
        """Equal for equal rules, in every process."""
        return repr([sorted(self.patterns), sorted(self.levels), self.most_queries, self.most_parts])


ANYTHING = AttentionRules()


NAMES = ("bq", "bk", "rp", "rq", "rk", "cp", "cq", "ck", "way", "keep")


def attention_space(attention: Attention, machine: Machine, rules: AttentionRules = ANYTHING) -> Table[AttentionPlan]:
    """All candidates that fit the machine.

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
