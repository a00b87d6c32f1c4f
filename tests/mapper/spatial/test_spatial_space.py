"""The space of plans of products: it is what its rules leave of all plans, and what they leave out is hardly better.

Each rule is tried by itself: of the plans that it alone leaves out some are simulated, and compared with the best of
the whole space, without the cycles of the launch."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import mesh as round_mesh
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import Plan, Reduction, TileGemm
from archloom.mapper.spatial.products.batched import Product
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.programs.waves import cut
from archloom.mapper.spatial.space import space
from archloom.mapper.spatial.workloads import emitted, search, search_workload
from tests.support.examples import slow
from tests.support.mapper.plain_space import RULES, left_out
from tests.support.mapper.small_meshes import mesh

SOME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])

LEAST = {
    "large_block": 0.97, "idle_cores": 0.99, "needless_split": 0.99, "needless_sums": 0.99, "unshared_multicast": 0.85,
    "needless_keep": 0.8, "needless_order": 1.0, "mirrored": 1.0, "other_sums": 1.0,
}
"""Cycles of the best that a rule leaves out over those of the best of the space, as its first lines state them."""

TARGETS: dict[str, Callable[[], ArchitectureGraph]] = {
    "mesh": round_mesh, "triple_ring": triple_ring, "wormhole": wormhole}
KINDS = ("wormhole", "no torus", "narrow ports", "quick")
MOST_PLANS = 250


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
@example(Tiny("no torus", 1, 4, (2, 3, 3), 3, 6))
@given(tiny())
def test_what_rules_leave_out_is_hardly_better(case: Tiny) -> None:
    assume(0 < len(plans_of(case)) <= MOST_PLANS)
    compare(case, 60)


@pytest.mark.slow
def test_every_rule_leaves_something_out() -> None:
    cases = (Tiny("quick", 2, 2, (3, 2, 1), 2, 16), Tiny("quick", 1, 2, (4, 4, 4), 4, 9),
             Tiny("quick", 1, 4, (3, 1, 1)))
    found = [left_out(case.gemm, Machine.of(case.graph)) for case in cases]
    assert all(any(f[rule] for f in found) for rule in RULES)


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4), st.sampled_from(("rows", "columns")),
       st.integers(1, 5), st.integers(1, 9))
def test_every_tile_of_the_reduction_is_dealt_out_once(
    pieces: int, rows: int, columns: int, outer: str, grain: int, deep: int
) -> None:
    found = Reduction.of(pieces * grain, rows, columns, outer, grain)
    assert found.full * found.depth + found.rest == pieces * grain and found.rest < found.depth
    assert found.depth % grain == 0 and found.full + (found.rest > 0) <= found.rows * found.columns <= rows * columns
    steps = list(cut(0, found.depth, deep, found.rest))
    assert all(0 <= step.rest <= step.deep <= deep for step in steps)
    assert sum(step.count * step.deep for step in steps) == found.depth
    assert sum(step.count * step.rest for step in steps) == found.rest


LESS = [
    ("mesh", (4, 8, 5), (3, 8, 5)),  # fewer rows: some cores have nothing to do
    ("mesh", (1, 1, 32), (1, 1, 31)),  # a prime number of tiles along k
    slow("triple_ring", (9, 6, 5), (6, 6, 5)), slow("triple_ring", (4, 2, 32), (4, 2, 29)),
    slow("wormhole", (3, 3, 12), (3, 3, 9)),
]


@pytest.mark.parametrize(("name", "more", "less"), LESS)
def test_less_work_takes_no_longer(name: str, more: tuple[int, int, int], less: tuple[int, int, int]) -> None:
    """1 % apart, as the cost model may err. What is left of a larger product is dealt out as it was there."""
    whole, part = (
        search_workload(Product(1, *(32 * extent for extent in tiles)), TARGETS[name]()).best.cycles
        for tiles in (more, less))
    assert part <= 1.01 * whole


@pytest.mark.slow
@settings(SOME, max_examples=40)
@given(tiny(), st.integers(0, 2), st.data())
def test_the_best_of_less_work_takes_no_longer(case: Tiny, loop: int, data: st.DataObject) -> None:
    """Whatever the cost model says: of all plans."""
    tiles = list(case.tiles)
    tiles[loop] = data.draw(st.integers(1, tiles[loop]))
    less = replace(case, tiles=(tiles[0], tiles[1], tiles[2]))
    plans, others = plans_of(case), plans_of(less)
    assume(0 < len(plans) <= MOST_PLANS and len(others) <= MOST_PLANS)
    best, found = (min(cycles_of(each, plan) for plan in some) for each, some in ((case, plans), (less, others)))
    assert found <= 1.01 * best, (case, less)


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
