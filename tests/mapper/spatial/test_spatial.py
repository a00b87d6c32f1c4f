"""Plans of products on meshes of cores: streams give NumPy's results, simulation is exact, the search finds the best.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference as step_by_step
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import LEVELS, PATTERNS, Plan, TileGemm
from archloom.mapper.spatial.products.cost import cycles
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.programs.waves import waves
from archloom.mapper.spatial.space import Rules, check, footprint, space
from archloom.mapper.spatial.workloads import emitted, search
from archloom.oracle.errors import GraphError, MappingError, StreamError, TargetError
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from tests.support.examples import examples, slow
from tests.support.mapper.small_meshes import mesh

MESHES = ((1, 1), (1, 2), (2, 2), (2, 3), (1, 4), (4, 2))


def factors(extent: int) -> list[tuple[int, int, int]]:
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    return [(a, b, extent // (a * b)) for a in divisors for b in divisors if extent % (a * b) == 0]


@st.composite
def plans(draw: st.DrawFn, rows: int, columns: int) -> Plan:
    sizes = st.integers(1, 3)
    ways = st.tuples(st.sampled_from(PATTERNS), st.sampled_from(LEVELS))
    return Plan(
        (draw(sizes), draw(sizes), draw(sizes)), draw(st.sampled_from(factors(rows))),
        draw(st.sampled_from(factors(columns))), draw(st.sampled_from(("rows", "columns"))),
        draw(st.sampled_from(("mn", "nm"))), draw(ways), draw(ways), draw(sizes),  # type: ignore[arg-type]
        draw(st.sampled_from((1, 2))), draw(st.integers(0, 2)),
    )


def fits(gemm: TileGemm, plan: Plan, machine: Machine) -> bool:
    try:
        check(gemm, plan, machine)
    except MappingError:
        return False
    return True


def product(gemm: TileGemm) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Whole numbers, of which f16 and f32 lose nothing."""
    random = np.random.default_rng(gemm.m * 64 + gemm.n * 8 + gemm.k)
    a, b = (random.integers(-2, 3, (*shape, 32, 32)) for shape in ((gemm.m, gemm.k), (gemm.k, gemm.n)))
    return {"A": a.astype(np.float16), "B": b.astype(np.float16)}, np.einsum("ikab,kjbc->ijac", a, b)


@pytest.mark.slow
@examples(8, 150)
@given(st.data(), st.sampled_from(MESHES), *[st.integers(1, 7)] * 2, st.integers(1, 6))
def test_every_plan_that_fits_gives_the_product(
    data: st.DataObject, size: tuple[int, int], m: int, n: int, k: int
) -> None:
    graph, gemm = mesh(*size), TileGemm(m, n, k)
    plan = data.draw(plans(*size))
    assume(fits(gemm, plan, Machine.of(graph)))
    stream = emitted(gemm, plan, Machine.of(graph))
    given_arguments, expected = product(gemm)
    result = run(stream, isa_of(graph), given_arguments, poison=3)["C"]
    np.testing.assert_array_equal(result, expected)


@examples(3, 50)
@given(st.data(), st.sampled_from(MESHES[:3]), *[st.integers(1, 3)] * 3)
def test_all_cores_are_simulated_exactly(data: st.DataObject, size: tuple[int, int], m: int, n: int, k: int) -> None:
    graph, gemm = mesh(*size), TileGemm(m, n, k)
    plan = data.draw(plans(*size))
    assume(fits(gemm, plan, Machine.of(graph)))
    resolved = resolve(emitted(gemm, plan, Machine.of(graph)), isa_of(graph))
    assert simulate(graph, resolved).cycles == step_by_step(graph, resolved).cycles


@examples(30, 300)
@given(*[st.integers(1, 40)] * 2, *[st.integers(1, 5)] * 2)
def test_waves_deal_out_every_tile_once(extent: int, block: int, slow: int, fast: int) -> None:
    found = [
        (wave, zone, i * fast + j, w)
        for wave in waves(extent, block, slow, fast) for w in range(wave.first, wave.first + wave.count)
        for zone in wave.zones for i in zone.slow for j in zone.fast
    ]
    tiles = [(w * slow * fast + place) * block + t for _, zone, place, w in found for t in range(zone.size)]
    assert sorted(tiles) == list(range(extent))


@examples(12, 125)
@given(st.sampled_from(MESHES), *[st.integers(1, 9)] * 3)
def test_candidates_of_the_space_fit(size: tuple[int, int], m: int, n: int, k: int) -> None:
    machine, gemm = Machine.of(mesh(*size)), TileGemm(m, n, k)
    found = space(gemm, machine)
    assert len(found)
    estimated, _ = cycles(gemm, machine, found)
    assert (estimated > machine.launch_cycles).all()
    for i in np.random.default_rng(m).integers(0, len(found), 5).tolist():
        check(gemm, found.plan(i), machine)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "gemm"), [((1, 2), TileGemm(3, 3, 2)), slow((2, 2), TileGemm(2, 4, 2))])
def test_the_search_is_within_a_hundredth_of_the_best_of_all(size: tuple[int, int], gemm: TileGemm) -> None:
    graph = mesh(*size, 4, 16)
    machine = Machine.of(graph)
    found = space(gemm, machine)
    every = {found.plan(i) for i in range(len(found))}
    exhaustive = min(simulated(emitted(gemm, plan, machine), graph).cycles for plan in every)
    assert search(gemm, graph).best.cycles <= 1.01 * exhaustive


@pytest.mark.slow
def test_spatial_reuse_pays() -> None:
    graph, gemm = wormhole(rows=4, columns=2), TileGemm(16, 16, 8)
    alone = search(gemm, graph, rules=Rules(("none",), ("none",))).best
    best = search(gemm, graph).best
    assert best.cycles < alone.cycles
    assert {best.plan.a[0], best.plan.b[0]} != {"none"}


def test_stores_beside_products_and_shallow_first_steps_pay() -> None:
    graph, gemm = wormhole(rows=2, columns=2), TileGemm(16, 16, 16)
    machine = Machine.of(graph)
    plan = Plan((4, 4, 16), (2, 1, 1), (1, 2, 1), "rows", "mn", ("row", "stream"), ("column", "stream"))
    plain, apart, led = (
        simulated(emitted(gemm, p, machine), graph).cycles
        for p in (plan, replace(plan, outputs=2), replace(plan, outputs=2, lead=4)))
    assert led < apart < plain
    assert footprint(gemm, replace(plan, outputs=2)) == (256, 32)


def test_a_plan_that_needs_too_much_names_what() -> None:
    machine = Machine.of(mesh(2, 2))
    plan = Plan((3, 3, 3), (2, 1, 1), (1, 1, 1), "rows", "mn", ("down", "stream"), ("none", "stream"), 3)
    with pytest.raises(MappingError) as error:
        check(TileGemm(6, 6, 6), plan, machine)
    assert "spreads loops over 1 columns, of which there are 2" in str(error.value)
    assert "A goes to all cores (down), but only 1 cores share" in str(error.value)
    plan = Plan((3, 3, 3), (2, 1, 1), (1, 2, 1), "rows", "mn", ("row", "stream"), ("none", "stream"), 3)
    with pytest.raises(MappingError, match="54 tiles of operands in a core, which holds 40; it needs 9 sums"):
        check(TileGemm(6, 6, 6), plan, machine)
    assert footprint(TileGemm(6, 6, 6), plan) == (54, 9)


def test_a_graph_without_a_mesh_is_refused() -> None:
    from archloom.acadl_models.qkv import qkv

    with pytest.raises(TargetError, match="is no mesh of cores: it does not state rows, columns, tiles, sums, stats"):
        Machine.of(qkv())


def test_options_out_of_range_are_all_named() -> None:
    with pytest.raises(TargetError, match=r"rows must be .* not 0; .*launch_cycles must be"):
        wormhole(rows=0, launch_cycles=0)
    with pytest.raises(TargetError, match="0 tiles are left for operands, at least 4 are needed"):
        wormhole(sums=400)


def test_tiles_beyond_a_core_are_refused_by_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the plan is checked: no unit reaches the memories of two cores for one block."""
    graph = mesh(1, 2, 4, 8)
    machine, gemm = Machine.of(graph), TileGemm(4, 2, 8)
    plan = Plan((2, 2, 4), (1, 1, 1), (2, 1, 1), "rows", "mn", ("none", "stream"), ("none", "stream"))
    assert footprint(gemm, plan)[0] > machine.tiles
    monkeypatch.setattr("archloom.mapper.spatial.plan.Plan.check", lambda *_: None)
    stream = emitted(gemm, plan, machine)
    with pytest.raises((GraphError, StreamError)):
        simulated(stream, graph)


@examples(8, 150)
@given(plans(4, 2))
def test_plans_are_written_and_read(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan
