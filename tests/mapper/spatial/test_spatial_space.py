"""The space of plans of products: it is what its rules leave of all plans, and what they leave out is hardly better.

Each rule is tried by itself: of the plans that it alone leaves out some are simulated, and compared with the best of
the whole space, without the cycles of the launch."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import mesh as round_mesh
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.space import space
from archloom.mapper.spatial.workloads import emitted, search
from tests.support.examples import slow
from tests.support.mapper.plain_space import RULES, left_out
from tests.support.mapper.spatial_cases import mesh

SOME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])

LEAST = {
    "large_block": 0.97, "idle_cores": 0.99, "needless_sums": 0.99, "unshared_multicast": 0.85, "needless_keep": 0.8,
    "needless_order": 1.0, "mirrored": 1.0, "other_sums": 1.0,
}
"""Cycles of the best that a rule leaves out over those of the best of the space, as its first lines state them."""

KINDS = ("wormhole", "no torus", "narrow ports", "quick")
MOST_PLANS = 150


@dataclass(frozen=True)
class Tiny:
    """A product in tiles on a machine of few cores; ``sums`` and ``tiles`` of a core count for ``quick`` ones."""

    kind: str
    rows: int
    columns: int
    tiles: tuple[int, int, int]
    sums: int = 4
    operands: int = 20

    @property
    def graph(self) -> ArchitectureGraph:
        return graph_of(self.kind, self.rows, self.columns, self.sums, self.operands)

    @property
    def gemm(self) -> TileGemm:
        return TileGemm(*self.tiles)


@cache
def graph_of(kind: str, rows: int, columns: int, sums: int, operands: int) -> ArchitectureGraph:
    if kind == "quick":
        return mesh(rows, columns, sums, operands)
    if kind == "wormhole":
        return wormhole(rows=rows, columns=columns)
    return round_mesh(columns, rows, torus=kind != "no torus", l1_bytes_per_cycle=40 if kind == "narrow ports" else 0)


@st.composite
def tiny(draw: st.DrawFn) -> Tiny:
    rows, columns = draw(st.sampled_from(((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (1, 4))))
    extent = st.integers(1, 4 if rows * columns < 3 else 3)
    return Tiny(
        draw(st.sampled_from(KINDS)), rows, columns, (draw(extent), draw(extent), draw(extent)),
        draw(st.integers(2, 6)), draw(st.integers(6, 24)))


def plans_of(case: Tiny) -> list[Plan]:
    found = space(case.gemm, Machine.of(case.graph))
    return [found.plan(i) for i in range(len(found))]


def cycles_of(case: Tiny, plan: Plan) -> int:
    """Without the launch."""
    machine = Machine.of(case.graph)
    return simulated(emitted(case.gemm, plan, machine), case.graph).cycles - machine.launch_cycles


def compare(case: Tiny, most: int) -> None:
    """``most``: of the plans that a rule leaves out, so many are simulated."""
    plans = plans_of(case)
    found = left_out(case.gemm, Machine.of(case.graph))
    assert set(plans) == set(found[""]), case
    assert len(plans) == len(found[""]), case
    best = min(cycles_of(case, plan) for plan in plans)
    for rule in RULES:
        some = random.Random(0).sample(found[rule], min(most, len(found[rule])))
        for plan in some:
            assert cycles_of(case, plan) >= LEAST[rule] * best, (case, rule, str(plan), best)


@pytest.mark.slow
@pytest.mark.parametrize("case", [
    Tiny("quick", 1, 2, (2, 2, 2)), slow(Tiny("wormhole", 1, 3, (3, 1, 2))), slow(Tiny("no torus", 2, 2, (1, 2, 2))),
    slow(Tiny("narrow ports", 1, 1, (3, 2, 2))), slow(Tiny("quick", 1, 4, (1, 3, 4))),
])
def test_what_a_rule_leaves_out_is_hardly_better(case: Tiny) -> None:
    compare(case, 12)


@pytest.mark.slow
@settings(SOME, max_examples=60)
@example(Tiny("no torus", 1, 1, (4, 3, 4)))
@example(Tiny("quick", 1, 1, (1, 1, 3), 4, 7))
@example(Tiny("quick", 1, 1, (1, 1, 4), 2, 8))
@example(Tiny("quick", 1, 2, (4, 4, 4), 4, 9))
@given(tiny())
def test_what_rules_leave_out_is_hardly_better(case: Tiny) -> None:
    assume(0 < len(plans_of(case)) <= MOST_PLANS)
    compare(case, 60)


@pytest.mark.slow
def test_every_rule_leaves_something_out() -> None:
    cases = (Tiny("quick", 2, 2, (3, 2, 1), 2, 16), Tiny("quick", 1, 2, (4, 4, 4), 4, 9))
    found = [left_out(case.gemm, Machine.of(case.graph)) for case in cases]
    assert all(any(f[rule] for f in found) for rule in RULES)


@pytest.mark.first_case
@pytest.mark.parametrize(("rows", "columns", "tiles", "spread"), [
    (4, 4, (3, 3, 8), (4, 4, 1)),  # nine cores with a tile each, and not four with four, or sixteen that share sums
    (1, 4, (1, 3, 4), (1, 4, 1)),
    (1, 3, (2, 2, 3), (1, 3, 1)),
])
def test_cores_may_be_without_work(
    rows: int, columns: int, tiles: tuple[int, int, int], spread: tuple[int, int, int]
) -> None:
    case = Tiny("no torus", rows, columns, tiles)
    best = search(case.gemm, case.graph).best.plan
    assert tuple(best.spread(loop) for loop in range(3)) == spread, str(best)
