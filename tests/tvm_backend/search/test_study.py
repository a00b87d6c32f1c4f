"""Studies of Optuna's beside searches, as Optuna itself loads them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import archloom
from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.objectives import aims
from archloom.tvm_backend.search.store import Store
from archloom.tvm_backend.search.study import Study
from tests.support.tvm_backend.searches import AIMS, Cost, TableWorkers, definition, front_of, run

TABLE = {(row, column): Cost(9 - row + column, row + 1, row + column + 1, error="no" if row == column == 1 else None)
         for row in range(3) for column in range(3)}


def places(trials: list[Any]) -> set[tuple[int, int]]:
    return {(trial.params["row"], trial.params["column"]) for trial in trials}


@pytest.mark.first_case
@pytest.mark.parametrize("kind", ["sqlite", "journal"])
@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_optuna_loads_what_was_searched(tmp_path: Path, kind: str, sampler: str) -> None:
    given = f"sqlite:///{tmp_path}/study.db" if kind == "sqlite" else str(tmp_path / "journal.log")
    store = Store.create(None, definition())
    for _ in range(2):  # the second time all is known, and nothing is added
        run(TABLE, store, TableWorkers(TABLE), sampler=sampler, trials=12, study=Study(given, "these", AIMS))
    there = given if kind == "sqlite" else JournalStorage(JournalFileBackend(given))
    study, rows = optuna.load_study(study_name="these", storage=there), {row.key: row for row in store.rows()}
    assert study.metric_names == ["seconds", "area_mm2", "utilization"]
    assert [way.name for way in study.directions] == ["MINIMIZE", "MINIMIZE", "MAXIMIZE"]
    assert {trial.user_attrs["key"] for trial in study.trials} == set(rows) and len(study.trials) == len(rows)
    for trial in study.trials:
        row = rows[trial.user_attrs["key"]]
        assert trial.params == row.params and trial.user_attrs["target"] == "gemmini"
        assert trial.state.name == {"measured": "COMPLETE", "bounded": "PRUNED", "failed": "FAIL"}[row.state]
        assert row.state != "measured" or tuple(trial.values) == row.values
        assert (trial.user_attrs.get("error") == row.error)
    if sampler == "grid":
        assert places(study.best_trials) == front_of(TABLE)


def test_a_candidate_whose_figure_is_not_finite_has_failed() -> None:
    """It is on no front, for the store and for Optuna alike, and the search goes on."""
    own, store = optuna.create_study(direction="minimize"), Store.create(None, definition(aims("seconds")))
    run({**TABLE, (0, 0): Cost(math.inf, 1, 1)}, store, TableWorkers({**TABLE, (0, 0): Cost(math.inf, 1, 1)}),
        wanted=aims("seconds"), study=Study(own, "", aims("seconds")), bounds=False)
    failed = [row for row in store.rows() if row.state == "failed"]
    assert sorted(row.error or "" for row in failed) == ["no", "seconds: expected a finite number, found inf"]
    assert len(store.front([1])) == 1 and sum(trial.state is TrialState.FAIL for trial in own.trials) == 2


@pytest.mark.slow
def test_constraints_are_optunas(tmp_path: Path) -> None:
    wanted = aims("seconds", "area_mm2<=2")
    url, store = f"sqlite:///{tmp_path}/study.db", Store.create(None, definition(wanted))
    run(TABLE, store, TableWorkers(TABLE), wanted=wanted, study=Study(url, "these", wanted), bounds=False)
    study = optuna.load_study(study_name="these", storage=url)
    assert study.best_trial.params["row"] == 1 and math.isclose(study.best_value, 8)


@pytest.mark.slow
def test_kinds_of_parameters(tmp_path: Path) -> None:
    """What a space asks for is what the study has, also of choices that Optuna's storages cannot hold."""
    def space(trial: Any) -> archloom.Candidate:
        trial.suggest_float("x", 0.0, 1.0, step=0.5)
        trial.suggest_categorical("pair", [(1, 2), (3, 4)])
        k = trial.suggest_int("k", 2, 4, step=2)
        return archloom.Candidate(f"gemm(m=1,n=1,k={k})", "oma")

    url = f"sqlite:///{tmp_path}/study.db"
    archloom.search(space, sampler="grid", objectives="cycles", study=url, quiet=True)
    study = optuna.load_study(study_name="archloom", storage=url)
    assert {trial.params["pair"] for trial in study.trials} <= {"(1, 2)", "(3, 4)"}
    assert {trial.params["k"] for trial in study.trials} == {2, 4}
    assert all(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in study.trials)


def test_a_study_of_the_users_own_and_those_that_do_not_fit(tmp_path: Path) -> None:
    own = optuna.create_study(direction="minimize")
    run(TABLE, Store.create(None, definition(aims("seconds"))), TableWorkers(TABLE), wanted=aims("seconds"),
        study=Study(own, "", aims("seconds")))
    assert own.best_value == min(cost.seconds for cost in TABLE.values() if cost.error is None)
    with pytest.raises(InputError, match="study 'x' of .*: expected maximize, found minimize"):
        Study(own, "x", aims("max:seconds"))
    with pytest.raises(InputError, match="study 'x' of nothing://here: "):
        Study("nothing://here", "x", aims("seconds"))
    with pytest.raises(InputError, match="study 'x' of sqlite:////nowhere/study.db: "):
        Study("sqlite:////nowhere/study.db", "x", aims("seconds"))
