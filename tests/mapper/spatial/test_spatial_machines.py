"""Machines of many cores beside Wormhole: plans are found, simulated exactly, and give NumPy's results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.fit import check_fit
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.attention.cost import attention_cycles
from archloom.mapper.spatial.attention.space import Attention, attention_space
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import PATTERNS, Plan, TileGemm
from archloom.mapper.spatial.products.cost import cycles
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.space import space
from archloom.mapper.spatial.workloads import emitted, search
from archloom.oracle.errors import TargetError
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from tests.support.examples import often, slow

QUICK = {"launch_cycles": 10, "product_cycles": 3, "block_cycles": 10, "dram_latency_cycles": 20}
"""Times that are short for the step-by-step simulator."""

SMALL: dict[str, Callable[[], ArchitectureGraph]] = {
    "open": lambda: mesh(3, 1, torus=False, sums=8, stats=16, l1_bytes=1 << 18, **QUICK),  # type: ignore[arg-type]
    "torus": lambda: mesh(2, 2, sums=8, stats=16, l1_bytes=1 << 18, l1_bytes_per_cycle=40, **QUICK),  # type: ignore[arg-type]
    "channels": lambda: mesh(2, 2, sums=8, stats=16, l1_bytes=1 << 18, dram_channels=3, **QUICK),  # type: ignore[arg-type]
    "large array": lambda: mesh(2, 1, sums=8, stats=16, l1_bytes=1 << 18, array=2, **QUICK),  # type: ignore[arg-type]
    "rings": lambda: triple_ring(columns=3, sums=8, stats=16, l1_bytes=1 << 19, **QUICK),  # type: ignore[arg-type]
    "square rings": lambda: triple_ring(columns=2, sums=8, stats=16, l1_bytes=1 << 19, **QUICK),  # type: ignore[arg-type]
}

PRODUCT = TileGemm(3, 4, 2)


def product() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Whole numbers, of which f16 and f32 lose nothing."""
    random = np.random.default_rng(7)
    a, b = (random.integers(-2, 3, (*shape, 32, 32)) for shape in ((3, 2), (2, 4)))
    return {"A": a.astype(np.float16), "B": b.astype(np.float16)}, np.einsum("ikab,kjbc->ijac", a, b)


@pytest.mark.slow
@pytest.mark.parametrize("name", often(SMALL, {"channels"}))
def test_the_plan_that_is_found_gives_the_product(name: str) -> None:
    graph = SMALL[name]()
    check_fit(graph, isa_of(graph))
    found = search(PRODUCT, graph, top_k=3).best
    stream = emitted(PRODUCT, found.plan, Machine.of(graph))
    arguments, expected = product()
    np.testing.assert_array_equal(run(stream, isa_of(graph), arguments, poison=3)["C"], expected)
    resolved = resolve(stream, isa_of(graph))
    assert simulate(graph, resolved).cycles == simulate_reference(graph, resolved).cycles == found.cycles


@pytest.mark.first_case
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_works_on_the_triple_ring(pattern: str) -> None:
    """A is shared by all cores, B by none."""
    graph, gemm = SMALL["rings"](), TileGemm(2, 6, 2)
    rows, columns = ((1, 2, 1), (1, 3, 1))
    if pattern in ("column", "wave"):  # along one dimension of the mesh
        rows, columns = ((1, 2, 1), (3, 1, 1))
    plan = Plan((1, 1, 1), rows, columns, "rows", "mn", (pattern, "stream"), ("none", "stream"))  # type: ignore[arg-type]
    stream = emitted(gemm, plan, Machine.of(graph))
    random = np.random.default_rng(7)
    a, b = (random.integers(-2, 3, (*shape, 32, 32)) for shape in ((2, 2), (2, 6)))
    arguments = {"A": a.astype(np.float16), "B": b.astype(np.float16)}
    result = run(stream, isa_of(graph), arguments, poison=3)["C"]
    np.testing.assert_array_equal(result, np.einsum("ikab,kjbc->ijac", a, b))
    assert simulated(stream, graph).cycles > 10


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [("row", "column"), slow("wave", "none"), slow("down", "none")])
def test_semaphores_keep_the_cores_of_the_triple_ring_apart(a: str, b: str) -> None:
    graph = triple_ring(columns=3, sums=8, stats=16, l1_bytes=1 << 19, semaphores=99, **QUICK)  # type: ignore[arg-type]
    check_fit(graph, isa_of(graph))
    rows = (1, 2, 1) if a == "down" else (2, 1, 1)
    plan = Plan((1, 1, 1), rows, (1, 3, 1), "rows", "mn", (a, "stream"), (b, "stream"))  # type: ignore[arg-type]
    stream = emitted(PRODUCT, plan, Machine.of(graph), semaphores=True)
    arguments, expected = product()
    np.testing.assert_array_equal(run(stream, isa_of(graph), arguments, poison=3)["C"], expected)
    resolved = resolve(stream, isa_of(graph))
    assert simulate(graph, resolved).cycles == simulate_reference(graph, resolved).cycles


def test_tiles_of_one_channel_follow_one_another() -> None:
    """Columns of A one tile wide and four apart lie in one of four channels; five apart, in all of them."""
    four, one = (mesh(1, 4, dram_channels=n, dram_bytes_per_cycle=32, **SLOW) for n in (4, 1))  # type: ignore[arg-type]
    found = {(chip, k): simulated(emitted(TileGemm(4, 1, k), STEPS, Machine.of(chip)), chip).cycles
             for chip in (four, one) for k in (4, 5)}
    assert found[four, 4] > 1.5 * found[one, 4]
    assert found[four, 5] < 1.35 * found[one, 5]


@pytest.mark.slow
def test_many_cores_repeat_with_channels_as_without() -> None:
    """More instances in flight than the longest requests of all would leave room for in a state of the engine. Between
    two waves addresses move to other channels: that their state recurs may take a round of these more."""
    work = Attention.of(16, 64, 512, 32)
    found = attention_space(work, Machine.of(wormhole()))
    plan = found.plan(int(np.argmin(attention_cycles(work, Machine.of(wormhole()), found))))
    one, four = (wormhole(dram_channels=n) for n in (1, 4))
    resolved = resolve(emitted(work, plan, Machine.of(four)), isa_of(four))
    skipped, alone = simulate(four, resolved), simulate(one, resolved)
    assert skipped == simulate(four, resolved, skip=False)
    (waves, *_), (waves_alone, *_) = skipped.loops, alone.loops
    assert waves.path == ("wp",)
    assert waves.stepped_iterations <= waves_alone.stepped_iterations + 4 < waves.iterations / 2
    round_of_channels = 4 * skipped.instructions / waves.iterations
    assert skipped.stepped_instructions <= alone.stepped_instructions + round_of_channels
    assert skipped.skipped_share > 0.7


STEPS = Plan((1, 1, 1), (4, 1, 1), (1, 1, 1), "rows", "mn", ("none", "stream"), ("none", "stream"))
SLOW = {
    "launch_cycles": 1, "product_cycles": 1, "block_cycles": 0, "dram_latency_cycles": 1, "noc_bytes_per_cycle": 4096}
"""All but memory is fast."""


def test_a_machine_is_read_off_its_graph() -> None:
    ring = Machine.of(triple_ring())
    assert (ring.rows, ring.columns, ring.array, ring.product_cycles, ring.block_cycles) == (2, 32, 4, 128, 128)
    assert (ring.ring_bytes, ring.hop_bytes, ring.dram_bytes) == (256, 32, 256)
    assert (ring.port_bytes, ring.port_cores) == (128, 2)
    assert ring.product(4, 5, 8) == 1 * 2 * 2 * 128
    small = Machine.of(mesh(5, 2, product_cycles=7, block_cycles=9, vector_width=64, vector_cycles=3))
    assert (small.rows, small.columns, small.product_cycles, small.block_cycles) == (2, 5, 7, 9)
    assert (small.vector_cycles, small.port_bytes, small.port_cores) == (16 * 3, 0, 1)


@pytest.mark.slow
def test_a_slow_port_of_l1_is_what_limits() -> None:
    gemm = TileGemm(8, 8, 8)
    wide, narrow = (search(gemm, mesh(2, 2, l1_bytes_per_cycle=n, launch_cycles=1)).best for n in (0, 4))
    assert narrow.cycles > 3 * wide.cycles
    assert abs(narrow.estimated_cycles / narrow.cycles - 1) < 0.25


@pytest.mark.slow
def test_the_memories_of_the_triple_ring_work_at_once() -> None:
    """Every tensor lies in all of them: where memory limits, so many of them take a part of the time."""
    plan = Plan((4, 4, 4), (2, 1, 1), (1, 4, 1), "rows", "mn", ("row", "stream"), ("column", "stream"))
    slow = {"columns": 4, "launch_cycles": 1, "dram_latency_cycles": 1, "dram_bytes_per_cycle": 8}
    found = {}
    for count in (1, 2, 4):
        graph = triple_ring(memories=count, **slow)  # type: ignore[arg-type]
        assert graph.bytes_of("hbm") == count * triple_ring(memories=1).bytes_of("hbm")
        found[count] = simulated(emitted(TileGemm(8, 32, 16), plan, Machine.of(graph)), graph).cycles
    assert found[1] == pytest.approx(2 * found[2], rel=0.1) and found[2] == pytest.approx(2 * found[4], rel=0.1)


def test_options_out_of_range_are_all_named() -> None:
    with pytest.raises(TargetError, match=r"mesh: x must be .* not 0; .*array must be"):
        mesh(0, 2, array=0)
    with pytest.raises(TargetError, match="torus must be True or False, not 1"):
        mesh(torus=1)  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="triple_ring: rows must be .* not 9"):
        triple_ring(rows=9)
    with pytest.raises(TargetError, match="triple_ring: sums=64 and stats=256 take 294912 of l1_bytes=131072: 0 tiles"):
        triple_ring(l1_bytes=1 << 18)


@pytest.mark.slow
def test_the_cost_model_ranks_plans_of_the_triple_ring_as_the_simulation_does() -> None:
    graph, gemm = triple_ring(columns=4), TileGemm(16, 16, 8)
    machine = Machine.of(graph)
    found = space(gemm, machine)
    estimated, _ = cycles(gemm, machine, found)
    chosen = np.argsort(estimated, kind="stable")[np.linspace(0, len(found) - 1, 10).astype(int)]
    real = np.array([simulated(emitted(gemm, found.plan(int(i)), machine), graph).cycles for i in chosen])
    ranks = [np.argsort(np.argsort(values)) for values in (estimated[chosen], real)]
    assert np.corrcoef(*ranks)[0, 1] > 0.9
    assert 0.85 < np.median(estimated[chosen] / real) < 1.15
