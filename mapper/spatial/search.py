"""The search for a plan: every candidate is ranked by the cost model, the best are simulated, the best is chosen.

Nothing is drawn by chance: the same product on the same graph always gets the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper.explore import least
from archloom.mapper.objective import Objective
from archloom.mapper.spatial.cost import cycles
from archloom.mapper.spatial.emit import emit, tensors_of
from archloom.mapper.spatial.energy import joules
from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.placing import check_memory
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.space import EVERYTHING, Rules, Space, risen, space
from archloom.mapper.spatial.trials import TOP_K, Attempts, Found, Measured, Wishes, tried
from archloom.oracle.errors import MappingError

_RISEN = 400
"""Candidates for each that is simulated whose first steps are also tried at other depths."""

_WORTH = 0.005
"""What shallow first steps must gain: the program is nearly twice as long, as its first wave is apart."""


def search(
    gemm: TileGemm, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K,
    refine: bool = True, objective: str | Objective = "time", exhaustive: bool = False,
    progress: Callable[[Measured[Plan]], None] | None = None,
) -> Found[TileGemm, Plan]:
    """Plans of ``gemm`` within ``rules``; MappingError that says what is too small where no candidate fits.

    ``top_k``, ``objective``, ``exhaustive`` and ``progress``: see :class:`archloom.mapper.spatial.trials.Wishes`. With
    ``refine`` the best is also tried with triple buffering, with steps of half and of twice its depth, and with other
    first steps.
    """
    attempts: Attempts[Plan] = Attempts(graph, objective, lambda plan, machine: emit(gemm, plan, machine))
    check_memory(gemm, tensors_of(gemm), graph)
    found = space(gemm, attempts.machine, rules)
    if not len(found):
        raise MappingError(nothing_fits(gemm, attempts.machine))
    listed, wishes = len(found), Wishes(top_k, objective, exhaustive, progress)
    if exhaustive:
        found = risen(found, np.arange(listed)) if rules.rising else found
        return tried(gemm, found, _expected(gemm, attempts, found), attempts, wishes, considered=listed)
    cost, expected = _expected(gemm, attempts, found)
    if rules.rising:
        found = risen(found, least(cost, _RISEN * top_k))
        cost, expected = _expected(gemm, attempts, found)
        cost = np.where(found.columns["lead"] > 0, cost + _WORTH * np.abs(cost), cost)
    # of those that differ only in the order in which a loop is dealt out over both dimensions of the mesh, or in the
    # depth of their first steps, the first
    return tried(
        gemm, found, (cost, expected), attempts, wishes, same=lambda plan, _: replace(plan, outer="rows", lead=0),
        alike=_alike if attempts.machine.cores > 1 else _alike_on_one,
        variants=(lambda plan: _variants(gemm, plan, rules)) if refine else None, considered=listed)


def _alike(plan: Plan) -> Hashable:
    """Equal for plans with the same spread over the cores."""
    return tuple(plan.spread(loop) for loop in range(3))


def _alike_on_one(plan: Plan) -> Hashable:
    """On one core, for those with the same blocks of sums, of which the same tiles are kept."""
    return plan.block[:2], plan.a[1], plan.b[1]


def _expected(gemm: TileGemm, attempts: Attempts[Plan], found: Space) -> tuple[np.ndarray, np.ndarray]:
    """By the models, what every candidate costs, and its cycles."""
    expected, _ = cycles(gemm, attempts.machine, found)
    return attempts.cost(expected, lambda rates: joules(gemm, attempts.machine, rates, found)), expected


def _variants(gemm: TileGemm, plan: Plan, rules: Rules) -> Iterator[Plan]:
    (bm, bn, bk), depth = plan.block, gemm.k // plan.spread(2)
    alone = all(plan.spread(loop) == 1 for loop in range(3))
    if "stream" in (plan.a[1], plan.b[1]):
        yield replace(plan, slots=3)
    if not rules.whole_blocks:
        if alone and bk < depth:  # nobody waits for others: the whole depth costs no more than its first load
            yield replace(plan, block=(bm, bn, depth))
            if "stream" in (plan.a[1], plan.b[1]):
                yield replace(plan, block=(bm, bn, depth), slots=3)
        if 2 * bk < depth or (bk < depth and not alone):
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
