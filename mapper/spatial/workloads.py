"""Plans and streams of all workloads of a mesh of cores but single products and attention: searched, kept, emitted.

    found = planned(Product(12, 384, 384, 64, transposed_b=True), graph)
    stream = emitted(work, found.plan, Machine.of(graph))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from mapper.explore import Trial, explore, fastest, least, ranked
from mapper.spatial import sweep
from mapper.spatial.batched import Product, ProductEmitter
from mapper.spatial.convolution import Convolution
from mapper.spatial.convolution_emit import ConvolutionEmitter
from mapper.spatial.keeping import Planned, Written, kept
from mapper.spatial.machine import Machine
from mapper.spatial.parts import Contraction, PartedPlan, PartedSpace, parted_cycles, parted_space
from mapper.spatial.parts_emit import PartedEmitter, emit_parts
from mapper.spatial.search import ALIKE, TOP_K, nothing_fits
from mapper.spatial.space import EVERYTHING, Rules
from mapper.spatial.sweep import Sweep, SweepPlan, SweepSpace, sweep_cycles, sweep_space
from mapper.spatial.sweep_emit import emit_sweep
from mapper.spatial.timing import simulated
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from oracle.stream import Stream

EMITTERS: dict[type[Contraction], type[PartedEmitter]] = {
    Product: ProductEmitter, Convolution: ConvolutionEmitter,
}

P = TypeVar("P", bound=Written)
W = TypeVar("W")

AnyPlan: TypeAlias = PartedPlan | SweepPlan
AnyWork: TypeAlias = Contraction | Sweep


@dataclass(frozen=True)
class Found(Generic[W, P]):
    """What a search found: the best of ``trials``, which are in the order of their estimates."""

    work: W
    trials: tuple[Trial[P], ...]
    considered: int

    @property
    def best(self) -> Trial[P]:
        return fastest(self.trials)


@overload
def emitted(work: Contraction, plan: PartedPlan, machine: Machine) -> "Stream": ...
@overload
def emitted(work: Sweep, plan: SweepPlan, machine: Machine) -> "Stream": ...
def emitted(work: AnyWork, plan: AnyPlan, machine: Machine) -> "Stream":
    """The stream of a plan, whose tensors lie as ``work.pack`` gives them; MappingError if the plan does not fit."""
    if isinstance(work, Sweep) and isinstance(plan, SweepPlan):
        return emit_sweep(work, plan, machine)
    if isinstance(work, Contraction) and isinstance(plan, PartedPlan):
        return emit_parts(work, plan, machine, EMITTERS[type(work)], type(work).__name__.lower())
    raise MappingError(f"{plan} is no plan of {work}")


@overload
def search_workload(
    work: Contraction, graph: "ArchitectureGraph", *, rules: Rules = ..., top_k: int = ...,
    heard: Callable[[Trial[PartedPlan]], None] | None = ...,
) -> Found[Contraction, PartedPlan]: ...
@overload
def search_workload(
    work: Sweep, graph: "ArchitectureGraph", *, rules: Rules = ..., top_k: int = ...,
    heard: Callable[[Trial[SweepPlan]], None] | None = ...,
) -> Found[Sweep, SweepPlan]: ...
def search_workload(
    work: Any, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K,
    heard: Callable[[Any], None] | None = None,
) -> Found[Any, Any]:
    """Rank all plans, simulate the ``top_k`` best and what is like the best of them; MappingError that says what is too
    small where none fits. ``rules`` are those of products on parts of the mesh."""
    machine = Machine.of(graph)
    found: PartedSpace | SweepSpace
    alike: Callable[[Any], Hashable]
    nothing: Callable[[Any, Machine], str]
    if isinstance(work, Sweep):
        found, alike, variants = sweep_space(work, machine), _alike_sweeps, None
        estimated, nothing = sweep_cycles(work, machine, found), sweep.nothing_fits
    else:
        found, alike, variants = parted_space(work, machine, rules), _alike, _variants
        estimated, nothing = parted_cycles(work, found), _nothing_fits
    if not len(found):
        raise MappingError(nothing(work, machine))

    def attempt(plan: Any, estimate: float) -> Trial[Any]:
        return Trial(plan, estimate, simulated(emitted(work, plan, machine), graph))

    plan_of: Callable[[int], Any] = found.plan
    # of those that are alike, equal estimates come from equal programs
    worth = ranked(least(estimated, 800 * top_k), plan_of, same=lambda i, plan: (alike(plan), float(estimated[i])),
                   alike=lambda _, plan: alike(plan), kin=ALIKE)
    trials = explore(((plan, float(estimated[i])) for i, plan in worth), attempt, top_k=top_k, variants=variants,
                     heard=heard)
    return Found(work, trials, len(found))


@overload
def planned(
    work: Contraction, graph: "ArchitectureGraph", *, rules: Rules = ..., top_k: int = ...
) -> Planned[PartedPlan]: ...
@overload
def planned(
    work: Sweep, graph: "ArchitectureGraph", *, rules: Rules = ..., top_k: int = ...
) -> Planned[SweepPlan]: ...
def planned(
    work: Any, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K
) -> Planned[Any]:
    """What :func:`search_workload` finds, searched only once for a graph and a workload, in the process and on disk."""

    def find() -> Planned[Any]:
        outcome: Found[Any, Any] = search_workload(work, graph, rules=rules, top_k=top_k)
        best = outcome.best
        return Planned(best.plan, best.cycles, best.estimated_cycles, outcome.considered)

    read: Callable[[str], Any] = SweepPlan.from_json if isinstance(work, Sweep) else PartedPlan.from_json
    return kept([graph.fingerprint, repr(work), rules.text, str(top_k)], read, find)


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
