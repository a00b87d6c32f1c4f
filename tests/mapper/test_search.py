"""Search: what it finds, against every candidate of small spaces; the spaces, the cost model and the cache of plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archloom.acadl_models.acadl import Technology
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.energy import energy
from archloom.acadl_models.timing.engine import run as running
from archloom.acadl_models.timing.machine import bind
from archloom.mapper import disk, explore
from archloom.mapper import search as search_module
from archloom.mapper.cache import PLANS
from archloom.mapper.search import KEPT, Plan, search
from archloom.mapper.space import Table, divisions
from archloom.mapper.workload import Epilogue, Pool, Workload, add, conv2d, gemm
from archloom.oracle.errors import InputError, MappingError
from archloom.oracle.resolve import resolve
from archloom.uma_targets.eyeriss.target import EYERISS
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from archloom.uma_targets.gemmini.emit_conv import ConvEmission
from archloom.uma_targets.gemmini.emit_gemm import GemmEmission
from archloom.uma_targets.gemmini.space import ACC, SPAD
from archloom.uma_targets.gemmini.target import GEMMINI
from benchmarks.mapper.exhaustive import exhaustive
from tests.support.examples import every, often, slow
from tests.support.kept import kept_on_disk
from tests.support.mapper import mapped

PLAIN = Epilogue(True, 0.5, True, "int8")
SMALL = {"dim": 4, "scratchpad_kib": 1, "accumulator_kib": 1}

WORKLOADS = {
    "gemm": gemm(40, 24, 36, epilogue=PLAIN),
    "one": gemm(1, 1, 1, epilogue=PLAIN),
    "batched": gemm(7, 9, 11, batch=3, epilogue=Epilogue(False, 1.0, False, "int32"), shared_b=False),
    "primes": gemm(17, 13, 19, epilogue=PLAIN),
    "conv": conv2d(1, 12, 12, 6, 10, 3, 3, padding=(1, 1, 1, 1), epilogue=PLAIN),
    "strided": conv2d(2, 13, 11, 5, 7, 3, 2, stride=(2, 3), padding=(1, 0, 0, 1), epilogue=PLAIN),
    "image": conv2d(1, 17, 17, 3, 8, 5, 5, stride=(2, 2), padding=(2, 2, 2, 2), epilogue=PLAIN),
    "pooled": conv2d(1, 12, 12, 4, 8, 3, 3, padding=(1, 1, 1, 1),
                     epilogue=Epilogue(True, 0.5, True, "int8", Pool(2, 2, (0, 0, 0, 0)))),
    "add": add(1000, epilogue=Epilogue(False, 0.5, True, "int8")),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(disk.ENVIRONMENT, str(tmp_path))
    KEPT.forget()
    yield tmp_path
    KEPT.forget()


@pytest.mark.parametrize("dataflow", ["auto", slow("ws"), slow("os")])
@pytest.mark.parametrize("name", every(2, WORKLOADS))
def test_found_streams_compute_the_operator(name: str, dataflow: str) -> None:
    workload = WORKLOADS[name]
    options = {**SMALL, "scratchpad_kib": 4, "dataflow": dataflow}
    plan = search(workload, GEMMINI, options)
    if dataflow != "auto" and workload.kind != "add":
        assert plan.mapping.dataflow == dataflow
    mapped.check(workload, plan.mapping, GEMMINI.isa(options))
    assert plan.timing.cycles >= workload.macs / 16
    assert 1 <= plan.simulated <= 43 and plan.fitting <= plan.considered


LITTLE = {
    "gemm": gemm(20, 12, 16, epilogue=PLAIN),
    "conv": conv2d(1, 6, 6, 4, 8, 3, 3, padding=(1, 1, 1, 1), epilogue=PLAIN),
    "image": conv2d(1, 9, 9, 3, 8, 5, 5, stride=(2, 2), padding=(2, 2, 2, 2), epilogue=PLAIN),
}


@pytest.mark.parametrize("name", often(LITTLE, {"gemm"}))
def test_search_comes_close_to_the_best_of_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a space cut to some dozen candidates, all of which are simulated."""
    configuration = GEMMINI.configure(SMALL)
    space = type(configuration).space

    def thinned(self: Any, workload: Workload) -> Any:
        whole = space(self, workload)
        tables = tuple(_thin(t, 15) for t in whole.tables)
        return type(whole)(tables, whole.considered)

    monkeypatch.setattr(type(configuration), "space", thinned)
    plan = search(LITTLE[name], GEMMINI, SMALL, use_cache=False)
    _, best = exhaustive(LITTLE[name], GEMMINI, SMALL)
    assert plan.timing.cycles <= 1.02 * best


def _thin(table: Table, count: int) -> Table:
    keep = np.zeros(len(table), bool)
    keep[np.linspace(0, len(table) - 1, min(count, len(table))).astype(int)] = True
    return table.kept(keep)


@pytest.mark.parametrize("name", every(2, LITTLE))
def test_estimates_rank_like_simulations(name: str) -> None:
    """Spearman's correlation over candidates from the whole range of estimates."""
    configuration = GEMMINI.configure({"dim": 4})
    estimated, mapping_of = configuration.space(LITTLE[name]).ranked()
    order = np.argsort(estimated, kind="stable")
    picked = order[np.unique(np.linspace(0, len(order) - 1, 16).astype(int))]
    streams = [configuration.emitter.emit(LITTLE[name], mapping_of(int(i))) for i in picked]
    simulated = [simulate(configuration.graph, resolve(stream, configuration.isa)).cycles for stream in streams]
    ranks = [np.argsort(np.argsort(values, kind="stable")) for values in (estimated[picked], np.array(simulated))]
    assert np.corrcoef(*ranks)[0, 1] > 0.95


@pytest.mark.parametrize("name", ["one", slow("primes"), "conv"])
def test_a_search_steps_through_no_more_than_it_may(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first simulation is given up there is no plan; a later one ends the search."""
    monkeypatch.setattr(running, "HEARD_EVERY", 1)
    every = search(WORKLOADS[name], GEMMINI, SMALL, use_cache=False)
    first = search(WORKLOADS[name], GEMMINI, SMALL, use_cache=False, top_k=1)
    stepped = first.timing.stepped_instructions
    for most in (1, stepped, stepped + 1, stepped * every.simulated * 10):
        monkeypatch.setattr(explore, "MOST_STEPPED", most)
        monkeypatch.setenv(explore.ENVIRONMENT, str(most))
        told = f"{name.replace('conv', 'conv2d')}|gemm: too long to simulate: .* a search may step through {most:,} "
        try:
            found = search(WORKLOADS[name], GEMMINI, SMALL, use_cache=False)
        except MappingError as error:
            assert most <= stepped and re.match(told, str(error))
        else:
            assert most > 1 and 1 <= found.simulated <= every.simulated
    assert (found.mapping, found.timing, found.simulated) == (every.mapping, every.timing, every.simulated)


def test_what_was_given_up_is_not_simulated_again(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under whatever name it is asked for, and in whatever process, as long as a search may take as many steps."""
    monkeypatch.setattr(running, "HEARD_EVERY", 1)
    searched, search_once = list[str](), search_module._search
    monkeypatch.setattr(search_module, "_search", lambda w, *rest: (searched.append(w.name), search_once(w, *rest))[1])
    for most, name in ((1, "a"), (1, "b"), (2, "c"), (2, "d")):
        monkeypatch.setenv(explore.ENVIRONMENT, str(most))
        with pytest.raises(explore.GivenUp, match=rf"^{name}: too long to simulate: .* step through {most} "):
            search(replace(WORKLOADS["one"], name=name), GEMMINI, SMALL)
        search_module.GIVEN_UP.forget()
    assert searched == ["a", "c"]


@pytest.mark.parametrize("dim", [4, slow(8), slow(16), slow(64)])
@pytest.mark.parametrize("name", WORKLOADS)
def test_rows_that_the_space_counts_are_those_that_the_emission_uses(name: str, dim: int) -> None:
    """Every candidate that is kept can be emitted, and a sample needs exactly the rows that the space says."""
    configuration = GEMMINI.configure({"dim": dim})
    workload = WORKLOADS[name]
    emitter = configuration.emitter
    assert isinstance(emitter, GemminiEmitter)
    for table in configuration.space(workload).tables:
        assert (table.needs.get(SPAD, np.zeros(1)) <= emitter.parameters.spad_rows).all()
        assert (table.needs[ACC] <= emitter.parameters.acc_rows).all()
        for i in np.unique(np.linspace(0, len(table) - 1, 12).astype(int)).tolist():
            mapping = table.mapping(table.columns, i)
            emission = emitter.emission(workload, mapping)
            emitter.emit(workload, mapping)
            if isinstance(emission, GemmEmission | ConvEmission):
                assert emission.demand == (int(table.needs[SPAD][i]), int(table.needs[ACC][i])), str(mapping)


def test_search_is_deterministic_and_independent_of_name_and_scale() -> None:
    first = search(WORKLOADS["conv"], GEMMINI, SMALL, use_cache=False)
    other = conv2d(1, 12, 12, 6, 10, 3, 3, padding=(1, 1, 1, 1), epilogue=Epilogue(True, 0.25, True, "int8"), name="x")
    second = search(other, GEMMINI, SMALL, use_cache=False)
    assert (first.mapping, first.timing.cycles) == (second.mapping, second.timing.cycles)
    assert second.stream.name == "x" == second.timing.stream


def test_more_bandwidth_and_larger_arrays_are_not_slower() -> None:
    workload = gemm(96, 96, 96, epilogue=PLAIN)
    cycles = [search(workload, GEMMINI, o).timing.cycles for o in ({"dim": 4}, {"dim": 8}, {"dim": 16})]
    assert cycles == sorted(cycles, reverse=True)
    slow, fast = (search(workload, GEMMINI, {"dma_bus_bits": b}).timing.cycles for b in (32, 256))
    assert fast <= slow


def test_what_does_not_fit_says_demand_bound_and_gap() -> None:
    options = {"dim": 16, "accumulator_kib": 4, "scratchpad_kib": 16}
    workload = conv2d(1, 254, 254, 3, 16, 3, 3, epilogue=Epilogue(True, 0.5, True, "int8", Pool(3, 1, (0, 0, 0, 0))))
    assert search(workload, GEMMINI, options).timing.cycles > 0
    tiny = {"dim": 4, "scratchpad_kib": 1, "accumulator_kib": 1, "accumulator_banks": 1}
    deep = conv2d(1, 64, 64, 4, 4, 60, 60, stride=(40, 40), epilogue=PLAIN)
    message = r"none of \d+ mappings fits; .* rows of the scratchpad, of which there are 256 \(\d+ too few\)"
    with pytest.raises(MappingError, match=message):
        search(deep, GEMMINI, tiny)


@pytest.mark.parametrize("workload", [
    gemm(2**24, 2**24, 2**24, epilogue=Epilogue(False, 1.0, False, "int8")),
    conv2d(2**24, 2**24, 2**24, 1, 1, 1, 1, epilogue=Epilogue(False, 1.0, False, "int8")),
])
def test_tensors_beyond_the_memory_are_refused_before_the_space_is_listed(workload: Workload) -> None:
    with pytest.raises(MappingError, match=rf"{workload.name}: its tensors need \d+ bytes of HBM.* holds 17179869184"):
        search(workload, GEMMINI)


def test_a_pool_wider_than_its_field_is_refused() -> None:
    wide = conv2d(1, 4, 300, 3, 4, 3, 3, epilogue=Epilogue(True, 0.5, True, "int8", Pool(2, 1, (0, 0, 0, 0))))
    with pytest.raises(MappingError, match=r"max-pooling over 297 columns: config_st states at most 255"):
        search(wide, GEMMINI, {"dim": 16})


@pytest.mark.parametrize(("arguments", "message"), [
    ({"top_k": 0}, "top_k: expected a positive number of candidates, found 0"),
    ({"objective": "joy"}, "objective 'joy' is none of time, energy, edp"),
])
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, MappingError), match=message):
        search(WORKLOADS["one"], GEMMINI, SMALL, **arguments)


def test_energy_is_no_objective_where_nothing_or_not_all_is_known_of_it() -> None:
    unknown = replace(GEMMINI, make_graph=lambda options: replace(GEMMINI.make_graph(options), technology=None))
    with pytest.raises(InputError, match="objective 'energy': graph 'gemmini' states no energies"):
        search(WORKLOADS["one"], unknown, SMALL, objective="energy")
    beside = Technology(22)  # no standard of memory
    no_dram = replace(GEMMINI, make_graph=lambda options: replace(GEMMINI.make_graph(options), technology=beside))
    with pytest.raises(InputError, match="graph 'gemmini': its energy is not known without joules of dram"):
        search(WORKLOADS["one"], no_dram, SMALL, objective="energy")


@pytest.mark.parametrize("objective", ["time", slow("energy")])
@pytest.mark.parametrize("name", often(LITTLE, {"conv"}))
def test_the_energy_of_a_plan_is_that_of_its_stream(own_cache: Path, name: str, objective: str) -> None:
    """To the last bit: as it is found, and as it is read from the disk."""
    plan, configuration = search(LITTLE[name], GEMMINI, SMALL, objective=objective), GEMMINI.configure(SMALL)
    program = bind(configuration.graph, resolve(plan.stream, configuration.isa))
    assert plan.energy == energy(program, plan.timing).use
    assert plan.energy is not None and plan.energy.joules
    KEPT.forget()
    assert search(LITTLE[name], GEMMINI, SMALL, objective=objective).energy == plan.energy


@pytest.mark.slow
def test_objectives_choose_among_what_is_simulated() -> None:
    options = {"mac_picojoules": 1.0, "rows": 4, "cols": 4}
    work = gemm(24, 20, 16, epilogue=PLAIN)
    accelerator = EYERISS
    seen: list[tuple[float, float]] = []

    def watched(seconds: float, joules: float) -> float:
        seen.append((seconds, joules))
        return joules

    by_function = search(work, accelerator, options, objective=watched)
    by_name, fast = (search(work, accelerator, options, objective=o) for o in ("energy", "time"))
    assert by_function.mapping == by_name.mapping
    assert len(seen) >= 2 and min(j for _, j in seen) > 0
    assert fast.timing.cycles == pytest.approx(min(s for s, _ in seen) * accelerator.graph(options).clock_hz)
    # each is kept under its own name
    assert search(work, accelerator, options, objective="energy").mapping == by_name.mapping


# the cache of plans


def same(a: Plan, b: Plan) -> bool:
    return (a.mapping, a.stream, a.timing, a.considered) == (b.mapping, b.stream, b.timing, b.considered)


def test_plans_are_kept_in_memory_and_on_disk(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = search(WORKLOADS["primes"], GEMMINI, SMALL)
    assert len(kept_on_disk(PLANS)) == 1
    monkeypatch.setattr(search_module, "_search", lambda *_: pytest.fail("searched again"))
    assert same(first, search(WORKLOADS["primes"], GEMMINI, SMALL))
    KEPT.forget()
    assert same(first, search(WORKLOADS["primes"], GEMMINI, SMALL))


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"mapping": 1}'])
def test_what_is_no_plan_is_ignored_and_written_again(own_cache: Path, text: str) -> None:
    first = search(WORKLOADS["primes"], GEMMINI, SMALL)
    ((key, kept),) = kept_on_disk(PLANS).items()
    disk.store(PLANS, key, text.encode())
    KEPT.forget()
    assert same(first, search(WORKLOADS["primes"], GEMMINI, SMALL))
    assert kept_on_disk(PLANS) == {key: kept}


def test_other_options_and_workloads_have_plans_of_their_own(own_cache: Path) -> None:
    search(WORKLOADS["primes"], GEMMINI, SMALL)
    search(WORKLOADS["primes"], GEMMINI, {**SMALL, "dram_latency_cycles": 50})
    search(WORKLOADS["one"], GEMMINI, SMALL)
    assert len(kept_on_disk(PLANS)) == 3


def test_a_cache_that_cannot_be_written_or_is_off(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = own_cache / "file"
    blocked.write_text("")
    monkeypatch.setenv(disk.ENVIRONMENT, str(blocked))
    assert search(WORKLOADS["one"], GEMMINI, SMALL).timing.cycles > 0
    monkeypatch.setenv(disk.ENVIRONMENT, "")
    assert disk.folder() is None
    assert search(WORKLOADS["primes"], GEMMINI, SMALL).timing.cycles > 0
    monkeypatch.setenv(disk.ENVIRONMENT, str(own_cache))
    assert not kept_on_disk(PLANS)


def test_divisions_cut_into_equal_parts() -> None:
    assert divisions(49, 16).tolist() == [1, 2, 4]
    assert divisions(1, 16).tolist() == [1]
    assert divisions(7, 1).tolist() == [1, 2, 3, 4, 7]
    assert divisions(100, 1, 10).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    many = divisions(100_000, 16, limit=24)
    assert len(many) <= 26 and many[0] == 1 and many[-1] == 6250
