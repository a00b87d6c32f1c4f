"""Plans chosen by time, by energy and by functions of both; simulating every plan; ``archloom map``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.search import search as search_layer
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.chain.space import Chain
from archloom.mapper.spatial.epilogue import Epilogue
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import TileGemm
from archloom.mapper.spatial.products.batched import Product
from archloom.mapper.spatial.products.convolution import Convolution
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.rates import Rates, measured_joules
from archloom.mapper.spatial.space import Rules
from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
from archloom.mapper.spatial.sweeps.reduction import Columns, Rows
from archloom.mapper.spatial.workloads import AnyWork, emitted, kind_of, planned, search, search_workload
from archloom.mapper.workload import AS_IT_IS
from archloom.mapper.workload import gemm as tiled
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.cli import main
from archloom.tvm_backend.commands import mapping
from archloom.uma_targets.cores.target import Wormhole
from tests.support.examples import every
from tests.support.mapper.energies import without_control

GEMM = TileGemm(8, 8, 8)
CONVOLUTION = Convolution(1, 14, 14, 64, 64, (3, 3), padding=(1, 1, 1, 1), epilogue=Epilogue(True, False, "relu"))

EXACT: dict[str, AnyWork] = {
    "a product": TileGemm(5, 7, 12),
    "a reduction of seven tiles": TileGemm(2, 3, 7),
    "a convolution of three tiles of channels": Convolution(1, 6, 5, 96, 40, (2, 2), (2, 2)),
    "a batch": Product(2, 96, 160, 70, True, True),
    "a batch and an epilogue": Product(3, 96, 100, 64, epilogue=Epilogue(True, True, "gelu")),
    "attention": Attention.of(1, 4, 200, 64),
    "attention with a bias": Attention.of(2, 3, 100, 32, bias=True),
    "causal attention": Attention.of(1, 8, 150, 64, 2, causal=True),
    "attention to what came before": Attention(2, 300, 300, 32, 2, 10),
    "a step of decoding": Attention.of(1, 8, 1, 64, 2, keys=500),
    "a convolution": CONVOLUTION,
    "a convolution with a stride": replace(CONVOLUTION, stride=(2, 2)),
    "a convolution with dilation": Convolution(2, 9, 11, 32, 40, (5, 3), padding=(1, 1, 1, 1), dilation=(1, 2)),
    "a chain": Chain(256, 128, 512, 128),
    "a chain of odd sizes": Chain(70, 100, 300, 90, "relu"),
    "a chain with biases": Chain(200, 100, 300, 90, "gelu", (True, True)),
    "a chain with a bias and a residual": Chain(128, 64, 100, 200, None, (False, True), True),
    "element by element": Elementwise(300, 200, (Operation("add", "tensor"), Operation("multiply", "row"))),
    "a softmax": Rows(300, 400, "softmax", 0.5),
    "a layer norm": Rows(200, 400, "layer_norm"),
    "means of rows": Rows(200, 400, "mean"),
    "means of columns": Columns(500, 300, "mean"),
}
"""Workloads whose energies the models give exactly."""


@cache
def graph() -> ArchitectureGraph:
    return wormhole(rows=2, columns=2)


def energies(work: AnyWork, samples: int, chip: ArchitectureGraph | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Estimated and measured joules of candidates from the whole range of the estimates, of what they move and compute:
    estimates add leakage by their cycles, and leave out control."""
    chip = without_control(chip or graph())
    kind, machine = kind_of(work), Machine.of(chip)
    found = kind.space(work, machine, None)
    expected = kind.joules(work, machine, Rates.of(chip), found)
    chosen = np.argsort(expected, kind="stable")[np.linspace(0, len(found) - 1, samples).astype(int)]
    streams = [emitted(work, found.plan(i), machine) for i in chosen.tolist()]
    return expected[chosen], np.array([measured_joules(s, chip, simulated(s, chip)) for s in streams])


@pytest.mark.first_case
@pytest.mark.parametrize("name", every(7, EXACT))
def test_estimated_energies_are_those_that_are_measured(name: str) -> None:
    expected, real = energies(EXACT[name], 5)
    np.testing.assert_allclose(expected, real, rtol=1e-9)


@pytest.mark.first_case
@pytest.mark.parametrize("work", [
    Product(3, 96, 96, 64), Attention.of(1, 4, 96, 64), Chain(96, 64, 128, 64), CONVOLUTION, Rows(96, 200, "softmax"),
], ids=lambda work: type(work).__name__)
def test_every_workload_is_planned_by_any_objective(work: AnyWork) -> None:
    fast, frugal = (search_workload(work, graph(), top_k=2, objective=name).best for name in ("time", "energy"))
    both = search_workload(work, graph(), top_k=2, objective=lambda seconds, joules: seconds * joules).best
    assert fast.joules is None and frugal.joules is not None and both.joules is not None
    assert frugal.score == frugal.joules <= both.joules and fast.cycles <= 1.03 * both.cycles
    assert planned(work, graph(), top_k=2, objective="energy").joules == frugal.joules


MACHINES: dict[str, Callable[[], ArchitectureGraph]] = {
    "mesh": lambda: mesh(3, 2), "one core": lambda: mesh(1, 1), "rings": lambda: triple_ring(columns=2),
}


@pytest.mark.first_case
@pytest.mark.parametrize("tiles", [(5, 6, 7), (3, 4, 5), (7, 3, 11), (2, 9, 6)])
def test_what_is_chosen_by_time_is_no_slower_than_what_is_chosen_otherwise(tiles: tuple[int, int, int]) -> None:
    """But for what a search of five simulated candidates may lose (docs/wormhole.md)."""
    chip = mesh(1, 1)
    fast, other = (search(TileGemm(*tiles), chip, objective=name).best for name in ("time", "edp"))
    assert fast.cycles <= 1.01 * other.cycles


@pytest.mark.slow
@pytest.mark.parametrize("name", every(3, MACHINES))
def test_energies_of_every_machine_are_near_those_that_are_measured(name: str) -> None:
    chip = MACHINES[name]()
    expected, real = energies(GEMM, 5, chip)
    np.testing.assert_allclose(expected, real, rtol=0.1)
    fast, frugal = (search(TileGemm(5, 6, 7), chip, objective=name).best for name in (seconds, "energy"))
    assert fast.joules is not None and frugal.joules is not None
    assert frugal.joules <= fast.joules and fast.cycles <= frugal.cycles


def seconds(time: float, energy: float) -> float:
    """As the objective "time", but that energies are measured, too."""
    return time


@pytest.mark.slow
def test_each_objective_gets_the_least_of_its_own() -> None:
    fast, frugal, both = (search(GEMM, graph(), objective=name).best for name in ("time", "energy", "edp"))
    assert fast.joules is None and frugal.joules is not None and both.joules is not None
    assert fast.cycles <= both.cycles
    assert frugal.joules <= both.joules
    assert both.score == pytest.approx(both.timing.seconds * both.joules)


@pytest.mark.slow
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
        search(GEMM, without_energies(), objective="energy")


def without_energies() -> ArchitectureGraph:
    found = replace(mesh(2, 1), technology=None)
    for place in found.objects.values():
        for figure in ("joules_per_access", "joules_per_operation", "joules_per_byte"):
            if hasattr(place, figure):
                object.__setattr__(place, figure, None)
    return found


def test_every_plan_is_simulated_and_heard_when_asked_for() -> None:
    heard: list[int] = []
    begun: list[object] = []
    gemm, machine = TileGemm(2, 2, 1), wormhole(rows=1, columns=2)
    found = search(gemm, machine, exhaustive=True, progress=lambda trial: heard.append(trial.cycles),
                   begun=lambda plan, cycles: begun.append((plan, cycles)))
    assert [(t.plan, t.estimated_cycles) for t in found.trials] == begun
    assert len(heard) == len(found.trials) == len({t.plan for t in found.trials}) >= found.considered
    assert found.best.cycles == min(heard)
    with pytest.raises(MappingError, match="all are simulated only of up to"):
        search(TileGemm(64, 64, 64), wormhole(), exhaustive=True)


def test_the_command_prints_the_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = ["map", "--gemm", "64x64x64", "--rows", "1", "--columns", "2", "--objective", "edp"]
    assert main([*asked, "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert not printed.err
    assert (result["rows"], result["columns"], result["objective"]) == (1, 2, "edp")
    assert result["cycles"] == min(t["cycles"] for t in result["trials"] if t["score"] == min(
        t["score"] for t in result["trials"]))
    monkeypatch.setattr(mapping, "LONG_CYCLES", 0)
    assert main([*asked, "--explain"]) == 0
    printed = capsys.readouterr()
    assert result["plan"] in printed.out
    assert printed.err.count("simulating ") == len(result["trials"])


@pytest.mark.parametrize("asked", [
    ["--attention", "1x4x64x32", "--keys", "90", "--causal"], ["--chain", "64x64x96x32", "--activation", "relu"],
    ["--products", "3x64x64x64", "--activation", "gelu"], ["--convolution", "1x8x8x32x32x3x3", "--padding", "1"],
    ["--layer-norm", "64x96"],
], ids=lambda asked: asked[0])
def test_the_command_plans_all_workloads(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    mesh_of = ["--rows", "1", "--columns", "2", "--top-k", "1"]
    assert main(["map", *asked, *mesh_of, "--objective", "energy", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["joules"] == min(trial["joules"] for trial in result["trials"]) > 0
    assert result["workload"].startswith(asked[0].removeprefix("--").replace("-", "_"))


@pytest.mark.parametrize(("arguments", "message"), [
    (["--gemm", "64x64"], "expected MxNxK"),
    (["--gemm", "64x64x64", "-t", "moon"], "'moon' is none of wormhole, mesh, triple_ring"),
    (["--gemm", "64x64x64", "-O", "wings=2"], "wormhole has no such option"),
    (["--gemm", "64x64x64", "-O", "sums=many"], "sums=many: expected a whole number"),
    (["--gemm", "64x64x64", "-O", "sums=1.5"], "sums=1.5: expected a whole number"),
    (["--gemm", "64x64x64", "-O", "clock_hz=inf"], "clock_hz=inf: expected a number"),
    (["--gemm", "64x64x64", "-t", "mesh", "-O", "torus=1"], "torus=1: expected true or false"),
    (["--gemm", "999999999x999999999x999999999"], "A, B, C take 6000000000000000064 bytes of memory, of which "
                                                  "wormhole has"),
    (["--gemm", "2048x2048x2048", "-t", "mesh", "-O", "dram_bytes=1048576"],
     "bytes of memory, of which mesh has 1048576"),
    (["--products", "99999999x64x64x64"], "bytes of memory, of which wormhole has"),
    (["--convolution", "1x8x8x8x8x3x3", "--padding", "99999999"], "bytes of memory, of which wormhole has"),
    (["--attention", "1x999x99999x64"], "bytes of memory, of which wormhole has"),
    (["--chain", "9999999x64x64x9999"], "bytes of memory, of which wormhole has"),
    (["--softmax", "99999999x64"], "bytes of memory, of which wormhole has"),
    (["--gemm", "64x64x64", "--top-k", "0"], "at least one plan"),
    (["--gemm", "0x64x64"], "every extent must be at least 1"),
    (["--attention", "1x4x64"], "expected BxHxQxD, such as 64x64x64x64"),
    (["--attention", "1x4x64x32", "--kv-heads", "3"], "the heads of keys must divide those of queries"),
    (["--chain", "64x64x64x64", "--activation", "swash"], "activation 'swash': expected one of relu"),
    (["--softmax", "64x64", "--causal"], "--causal goes with --attention, not with --softmax"),
    (["--gemm", "64x64x64", "-t", "none.df"], "none.df: "),
    (["--gemm", "64x64x64", "-t", "mine.df", "--rows", "2"], "mine.df says itself how large"),
    (["--gemm", "64x64x64", "-t", "mine.df", "-O", "wings=2"], "mine.df has no option wings (there is: rates)"),
])
def test_bad_input_is_told(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_layers_of_networks_are_planned_by_the_objective() -> None:
    target = Wormhole.kit.accelerator
    options = {"rows": 2, "columns": 2}
    work = tiled(160, 128, 96, epilogue=AS_IT_IS, dtype="float16", tile=32)
    fast, frugal = (search_layer(work, target, options, objective=name, use_cache=False) for name in ("time", "energy"))
    chip = target.graph(options)
    spent = [measured_joules(plan.stream, chip, plan.timing) for plan in (fast, frugal)]
    assert spent[1] < spent[0] and fast.timing.cycles <= frugal.timing.cycles


def test_a_pattern_that_is_not_allowed_is_in_no_plan() -> None:
    chip = mesh(4, 1)
    for allowed in ("row", "wave"):
        plans = [t.plan for t in search(TileGemm(8, 8, 8), chip, rules=Rules(a=(allowed,), b=(allowed,))).trials]
        assert all(plan.a[0] == allowed or plan.spread(1) == 1 for plan in plans)
    with pytest.raises(MappingError, match="no plan has the patterns and levels that are asked for"):
        search(TileGemm(8, 8, 8), chip, rules=Rules(a=("column",), b=("column",)))
