"""The folders of benchmarks: every script runs by its name or its path; figures are defined, measured and written."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import docs, fidelity, results, run, run_all
from benchmarks.figures import Figure, FigureError, Run, at, every, load, number, shown
from tests.support.examples import examples

ROOT = Path(__file__).parents[1]


def called(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A script run in a folder without the checkout on Python's path."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_every_name_is_found_with_and_without_its_folder() -> None:
    for name, path in run.scripts().items():
        assert run.find(name) == run.find(f"benchmarks/{name}.py") == run.find(f"{name}.py") == path
    with pytest.raises(SystemExit, match="did you mean oma_order"):
        run.find("oma_ordr")


def test_every_script_has_figures_and_every_figure_a_script() -> None:
    aside = {ROOT / "benchmarks", ROOT / "benchmarks" / "recorders"}
    measuring = {name for name, path in run.scripts().items() if path.parent not in aside}
    assert {defined.script for defined in load().values()} == measuring


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="others lend no tiles")
def test_no_tiles_for_a_benchmark_and_what_it_starts() -> None:
    asks = "import ctypes; print(ctypes.CDLL(None).syscall(158, 0x1023, 18), ctypes.CDLL(None).syscall(39) > 0)"
    script = f"""
import subprocess, sys
from benchmarks.without_amx import refuse_tiles
refuse_tiles()
subprocess.run([sys.executable, "-c", {asks!r}], check=True)"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["-1", "True"]


def test_the_results_are_those_of_the_definitions() -> None:
    """What is not measured is listed, in both files; nothing is there that is not registered, or written by hand."""
    runs, kept = load(), results.read()
    assert kept == results.written(kept, runs)
    assert results.MARKDOWN.read_text(encoding="utf-8") == results.markdown(kept, runs)


def test_figures_in_the_pages_are_those_of_the_results() -> None:
    runs, kept = load(), results.read()
    marks = 0
    for page in docs.pages():
        text = page.read_text(encoding="utf-8")
        assert docs.filled(text, kept, runs) == text, f"{page.name}: python benchmarks/run_all.py --write"
        marks += len(docs.MARK.findall(text))
        assert marks or "<!-- figure" not in text
    assert marks > 10


@pytest.mark.parametrize("words", [("run.py", "mapper"), ("mapper/mapper.py",)])
def test_a_script_may_be_named_as_a_package_is(words: tuple[str, ...], tmp_path: Path) -> None:
    found = called(str(ROOT / "benchmarks" / words[0]), *words[1:], "--help", cwd=tmp_path)
    assert found.returncode == 0 and "--json" in found.stdout, found.stderr


def test_no_folder_has_more_modules_than_a_page_shows() -> None:
    for folder in (ROOT / "benchmarks").rglob("*/"):
        assert len(list(folder.glob("*.py"))) <= 25


DEFINED = """
[[run]]
script = "counting"
arguments = "--to 3"
work = "counting"
baseline = "none"
cases = "all"
samples = "one"
minutes = 1
keep = ["numbers.*"]

[[run.figure]]
name = "mean of the numbers"
read = "numbers.mean"
aggregate = "mean"
worst = "numbers.worst"
at_most = 2

[[run.figure]]
name = "how many"
read = "counted"
aggregate = "sum"
equals = 3
"""


def defined(path: Path, text: str = DEFINED) -> dict[str, Run]:
    (path / "figures.toml").write_text(text, encoding="utf-8")
    return load(path / "figures.toml")


@pytest.mark.parametrize(("before", "after", "said"), [
    ('worst = "numbers.worst"', "", "mean of the numbers: expected the worst beside the mean"),
    ("at_most = 2", "at_most = 2\nequals = 2", "expected either equals or bounds"),
    ('aggregate = "sum"', 'aggregate = "whatever suits"', "aggregate: expected one of mean"),
    ('cases = "all"', "", "counting: expected cases, found none"),
    ('cases = "all"', 'cases = "all"\nbest_of = 3', "found best_of"),
    ('read = "counted"', 'read = "numbers.mean"', "found twice: numbers.mean"),
])
def test_definitions_that_leave_something_open_are_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    with pytest.raises(FigureError, match=said):
        defined(tmp_path, DEFINED.replace(before, after))


def ways(value: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every number in a result, with the way to it."""
    if not isinstance(value, list | dict):
        yield ".".join(way), value
        return
    for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from ways(inner, (*way, str(step)))


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
PARTS = st.recursive(NUMBERS, lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(
    st.text("abc ", min_size=1), inner, min_size=1, max_size=3), max_leaves=8)


@examples(30, 300)
@given(st.dictionaries(st.text("abc ", min_size=1), PARTS, min_size=1))
def test_every_number_in_a_result_has_a_way_to_it(result: dict[str, Any]) -> None:
    for way, value in ways(result):
        assert number(result, way) == value
        with pytest.raises(FigureError, match="expected 'missing'"):
            at(result, f"{way}.missing")


@examples(30, 300)
@given(st.dictionaries(st.text("abc", min_size=1), st.lists(NUMBERS) | st.dictionaries(st.text("abc"), NUMBERS)))
def test_a_star_stands_for_every_key_and_number(result: dict[str, Any]) -> None:
    inner = [list(part.values()) if isinstance(part, dict) else part for part in result.values()]
    assert every(result, "*") == list(result.values())
    assert every(result, "*.*") == [value for part in inner for value in part]
    for key, part in zip(result, inner):
        assert every(result, f"{key}.*") == part and every(result, key) == [result[key]]


def test_what_is_no_number_is_no_figure() -> None:
    for value in (None, "2", float("nan"), float("inf"), [1]):
        with pytest.raises(FigureError, match="expected a number"):
            number({"x": value}, "x")


def test_thresholds_on_both_sides() -> None:
    figure = Figure("x", "x", "one", at_least=0.9, at_most=1.1)
    assert [figure.holds(x) for x in (0.89, 0.9, 1.1, 1.11)] == [False, True, True, False]
    assert figure.demand == "0.9 to 1.1" and Figure("x", "x", "one").holds(1) is None
    assert [shown(x) for x in (True, 0.12345, 12.0, 1234567.8)] == ["yes", "0.123", "12", "1,234,568"]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one benchmark, its definition, its results and a page."""
    (tmp_path / "counting.py").write_text(
        "import json, sys\nn = int(sys.argv[2])\n"
        "print(json.dumps({'seed': 5, 'counted': n, 'numbers': {'mean': n / 2, 'worst': n}}))\n")
    (tmp_path / "page.md").write_text(
        "<!-- figure counting --to 3: numbers.mean worst -->old<!-- / --> and "
        "<!-- figure counting --to 3: numbers.mean % -->old<!-- / -->")
    monkeypatch.setattr(run_all, "load", lambda: defined(tmp_path, DEFINED))
    monkeypatch.setattr(run_all, "find", lambda name: tmp_path / f"{name}.py")
    monkeypatch.setattr(results, "commit", lambda: "abc")
    monkeypatch.setattr(docs, "pages", lambda: [tmp_path / "page.md"])
    monkeypatch.setattr(fidelity, "sources", lambda: ())
    monkeypatch.setattr(fidelity, "PAGE", tmp_path / "fidelity.md")
    for name, kind in (("JSON", "json"), ("MARKDOWN", "md")):
        monkeypatch.setattr(results, name, tmp_path / f"RESULTS.{kind}")
    monkeypatch.setattr(results.read, "__defaults__", (tmp_path / "RESULTS.json",))
    return tmp_path


def bench_all(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run_all.py", *words])
    with pytest.raises(SystemExit) as ended:
        run_all.main()
    return int(ended.value.code or 0)


def test_rows_are_kept_as_they_are_measured(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench_all(monkeypatch) == 0
    kept = json.loads((bench / "RESULTS.json").read_text())
    row = kept["runs"]["counting --to 3"]
    assert row["figures"] == {"numbers.mean": {"value": 1.5, "worst": 3}, "counted": {"value": 3}}
    assert (row["commit"], row["seed"], kept["unmeasured"]) == ("abc", 5, [])
    assert row["kept"] == {"numbers.*": [1.5, 3]}
    run, = defined(bench).values()
    assert [results.cases(kept, run, way) for way in ("numbers.*", "counted", "numbers.worst")] == [[1.5, 3], [3], [3]]
    with pytest.raises(FigureError, match="a way of one of its figures or that it keeps, found 'numbers.none'"):
        results.cases(kept, run, "numbers.none")
    page = (bench / "page.md").read_text()
    assert page.count("-->3<!--") == 1 and page.count("-->150 %<!--") == 1


def test_what_is_measured_of_this_commit_is_not_measured_again(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench_all(monkeypatch)
    (bench / "counting.py").write_text("raise SystemExit(7)")
    assert bench_all(monkeypatch) == 0
    assert bench_all(monkeypatch, "--again") == 1
    assert "**failed: status 7**" in (bench / "RESULTS.md").read_text()
    assert len(json.loads((bench / "RESULTS.json").read_text())["unmeasured"]) == 2


def test_a_row_of_another_commit_is_shown_as_such(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench_all(monkeypatch)
    kept = json.loads((bench / "RESULTS.json").read_text())
    assert "another commit" not in (bench / "RESULTS.md").read_text()
    (bench / "RESULTS.json").write_text(json.dumps({**kept, "commit": "def"}))
    assert bench_all(monkeypatch, "--write") == 0
    assert "**of another commit than the run's**" in (bench / "RESULTS.md").read_text()


def test_a_row_of_another_definition_is_none(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench_all(monkeypatch)
    changed = DEFINED.replace('cases = "all"', 'cases = "those that suit"')
    monkeypatch.setattr(run_all, "load", lambda: defined(bench, changed))
    assert bench_all(monkeypatch, "--write") == 1
    assert "**by another definition: not shown**" in (bench / "RESULTS.md").read_text()
    assert (bench / "page.md").read_text().count("not measured") == 2


def test_a_figure_that_the_script_does_not_give_is_missing(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench / "counting.py").write_text("print('{\"counted\": 3}')")
    assert bench_all(monkeypatch) == 1
    assert "failed: numbers.mean: expected 'numbers', found keys counted" in (bench / "RESULTS.md").read_text()


def test_a_missed_figure_is_told(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_all, "load", lambda: defined(bench, DEFINED.replace("at_most = 2", "at_most = 1")))
    assert bench_all(monkeypatch) == 1
    assert "Missed (1):\n\n- counting --to 3: mean of the numbers" in (bench / "RESULTS.md").read_text()
