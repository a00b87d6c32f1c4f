"""The space of plans of chains as columns of arrays.

Candidates are all ways to spread rows and teams over the mesh, all useful blocks, all patterns of weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from archloom.mapper.spatial.chain import PATTERNS, Chain, needs
from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.plan import ChainPlan
from archloom.mapper.spatial.space import DEPTHS, Columns, Table, crossed, joined, pairs, sizes

NAMES = ("bm", "bh", "bn", "bk", "rm", "rt", "cm", "ct", "way", "keep", "shared", "together")


TOGETHER = (1, 2, 4, 8, 16)
"""Blocks of hidden columns in a step of the second product."""


def chain_space(chain: Chain, machine: Machine) -> Table[ChainPlan]:
    """All candidates that fit the machine; those that leave cores without work only if there are no others.

    Columns: the block ``bm``, ``bh``, ``bn``, ``bk``; cores along rows (``rm``, ``rt``) and columns (``cm``, ``ct``)
    over which rows of A and members of teams are spread; ``way`` (index into the patterns), ``keep``, ``shared`` and
    ``together``."""
    spreads = [
        (rows, columns) for rows in pairs(machine.rows) for columns in pairs(machine.columns)
        if machine.rows != machine.columns or rows >= columns
    ]
    m, _, hidden, n = chain.tiles
    busy = [(r, c) for r, c in spreads if r[0] * c[0] <= m and r[1] * c[1] <= max(hidden, n)]
    parts = [_candidates(chain, machine, rows, columns) for rows, columns in busy or spreads]
    return Table(joined(parts, NAMES), lambda c: ChainPlan(
        (c["bm"], c["bh"], c["bn"], c["bk"]), (c["rm"], c["rt"]), (c["cm"], c["ct"]),
        (PATTERNS[c["way"]], "keep" if c["keep"] else "stream"), bool(c["shared"]), c["together"]))


def _candidates(chain: Chain, machine: Machine, rows: tuple[int, int], columns: tuple[int, int]) -> Columns:
    m, k, hidden, n = chain.tiles
    places, team = rows[0] * columns[0], rows[1] * columns[1]
    blocks = [
        (bm, bh, bn) for bm in sizes(m, places) for bh in sizes(hidden, team) for bn in sizes(n, team)
        if bm * max(bh, bn) <= machine.sums
    ]
    c = crossed({
        ("bm", "bh", "bn"): blocks, ("bk",): [(d,) for d in sorted({d for d in DEPTHS if d < k} | {k})],
        ("way",): [(PATTERNS.index(way),) for way in _ways(rows[0], columns[0], team)],
        ("keep",): [(0,), (1,)], ("shared",): [(0,), (1,)] if team > 1 else [(0,)],
        ("together",): [(t,) for t in TOGETHER],
    })
    for name, value in zip(("rm", "rt", "cm", "ct"), (*rows, *columns)):
        c[name] = np.full(len(c["bm"]), value)
    tiles, sums = needs(chain, (c["bm"], c["bh"], c["bn"], c["bk"]), team, c["keep"] == 1, c["together"])
    again = -(-m // (c["bm"] * places)) > 1
    chosen = (tiles <= machine.tiles) & (sums <= machine.sums) & ((c["keep"] == 0) | again)
    chosen &= (c["together"] == 1) | ((c["bm"] == 1) & (c["together"] * c["bh"] <= hidden))
    return {name: c[name][chosen] for name in NAMES}


def _ways(rows: int, columns: int, team: int) -> Iterator[str]:
    """Patterns for weights that ``rows`` x ``columns`` teams use."""
    yield "none"
    yield from ["column"] * (rows > 1) + ["row"] * (columns > 1)
    yield from ["down", "across"] * (team == 1 and rows > 1 and columns > 1)
