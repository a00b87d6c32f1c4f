"""The search for a plan of attention: every candidate is ranked by the cost model, the best are simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mapper.explore import Trial, explore, fastest, least
from mapper.spatial.attention import Attention, AttentionPlan, check
from mapper.spatial.attention_cost import attention_cycles
from mapper.spatial.attention_emit import emit_attention
from mapper.spatial.attention_space import ANYTHING, AttentionRules, attention_space
from mapper.spatial.keeping import Planned, kept
from mapper.spatial.machine import Machine
from mapper.spatial.search import TOP_K
from mapper.spatial.timing import simulated
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph


@dataclass(frozen=True)
class AttentionOutcome:
    """The trials of a search, in the order of their estimates."""

    attention: Attention
    trials: tuple[Trial[AttentionPlan], ...]
    considered: int

    @property
    def best(self) -> Trial[AttentionPlan]:
        return fastest(self.trials)


def search_attention(
    attention: Attention, graph: "ArchitectureGraph", *, rules: AttentionRules = ANYTHING, top_k: int = TOP_K,
    progress: Callable[[Trial[AttentionPlan]], None] | None = None,
) -> AttentionOutcome:
    """Rank all plans, simulate the best; MappingError that says what is too small where none fits."""
    machine = Machine.of(graph)
    found = attention_space(attention, machine, rules)
    if not len(found):
        smallest = AttentionPlan((1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream"))
        check(attention, smallest, machine)
        raise MappingError(f"{attention}: no plan has the patterns and levels that are asked for")
    estimated = attention_cycles(attention, machine, found)
    ranked = ((found.plan(i), float(estimated[i])) for i in least(estimated).tolist())

    def attempt(plan: AttentionPlan, estimate: float) -> Trial[AttentionPlan]:
        return Trial(plan, estimate, simulated(emit_attention(attention, plan, machine), graph))

    return AttentionOutcome(attention, explore(ranked, attempt, top_k=top_k, heard=progress), len(found))


def planned_attention(
    attention: Attention, graph: "ArchitectureGraph", *, rules: AttentionRules = ANYTHING, top_k: int = TOP_K
) -> Planned[AttentionPlan]:
    """What :func:`search_attention` finds, searched only once for a graph and a workload."""
    def find() -> Planned[AttentionPlan]:
        outcome = search_attention(attention, graph, rules=rules, top_k=top_k)
        best = outcome.best
        return Planned(best.plan, best.cycles, best.estimated_cycles, outcome.considered)

    rule_text = repr([sorted(rules.patterns), sorted(rules.levels), rules.most_queries])
    return kept([graph.fingerprint, repr(attention), rule_text, str(top_k)], AttentionPlan.from_json, find)


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
