"""The search for a plan of attention: every candidate is ranked by the cost model, the best are simulated."""

from __future__ import annotations

from collections.abc import Callable

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper.objective import Objective
from archloom.mapper.spatial.attention import Attention, AttentionPlan, faults_of
from archloom.mapper.spatial.attention_cost import attention_cycles
from archloom.mapper.spatial.attention_emit import emit_attention, tensors_of
from archloom.mapper.spatial.attention_energy import attention_joules
from archloom.mapper.spatial.attention_space import ANYTHING, AttentionRules, AttentionSpace, attention_space
from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.trials import TOP_K, Found, Kind, Measured, Wishes


def search_attention(
    attention: Attention, graph: "ArchitectureGraph", *, rules: AttentionRules = ANYTHING, top_k: int = TOP_K,
    objective: str | Objective = "time", exhaustive: bool = False,
    progress: Callable[[Measured[AttentionPlan]], None] | None = None,
) -> Found[Attention, AttentionPlan]:
    """Rank all plans, simulate the best; MappingError that says what is too small where none fits.

    ``top_k``, ``objective``, ``exhaustive`` and ``progress``: see :class:`archloom.mapper.spatial.trials.Wishes`.
    """
    return ATTENTION.search(attention, graph, rules, Wishes(top_k, objective, exhaustive, progress))


def _space(attention: Attention, machine: Machine, rules: AttentionRules | None) -> AttentionSpace:
    return attention_space(attention, machine, rules or ANYTHING)


def _nothing_fits(attention: Attention, machine: Machine) -> str:
    smallest = AttentionPlan((1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream"))
    return faults_of(attention, smallest, machine) or (
        f"{attention}: no plan has the patterns and levels that are asked for")


ATTENTION: Kind[Attention, AttentionPlan] = Kind(
    AttentionPlan, _space, attention_cycles, attention_joules, emit_attention, tensors_of, _nothing_fits,
    alike=lambda plan: plan.block)
"""How attention is planned."""


def vendor_attention(attention: Attention, machine: Machine) -> AttentionPlan:
    """The library's default (``ttnn/operations/transformer/sdpa``): blocks of queries of all problems are dealt out to
    cores, each of which loads all keys and values from memory for each of them; 32 queries and 32 keys at a time."""
    queries = attention.tiles[0]
    for rows in _pairs(machine.rows):
        for columns in _pairs(machine.columns):
            if rows[0] * columns[0] <= attention.problems and rows[1] * columns[1] <= queries:
                return AttentionPlan((1, 1), rows, columns, ("none", "stream"))
    return AttentionPlan((1, 1), (1, machine.rows), (1, machine.columns), ("none", "stream"))


def _pairs(extent: int) -> list[tuple[int, int]]:
    """Ways to spread problems and queries over a dimension of the mesh, most problems first."""
    return [(extent // a, a) for a in range(1, extent + 1) if extent % a == 0]
