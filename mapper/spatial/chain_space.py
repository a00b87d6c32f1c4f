"""The space of plans of chains as columns of arrays, and their cost.

Candidates are all ways to spread rows and teams over the mesh, all useful blocks, all patterns of weights. In a wave of
rows each product takes as long as the matrix unit works on it, or as a ring, memory or a core's own way needs,
whichever is longest; and between them the matrix unit may wait for what is handed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mapper.spatial.chain import PATTERNS, SLOTS, Chain, ChainPlan, needs
from mapper.spatial.machine import TILE_BYTES, Machine
from mapper.spatial.plan import LEVELS
from mapper.spatial.space import DEPTHS, Columns, crossed

NAMES = ("bm", "bh", "bn", "bk", "rm", "rt", "cm", "ct", "way", "keep", "shared", "together")


TOGETHER = (1, 2, 4, 8, 16)
"""Blocks of hidden columns in a step of the second product."""


@dataclass(frozen=True, eq=False)
class ChainSpace:
    """Candidates in columns: the block ``bm``, ``bh``, ``bn``, ``bk``; cores along rows (``rm``, ``rt``) and columns
    (``cm``, ``ct``) over which rows of A and members of teams are spread; ``way`` (index into the patterns), ``keep``,
    ``shared`` and ``together``."""

    columns: Columns

    def __len__(self) -> int:
        return len(self.columns["bm"])

    def plan(self, i: int) -> ChainPlan:
        """Candidate ``i``."""
        c = {name: int(column[i]) for name, column in self.columns.items()}
        block = c["bm"], c["bh"], c["bn"], c["bk"]
        weights = PATTERNS[c["way"]], LEVELS[c["keep"]]
        spread = (c["rm"], c["rt"]), (c["cm"], c["ct"])
        return ChainPlan(block, *spread, weights, bool(c["shared"]), c["together"])  # type: ignore[arg-type]


def chain_space(chain: Chain, machine: Machine) -> ChainSpace:
    """All candidates that fit the machine; those that leave cores without work only if there are no others."""
    spreads = [
        (rows, columns) for rows in _pairs(machine.rows) for columns in _pairs(machine.columns)
        if machine.rows != machine.columns or rows >= columns
    ]
    m, _, hidden, n = chain.tiles
    busy = [(r, c) for r, c in spreads if r[0] * c[0] <= m and r[1] * c[1] <= max(hidden, n)]
    parts = [_candidates(chain, machine, rows, columns) for rows, columns in busy or spreads]
    return ChainSpace({name: np.concatenate([part[name] for part in parts]) for name in NAMES})


def _pairs(extent: int) -> list[tuple[int, int]]:
    return [(a, extent // a) for a in range(1, extent + 1) if extent % a == 0]


def _sizes(extent: int, cores: int) -> list[int]:
    """The smallest block for each number of rounds."""
    share = -(-extent // cores)
    return sorted({-(-share // count) for count in range(1, share + 1)})


def _candidates(chain: Chain, machine: Machine, rows: tuple[int, int], columns: tuple[int, int]) -> Columns:
    m, k, hidden, n = chain.tiles
    places, team = rows[0] * columns[0], rows[1] * columns[1]
    blocks = [
        (bm, bh, bn) for bm in _sizes(m, places) for bh in _sizes(hidden, team) for bn in _sizes(n, team)
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


def chain_cycles(chain: Chain, machine: Machine, found: ChainSpace) -> NDArray[np.float64]:
    """Estimated cycles of every candidate."""
    c = found.columns
    m, _, hidden, n = chain.tiles
    places, team = c["rm"] * c["cm"], c["rt"] * c["ct"]
    waves, rounds = -(-m // (c["bm"] * places)), (-(-hidden // (c["bh"] * team)), -(-n // (c["bn"] * team)))
    work, waits = _work(chain, machine, c)
    steady, first = waits, waits
    # each product by itself: few loads of the second come while the first is made
    for number in (0, 1):
        weights, others = _weights(chain, machine, c, number, rounds[number]), _others(chain, machine, c, number)
        every = np.maximum.reduce([work[number], *(own + more for own, more in zip(others, weights))])
        first = first + every
        # weights that are kept come with the first wave alone
        steady = steady + np.where(c["keep"] == 1, np.maximum.reduce([work[number], *others]), every)
    out = c["bm"] * c["bn"] * TILE_BYTES
    store = np.maximum(out / machine.core_bytes, machine.cores * out / machine.dram_bytes) + 2 * machine.dram_latency
    alone = SLOTS * c["bm"] * np.maximum(c["bh"], c["bn"]) > machine.sums
    stores = np.where(alone, waves * rounds[1], 1) * store
    begin = 2 * machine.dram_latency + 2 * c["bh"] * c["bk"] * TILE_BYTES / machine.ring_bytes
    return np.asarray(machine.launch_cycles + begin + first + (waves - 1) * steady + stores, np.float64)


def _work(chain: Chain, machine: Machine, c: Columns) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Cycles of a wave in which the matrix unit works on both products, and waits for what is handed over."""
    _, k, hidden, n = chain.tiles
    bm, bh, bn, bk = (c[name] for name in ("bm", "bh", "bn", "bk"))
    bk = np.minimum(bk, k)
    team, depth = c["rt"] * c["ct"], bh * c["together"]
    rounds, more, chunks = -(-hidden // (bh * team)), -(-n // (bn * team)), -(-hidden // depth)
    one = machine.product(bm, bn, depth)
    inner = rounds * (machine.product(bm, bh, bk) * (k / bk) + -(-k // bk) * machine.block_cycles + bm * bh)
    outer = more * (one * (hidden / depth) + chunks * machine.block_cycles)
    vector = bm * bh * chain.passes * machine.vector_cycles
    apart = np.where(c["ct"] > 1, c["cm"], c["rm"])  # teams whose blocks share a ring
    handed = np.where(team > 1, apart * bm * bh * TILE_BYTES / machine.ring_bytes, 0)
    # the second product begins with blocks that were handed over before the last round
    hidden_by = (rounds - 1) * team // c["together"] * (one + machine.block_cycles)
    last = np.minimum(team, -(-hidden // bh)) * handed
    at_once = vector + c["together"] * handed + np.maximum(0, last - outer)
    waits = np.where(rounds > 1, np.maximum(0, vector + last - hidden_by), at_once)
    alone = SLOTS * bm * np.maximum(bh, bn) > machine.sums
    waits = waits + np.where(alone, (rounds - 1) * vector, np.maximum(0, rounds * vector - inner))
    # who sends along a ring keeps an order: weights wait behind blocks that are not ready to be handed over
    on_row, on_column = c["way"] == PATTERNS.index("row"), c["way"] == PATTERNS.index("column")
    behind = (on_row & (c["ct"] > 1)) | (on_column & (c["rt"] > 1))
    return (inner, outer), waits + np.where(behind, rounds * vector, 0)


Traffic = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Cycles of a wave in which a row's ring, a column's ring, a core's own way and memory are busy."""


def _weights(chain: Chain, machine: Machine, c: Columns, product: int, rounds: np.ndarray) -> Traffic:
    m, k, hidden, n = chain.tiles
    depth, wide, block = ((k, hidden, c["bh"]), (hidden, n, c["bn"]))[product]
    way, places = c["way"], c["rm"] * c["cm"]
    mine = rounds * block * depth * TILE_BYTES
    none, on_row, on_column = (way == PATTERNS.index(name) for name in ("none", "row", "column"))
    tree = way >= PATTERNS.index("down")
    row = np.where(on_row, c["ct"] * mine, np.where(tree, mine, 0)) / machine.ring_bytes
    column = np.where(on_column, c["rt"] * mine, np.where(tree, mine, 0)) / machine.ring_bytes
    filled = m / (-(-m // (c["bm"] * places)) * c["bm"] * places)
    copies = np.where(none, places * filled, np.where(on_row, c["rm"], np.where(on_column, c["cm"], 1)))
    return row, column, np.where(none, mine, 0) / machine.core_bytes, copies * (
        depth * wide * TILE_BYTES / machine.dram_bytes)


def _others(chain: Chain, machine: Machine, c: Columns, product: int) -> Traffic:
    """Rows of A and blocks that are handed over with the first product, rows of C with the second."""
    m, k, hidden, n = chain.tiles
    bm, places, team, nothing = c["bm"], c["rm"] * c["cm"], c["rt"] * c["ct"], np.zeros(len(c["bm"]))
    filled = m / (-(-m // (bm * places)) * bm * places)
    rows, middle, out = (bm * extent * TILE_BYTES for extent in (k, hidden, n))
    if product:
        return nothing, nothing, nothing, places * filled * out / machine.dram_bytes
    shared = c["shared"] == 1
    # blocks go down the columns of a team, from there along its rows; rows of A along one of both
    row = np.where(c["ct"] > 1, c["cm"] * (middle + np.where(shared, rows, 0)), 0) / machine.ring_bytes
    down = middle / c["ct"] + np.where(shared & (c["ct"] == 1), rows, 0)
    column = np.where(c["rt"] > 1, c["rm"] * down, 0) / machine.ring_bytes
    loaded = rows * np.where(shared, np.where(c["ct"] > 1, c["rt"], 1), team)
    core = np.where(shared, 0, rows) / machine.core_bytes
    return row, column, core, places * filled * loaded / machine.dram_bytes
