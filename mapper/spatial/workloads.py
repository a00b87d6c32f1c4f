"""Plans and streams of all workloads of a mesh of cores but single products and attention: searched, kept, emitted.

    found = planned(Product(12, 384, 384, 64, transposed_b=True), graph)
    stream = emitted(work, found.plan, Machine.of(graph))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from mapper.explore import Trial, explore, fastest
from mapper.spatial.batched import Product, ProductEmitter
from mapper.spatial.convolution import Convolution
from mapper.spatial.convolution_emit import ConvolutionEmitter
from mapper.spatial.keeping import Planned, kept
from mapper.spatial.machine import Machine
from mapper.spatial.parts import Contraction, PartedPlan, parted_cycles, parted_space
from mapper.spatial.parts_emit import PartedEmitter, emit_parts
from mapper.spatial.search import ALIKE, TOP_K, nothing_fits
from mapper.spatial.space import EVERYTHING, Rules
from mapper.spatial.timing import simulated
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from oracle.stream import Stream

EMITTERS: dict[type[Contraction], type[PartedEmitter]] = {
    Product: ProductEmitter, Convolution: ConvolutionEmitter,
}

P = TypeVar("P")


@dataclass(frozen=True)
class Found:
    """What a search found: the best of ``trials``, which are in the order of their estimates."""

    work: Contraction
    trials: tuple[Trial[PartedPlan], ...]
    considered: int

    @property
    def best(self) -> Trial[PartedPlan]:
        return fastest(self.trials)


def emitted(work: Contraction, plan: PartedPlan, machine: Machine) -> "Stream":
    """The stream of a plan, whose tensors lie as ``work.pack`` gives them; MappingError if the plan does not fit."""
    return emit_parts(work, plan, machine, EMITTERS[type(work)], type(work).__name__.lower())


def search_workload(
    work: Contraction, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K,
    heard: Callable[[Trial[PartedPlan]], None] | None = None,
) -> Found:
    """Rank all plans, simulate the ``top_k`` best and what is like the best of them; MappingError that says what is too
    small where none fits."""
    machine = Machine.of(graph)
    found = parted_space(work, machine, rules)
    if not len(found):
        raise MappingError(_nothing_fits(work, machine))
    estimated = parted_cycles(work, found)

    def attempt(plan: PartedPlan, estimate: float) -> Trial[PartedPlan]:
        return Trial(plan, estimate, simulated(emitted(work, plan, machine), graph))

    trials = explore(ranked(estimated, found.plan, _alike, 800 * top_k), attempt, top_k=top_k, variants=_variants,
                     heard=heard)
    return Found(work, trials, len(found))


def planned(
    work: Contraction, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K
) -> Planned[PartedPlan]:
    """What :func:`search_workload` finds, searched only once for a graph and a workload, in the process and on disk."""

    def find() -> Planned[PartedPlan]:
        outcome = search_workload(work, graph, rules=rules, top_k=top_k)
        best = outcome.best
        return Planned(best.plan, best.cycles, best.estimated_cycles, outcome.considered)

    return kept([graph.fingerprint, repr(work), repr(rules_of(rules)), str(top_k)], PartedPlan.from_json, find)


def rules_of(rules: Rules) -> list[object]:
    """Rules as a list whose text is the same in every process."""
    fields = {name: getattr(rules, name) for name in Rules.__dataclass_fields__}
    return [(name, sorted(value) if isinstance(value, frozenset) else value) for name, value in fields.items()]


def ranked(
    estimated: NDArray[np.float64], plan_of: Callable[[int], P], alike: Callable[[P], Hashable], most: int
) -> Iterator[tuple[P, float]]:
    """The ``most`` plans with the lowest estimates and these, but of those that are alike at most ``ALIKE``."""
    few = min(len(estimated), most)
    first = np.argpartition(estimated, few - 1)[:few]
    seen: dict[Hashable, int] = {}
    for i in first[np.lexsort((first, estimated[first]))].tolist():
        plan = plan_of(i)
        kind = alike(plan)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= ALIKE:
            yield plan, float(estimated[i])


def _alike(plan: PartedPlan) -> Hashable:
    return plan.parts, tuple(plan.plan.spread(loop) for loop in range(3))


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
