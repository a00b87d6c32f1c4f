"""What happened is what is charged, on all targets: words, parts of streams, sizes of memories, objectives."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import DataStorage
from archloom.acadl_models.acadl.components import Overrides
from archloom.acadl_models.energy import figures_of
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.energy import Energy, energy
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.result import TimingResult
from archloom.mapper.accelerator import Configuration
from archloom.mapper.search import Plan, search
from archloom.oracle.errors import GraphError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.tvm_backend.report.energy import energy_use
from tests.acadl_models.energy.test_targets import SMALL, TARGETS, planned
from tests.support.examples import examples


def run(made: Configuration, stream: Stream) -> tuple[Energy, TimingResult]:
    resolved = resolve(stream, made.isa)
    timing = simulate(made.graph, resolved)
    return energy(bind(made.graph, resolved), timing), timing


def dynamic(found: Energy) -> float:
    assert found.dynamic_joules is not None, found.missing
    return found.dynamic_joules


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", ["read", "write"])
def test_each_word_that_is_read_or_written_costs(target: str, way: str) -> None:
    plan, made, _ = planned(target)
    before, timing = run(made, plan.stream)
    storages = {s.name for s in timing.storages if isinstance(made.graph[s.name], DataStorage)}
    busy = max((o for o in before.objects if o.name in storages), key=lambda o: o.count(way))
    assert busy.count(way) > 0
    dearer = (figures_of(made.graph)[busy.name].of(way) or 0.0) + 1e-9
    graph = replace(made.graph, overrides=Overrides(objects={busy.name: {f"joules_per_{way}": dearer}}))
    after = energy(bind(graph, resolve(plan.stream, made.isa)), timing)
    words = busy.count(way) + busy.count({"read": "write_back", "write": "fill"}[way])
    assert dynamic(after) - dynamic(before) == pytest.approx(1e-9 * words)


@pytest.mark.first_case
@pytest.mark.parametrize("target", TARGETS)
def test_a_part_of_the_work_costs_no_more(target: str) -> None:
    plan, made, _ = planned(target)
    costs = []
    for length in range(len(plan.stream.body) + 1):
        try:
            costs.append(dynamic(run(made, replace(plan.stream, body=plan.stream.body[:length]))[0]))
        except GraphError:  # cores that wait for what is cut off
            assert length < len(plan.stream.body)
    assert costs[0] == 0.0 < costs[-1] and costs == sorted(costs)


@pytest.mark.parametrize("target", TARGETS)
def test_events_and_energies_are_the_same_with_and_without_skipping(target: str) -> None:
    plan, made, _ = planned(target)
    resolved = resolve(plan.stream, made.isa)
    skipped, stepped = (energy(bind(made.graph, resolved), simulate(made.graph, resolved, skip=skip))
                        for skip in (True, False))
    assert skipped == stepped


@pytest.mark.slow
@pytest.mark.parametrize("target, small, large", [
    ("gemmini", {"scratchpad_kib": 64}, {"scratchpad_kib": 512}),
    ("gemmini", {"accumulator_kib": 16}, {"accumulator_kib": 128}),
    pytest.param("tpu_v1", {"unified_buffer_kib": 1024}, {"unified_buffer_kib": 8192}, marks=pytest.mark.slow),
])
def test_the_same_plan_moves_the_same_and_costs_more_in_a_larger_memory(
    target: str, small: dict[str, int], large: dict[str, int]
) -> None:
    plan, made, _ = planned(target)
    few, many = (made.accelerator.configure(options) for options in (small, large))
    mapping = search(plan.workload, made.accelerator, small).mapping
    (fits, at_few), (roomy, at_many) = (run(each, each.emit(plan.workload, mapping)) for each in (few, many))
    moved = [{s.name: (s.words_read, s.words_written) for s in timing.storages if "[" not in s.name}
             for timing in (at_few, at_many)]
    assert moved[0] == moved[1]
    assert dynamic(fits) <= dynamic(roomy) * (1 + 1e-12)
    assert (fits.leakage_joules or 0.0) / at_few.seconds < (roomy.leakage_joules or 0.0) / at_many.seconds


@pytest.mark.slow
@examples(3, 30)
@given(st.integers(1, 12), st.integers(1, 12))
def test_a_smaller_cache_never_brings_fewer_lines_for_the_same_plan(one: int, other: int) -> None:
    plan, made, _ = planned("amx")
    least, most = sorted((one, other))
    found = [made.accelerator.configure({"l1_ways": ways, "l1_kib": 4 * ways}) for ways in (least, most)]
    few, many = (run(each, plan.stream)[1].cache("l1") for each in found)
    assert few.bytes_from_backing >= many.bytes_from_backing > 0


@pytest.mark.parametrize("target", TARGETS)
def test_objectives_go_by_the_energy_that_is_reported(target: str) -> None:
    plan, made, _ = planned(target)
    plans = {objective: search(plan.workload, made.accelerator, SMALL.get(target, {}), objective=objective)
             for objective in ("time", "energy", "edp")}
    joules = {objective: _reported(found, made) for objective, found in plans.items()}
    delays = {objective: joules[objective] * found.timing.seconds for objective, found in plans.items()}
    assert joules["energy"] <= joules["time"] * (1 + 1e-9) and delays["edp"] <= delays["time"] * (1 + 1e-9)
    assert plans["time"].timing.cycles <= min(found.timing.cycles for found in plans.values())


def _reported(plan: Plan, made: Configuration) -> float:
    use = energy_use(plan, made)
    assert use is not None and use.joules is not None
    found, _ = run(made, plan.stream)
    assert found.joules == pytest.approx(use.joules)
    parts = (use.dynamic_joules or 0.0, use.leakage_joules or 0.0, use.clock_joules)
    assert sum(parts) == pytest.approx(use.joules) == pytest.approx(sum(use.kinds.values()))
    return use.joules
