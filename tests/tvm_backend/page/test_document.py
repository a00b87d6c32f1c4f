"""Pages as files: what reports and searches say is neither lost nor changed, and none of it is taken for markup."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend import cache, cli
from archloom.tvm_backend.page import thinning
from archloom.tvm_backend.page.columns import column
from archloom.tvm_backend.page.document import document, packed
from archloom.tvm_backend.page.importance import importance
from archloom.tvm_backend.page.made import page_of
from archloom.tvm_backend.page.network import causes, objects, running_order
from archloom.tvm_backend.page.remade import NOT_NAMED, OTHER_CODE
from archloom.tvm_backend.page.search import search_view, volume
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.search.front import Front
from archloom.tvm_backend.search.objectives import aims
from archloom.tvm_backend.search.result import read
from archloom.tvm_backend.search.store import Row
from tests.support.examples import examples
from tests.support.tvm_backend.pages import NASTY, data_of, made_search, values_of

NETWORK = "resnet18(image=32)"
plain = st.none() | st.booleans() | st.integers(-10**9, 10**9) | st.floats(allow_nan=False) | st.text(max_size=5)


@pytest.fixture(scope="module")
def report() -> Report:
    return archloom.estimate(NETWORK, "gemmini", {"dim": 8}, quiet=True)


# reports --------------------------------------------------------------------------------------------------------------


def test_a_page_has_the_report_as_it_is(report: Report) -> None:
    (view,) = data_of(page_of([("net", report)]))["networks"]
    assert view["report"] == json.loads(json.dumps(report.to_json()))
    (machine,) = view["hardware"]
    assert machine["peak_macs_per_cycle"] == report.peak_macs_per_cycle and machine["svg"].startswith("<?xml")


def test_what_follows_from_a_report_adds_up(report: Report) -> None:
    order = running_order(report)
    assert sorted(order) == list(range(len(report.layers)))
    assert report.memory is not None
    assert [report.layers[i].name for i in order] == list(report.memory.layers)
    (cause,) = causes(report)
    assert sum(cause["cycles"].values()) == report.accelerator_cycles
    rows = objects(report)
    assert math.isclose(sum(row[1] or 0 for row in rows), report.joules or 0)
    assert math.isclose(sum(row[2] or 0 for row in rows), report.area_mm2 or 0)


def test_a_report_outlives_its_target(report: Report) -> None:
    (view,) = data_of(page_of([("net", replace(report, target="gone"))]))["networks"]
    assert view["hardware"] == [{"target": "gone", "missing": view["hardware"][0]["missing"]}]
    assert "gone" in view["hardware"][0]["missing"]


def test_names_are_no_markup(report: Report) -> None:
    layers = (replace(report.layers[0], name=NASTY), *report.layers[1:])
    html = page_of([(NASTY, replace(report, model=NASTY, layers=layers))])
    assert NASTY not in html and html.count("<script") == 2
    assert data_of(html)["networks"][0]["report"]["model"] == NASTY


def test_nothing_is_loaded(report: Report) -> None:
    html = page_of([("net", report)])
    assert "default-src 'none'" in html
    assert set(re.findall(r"https?://[^\s\"'`]*", html)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), st.lists(plain, max_size=5), max_size=4))
def test_data_is_packed_as_it_is(data: dict[str, Any]) -> None:
    assert packed(data) == packed(data)
    found = data_of(document(NASTY, NASTY, data))
    finite = {k: [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in vs] for k, vs in data.items()}
    assert found == json.loads(json.dumps(finite))


# searches -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(plain, max_size=30))
def test_columns_keep_their_values(values: list[Any]) -> None:
    found = values_of(column("param", "x", values))
    assert [(type(v), repr(v)) for v in found] == [(type(v), repr(v)) for v in values]


@pytest.mark.parametrize("objectives", ["seconds", "seconds,area_mm2", "seconds,joules,area_mm2,max:utilization"])
def test_a_page_has_all_of_a_search(objectives: str, tmp_path: Path) -> None:
    rows = made_search(tmp_path / "s", 200, objectives, ("area_mm2<=3",))
    html = tmp_path / "s.html"
    assert cli.main(["report", str(tmp_path / "s"), "--html", str(html)]) == 0
    view = data_of(html.read_text())["search"]
    found = {one["id"]: values_of(one) for one in view["columns"]}
    for k, name in enumerate(objectives.replace("max:", "").split(",")):
        assert found[f"objective.{name}"] == [row.values[k] if row.values else None for row in rows]
    for name in rows[0].params:
        assert found[f"param.{name}"] == [row.params[name] for row in rows]
    for name in set(rows[0].figures) - {"peak_bytes"} - set(objectives.replace("max:", "").split(",")):
        assert found[f"figure.{name}"] == [row.figures.get(name) for row in rows]
    assert [rows[i].key for i in view["front"]] == [row.key for row in read(tmp_path / "s").front]
    assert found["error"] == [row.error for row in rows]
    options = {one.get("option") for one in view["columns"]}
    assert set(rows[0].candidate["options"]) <= options


@given(st.integers(0, 40), st.integers(1, 3), st.integers(0, 10**6), st.integers(3, 30))
def test_all_of_the_front_is_drawn(count: int, size: int, seed: int, most: int) -> None:
    values = np.random.default_rng(seed).integers(1, 9, (count, size)).astype(float)
    values[: count // 5] = np.nan
    front = list(range(count // 5, count // 5 + min(3, count - count // 5)))
    drawn = thinning.points(values, front, most)
    assert set(front) <= set(drawn) and len(drawn) <= max(most, len(front)) and drawn == sorted(set(drawn))
    assert not set(drawn) & set(range(count // 5))
    lines = thinning.lines(drawn, front, most)
    assert set(lines) <= set(drawn) and len(lines) <= most


@examples(20, 200)
@given(st.integers(0, 10**6), st.integers(8, 300))
def test_importance_tells_what_decides(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    decides, idle = rng.integers(0, 3, count), rng.integers(0, 3, count)
    shares = importance([decides.tolist(), idle.tolist(), [1] * count], decides[:, None] * 10.0)
    assert all(0 <= share <= 1 for row in shares for share in row)
    assert shares[2] == [0.0]
    if len(set(decides)) > 1:
        assert shares[0] == [pytest.approx(1)]
    assert importance([[1]], np.ones((1, 1))) == []


def test_hypervolume_over_time_ends_with_that_of_the_search(tmp_path: Path) -> None:
    rows = made_search(tmp_path, 300, "seconds,area_mm2")
    found = volume(rows, aims("seconds,area_mm2").objectives, 20)
    assert found["share"] == sorted(found["share"]) and found["done"] == sorted(set(found["done"]))
    assert found["share"][-1] == pytest.approx(read(tmp_path).hypervolume)
    front = Front(2)
    for row in rows:
        if row.is_feasible:
            front.add(row.key, [v for v in row.values if v is not None])
    part = Front(2)
    for row in rows[:found["done"][2]]:
        if row.is_feasible:
            part.add(row.key, [v for v in row.values if v is not None])
    assert found["share"][2] == part.hypervolume(front.box)


def test_an_empty_search_has_a_page(tmp_path: Path) -> None:
    made_search(tmp_path, 0)
    view = search_view(tmp_path)
    assert view["count"] == 0 and view["front"] == [] and view["volume"]["done"] == []


def test_candidates_of_the_front_have_their_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"dim": [8, 16]}
    found = archloom.sweep("gemm(m=64,n=64,k=64)", "gemmini", options, objectives="cycles,area_mm2", output=tmp_path)
    view = search_view(tmp_path, reports=2)
    assert sorted(view["reports"]) == sorted(view["front"]) and len(view["front"]) == len(found.front)
    cycles = {one["id"]: values_of(one) for one in view["columns"]}["objective.cycles"]
    for place, (made,) in view["reports"].items():
        assert made["report"]["cycles"] == cycles[place]
    monkeypatch.setattr(cache, "key", lambda parts: "other")
    other = search_view(tmp_path, reports=2)
    assert other["reports"] == {} and other["reports_note"] == OTHER_CODE


def test_a_report_that_cannot_be_made_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_search(tmp_path, 30, "seconds,area_mm2")
    monkeypatch.setattr(cache, "key", lambda parts: "-")
    view = search_view(tmp_path, reports=4)
    assert view["reports"] == {} and sorted(view["no_reports"]) == sorted(view["front"][:4])
    assert all(NASTY in why or why == NOT_NAMED for why in view["no_reports"].values())


@pytest.mark.slow
def test_a_page_of_20_000_candidates_is_small(tmp_path: Path) -> None:
    made_search(tmp_path / "s", 20_000)
    assert cli.main(["report", str(tmp_path / "s"), "--html", str(tmp_path / "s.html")]) == 0
    assert (tmp_path / "s.html").stat().st_size < 5e6


# the command ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_reports_are_read_as_they_were_written(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.json").write_text(json.dumps(report.to_json()))
    assert cli.main(["report", str(tmp_path / "net.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(report.to_json()))
    html = tmp_path / "p.html"
    assert cli.main(["report", str(tmp_path / "net.json"), str(tmp_path / "net.json"), "--html", str(html)]) == 0
    assert [view["title"] for view in data_of(html.read_text())["networks"]] == ["net", "net"]


def test_a_table_of_extents_is_a_page_of_several(tmp_path: Path) -> None:
    rows = [{"extents": {"n": n}, "report": archloom.estimate(f"gemm(m={n},n=8,k=8)", quiet=True).to_json()}
            for n in (8, 16)]
    table = {"schema": "archloom.report_table/1", "symbols": ["n"], "rows": rows}
    (tmp_path / "t.json").write_text(json.dumps(table))
    assert cli.main(["report", str(tmp_path / "t.json"), "--html", str(tmp_path / "t.html")]) == 0
    views = data_of((tmp_path / "t.html").read_text())["networks"]
    assert [view["title"] for view in views] == ["n=8", "n=16"]


@pytest.mark.parametrize(("words", "message"), [
    (["net.json", "net.json"], "give one to print, or --html FILE for a page of all"),
    (["s"], "holds a search, which archloom search .* prints"),
    (["s", "net.json", "--html", "p.html"], "the page of a search has no other beside it"),
    (["net.json", "--html", "p.txt"], r"--html .*: expected one of \.html"),
    (["net.json", "--html", "p.html", "--csv"], "--html and --csv: choose one"),
    (["net.json", "--html", "p.html", "--reports", "-1"], "--reports: expected 0 or more"),
    (["bad.json", "--html", "p.html"], "bad.json: expected the JSON of a report"),
    (["other.json"], "other.json: expected a report of schema"),
    (["table.json"], "table.json: not a complete table"),
    (["net.json", "--html", "no/such/p.html"], "p.html: cannot be written"),
])
def test_what_is_no_report_is_told(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.json").write_text(json.dumps(report.to_json()))
    Path("bad.json").write_text("{")
    Path("other.json").write_text("[]")
    Path("table.json").write_text('{"schema": "archloom.report_table/1"}')
    Path("p.html").write_text("as it was")
    made_search(Path("s"), 3)
    assert cli.main(["report", *words]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert Path("p.html").read_text() == "as it was"


def test_more_candidates_than_a_page_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archloom.tvm_backend.page.search.MOST", 5)
    made_search(tmp_path, 6)
    with pytest.raises(archloom.InputError, match="a page has at most 5 candidates, found 6"):
        search_view(tmp_path)


def test_each_candidate_has_its_state(tmp_path: Path) -> None:
    rows: list[Row] = made_search(tmp_path, 40, "seconds", ("area_mm2<=0.5",))
    view = search_view(tmp_path)
    status = values_of(view["columns"][0])
    for row, said in zip(rows, status):
        expected = {"failed": "failed", "bounded": "bounds only"}.get(row.state)
        assert said == expected if expected else said in ("front", "measured", "breaks a constraint")
        assert (said == "breaks a constraint") == (row.state == "measured" and not row.is_feasible)
