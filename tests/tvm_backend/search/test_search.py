"""Searches of real estimates, from Python and from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import archloom
from archloom.mapper import search as mapper_search
from archloom.mapper.cache import PLANS
from archloom.mapper.disk import ENVIRONMENT
from archloom.tvm_backend import cli
from archloom.tvm_backend.search.evaluate import Context, Question, bounds_of, figures_of, intervals
from archloom.tvm_backend.search.result import read
from examples import sweep_gemmini
from tests.support.kept import kept_on_disk
from tests.support.tvm_backend.searches import kept
from tests.support.tvm_backend.small_networks import float_cnn, images, int8_cnn

NETWORKS = ["gemm(m=16,n=16,k=32)", "gemm(m=1,n=64,k=16)"]
OPTIONS = {"dim": [4, 8, 16], "scratchpad_kib": [64, 128]}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of plans."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    mapper_search.KEPT.forget()


def gemm(width: int) -> str:
    return f"gemm(m={width},n={width},k=8)"


def score(width: int) -> float:
    return 1 - 1 / width


def codesign(trial: Any) -> archloom.Candidate:
    """A network and a machine, a figure of the user's, and a machine that there is not."""
    width, dim = trial.suggest_categorical("width", (8, 16)), trial.suggest_categorical("dim", (4, 8, 2000))
    return archloom.Candidate(partial(gemm, width), "gemmini", {"dim": dim}, {"score": partial(score, width)})


@pytest.mark.slow
def test_a_sweep_finds_what_estimates_say(own_cache: None) -> None:
    found = archloom.sweep(NETWORKS, "gemmini", OPTIONS, weights=[1, 3], objectives="cycles,max:utilization")
    every = {(d, k): [archloom.estimate(n, "gemmini", {"dim": d, "scratchpad_kib": k}) for n in NETWORKS]
             for d in OPTIONS["dim"] for k in OPTIONS["scratchpad_kib"]}
    points = {place: (a.cycles + 3 * b.cycles, -(a.offloaded_macs + 3 * b.offloaded_macs)
                      / ((a.cycles + 3 * b.cycles) * a.peak_macs_per_cycle)) for place, (a, b) in every.items()}
    best = {place for place, p in points.items()
            if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points.values())}
    assert {(row.params["dim"], row.params["scratchpad_kib"]) for row in found.front} == best
    assert [row.values[0] for row in found.front] == sorted(points[place][0] for place in best)
    assert sum(found.counts.values()) == len(points) == len(list(found.rows())) and not found.counts["failed"]


@pytest.mark.slow
def test_networks_and_machines_together(own_cache: None) -> None:
    found = archloom.search(codesign, sampler="grid", objectives="seconds,max:score", constraints="score>=0.5")
    assert found.counts["failed"] == 2 and {row.params["dim"] for row in found.front} <= {4, 8}
    assert max(row.values[1] or 0 for row in found.front) == score(16)
    assert found.failures[0][1] == 2 and "option 'dim': expected an integer" in found.failures[0][0]
    text = str(found)
    assert "seconds" in text and "width" in text and "warning: 2 candidates failed:" in text and "by grid" in text
    assert json.loads(json.dumps(found.to_json()))["counts"] == dict(found.counts)


def widths(widest: int, trial: Any) -> archloom.Candidate:
    return archloom.Candidate(partial(gemm, trial.suggest_int("width", 1, widest)), "oma")


@pytest.mark.slow
def test_a_partial_of_a_function_is_a_space_for_processes_too(own_cache: None) -> None:
    alone, together = (archloom.search(partial(widths, 3), sampler="grid", objectives="cycles", workers=workers)
                       for workers in (1, 2))
    assert kept(list(alone.front)) == kept(list(together.front)) and alone.counts["failed"] == 0


@pytest.mark.slow
def test_processes_find_the_same_and_plan_each_layer_once(
    own_cache: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = archloom.search(codesign, sampler="grid", objectives="seconds,max:score", bounds=False)
    plans = len(kept_on_disk(PLANS))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "other"))
    together = archloom.search(codesign, sampler="grid", objectives="seconds,max:score", bounds=False, workers=2)
    assert len(kept_on_disk(PLANS)) == plans == 4
    assert sorted(kept(list(together.rows()))) == sorted(kept(list(alone.rows())))
    assert kept(list(together.front)) == kept(list(alone.front))


@pytest.mark.slow
def test_accuracy_is_that_of_the_accelerator(own_cache: None) -> None:
    network, samples = int8_cnn(), images(4)
    wanted = archloom.check(network, options={"dim": 4}, inputs=samples, labels=np.arange(4) % 5).accuracy
    found = archloom.sweep(network, "gemmini", {"dim": [4]}, objectives="seconds,accuracy", inputs=samples,
                           labels=np.arange(4) % 5)
    assert wanted is not None and found.front[0].values[1] == wanted.accelerator


def latency(report: Any) -> float:
    return float(report.cycles) / report.clock_hz


@pytest.mark.slow
def test_a_function_of_reports_is_an_objective(own_cache: None) -> None:
    found = archloom.sweep(NETWORKS[0], "gemmini", {"dim": [4, 8]}, objectives=[latency, "cycles"])
    assert all(row.values[0] == row.values[1] / 1e9 for row in found.front if row.values[1])


def test_on_the_command_line(own_cache: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, words = tmp_path / "sweep", ["sweep", NETWORKS[0], "-t", "gemmini", "-O", "dim=4..16:x2"]
    assert cli.main([*words, "-o", str(folder), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert cli.main([*words, "-o", str(folder), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["known"] == 3 and again["front"] == first["front"] and again["counts"] == first["counts"]
    assert cli.main(["search", str(folder)]) == 0
    assert "3 candidates: " in capsys.readouterr().out
    assert cli.main([*words, "-o", str(folder), "--objective", "cycles"]) == 2
    assert "holds another search" in capsys.readouterr().err
    for bad, message in ((["-O", "dim=4..2"], "range '4..2'"), (["--objective", "accuracy"], "accuracy: not known"),
                         (["-O", "spad_kib=64"], "did you mean"), (["--sampler", "tpee", "-n", "3"], "'tpe'")):
        assert cli.main(["sweep", NETWORKS[0], *bad]) == 2
        assert message in capsys.readouterr().err


SPACE = '''
from functools import partial
import archloom
def network(k):
    return f"gemm(m=8,n=8,k={k})"
def space(trial):
    return archloom.Candidate(partial(network, trial.suggest_int("k", 1, 4)), "oma")
'''


def test_a_file_with_a_space(own_cache: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "space.py"
    file.write_text(SPACE)
    assert cli.main(["search", str(file), "-n", "3", "--sampler", "random", "--objective", "cycles", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sampler"] == "Optuna's RandomSampler" and len(found["front"]) == 1
    words = ["search", str(file), "--sampler", "grid", "--objective", "cycles", "--workers", "2", "--json"]
    assert cli.main(words) == 0
    together = json.loads(capsys.readouterr().out)
    assert sum(together["counts"].values()) == 4 and not together["counts"]["failed"]
    assert cli.main(["search", str(tmp_path / "none.py"), "-n", "1"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_parquet_has_every_candidate(own_cache: None, tmp_path: Path) -> None:
    from pyarrow import parquet

    found = archloom.search(codesign, sampler="grid", objectives="seconds,max:score")
    found.to_parquet(tmp_path / "all.parquet")
    table = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row["key"] for row in table] == [row.key for row in found.rows()]
    assert [row["param.width"] for row in table] == [row.params["width"] for row in found.rows()]
    assert [(row["seconds"], row["score"]) for row in table] == [row.values or (None, None) for row in found.rows()]


@pytest.mark.slow
def test_a_command_that_is_killed_goes_on(tmp_path: Path) -> None:
    """At several moments, whatever it and its processes are doing."""
    file = tmp_path / "space.py"
    file.write_text(SPACE.replace("1, 4", "1, 60"))

    def command(folder: str, workers: int = 1) -> list[str]:
        return [sys.executable, "-m", "archloom.tvm_backend.cli", "search", str(file), "-n", "40", "--sampler",
                "random", "-o", str(tmp_path / folder), "--workers", str(workers)]

    subprocess.run(command("whole"), check=True, env={**os.environ, ENVIRONMENT: str(tmp_path / "a")})
    for workers in (1, 2):
        folder, environment = f"killed{workers}", {**os.environ, ENVIRONMENT: str(tmp_path / f"b{workers}")}
        for seconds in (2, 4, 6, 8):
            with subprocess.Popen(command(folder, workers), env=environment) as process:
                time.sleep(seconds)
                process.send_signal(signal.SIGKILL)
        subprocess.run(command(folder, workers), check=True, env=environment)
        whole, ended = (kept(list(read(tmp_path / name).rows())) for name in ("whole", folder))
        assert ended == whole if workers == 1 else {row[0] for row in ended} == {row[0] for row in whole}
        assert kept(list(read(tmp_path / folder).front)) == kept(list(read(tmp_path / "whole").front))


@pytest.mark.slow
def test_a_dask_cluster_finds_the_same(own_cache: None) -> None:
    import distributed

    alone = archloom.sweep(NETWORKS, "gemmini", OPTIONS, objectives="cycles,max:utilization", bounds=False)
    with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        there = archloom.sweep(NETWORKS, "gemmini", OPTIONS, objectives="cycles,max:utilization", bounds=False,
                               cluster=cluster.scheduler_address)
    assert kept(list(there.rows())) == kept(list(alone.rows()))
    with pytest.raises(archloom.InputError, match="no Dask scheduler answers"):
        archloom.sweep(NETWORKS, "gemmini", OPTIONS, cluster="tcp://127.0.0.1:1")


@pytest.mark.slow
def test_the_example_sweeps(own_cache: None, tmp_path: Path) -> None:
    found = sweep_gemmini.sweep(tmp_path / "sweep", mix={NETWORKS[0]: 2.0, NETWORKS[1]: 1.0},
                                options={"dim": (4, 8), "scratchpad_kib": (64,), "dma_bus_bits": (64, 128)})
    assert sum(found.counts.values()) == 4 and not found.counts["failed"]
    assert found.front and all(joules and area for row in found.front for _, joules, area in [row.values])


def test_an_error_of_any_kind_is_one_of_the_candidate(own_cache: None) -> None:
    def space(trial: Any) -> Any:
        kind = trial.suggest_categorical("kind", ("space", "builder", "figure", "network", "none"))
        if kind == "space":
            raise ValueError("the space")
        network = partial(broken, 3) if kind == "builder" else "gemm(m=0)" if kind == "network" else NETWORKS[0]
        return archloom.Candidate(network, "oma", figures={"size": partial(broken, 2) if kind == "figure" else 1})

    found = archloom.search(space, sampler="grid", objectives="cycles,size")
    errors = {row.params["kind"]: row.error or "" for row in found.rows()}
    assert not errors["none"] and found.counts == {"measured": 1, "bounded": 0, "failed": 4}
    for kind, message in (("space", "ValueError: the space"), ("builder", "ZeroDivisionError"),
                          ("figure", "ZeroDivisionError"), ("network", "gemm(m=0)")):
        assert message in errors[kind]
    assert "test_search.py:" in errors["figure"]


def broken(size: int) -> float:
    return size / 0


def test_what_is_known_without_a_simulation_rules_candidates_out(own_cache: None) -> None:
    network = "gemm(m=64,n=64,k=64)"
    peak = archloom.estimate(network, "oma").memory
    assert peak is not None
    found = archloom.sweep(network, "oma", {}, objectives="peak_bytes")
    assert found.front[0].values == (peak.peak_bytes,)
    refused = archloom.sweep(network, "oma", {}, objectives="cycles", constraints=f"peak_bytes<={peak.peak_bytes - 1}")
    assert refused.counts == {"measured": 0, "bounded": 1, "failed": 0} and not refused.front


@pytest.mark.first_case
@pytest.mark.parametrize("network, as_int8", [
    ("conv2d(h=8,w=8,c=4,o=4,k=3)", False), ("gemm(m=33,n=9,k=17)", False), ("resnet18(image=32)", False),
    ("onnx", False), ("float", True)])
def test_bounds_simulate_nothing_and_are_below_what_is_simulated(
    own_cache: None, network: str, as_int8: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"onnx": int8_cnn, "float": float_cnn}.get(network, lambda: network)()
    context, question = Context(), Question(archloom.Candidate(given, "gemmini", {"dim": 8}, as_int8=as_int8))
    with monkeypatch.context() as patch:
        patch.setattr(mapper_search, "_search", lambda *_: pytest.fail("a mapping was searched for"))
        bounds = bounds_of(context, question)
    found = figures_of(context, question)
    assert bounds.error is None and found.error is None
    for name, interval in intervals(context, question.candidate, bounds.figures).items():
        value = found.figures[name]
        assert value is None or interval[0] <= value <= interval[1], name


def test_time_of_a_sampler_that_finds_values_when_it_is_asked_for_them_is_its_own() -> None:
    class Slow(optuna.samplers.RandomSampler):
        def sample_independent(self, *args: Any, **more: Any) -> Any:
            time.sleep(0.05)
            return super().sample_independent(*args, **more)

    spent = archloom.search(partial(widths, 3), sampler=Slow(seed=1), trials=3, objectives="cycles", quiet=True).spent
    assert spent is not None and spent.seconds["sampler"] >= 3 * 0.05
