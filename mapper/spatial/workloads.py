"""Plans and streams of all workloads of a mesh of cores: searched, kept, emitted.

    found = planned(Product(12, 384, 384, 64, transposed_b=True), graph, objective="energy")
    stream = emitted(work, found.plan, Machine.of(graph))

A workload is a TileGemm, a Product, a Convolution, an Attention, a Chain, or a Sweep; all are searched alike, and their
kinds are listed here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias, overload

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper.objective import Objective
from archloom.mapper.spatial import sweep
from archloom.mapper.spatial.attention import Attention, AttentionPlan
from archloom.mapper.spatial.attention_search import ATTENTION
from archloom.mapper.spatial.attention_space import AttentionRules
from archloom.mapper.spatial.batched import Product, ProductEmitter
from archloom.mapper.spatial.chain import Chain, ChainPlan
from archloom.mapper.spatial.chain_search import CHAIN
from archloom.mapper.spatial.convolution import Convolution
from archloom.mapper.spatial.convolution_emit import ConvolutionEmitter
from archloom.mapper.spatial.cost import cycles
from archloom.mapper.spatial.emit import emit, tensors_of
from archloom.mapper.spatial.energy import joules, parted_joules
from archloom.mapper.spatial.keeping import Planned, kept
from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.parts import Contraction, PartedPlan, PartedSpace, parted_cycles, parted_space
from archloom.mapper.spatial.parts_emit import PartedEmitter, emit_parts
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.rates import Rates
from archloom.mapper.spatial.search import nothing_fits, search
from archloom.mapper.spatial.space import EVERYTHING, Rules, Space, space
from archloom.mapper.spatial.sweep import Sweep, SweepPlan, SweepSpace, sweep_cycles, sweep_space
from archloom.mapper.spatial.sweep_emit import emit_sweep
from archloom.mapper.spatial.sweep_energy import sweep_joules
from archloom.mapper.spatial.trials import TOP_K, Found, Kind, Measured, Wishes
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream

EMITTERS: dict[type[Contraction], type[PartedEmitter]] = {
    Product: ProductEmitter, Convolution: ConvolutionEmitter,
}

AnyPlan: TypeAlias = Plan | PartedPlan | SweepPlan | AttentionPlan | ChainPlan
AnyWork: TypeAlias = TileGemm | Contraction | Sweep | Attention | Chain
AnyRules: TypeAlias = Rules | AttentionRules | None
Heard: TypeAlias = Callable[[Measured[Any]], None] | None


def kind_of(work: AnyWork) -> Kind[Any, Any]:
    """How workloads like ``work`` are planned; MappingError for what is no workload."""
    for known, kind in _KINDS:
        if isinstance(work, known):
            return kind
    raise MappingError(f"{work!r} is no workload: expected one of {', '.join(known.__name__ for known, _ in _KINDS)}")


def emitted(work: AnyWork, plan: AnyPlan, machine: Machine, *, semaphores: bool = False) -> "Stream":
    """The stream of a plan, whose tensors lie as ``work.pack`` gives them; MappingError if the plan does not fit.

    ``semaphores``: cores wait for each other by signals alone, which are checked for deadlocks and for blocks that
    overtake each other (:mod:`archloom.mapper.spatial.signalling`).
    """
    kind = kind_of(work)
    if not isinstance(plan, kind.plan):
        raise MappingError(f"{plan} is no plan of {work}")
    kind.plan.from_json(plan.to_json())  # it may be one of the caller's own: no count is 0, and every word is known
    stream: "Stream" = kind.emit(work, plan, machine)
    return signalled(stream, machine, f"plan {plan}") if semaphores else stream


@overload
def search_workload(
    work: Contraction, graph: "ArchitectureGraph", *, rules: Rules | None = ..., top_k: int = ...,
    objective: str | Objective = ..., exhaustive: bool = ..., progress: Heard = ...,
) -> Found[Contraction, PartedPlan]: ...
@overload
def search_workload(
    work: Sweep, graph: "ArchitectureGraph", *, rules: None = ..., top_k: int = ...,
    objective: str | Objective = ..., exhaustive: bool = ..., progress: Heard = ...,
) -> Found[Sweep, SweepPlan]: ...
@overload
def search_workload(
    work: AnyWork, graph: "ArchitectureGraph", *, rules: AnyRules = ..., top_k: int = ...,
    objective: str | Objective = ..., exhaustive: bool = ..., progress: Heard = ...,
) -> Found[Any, Any]: ...
def search_workload(
    work: Any, graph: "ArchitectureGraph", *, rules: Any = None, top_k: int = TOP_K,
    objective: str | Objective = "time", exhaustive: bool = False, progress: Heard = None,
) -> Found[Any, Any]:
    """Rank all plans, simulate the ``top_k`` best and what is like the best of them; MappingError that says what is too
    small where none fits.

    ``rules`` (None: everything) are those of products, on parts of the mesh or the whole, and those of attention.
    ``objective``, ``exhaustive`` and ``progress``: see :class:`archloom.mapper.spatial.trials.Wishes`.
    """
    if isinstance(work, TileGemm):  # first steps of other depths are added to its space in the search
        return search(work, graph, rules=rules or EVERYTHING, top_k=top_k, objective=objective, exhaustive=exhaustive,
                      progress=progress)
    return kind_of(work).search(work, graph, rules, Wishes(top_k, objective, exhaustive, progress))


def planned(
    work: AnyWork, graph: "ArchitectureGraph", *, rules: AnyRules = None, top_k: int = TOP_K,
    objective: str | Objective = "time",
) -> Planned[Any]:
    """What :func:`search_workload` finds, searched only once for a graph and a workload, in the process and on disk;
    with a function as the ``objective`` every time."""

    def find() -> Planned[Any]:
        outcome = search_workload(work, graph, rules=rules, top_k=top_k, objective=objective)
        best = outcome.best
        return Planned(best.plan, best.cycles, best.estimated_cycles, outcome.considered, best.joules)

    if not isinstance(objective, str):
        return find()
    text = "" if rules is None else rules.text
    return kept([graph.fingerprint, repr(work), text, str(top_k), objective], kind_of(work).plan.from_json, find)


def _space(gemm: TileGemm, machine: Machine, rules: Rules | None) -> Space:
    return space(gemm, machine, rules or EVERYTHING)


def _cycles(gemm: TileGemm, machine: Machine, found: Space) -> np.ndarray:
    return cycles(gemm, machine, found)[0]


def _parted_space(work: Contraction, machine: Machine, rules: Rules | None) -> PartedSpace:
    return parted_space(work, machine, rules or EVERYTHING)


def _parted_cycles(work: Contraction, _: Machine, found: PartedSpace) -> np.ndarray:
    return parted_cycles(work, found)


def _parted_joules(work: Contraction, _: Machine, rates: Rates, found: PartedSpace) -> np.ndarray:
    return parted_joules(work, rates, found)


def _emit_parts(work: Contraction, plan: PartedPlan, machine: Machine) -> "Stream":
    return emit_parts(work, plan, machine, EMITTERS[type(work)], type(work).__name__.lower())


def _sweep_space(work: Sweep, machine: Machine, _: None) -> SweepSpace:
    return sweep_space(work, machine)


def _alike(plan: PartedPlan) -> Hashable:
    return plan.parts, tuple(plan.plan.spread(loop) for loop in range(3))


def _alike_sweeps(plan: SweepPlan) -> Hashable:
    return plan.spread(0), plan.spread(1), plan.slots


def _variants(plan: PartedPlan) -> Iterator[PartedPlan]:
    """Triple buffering, and steps of half and of twice the depth."""
    bm, bn, bk = plan.plan.block
    if "stream" in (plan.plan.a[1], plan.plan.b[1]):
        yield PartedPlan(plan.parts, replace(plan.plan, slots=3))
    yield PartedPlan(plan.parts, replace(plan.plan, block=(bm, bn, 2 * bk)))
    if bk > 1:
        yield PartedPlan(plan.parts, replace(plan.plan, block=(bm, bn, -(-bk // 2))))


def _nothing_fits(work: Contraction, machine: Machine) -> str:
    room = work.epilogue.room(1, 1)
    if room and machine.sums >= 1:
        return (f"{work}: two blocks of one tile of A and two of B, and {room} of the epilogue, need {4 + room} tiles "
                f"in a core, which holds {machine.tiles}")
    return nothing_fits(work.gemm, machine)


_GEMM: Kind[TileGemm, Plan] = Kind(Plan, _space, _cycles, joules, emit, tensors_of, nothing_fits)
_PARTS: Kind[Contraction, PartedPlan] = Kind(
    PartedPlan, _parted_space, _parted_cycles, _parted_joules, _emit_parts, lambda work: work.tensors(), _nothing_fits,
    # of those that are alike, equal estimates come from equal programs
    same=lambda plan, cost: (_alike(plan), cost), alike=_alike, variants=_variants)
_SWEEP: Kind[Sweep, SweepPlan] = Kind(
    SweepPlan, _sweep_space, sweep_cycles, sweep_joules, emit_sweep, lambda work: work.tensors(), sweep.nothing_fits,
    same=lambda plan, cost: (_alike_sweeps(plan), cost), alike=_alike_sweeps)
_KINDS: tuple[tuple[type, Kind[Any, Any]], ...] = (
    (TileGemm, _GEMM), (Contraction, _PARTS), (Sweep, _SWEEP), (Attention, ATTENTION), (Chain, CHAIN))
