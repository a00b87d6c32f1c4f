"""The search for a plan of a chain: every candidate is ranked by the cost model, the best are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mapper.explore import Trial, explore, fastest, least, ranked
from mapper.spatial.chain import Chain, ChainPlan, check
from mapper.spatial.chain_emit import emit_chain
from mapper.spatial.chain_space import ChainSpace, chain_cycles, chain_space
from mapper.spatial.keeping import Planned, kept
from mapper.spatial.machine import Machine
from mapper.spatial.search import ALIKE, TOP_K
from mapper.spatial.timing import simulated

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph


@dataclass(frozen=True)
class ChainOutcome:
    """The trials of a search, in the order of their estimates."""

    chain: Chain
    trials: tuple[Trial[ChainPlan], ...]
    considered: int

    @property
    def best(self) -> Trial[ChainPlan]:
        return fastest(self.trials)


def search_chain(
    chain: Chain, graph: "ArchitectureGraph", *, top_k: int = TOP_K,
    progress: Callable[[Trial[ChainPlan]], None] | None = None,
) -> ChainOutcome:
    """Rank all plans, simulate the best; MappingError that says what is too small where none fits."""
    machine = Machine.of(graph)
    found = chain_space(chain, machine)
    if not len(found):
        smallest = ChainPlan((1, 1, 1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream"), False)
        check(chain, smallest, machine)
    estimated = chain_cycles(chain, machine, found)

    def attempt(plan: ChainPlan, estimate: float) -> Trial[ChainPlan]:
        return Trial(plan, estimate, simulated(emit_chain(chain, plan, machine), graph))

    trials = explore(_ranked(found, estimated, top_k), attempt, top_k=top_k, heard=progress)
    return ChainOutcome(chain, trials, len(found))


def _ranked(found: ChainSpace, estimated: np.ndarray, top_k: int) -> Iterator[tuple[ChainPlan, float]]:
    """Plans from the lowest estimate on, of each spread at most ``ALIKE``: the model's errors are alike, too."""
    for i, plan in ranked(
        least(estimated, 800 * top_k), found.plan, alike=lambda _, plan: (*plan.rows, *plan.columns), kin=ALIKE):
        yield plan, float(estimated[i])


def planned_chain(chain: Chain, graph: "ArchitectureGraph", *, top_k: int = TOP_K) -> Planned[ChainPlan]:
    """What :func:`search_chain` finds, searched only once for a graph and a chain."""
    def find() -> Planned[ChainPlan]:
        outcome = search_chain(chain, graph, top_k=top_k)
        best = outcome.best
        return Planned(best.plan, best.cycles, best.estimated_cycles, outcome.considered)

    return kept([graph.fingerprint, repr(chain), str(top_k)], ChainPlan.from_json, find)
