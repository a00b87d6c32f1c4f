"""Plans chosen by time, by energy and by functions of both; simulating every plan; ``archloom map``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from acadl_models.acadl import ArchitectureGraph
from acadl_models.mesh import mesh
from acadl_models.wormhole import wormhole
from mapper.spatial.emit import emit
from mapper.spatial.energy import Rates, joules, measured_joules
from mapper.spatial.machine import Machine
from mapper.spatial.plan import TileGemm
from mapper.spatial.search import search
from mapper.spatial.space import space
from mapper.spatial.timing import simulated
from oracle.errors import MappingError
from tvm_backend.cli import main

GEMM = TileGemm(8, 8, 8)


@cache
def graph() -> ArchitectureGraph:
    return wormhole(rows=2, columns=2)


def test_estimated_energies_are_near_those_that_are_measured() -> None:
    machine, rates = Machine.of(graph()), Rates.of(graph())
    found = space(GEMM, machine)
    expected = joules(GEMM, machine, rates, found)
    for i in np.argsort(expected)[np.linspace(0, len(found) - 1, 12).astype(int)].tolist():
        stream = emit(GEMM, found.plan(i), machine)
        real = measured_joules(stream, graph(), simulated(stream, graph()))
        assert expected[i] == pytest.approx(real, rel=0.1), found.plan(i)


def test_each_objective_gets_the_least_of_its_own() -> None:
    fast, frugal, both = (search(GEMM, graph(), objective=name).best for name in ("time", "energy", "edp"))
    assert fast.joules is None and frugal.joules is not None and both.joules is not None
    assert fast.cycles <= both.cycles
    assert frugal.joules <= both.joules
    assert both.score == pytest.approx(both.timing.seconds * both.joules)


def test_a_function_of_seconds_and_joules_is_an_objective() -> None:
    slow = search(GEMM, graph(), objective=lambda seconds, joules: -seconds).best
    assert slow.cycles > search(GEMM, graph()).best.cycles
    assert search(GEMM, graph(), objective=lambda seconds, joules: joules).best == search(
        GEMM, graph(), objective="energy").best
    with pytest.raises(MappingError, match="gives"):
        search(GEMM, graph(), objective=lambda seconds, joules: 1.0)


def test_an_unknown_objective_and_a_graph_without_energies_are_refused() -> None:
    with pytest.raises(MappingError, match="'speed' is none of time, energy, edp"):
        search(GEMM, graph(), objective="speed")
    with pytest.raises(MappingError, match="graph 'mesh' states no energies"):
        search(GEMM, mesh(x=2, y=1), objective="energy")


def test_every_plan_is_simulated_and_heard_when_asked_for() -> None:
    heard: list[int] = []
    gemm, machine = TileGemm(2, 2, 1), wormhole(rows=1, columns=2)
    found = search(gemm, machine, exhaustive=True, progress=lambda trial: heard.append(trial.cycles))
    assert len(heard) == len(found.trials) == len({t.plan for t in found.trials}) >= found.considered
    assert found.best.cycles == min(heard)
    with pytest.raises(MappingError, match="all are simulated only of up to"):
        search(TileGemm(64, 64, 64), wormhole(), exhaustive=True)


def test_the_command_prints_the_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["map", "--gemm", "64x64x64", "--rows", "1", "--columns", "2", "--objective", "edp"]
    assert main([*asked, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["rows"], result["columns"], result["objective"]) == (1, 2, "edp")
    assert result["cycles"] == min(t["cycles"] for t in result["trials"] if t["score"] == min(
        t["score"] for t in result["trials"]))
    assert main([*asked, "--explain"]) == 0
    assert result["plan"] in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--gemm", "64x64"], "expected MxNxK"),
    (["--gemm", "64x64x64", "-t", "moon"], "'moon' is none of wormhole, mesh, triple_ring"),
    (["--gemm", "64x64x64", "-O", "wings=2"], "wormhole has no such option"),
    (["--gemm", "64x64x64", "-O", "sums=many"], "expected int"),
    (["--gemm", "64x64x64", "--top-k", "0"], "at least one plan"),
    (["--gemm", "64x64x64", "-t", "mesh", "--objective", "energy"], "states no energies"),
    (["--gemm", "0x64x64"], "every extent must be at least 1"),
])
def test_bad_input_is_told(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", *arguments]) == 2
    assert message in capsys.readouterr().err
