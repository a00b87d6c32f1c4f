"""Energy equals the sum over all instances, one by one, on random graphs with figures."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    DRAM,
    ACADLObject,
    ArchitectureGraph,
    DataStorage,
    FunctionalUnit,
    RegisterFile,
    create_ag,
    generate,
)
from archloom.acadl_models.acadl.latency import parse
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.energy import Energy, energy, has_energy, total_joules
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.nests import Nests
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError, InputError
from archloom.oracle.resolved import ResolvedLoop
from tests.support.acadl_models.energies import moved_lines, one_by_one
from tests.support.acadl_models.engine_strategies import random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.simulators import InstanceLog, simulate_logged
from tests.support.acadl_models.timing_builders import after, front, instr, stream
from tests.support.examples import examples, randoms

WAYS = ("read", "write")
OPERATIONS = (
    1, 3, "rows", "a % 3", "select(a % 2 && rows, rows * (a // 2), cdiv(a, rows))", "max(a, rows, 2) - (a < 3)",
)


def with_figures(r: Random, graph: ArchitectureGraph) -> ArchitectureGraph:
    """Figures for the objects of a random graph; all units cost the same, so that it is no matter which takes what."""
    operations, joules = r.choice(OPERATIONS), {m: r.randint(0, 5) for m in ("alpha", "beta", "gamma", "delta")}
    for place in graph.objects.values():
        if isinstance(place, FunctionalUnit):
            object.__setattr__(place, "operations", operations)
            object.__setattr__(place, "joules_per_operation", joules)
        elif isinstance(place, (DataStorage, RegisterFile)):
            object.__setattr__(place, "joules_per_access", r.randint(0, 5))
            for way in r.sample(WAYS, r.randint(0, 2)):
                object.__setattr__(place, f"joules_per_{way}", r.randint(0, 5))
    return graph


def each(place: ACADLObject, way: str) -> int:
    """What a random graph states of a read or a write of an object."""
    own, other = (getattr(place, f"joules_per_{name}") for name in (way, "access"))
    return int(other if own is None else own)


@examples(10, 500)
@given(randoms, st.booleans())
def test_energy_is_the_sum_over_instances(r: Random, spread: bool) -> None:
    graph = with_figures(r, random_graph(r, spread=spread))
    resolved = random_stream(r, graph, 200)
    log: list[InstanceLog] = []
    try:
        simulate_logged(graph, resolved, log)
    except GraphError:
        return
    program = bind(graph, resolved)
    timing = simulate(graph, resolved)
    events, joules = one_by_one(program, {entry.number: entry.unit for entry in log})
    found = energy(program, timing)
    # which of several units took an instruction is not counted, what all of them took is
    units = [entry for entry in found.objects if entry.name in {u.name for u in timing.units}]
    assert sum(entry.dynamic_joules or 0.0 for entry in units) == pytest.approx(sum(joules.values()))
    assert abs(sum(entry.events for entry in units) - sum(events[entry.name] for entry in units)) <= len(units)
    for entry in found.objects:
        place = graph[entry.name]
        if isinstance(place, RegisterFile) or entry.name in {s.name for s in timing.storages} - {"imem"}:
            for way in WAYS:
                assert entry.count(way) == events[f"{entry.name} {way}"] or not any(each(place, w) for w in WAYS)
            assert entry.dynamic_joules == sum(events[f"{entry.name} {way}"] * each(place, way) for way in WAYS)


@examples(8, 500)
@given(randoms)
def test_caches_pay_for_each_line_that_moves(r: Random) -> None:
    graph = with_figures(r, random_graph(r, storages_of=random_memories))
    resolved = random_stream(r, graph, 100)
    log: list[InstanceLog] = []
    with moved_lines() as moved:
        try:
            timing = simulate_logged(graph, resolved, log)
            found = energy(bind(graph, resolved), timing)
        except GraphError:
            return
    events, _ = one_by_one(bind(graph, resolved), {entry.number: entry.unit for entry in log})
    for cache in graph.caches:
        word = 2 * cache.data_width // 8  # the run is made twice: once for its log
        for kind in ("fill", "write_back"):
            events[f"{cache.name} {kind}"] += moved[f"{cache.name} {kind}"] // word
        for way in WAYS:
            events[f"{graph.backing(cache).name} {way}"] += moved[f"behind {cache.name} {way}"] // word
    for place in graph.storages:
        if place.name in {s.name for s in timing.storages} - {"imem"}:
            assert {of.kind: of.count for of in found.of(place.name).kinds if of.kind != "activation"} == {
                kind: count for kind in (*WAYS, "fill", "write_back") if (count := events[f"{place.name} {kind}"])}


@examples(8, 300)
@given(randoms)
def test_events_are_the_same_with_and_without_skipping_and_rows_count(r: Random) -> None:
    graph = with_figures(r, random_graph(r, storages_of=random_memories))
    for place in graph.storages:
        if isinstance(place, DRAM):
            object.__setattr__(place, "joules_per_activation", r.randint(0, 5))
    resolved = random_stream(r, graph, 100)
    try:
        timings = [simulate(graph, resolved, skip=skip) for skip in (True, False)]
        found, stepped = (energy(bind(graph, resolved), timing) for timing in timings)
    except GraphError:
        return
    assert found == stepped
    for dram in timings[0].drams:
        rows = dram.row_misses + dram.row_conflicts
        assert found.of(dram.name).count("activation") == rows
        each = graph[dram.name].joules_per_activation  # type: ignore[attr-defined]
        assert sum(of.joules or 0.0 for of in found.of(dram.name).kinds if of.kind == "activation") == rows * each


def alu(**unit: object) -> ArchitectureGraph:
    @generate
    def build() -> None:
        after(front(), FunctionalUnit("fu", to_process={"op", "other"}, **unit))  # type: ignore[arg-type]

    return create_ag(build())


def measured(graph: ArchitectureGraph, count: int, attribute: Affine) -> Energy:
    body = instr("op", attributes={"n": attribute})
    resolved = stream(ResolvedLoop("i", 7, (ResolvedLoop("j", count, (body,)),)))
    return energy(bind(graph, resolved), simulate(graph, resolved))


def test_operations_that_vary_along_a_loop_of_millions() -> None:
    count = 3_000_000
    graph = alu(operations="n % 5 + 1", joules_per_operation=2e-12, leakage_watts=0.5)
    found = measured(graph, count, Affine.variable("j"))
    assert found.of("fu").events == 7 * sum(j % 5 + 1 for j in range(count))
    assert found.of("fu").dynamic_joules == pytest.approx(2e-12 * found.of("fu").events)
    assert found.of("fu").leakage_joules == pytest.approx(0.5 * (7 * count + 1) / graph.clock_hz)
    assert found.known_joules == pytest.approx(found.of("fu").joules)
    with pytest.raises(KeyError, match="'nothing' is none of .*fu"):
        found.of("nothing")


@pytest.mark.parametrize(("operations", "message"), [
    ("n - 1", "operations 'n - 1' is -1 for 'op'; it must be at least 0"),
    ("1 // n", "operations '1 // n' divides by a number that is not positive for 'op'"),
    ("m", "operations 'm' names m, unknown for 'op'"),
])
def test_operations_without_a_legal_value_are_named(operations: str, message: str) -> None:
    with pytest.raises(GraphError, match=message.replace("(", "\\(")):
        measured(alu(operations=operations, joules_per_operation=1.0), 4, Affine.variable("j"))


def test_only_the_branch_that_is_chosen_counts() -> None:
    graph = alu(operations="select(n, 1 // n, 4)", joules_per_operation=1.0)
    assert measured(graph, 4, Affine.variable("j")).of("fu").events == 7 * (4 + 1)


def two_units(**costs: float) -> ArchitectureGraph:
    """Two units that both take ``op`` and ``other``, of which ``op`` costs each of them so much."""
    @generate
    def build() -> None:
        fetch = front(width=2)
        for name, cost in costs.items():
            joules = {"op": cost, "other": 2.0}
            after(fetch, FunctionalUnit(name, to_process=set(joules), joules_per_operation=joules), name=f"ex_{name}")

    return create_ag(build())


def test_units_share_what_both_may_take_and_are_refused_where_it_matters_which_takes_it() -> None:
    resolved = stream(ResolvedLoop("i", 9, (instr("op"), instr("other"))))
    graph = two_units(a=1.0, b=1.0)
    found = energy(bind(graph, resolved), simulate(graph, resolved))
    parts = [found.of(name).dynamic_joules or 0.0 for name in ("a", "b")]
    assert sum(parts) == 9 * (1 + 2) and min(parts) > 0
    graph = two_units(a=1.0, b=3.0)
    with pytest.raises(GraphError, match="its energy is not determined: it shares op with (a|b), where that cost"):
        energy(bind(graph, resolved), simulate(graph, resolved))


def test_a_part_without_a_figure_makes_the_total_unknown_and_is_named() -> None:
    graph = alu(joules_per_operation=1e-12)
    found = measured(graph, 3, Affine.variable("j"))
    assert found.joules is None and found.dynamic_joules is None and found.leakage_joules is None
    assert found.known_joules == pytest.approx(21e-12)
    assert {"joules of ifs", "leakage of fu"} <= set(found.missing)
    with pytest.raises(InputError, match="its energy is not known without joules of "):
        total_joules(found, graph)
    idle = energy(bind(graph, stream()), simulate(graph, stream()))
    assert idle.dynamic_joules == 0.0, "what did nothing needs no figure"


def test_graphs_without_figures_have_no_energy() -> None:
    assert not has_energy(alu()) and alu().total("area_mm2") is None
    assert alu(area_mm2=0.25).total("area_mm2") == 0.25 and not has_energy(alu(area_mm2=0.25))
    assert has_energy(alu(leakage_watts=1e-3))


def test_sums_of_long_nests_are_made_in_pieces() -> None:
    resolved = stream(ResolvedLoop("i", 1500, (ResolvedLoop("j", 1500, (
        instr("op", attributes={"n": Affine.variable("i") * 2 + Affine.variable("j") + 5}),)),)))
    program = bind(alu(), resolved)
    (static,) = program.instructions
    expected = sum(2 * i + j for i in range(1500) for j in range(5, 1505))
    assert Nests(program).total(static, parse("n")) == expected


@examples(20, 500)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_sums_over_nests_are_those_of_their_instances(rows: list[tuple[int, int, int, int]]) -> None:
    """Of expressions that depend on loops, and of those that do not and are found once."""
    resolved = stream(*[ResolvedLoop(f"i{k}", extent, (instr("op", attributes={
        "n": Affine.variable(f"i{k}") * factor + constant, "m": Affine(other)}),))
        for k, (extent, constant, factor, other) in enumerate(rows)])
    program, expression = bind(alu(), resolved), parse("n * 3 + m")
    expected = Counter[int]()
    for static, values in program.instances():
        expected[static.index] += expression.evaluate(static.environment(program.parameters, values))
    nests = Nests(program)
    assert all(nests.total(static, expression) == expected[static.index] for static in program.instructions)
