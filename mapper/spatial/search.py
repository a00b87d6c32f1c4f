"""The search for a plan: every candidate is ranked by the cost model, the best are simulated, the fastest is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mapper.spatial.cost import cycles
from mapper.spatial.emit import check, emit
from mapper.spatial.machine import Machine
from mapper.spatial.plan import Plan, TileGemm
from mapper.spatial.space import EVERYTHING, Rules, Space, risen, space
from mapper.spatial.timing import simulated
from mapper.spatial.trials import Trial, fastest
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph

TOP_K = 5
"""Candidates that are simulated, as in the paper."""

_RISEN = 400
"""Candidates for each that is simulated whose first steps are also tried at other depths."""

ALIKE = 3
"""Of these so many at most that spread m, n and k over as many cores: the model's errors are alike, too."""


@dataclass(frozen=True)
class Outcome:
    """What a search found: the best of ``trials``, which are in the order of their estimates."""

    gemm: TileGemm
    trials: tuple[Trial[Plan], ...]
    considered: int

    @property
    def best(self) -> Trial[Plan]:
        return fastest(self.trials)

    def within(self, k: int) -> Trial[Plan]:
        """The fastest of the first ``k``."""
        return fastest(self.trials[:k])


def search(
    gemm: TileGemm, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K,
    refine: bool = True, progress: Callable[[Trial[Plan]], None] | None = None,
) -> Outcome:
    """Plans of ``gemm`` within ``rules``; MappingError that says what is too small where no candidate fits.

    With ``refine`` the best is also tried with triple buffering, with steps of half and of twice its depth, and with
    other first steps.
    """
    machine = Machine.of(graph)
    found = space(gemm, machine, rules)
    if not len(found):
        raise MappingError(nothing_fits(gemm, machine))
    listed, (estimated, _) = len(found), cycles(gemm, machine, found)
    if rules.rising:
        found = risen(found, _least(estimated, _RISEN * top_k))
        estimated, _ = cycles(gemm, machine, found)
    trials: list[Trial[Plan]] = []

    def attempt(plan: Plan, estimate: float) -> None:
        trial = Trial(plan, estimate, simulated(emit(gemm, plan, machine), graph))
        trials.append(trial)
        if progress is not None:
            progress(trial)

    for i in _best(estimated, found, top_k):
        attempt(found.plan(i), float(estimated[i]))
    if refine:
        best = fastest(trials)
        tried = {t.plan for t in trials}
        for plan in _variants(best.plan, rules):
            if plan not in tried and _fits(gemm, plan, machine):
                attempt(plan, best.estimated_cycles)
    return Outcome(gemm, tuple(trials), listed)


def _least(estimated: np.ndarray, count: int) -> np.ndarray:
    """The candidates with the ``count`` lowest estimates, the first of equals first."""
    few = min(len(estimated), count)
    first = np.argpartition(estimated, few - 1)[:few]
    found: np.ndarray = first[np.lexsort((first, estimated[first]))]
    return found


def _best(estimated: np.ndarray, found: Space, count: int) -> Iterator[int]:
    """The ``count`` candidates with the lowest estimates, but of each spread at most ``ALIKE``, and of those that
    differ only in the order in which a loop is dealt out over both dimensions of the mesh, or in the depth of their
    first steps, the first."""
    seen = set()
    alike: dict[tuple[int, ...], int] = {}
    for i in _least(estimated, 800 * count).tolist():
        plan = replace(found.plan(i), outer="rows", lead=0)
        spread = tuple(plan.spread(loop) for loop in range(3))
        if plan not in seen and alike.get(spread, 0) < ALIKE:
            seen.add(plan)
            alike[spread] = alike.get(spread, 0) + 1
            yield i
            if len(seen) == count:
                return


def _variants(plan: Plan, rules: Rules) -> Iterator[Plan]:
    bm, bn, bk = plan.block
    if "stream" in (plan.a[1], plan.b[1]):
        yield replace(plan, slots=3)
    if not rules.whole_blocks:
        yield replace(plan, block=(bm, bn, 2 * bk))
        if bk > 1:
            yield replace(plan, block=(bm, bn, -(-bk // 2)))
    if rules.rising:
        for lead in {plan.lead // 2, 2 * plan.lead or 2}:
            if lead < bk:
                yield replace(plan, lead=lead)


def _fits(gemm: TileGemm, plan: Plan, machine: Machine) -> bool:
    try:
        check(gemm, plan, machine)
    except MappingError:
        return False
    return True


def nothing_fits(gemm: TileGemm, machine: Machine) -> str:
    """Which figure is to blame where no block fits."""
    if machine.sums < 1:
        return f"a core holds {machine.sums} sums: not a single tile of C can be added up"
    return (
        f"{gemm.m} x {gemm.n} x {gemm.k} tiles: two blocks of one tile of A and two of B need 4 tiles of operands in a "
        f"core, which holds {machine.tiles}"
    )
