"""The search for a plan of a chain: every candidate is ranked by the cost model, the best are simulated."""

from __future__ import annotations

from collections.abc import Callable

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper.objective import Objective
from archloom.mapper.spatial.chain import Chain, ChainPlan, faults_of
from archloom.mapper.spatial.chain_cost import chain_cycles
from archloom.mapper.spatial.chain_emit import emit_chain
from archloom.mapper.spatial.chain_energy import chain_joules
from archloom.mapper.spatial.chain_space import ChainSpace, chain_space
from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.trials import TOP_K, Found, Kind, Measured, Wishes


def search_chain(
    chain: Chain, graph: "ArchitectureGraph", *, top_k: int = TOP_K, objective: str | Objective = "time",
    exhaustive: bool = False, progress: Callable[[Measured[ChainPlan]], None] | None = None,
) -> Found[Chain, ChainPlan]:
    """Rank all plans, simulate the best; MappingError that says what is too small where none fits.

    ``top_k``, ``objective``, ``exhaustive`` and ``progress``: see :class:`archloom.mapper.spatial.trials.Wishes`.
    """
    return CHAIN.search(chain, graph, None, Wishes(top_k, objective, exhaustive, progress))


def _space(chain: Chain, machine: Machine, _: None) -> ChainSpace:
    return chain_space(chain, machine)


def _nothing_fits(chain: Chain, machine: Machine) -> str:
    return faults_of(
        chain, ChainPlan((1, 1, 1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream"), False), machine)


CHAIN: Kind[Chain, ChainPlan] = Kind(
    ChainPlan, _space, chain_cycles, chain_joules, emit_chain, Chain.tensors, _nothing_fits,
    alike=lambda plan: (*plan.rows, *plan.columns))
"""How chains are planned."""
