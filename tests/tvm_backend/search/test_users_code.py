"""What users write for a search: spaces, objectives and figures of their own, and what is said where these fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import archloom
from archloom.oracle.errors import ArchloomError, InputError, TargetError
from archloom.tvm_backend import cli
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.search.candidate import checked
from archloom.tvm_backend.search.result import SearchResult
from archloom.tvm_backend.search.spent import Spent
from archloom.tvm_backend.targets.registry import located
from tests.support.tutorial import write_tiles
from tests.support.tvm_backend.registered import forget, forgotten_after

search = partial(archloom.search, sampler="grid", quiet=True)


def gemms(trial: Any) -> archloom.Candidate:
    return archloom.Candidate(f"gemm(m=4,n=4,k={trial.suggest_int('k', 1, 2)})", "oma")


def broken(report: Report) -> float:
    return report.cycles / 0


def wordy(report: Report) -> Any:
    return f"{report.cycles} cycles"


@pytest.mark.parametrize(("function", "message"), [
    (broken, r"test_users_code.py:\d+: objective 'broken': ZeroDivisionError: division by zero"),
    (wordy, r"objective 'wordy': expected a number, found '\d+ cycles'")])
def test_an_objective_that_fails_is_named(function: Callable[[Report], float], message: str) -> None:
    found = search(gemms, objectives=function)
    assert found.counts["failed"] == 2
    assert all(re.search(message, row.error or "") for row in found.rows())


def test_a_figure_and_a_network_that_fail_are_named() -> None:
    def fails() -> Any:
        raise RuntimeError("diverged")

    for name, candidate in ((r"figure 'loss'", archloom.Candidate("gemm(m=1,n=1,k=1)", "oma", figures={"loss": fails})),
                            (r".*fails\(\)", archloom.Candidate(fails, "oma"))):
        (row,) = search(lambda trial, made=candidate: made, objectives="cycles").rows()
        assert re.search(rf"test_users_code.py:\d+: {name}: RuntimeError: diverged", row.error or "")


def test_kept_results_belong_to_the_functions_of_objectives(tmp_path: Path) -> None:
    def times(factor: int) -> archloom.Objective:
        return archloom.Objective("mine", of=lambda report: report.cycles * factor)

    def best(factor: int) -> SearchResult:
        return search(gemms, objectives=times(factor), output=tmp_path / "found")

    first = best(2)
    assert best(2).spent.known == 2  # type: ignore[union-attr]  # it was run
    with pytest.raises(InputError, match="holds another search .*function mine '.*' there, '.*' here"):
        best(3)
    assert archloom.read_search(tmp_path / "found").front[0].values == first.front[0].values


SPACE = """
import archloom
import tiles
def space(trial):
    return archloom.Candidate("gemm(m=4,n=4,k=4)", "tiles", {"dim": trial.suggest_categorical("dim", [2, 4])})
"""


@pytest.mark.slow
def test_processes_find_a_target_by_its_file(tmp_path: Path) -> None:
    """Of a command, of a space that imports it and, in several, beside a target that comes along."""
    write_tiles(tmp_path)
    (tmp_path / "space.py").write_text(SPACE)
    for words in (("search", "space.py", "--sampler", "grid"),
                  ("sweep", "gemm(m=4,n=4,k=4)", "-t", "tiles.py,qkv", "-O", "tiles.dim=2,4")):
        command = [sys.executable, "-m", "archloom", *words, "--objective", "cycles", "--workers", "2", "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and json.loads(done.stdout)["counts"] == {"measured": 2, "bounded": 0, "failed": 0}


def test_where_a_target_lies() -> None:
    with forgotten_after():
        assert located("oma") == "oma"
        from tests.support.uma_targets.lanes import Lanes

        Lanes().register()
        assert located("lanes") == f"{Path(sys.modules[Lanes.__module__].__file__ or '').resolve()}:lanes"
        forget("lanes")
        type("Typed", (Lanes,), {"__module__": "__main__"})().register()
        with pytest.raises(TargetError, match="'lanes': other processes .* __main__.Typed is part of what runs here"):
            located("lanes")


def test_a_space_may_return_a_module_with_its_inputs() -> None:
    import torch

    pair = torch.nn.Linear(4, 4), torch.zeros(1, 4)
    assert checked(pair).networks == (pair,)
    with pytest.raises(InputError, match="or a pair of a module and its example inputs; found tuple"):
        checked((3, 4))


@pytest.mark.parametrize("sampler", ["random", "pymoo"])
def test_a_space_that_fails_before_it_asks_for_anything_says_so(sampler: str) -> None:
    def space(trial: Any) -> archloom.Candidate:
        raise RuntimeError("no data")

    try:
        message = search(space, sampler=sampler, trials=2).failures[0][0]
    except ArchloomError as error:
        message = str(error)
    assert "RuntimeError: no data" in message


def test_choices_may_be_of_any_type(tmp_path: Path) -> None:
    """Optuna's storages hold plain values alone; nothing is said of that by a sampler that stores nothing."""
    def space(trial: Any) -> archloom.Candidate:
        m, n = trial.suggest_categorical("shape", [(2, 4), (4, 2)])
        k = trial.suggest_categorical("k", [np.int64(3)])
        return archloom.Candidate(f"gemm(m={m},n={n},k={k})", "oma")

    with warnings.catch_warnings(record=True) as said:
        search(space, sampler="random", trials=4, study=f"{tmp_path}/study.log", objectives="cycles")
    assert not said
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(f"{tmp_path}/study.log"))
    (study,) = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=study.study_name, storage=storage).trials
    assert {(trial.params["shape"], trial.params["k"]) for trial in trials} <= {("(2, 4)", 3), ("(4, 2)", 3)}


def test_advice_about_samplers_is_for_those_that_think() -> None:
    def waits(one_by_one: bool, sampler: float, measuring: float) -> bool:
        return Spent(one_by_one, seconds={"sampler": sampler, "bounds": 0.0, "measuring": measuring}).waits_for_sampler

    assert waits(True, 9, 1)
    assert not waits(False, 9, 1) and not waits(True, 9, 10) and not waits(True, 0.1, 0.01)


def test_constraints_that_bounds_alone_break_are_told() -> None:
    found = search(gemms, objectives="cycles", constraints="cycles<=1")
    assert found.counts["bounded"] == 2 and "no candidate keeps all constraints: cycles<=1" in str(found)


@pytest.mark.slow
def test_accuracy_is_found_on_the_samples_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "space.py").write_text(
        "import archloom\n\n\ndef space(trial):\n    return archloom.Candidate('digits_cnn', 'gemmini', "
        "{'dim': trial.suggest_categorical('dim', [16])})\n")
    assert cli.main(["search", str(tmp_path / "space.py"), "--sampler", "grid", "--objective", "accuracy", "--inputs",
                     "digits", "-q"]) == 0
    assert re.match(r"accuracy .*\n-.*\n *0\.9\d+ ", capsys.readouterr().out)
