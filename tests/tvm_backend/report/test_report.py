"""Reports: JSON both ways, text and CSV."""

import csv
import io
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.oracle.errors import ArtifactError
from archloom.tvm_backend.report.build import build
from archloom.tvm_backend.report.data import SCHEMA, HostLayer, Layer, Report, UnitUse
from archloom.tvm_backend.report.details import details
from archloom.tvm_backend.report.table import Column, duration, render
from archloom.tvm_backend.report.text import full_text, to_csv
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import choose
from tests.support.examples import examples, often

REPORT = Report(
    model="net", source="onnx", target="gemmini", options={"dim": 16}, clock_hz=1e9, cycles=2000, seconds=2e-6,
    accelerator_cycles=2000, accelerator_seconds=2e-6, macs=410_000, offloaded_macs=400_000,
    offloaded_macs_share=400 / 410, peak_macs_per_cycle=256,
    utilization=400_000 / 2000 / 256, timing="simulated",
    layers=(
        Layer("conv1", "conv2d+relu", "accelerator", (1, 8, 4, 4), 400_000, 2000, 2e-6, 0.78, 120, {"dram": 640},
              "conv2d ws", "region0", {"load": UnitUse(10, 300, 20, 5, 1675)}),
        Layer("fc", "dense", "host", (1, 10), 10_000, note="runs on the host; host work is not timed"),
    ),
    host=(HostLayer("fc", "dense", "xla", 10_000, "float32 operands"),), version="0.1.0",
)


def test_json_round_trip() -> None:
    assert Report.from_json(json.loads(json.dumps(REPORT.to_json()))) == REPORT


def test_host_cycles_are_null_not_zero() -> None:
    host = json.loads(json.dumps(REPORT.to_json()))["layers"][1]
    assert host["cycles"] is None and host["seconds"] is None and "not timed" in host["note"]


@pytest.mark.parametrize("change", [{"schema": "other/1"}, {"layers": [{}]}, {"extra": 1}, {"host": [{"x": 1}]}])
def test_refuses_other_data(change: dict[str, object]) -> None:
    with pytest.raises(ArtifactError, match=r"somewhere: (expected a|not a complete) report of schema"):
        Report.from_json({**REPORT.to_json(), **change}, "somewhere")


def test_refuses_what_is_no_object() -> None:
    with pytest.raises(ArtifactError, match=SCHEMA):
        Report.from_json([1])


def test_text_names_host_work_and_its_reason() -> None:
    text = full_text(REPORT)
    assert text.splitlines()[0] == "net on gemmini (dim=16), accelerator only: 2 µs"
    assert text.splitlines()[1].startswith("warning: 97.6 % of the multiply-accumulates run on gemmini")
    assert text.splitlines()[2] == "  2.4 % fc (dense): float32 operands"
    assert "2,000 cycles = 2 µs at 1 GHz" in text
    assert "float32 operands" in text
    fc = next(line for line in text.splitlines() if line.startswith("fc") and " host " in line)
    assert fc.split()[-3:] == ["–", "–", "–"]


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(REPORT))))
    assert [row["name"] for row in rows] == ["conv1", "fc"]
    assert rows[0]["bytes_dram"] == "640" and rows[1]["bytes_dram"] == ""
    assert rows[0]["cycles"] == "2000" and rows[1]["cycles"] == ""


def test_table_aligns_and_cuts() -> None:
    text = render((Column("a", limit=4), Column("b", "right")), [["abcdef", "1"], ["x", "100"]])
    assert text.splitlines() == ["a       b", "----  ---", "abc…    1", "x     100"]


@examples(50, 1000)
@given(st.lists(st.text("ab", min_size=1, max_size=8), min_size=1, max_size=9), st.integers(10, 20))
def test_a_listing_takes_as_many_lines_as_it_needs(parts: list[str], limit: int) -> None:
    table = render((Column("n"), Column("listing", limit=limit, listing=True)), [["x", ", ".join(parts)], ["y", ""]])
    first, *others, last = table.splitlines()[2:]
    assert first.startswith("x  ") and last == "y" and all(line.startswith("   ") for line in others)
    lines = [line[3:] for line in (first, *others)]
    assert " ".join(lines) == ", ".join(parts) and all(len(line) <= limit for line in lines)
    for line, following in pairwise(lines):
        assert len(line) + 1 + len(following.split(",")[0]) >= limit


def test_names_of_many_share_what_they_have_in_common() -> None:
    unit = UnitUse(0, 0, 0, 0, 0, 0)
    names = ("a.pe[0][1].unit", "a.pe[3][1].unit", "b[0].c", "b[1].c", "d0", "d1", "e.f")
    text = details(replace(REPORT.layers[0], units=dict.fromkeys(names, unit), storages={}, links={}, stages={}))
    assert [line.split("  ")[0] for line in text.splitlines()[2:]] == [
        "a.pe[0][1] … pe[3][1].unit (2)", "b[0] … b[1].c (2)", "d0 … d1 (2)", "e.f"]


@pytest.mark.parametrize(("seconds", "text"), [
    (None, "–"), (2.5, "2.5 s"), (0.00123, "1.23 ms"), (2e-6, "2 µs"), (3e-9, "3 ns"), (1234.0, "1,234 s"),
    (0.0, "0 ns"),
])
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("target", often(registry.names(), ("gemmini", "amx", "mte")))
def test_operands_come_from_the_main_memory(target: str) -> None:
    """Behind caches, too: each element is read at least once."""
    layer, = archloom.estimate("gemm(m=64,n=64,k=64)", target, host="none").accelerator_layers
    assert layer.offchip_bytes is not None and layer.offchip_bytes >= 2 * 64 * 64


def test_layers_that_were_not_simulated_to_the_last_cycle_are_named() -> None:
    compiled = archloom.compile("gemm(m=16,n=16,k=16)", "gemmini").compiled
    chosen = choose(compiled.target, compiled.options)
    assert build(compiled, compiled.plans, chosen).timing == "simulated"
    near = {name: replace(plan, timing=replace(plan.timing, exact=False)) for name, plan in compiled.plans.items()}
    report = build(compiled, near, chosen)
    assert report.timing == "estimated"
    assert [fallback.where for fallback in report.fallbacks] == list(near)
    assert "in proportion" in full_text(report)
