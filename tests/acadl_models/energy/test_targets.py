"""Energies and areas of all targets, for random products."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import archloom
from archloom.acadl_models.acadl import FunctionalUnit
from archloom.acadl_models.acadl.components import Overrides
from archloom.acadl_models.energy import arithmetic, figures_of, tables
from archloom.acadl_models.energy.figures import leakage_of, technology_of
from archloom.acadl_models.energy.work import work_of
from archloom.acadl_models.mte import mte
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.energy import Energy, energy
from archloom.acadl_models.timing.machine import bind
from archloom.mapper.accelerator import Configuration
from archloom.mapper.search import Plan
from archloom.oracle.errors import InputError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.tvm_backend.estimate.request import Request
from archloom.tvm_backend.report import build
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.targets import registry
from tests.support.examples import often

SMALL = {"wormhole": {"rows": 2, "columns": 2}, "mesh": {"x": 2, "y": 2}, "triple_ring": {"columns": 2},
         "eyeriss": {"rows": 3, "cols": 4}}
TARGETS = often(registry.names(), ("gemmini", "qkv", "tpu_v1", "eyeriss", "mesh"))
M, N, K = 40, 24, 72


@cache
def planned(target: str) -> tuple[Plan, Configuration, Report]:
    """The plan of a product on a target, and what is reported of it."""
    seen: list[tuple[Plan, Configuration]] = []
    real = build.energy_use

    def noted(plan: Plan, made: Configuration) -> Any:
        seen.append((plan, made))
        return real(plan, made)

    with patch.object(build, "energy_use", noted):
        report = archloom.estimate(f"gemm(m={M},n={N},k={K})", target, SMALL.get(target, {}))
    return *seen[0], report


def spent(made: Configuration, stream: Stream) -> tuple[Energy, float]:
    resolved = resolve(stream, made.isa)
    timing = simulate(made.graph, resolved)
    return energy(bind(made.graph, resolved), timing), timing.seconds


@pytest.mark.parametrize("target", TARGETS)
def test_energies_lie_between_arithmetic_alone_and_all_from_memory(target: str) -> None:
    plan, made, report = planned(target)
    found, seconds = spent(made, plan.stream)
    technology = technology_of(made.graph)
    assert technology is not None and not found.missing and found.dynamic_joules is not None
    program = bind(made.graph, resolve(plan.stream, made.isa))
    products = sum(count for static in program.instructions
                   for (operation, _), count in work_of(static.node).items() if operation == "multiply")
    assert products > 0, "the instructions multiply"
    least = M * N * K * arithmetic.known_joules("multiply", "i8", technology)
    most = 1e-9 * program.count + 4e-12 * max(map(float, _bits(target))) * M * N * K
    assert least < found.dynamic_joules < most
    assert found.leakage_joules == pytest.approx((leakage_of(made.graph)[0] or 0.0) * seconds)
    assert report.joules == pytest.approx(found.joules)


def _bits(target: str) -> list[str]:
    """Picojoules of 32 bits from any memory that the tables know, of operands that a machine may fill up to its own
    size: the widest has 256 columns where the product has 24."""
    return [str(32 * 16 * float(row["picojoules_per_bit"])) for row in tables.rows("dram")]


@pytest.mark.first_case
@pytest.mark.parametrize("target", TARGETS)
def test_an_idle_machine_leaks_and_twice_the_work_costs_twice_as_much(target: str) -> None:
    plan, made, _ = planned(target)
    idle, seconds = spent(made, replace(plan.stream, body=()))
    technology = technology_of(made.graph)
    assert technology is not None and (idle.clock_joules == 0.0 or not technology.gated)
    assert idle.dynamic_joules == 0.0
    assert idle.joules == pytest.approx((leakage_of(made.graph)[0] or 0.0) * seconds + idle.clock_joules)
    once, _ = spent(made, plan.stream)
    twice, _ = spent(made, replace(plan.stream, body=(*plan.stream.body, *plan.stream.body)))
    assert once.dynamic_joules is not None and twice.dynamic_joules is not None
    if made.graph.caches:  # what the first left in them, the second need not fetch, but may have to write back
        assert once.dynamic_joules < twice.dynamic_joules < 2.1 * once.dynamic_joules
    else:
        assert twice.dynamic_joules == pytest.approx(2 * once.dynamic_joules)


@pytest.mark.parametrize("target", TARGETS)
def test_every_part_that_multiplies_has_an_area_and_leaks(target: str) -> None:
    plan, made, report = planned(target)
    program = bind(made.graph, resolve(plan.stream, made.isa))
    figures = figures_of(made.graph)
    for static in program.instructions:
        if any(operation == "multiply" for operation, _ in work_of(static.node)):
            for unit in static.takers.values():
                assert isinstance(unit, FunctionalUnit)
                assert figures[unit.name].area_mm2 and figures[unit.name].leakage_watts, unit
    assert report.area_mm2 == pytest.approx(math.fsum(report.areas.values())) and report.area_mm2 > 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_figure_of_ones_own_takes_effect(target: str) -> None:
    plan, made, _ = planned(target)
    resolved = resolve(plan.stream, made.isa)
    timing = simulate(made.graph, resolved)
    before = energy(bind(made.graph, resolved), timing)
    busy = max((entry for entry in before.objects if entry.name in {s.name for s in timing.storages}),
               key=lambda entry: entry.events)
    own = Overrides(objects={busy.name: {
        "joules_per_access": 1e-9, "joules_per_write": 3e-9, "leakage_watts": 2.0, "area_mm2": 3.0}})
    graph = replace(made.graph, overrides=own)
    after = energy(bind(graph, resolved), timing).of(busy.name)
    wrote = busy.count("write") + busy.count("fill")
    assert after.dynamic_joules == pytest.approx(1e-9 * (busy.events - wrote) + 3e-9 * wrote)
    assert after.leakage_joules == pytest.approx(2.0 * timing.seconds)
    assert figures_of(graph)[busy.name].area_mm2 == 3.0 and graph.fingerprint != made.graph.fingerprint


def test_a_network_costs_what_its_layers_cost_and_each_what_its_objects_do() -> None:
    report = archloom.estimate("gemm(m=48,n=32,k=64)", "gemmini")
    layers = [layer.energy for layer in report.layers if layer.energy is not None]
    assert report.joules == pytest.approx(math.fsum(use.joules or 0.0 for use in layers))
    for use in layers:
        assert use.joules == pytest.approx(math.fsum(use.objects.values()))
    assert report.watts == pytest.approx((report.joules or 0.0) / report.accelerator_seconds)
    assert Report.from_json(report.to_json()) == report


def test_a_file_of_figures_is_an_option_of_every_target(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('[objects.dram]\njoules_per_access = 0\n[operations]\n"multiply i8" = 1e-9\n')
    own = archloom.estimate("gemm(m=16,n=16,k=16)", "gemmini", {"energy": str(file)})
    assert own.joules == pytest.approx(16**3 * 1e-9, rel=0.05)
    file.write_text('[objects.drum]\njoules_per_access = 0\n')
    with pytest.raises(InputError, match="'drum' is no object of 'gemmini'; did you mean 'dram'"):
        archloom.estimate("gemm(m=16,n=16,k=16)", "gemmini", {"energy": str(file)})
    file.write_text('[objects."scratchpad*"]\njoules_per_byte = 0\n')
    with pytest.raises(InputError, match=r"joules_per_byte is no figure of scratchpad\[0\] .*joules_per_access"):
        archloom.estimate("gemm(m=16,n=16,k=16)", "gemmini", {"energy": str(file)})
    file.write_text('[technology]\nnode_nm = 1\n[objects.dram]\njoules = 0\n')
    with pytest.raises(InputError, match="my.toml: node_nm must be a number from 5 to 180, not 1; .*unknown 'joules'"):
        archloom.estimate("gemm(m=16,n=16,k=16)", "gemmini", {"energy": str(file)})


def test_what_is_kept_of_a_network_goes_by_what_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    found = []
    for joules in (0, 1e-9):
        file.write_text(f"[objects.dram]\njoules_per_access = {joules}\n")
        found.append(Request("gemmini", {"energy": str(file)}).text())
    assert found[0] != found[1]


def test_renamed_registers_are_as_many_as_the_machine_has() -> None:
    """Whatever names there are for them."""
    few, all_named = (figures_of(mte(architecture="mte32s", registers=n, physical=40))["v"] for n in (8, 32))
    assert few == all_named
    larger = figures_of(mte(architecture="mte32s", registers=8, physical=80))["v"].area_mm2
    assert larger is not None and few.area_mm2 is not None and larger > 1.5 * few.area_mm2
