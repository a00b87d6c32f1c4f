"""Plans of attention: the space, the cost of its candidates, and the search among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mapper.spatial.attention import Attention, AttentionPlan, check
from mapper.spatial.attention_emit import emit_attention
from mapper.spatial.machine import TILE_BYTES, Machine
from mapper.spatial.plan import LEVELS, PATTERNS, Level, Pattern
from mapper.spatial.timing import simulated
from mapper.spatial.trials import Trial, fastest
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph

_PASSES = {"soften": 3, "begin": 1, "rescale": 1, "finish": 2}
"""Passes of the vector unit over tiles: of scores for ``soften``, of values for the others."""


@dataclass(frozen=True)
class AttentionOutcome:
    """The trials of a search, in the order of their estimates."""

    attention: Attention
    trials: tuple[Trial[AttentionPlan], ...]
    considered: int

    @property
    def best(self) -> Trial[AttentionPlan]:
        return fastest(self.trials)


def attention_space(
    attention: Attention, machine: Machine, patterns: tuple[Pattern, ...] = PATTERNS,  # type: ignore[assignment]
    levels: tuple[Level, ...] = LEVELS,  # type: ignore[assignment]
) -> list[AttentionPlan]:
    """All plans that fit: spreads of problems and queries, blocks, ways of keys and values."""
    queries, keys, _ = attention.tiles
    found = []
    for rows in _pairs(machine.rows):
        for columns in _pairs(machine.columns):
            share = -(-queries // (rows[1] * columns[1]))
            for bq in sorted({-(-share // waves) for waves in range(1, share + 1)}):
                for bk in sorted({-(-keys // steps) for steps in range(1, keys + 1)}):
                    if bq * bk > machine.sums:
                        break
                    for way in _ways(rows[1], columns[1], machine, patterns):
                        for level in levels:
                            plan = AttentionPlan((bq, bk), rows, columns, (way, level))
                            if (level == "stream" or share > bq) and _fits(attention, plan, machine):
                                found.append(plan)
    return found


def _pairs(extent: int) -> list[tuple[int, int]]:
    return [(a, extent // a) for a in range(1, extent + 1) if extent % a == 0]


def _ways(rows: int, columns: int, machine: Machine, allowed: tuple[Pattern, ...]) -> Iterator[Pattern]:
    every: list[Pattern] = ["none"]
    every += ["row"] if columns > 1 else []
    every += ["column"] if rows > 1 else []
    every += ["down", "across"] if rows > 1 and columns > 1 and rows * columns == machine.cores else []
    yield from (way for way in every if way in allowed)


def _fits(attention: Attention, plan: AttentionPlan, machine: Machine) -> bool:
    try:
        check(attention, plan, machine)
    except MappingError:
        return False
    return True


def attention_cycles(attention: Attention, machine: Machine, plans: list[AttentionPlan]) -> np.ndarray:
    """Estimated cycles: a step of keys takes as long as the matrix unit, the vector unit, memory or a ring needs."""
    queries, keys, d = attention.tiles
    table = np.array([
        (*p.block, *p.rows, *p.columns, PATTERNS.index(p.keys[0]), p.keys[1] == "keep") for p in plans
    ], np.int64).reshape(-1, 8)
    bq, bk, rp, rq, cp, cq, way, keep = table.T
    bk = np.minimum(bk, keys)
    steps = -(-keys // bk)
    waves_p, waves_q = -(-attention.problems // (rp * cp)), -(-queries // (bq * rq * cq))
    unit = machine.vector_cycles
    product = machine.product(bq, bk, d) + machine.block_cycles
    vector = unit * (_PASSES["soften"] * bq * bk + _PASSES["rescale"] * bq * d)
    compute = np.maximum(2 * product, vector)

    size = 2 * bk * d * TILE_BYTES
    beats = 2 * -(-bk * d * TILE_BYTES // machine.dram_bytes)
    row, column = way == PATTERNS.index("row"), way == PATTERNS.index("column")
    tree = (way == PATTERNS.index("down")) | (way == PATTERNS.index("across"))
    copies = np.where(row, machine.cores // cq, np.where(column, machine.cores // rq, np.where(tree, 1, machine.cores)))
    sent = np.where(row, cp, np.where(column, rp, 1)) * size
    transfer = np.where(way == 0, size / machine.core_bytes, sent / machine.ring_bytes)
    load = np.maximum(beats * copies, transfer)
    first = np.where(keep == 1, 1, waves_q)
    ends = unit * (_PASSES["begin"] + _PASSES["finish"]) * bq * d + product + machine.dram_latency
    queried = -(-bq * d * TILE_BYTES // machine.dram_bytes) * machine.cores
    wave = steps * (first * np.maximum(compute, load) + (waves_q - first) * compute)
    wave = wave + waves_q * (ends + np.maximum(0, 2 * queried - steps * compute))
    return machine.launch_cycles + waves_p * wave + 3 * machine.dram_latency + load + 2 * queried + product


def search_attention(
    attention: Attention, graph: "ArchitectureGraph", *, top_k: int = 5, patterns: tuple[Pattern, ...] | None = None,
    levels: tuple[Level, ...] | None = None,
) -> AttentionOutcome:
    """Rank all plans, simulate the best; MappingError that says what is too small where none fits."""
    machine = Machine.of(graph)
    plans = attention_space(attention, machine, patterns or PATTERNS, levels or LEVELS)  # type: ignore[arg-type]
    if not plans:
        least = AttentionPlan((1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream"))
        check(attention, least, machine)
        raise MappingError(f"{attention}: no plan has the patterns and levels that are asked for")
    estimated = attention_cycles(attention, machine, plans)
    trials = []
    for i in np.argsort(estimated, kind="stable")[:top_k].tolist():
        timing = simulated(emit_attention(attention, plans[i], machine), graph)
        trials.append(Trial(plans[i], float(estimated[i]), timing))
    return AttentionOutcome(attention, tuple(trials), len(plans))


def vendor_attention(attention: Attention, machine: Machine) -> AttentionPlan:
    """The library's default (``ttnn/operations/transformer/sdpa``): blocks of queries of all problems are dealt out to
    cores, each of which loads all keys and values from memory for each of them; 32 queries and 32 keys at a time."""
    queries = attention.tiles[0]
    for rows in _pairs(machine.rows)[::-1]:
        for columns in _pairs(machine.columns)[::-1]:
            if rows[0] * columns[0] <= attention.problems and rows[1] * columns[1] <= queries:
                return AttentionPlan((1, 1), rows, columns, ("none", "stream"))
    return AttentionPlan((1, 1), (1, machine.rows), (1, machine.columns), ("none", "stream"))
