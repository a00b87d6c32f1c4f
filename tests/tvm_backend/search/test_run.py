"""The loop of searches, over tables of made-up costs: what is found does not depend on bounds, workers and ends."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.objectives import aims
from archloom.tvm_backend.search.store import Store
from tests.support.examples import examples, slow
from tests.support.tvm_backend.searches import (
    Cost,
    Table,
    TableWorkers,
    definition,
    front_of,
    kept,
    places,
    run,
)

numbers = st.integers(1, 6).map(float)
costs = st.builds(Cost, numbers, numbers, numbers, st.integers(0, 3).map(float),
                  st.sampled_from((None, None, None, "it does not fit")))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    return {(row, column): draw(costs) for row, count in enumerate(columns) for column in range(count)}


@pytest.mark.slow
@examples(100, 2000)
@given(tables(), st.sampled_from((1, 2, 5)), st.sets(st.sampled_from(("seconds", "utilization"))),
       st.sampled_from((None, 3, 5)))
def test_the_front_is_that_of_measuring_everything(table: Table, count: int, own: set[str], most: int | None) -> None:
    wanted = aims("seconds,area_mm2,max:utilization", () if most is None else f"area_mm2<={most}")
    store, workers = Store.create(None, definition(wanted)), TableWorkers(table, count)
    spent = run(table, store, workers, wanted=wanted, own=sorted(own))
    assert places(store) == front_of({p: c for p, c in table.items() if most is None or c.area_mm2 <= most})
    assert spent.done == len(table) == sum(store.counts().values())
    assert len(workers.measured) == len(set(workers.measured)) == len(table) - spent.bounded
    assert store.counts()["failed"] <= sum(cost.error is not None for cost in table.values())


@pytest.mark.slow
@examples(30, 1000)
@given(tables())
def test_bounds_that_are_tight_leave_the_front_to_be_measured(table: Table) -> None:
    exact = {place: Cost(c.seconds, c.area_mm2, c.utilization) for place, c in table.items()}
    store, workers = Store.create(None, definition()), TableWorkers(exact)
    run(exact, store, workers)
    assert places(store) == front_of(exact) <= set(workers.measured)
    if len(front_of(exact)) == 1:  # it dominates all others, so it is tried first
        assert set(workers.measured) == front_of(exact)


def test_what_is_known_rules_out_before_a_measurement() -> None:
    """Of the second all is known, and the first is better; a sampler that learns is told of measurements."""
    table = {(0, 0): Cost(1, 1, 1, slack=1), (0, 1): Cost(2, 1, 1, slack=0.5)}
    for sampler, measured, looked_up in (("grid", [(0, 0)], [(0, 0), (0, 1)]), ("random", [(0, 0), (0, 1)], [])):
        store, workers = Store.create(None, definition()), TableWorkers(table)
        run(table, store, workers, sampler=sampler, trials=None if sampler == "grid" else 20)
        assert sorted(workers.measured) == measured and sorted(workers.looked_up) == looked_up
        assert places(store) == {(0, 0)}


@examples(8, 500)
@given(tables(), st.sampled_from(("grid", "random", "pymoo")), st.integers(0, 12))
def test_a_search_that_was_ended_goes_on_as_if_it_had_not_been(table: Table, sampler: str, after: int) -> None:
    trials = None if sampler == "grid" else 20
    whole = Store.create(None, definition())
    run(table, whole, TableWorkers(table), sampler=sampler, trials=trials)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.sqlite"
        _killed(table, path, sampler, trials, after)
        with Store.create(path, definition()) as store:
            before, workers = list(store.rows()), TableWorkers(table)
            run(table, store, workers, sampler=sampler, trials=trials)
            assert kept(list(store.rows())) == kept(list(whole.rows()))
            assert kept(before) == kept(list(whole.rows()))[:len(before)]
            done = sum(row.state != "bounded" for row in before)
            assert len(workers.measured) == sum(row.state != "bounded" for row in whole.rows()) - done


def _killed(table: Table, path: Path, sampler: str, trials: int | None, after: int) -> None:
    """A search in a process that is killed after some measurements."""
    child = os.fork()
    if child == 0:
        with Store.create(path, definition()) as store:
            run(table, store, TableWorkers(table, killed_after=after), sampler=sampler, trials=trials)
        os._exit(0)
    os.waitpid(child, 0)


TABLE = {(row, column): Cost(9 - row + column, row + 1, row + column + 1) for row in range(4) for column in range(4)}


@pytest.mark.first_case
@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "qmc", "random", "pymoo", slow("gp")])
def test_every_sampler_searches_and_its_seed_decides(sampler: str) -> None:
    found = []
    for seed in (0, 0, 1):
        store = Store.create(None, definition())
        run(TABLE, store, TableWorkers(TABLE), sampler=sampler, trials=12, seed=seed)
        found.append(kept(list(store.rows())))
    assert found[0] == found[1] and 1 <= len(found[0]) <= 12
    assert found[0] != found[2] or sampler == "qmc"  # whose sequence has no seed


def test_cma_es_takes_one_objective() -> None:
    with pytest.raises(InputError, match="'cmaes': takes one objective, found 3"):
        run(TABLE, Store.create(None, definition()), TableWorkers(TABLE), sampler="cmaes", trials=3)
    one = aims("seconds")
    store = Store.create(None, definition(one))
    run(TABLE, store, TableWorkers(TABLE), sampler="cmaes", trials=12, wanted=one)
    assert sum(store.counts().values()) >= 1


def test_bounds_that_can_rule_nothing_out_are_not_asked_for() -> None:
    """Of an objective that a function of the user's says no bound is known; a constraint may be broken all the same."""
    table = {(0, column): Cost(seconds, 1, 1) for column, seconds in enumerate((5, 1, 2))}
    for own, limits, asked in (((), (), True), (("seconds",), (), False), (("seconds",), "area_mm2<=2", True),
                               (("seconds", "area_mm2"), "area_mm2<=2", False)):
        wanted = aims("seconds,max:utilization", limits)
        store, workers = Store.create(None, definition(wanted)), TableWorkers(table)
        spent = run(table, store, workers, wanted=wanted, own=own)
        assert places(store) == {(0, 1)}
        assert set(workers.bounded) == (set(table) if asked else set())
        assert asked or (set(workers.measured) == set(table) and not spent.bounded and not workers.looked_up)


def test_what_breaks_a_constraint_by_its_bounds_is_not_measured() -> None:
    wanted = aims("seconds", "area_mm2<=2,utilization>=2")
    store, workers = Store.create(None, definition(wanted)), TableWorkers(TABLE)
    run(TABLE, store, workers, wanted=wanted)
    assert all(row <= 1 for row, _ in workers.measured)
    assert places(store) == {(1, 0)}


def test_what_a_target_does_not_say_ends_the_search_at_once() -> None:
    wanted = aims("seconds,joules")
    workers = TableWorkers(TABLE)
    with pytest.raises(InputError, match="joules: not known: figures of the target's graph are missing"):
        run(TABLE, Store.create(None, definition(wanted)), workers, wanted=wanted)
    assert not workers.measured
