"""The search for a plan: every candidate is ranked by the cost model, the best are simulated, the best is chosen.

Nothing is drawn by chance: the same product on the same graph always gets the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mapper.explore import Trial, explore, least, ranked
from mapper.objective import Objective, is_time, objective_of
from mapper.spatial.cost import cycles
from mapper.spatial.emit import emit
from mapper.spatial.energy import Rates, joules, measured_joules
from mapper.spatial.machine import Machine
from mapper.spatial.plan import Plan, TileGemm
from mapper.spatial.space import EVERYTHING, Rules, Space, risen, space
from mapper.spatial.timing import simulated
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph

TOP_K = 5
"""Candidates that are simulated, as in the paper."""

_RISEN = 400
"""Candidates for each that is simulated whose first steps are also tried at other depths."""

_WORTH = 0.005
"""What shallow first steps must gain: the program is nearly twice as long, as its first wave is apart."""

ALIKE = 3
"""Of these so many at most that spread m, n and k over as many cores: the model's errors are alike, too."""

MOST_EXHAUSTIVE = 20_000
"""Candidates that are simulated one and all when this is asked for."""


@dataclass(frozen=True)
class Measured(Trial[Plan]):
    """A plan that was simulated, what it costs by the search's objective, and its energy where that is asked for."""

    score: float
    joules: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a search found: the best of ``trials``, which are in the order of their estimates."""

    gemm: TileGemm
    trials: tuple[Measured, ...]
    considered: int

    @property
    def best(self) -> Measured:
        return self.within(len(self.trials))

    def within(self, k: int) -> Measured:
        """The best of the first ``k``."""
        return min(self.trials[:k], key=_score)


def _score(trial: Trial[Plan]) -> float:
    assert isinstance(trial, Measured)
    return trial.score


def search(
    gemm: TileGemm, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K,
    refine: bool = True, objective: str | Objective = "time", exhaustive: bool = False,
    progress: Callable[[Measured], None] | None = None,
) -> Outcome:
    """Plans of ``gemm`` within ``rules``; MappingError that says what is too small where no candidate fits.

    ``objective``: "time", "energy", "edp" or a function of seconds and joules (:mod:`mapper.objective`). With
    ``refine`` the best is also tried with triple buffering, with steps of half and of twice its depth, and with other
    first steps. ``exhaustive``: every candidate is simulated, of which there may be at most MOST_EXHAUSTIVE.
    ``progress`` is told every trial.
    """
    wanted = objective_of(objective)
    attempts = _Attempts(gemm, graph, wanted)
    found = space(gemm, attempts.machine, rules)
    if not len(found):
        raise MappingError(nothing_fits(gemm, attempts.machine))
    listed = len(found)
    if exhaustive:
        found = risen(found, np.arange(listed)) if rules.rising else found
        if len(found) > MOST_EXHAUSTIVE:
            raise MappingError(
                f"{len(found)} plans for {gemm.m} x {gemm.n} x {gemm.k} tiles: all are simulated only of up to "
                f"{MOST_EXHAUSTIVE}")
        estimated, expected = attempts.expected(found)
        order, top_k, refine = iter(np.argsort(estimated, kind="stable").tolist()), len(found), False
    else:
        estimated, expected = attempts.expected(found)
        if rules.rising:
            found = risen(found, least(estimated, _RISEN * top_k))
            estimated, expected = attempts.expected(found)
            estimated = np.where(found.columns["lead"] > 0, estimated + _WORTH * np.abs(estimated), estimated)
        order = _best(estimated, found, top_k)
    trials = explore(
        ((found.plan(i), float(expected[i])) for i in order), attempts.attempt, top_k=top_k, score=_score,
        variants=(lambda plan: _variants(gemm, plan, rules)) if refine else None, heard=progress,  # type: ignore[arg-type]
    )
    return Outcome(gemm, tuple(t for t in trials if isinstance(t, Measured)), listed)


class _Attempts:
    """What a product costs on a graph, as the models expect it and as it is measured."""

    def __init__(self, gemm: TileGemm, graph: "ArchitectureGraph", objective: Objective) -> None:
        self.gemm, self.graph, self.objective = gemm, graph, objective
        self.machine = Machine.of(graph)
        self.rates = None if is_time(objective) else _rates(graph, objective)

    def expected(self, found: Space) -> tuple[np.ndarray, np.ndarray]:
        """By the models, what every candidate costs, and its cycles."""
        expected, _ = cycles(self.gemm, self.machine, found)
        if is_time(self.objective):
            return expected, expected
        energy = None if self.rates is None else joules(self.gemm, self.machine, self.rates, found)
        cost = np.asarray(self.objective(expected / self.machine.clock_hz, energy), np.float64)
        if cost.shape != expected.shape:
            raise MappingError(f"the objective gives {cost.shape} numbers for {len(expected)} candidates")
        return cost, expected

    def attempt(self, plan: Plan, estimate: float) -> Measured:
        stream = emit(self.gemm, plan, self.machine)
        timing = simulated(stream, self.graph)
        energy = None if self.rates is None else measured_joules(stream, self.graph, timing)
        score = timing.cycles if is_time(self.objective) else float(self.objective(timing.seconds, energy))
        return Measured(plan, estimate, timing, score, energy)


def _rates(graph: "ArchitectureGraph", objective: Objective) -> Rates | None:
    """The energies of a graph; a function of one's own may do without."""
    from acadl_models.timing.energy import has_energy
    from mapper.objective import OBJECTIVES

    return Rates.of(graph) if has_energy(graph) or objective in OBJECTIVES.values() else None


def _best(estimated: np.ndarray, found: Space, count: int) -> Iterator[int]:
    """The candidates with the lowest estimates, but of each spread at most ``ALIKE``, and of those that differ only in
    the order in which a loop is dealt out over both dimensions of the mesh, or in the depth of their first steps, the
    first."""
    return (i for i, _ in ranked(
        least(estimated, 800 * count), found.plan, same=lambda _, plan: replace(plan, outer="rows", lead=0),
        alike=lambda _, plan: tuple(plan.spread(loop) for loop in range(3)), kin=ALIKE))


def _variants(gemm: TileGemm, plan: Plan, rules: Rules) -> Iterator[Plan]:
    (bm, bn, bk), depth = plan.block, gemm.k // plan.spread(2)
    if "stream" in (plan.a[1], plan.b[1]):
        yield replace(plan, slots=3)
    if not rules.whole_blocks:
        if bk < depth:
            yield replace(plan, block=(bm, bn, 2 * bk))
        if bk > 1:
            yield replace(plan, block=(bm, bn, -(-bk // 2)))
    if rules.rising:
        for lead in sorted({plan.lead // 2, 2 * plan.lead or 2}):
            if lead < bk:
                yield replace(plan, lead=lead)


def nothing_fits(gemm: TileGemm, machine: Machine) -> str:
    """Which figure is to blame where no block fits."""
    if machine.sums < 1:
        return f"a core holds {machine.sums} sums: not a single tile of C can be added up"
    return (
        f"{gemm.m} x {gemm.n} x {gemm.k} tiles: two blocks of one tile of A and two of B need 4 tiles of operands in a "
        f"core, which holds {machine.tiles}"
    )
