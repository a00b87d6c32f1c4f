"""The benchmark that runs the slow suites: what it counts, what it runs again, and that nothing cut off is whole."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.networks import fuzz, slow_suites
from benchmarks.networks.slow_suites import Part, State

SUITE = """
import time

import pytest

pytestmark = pytest.mark.slow

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip
def test_is_skipped(): pass
@pytest.fixture
def broken(): raise ValueError
def test_ends_in_an_error(broken): pass
"""

CONFTEST = """
from hypothesis import settings

settings.register_profile("thorough")

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: slow")
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one folder of tests."""
    folder = tmp_path / "tests" / "some"
    folder.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_some.py").write_text(SUITE, encoding="utf-8")
    monkeypatch.setattr(slow_suites, "ROOT", tmp_path)
    monkeypatch.setattr(slow_suites.results, "commit", lambda: "abc")
    return folder


def test_each_test_is_counted_once(suite: Path) -> None:
    assert slow_suites.folders(suite.parent) == ["tests/some"]
    part = slow_suites.run("tests/some", 1, 100, 1)
    assert (part.ended, part.commit, part.passed, part.failed, part.skipped) == ("whole", "abc", 1, 2, 1)
    assert [name.rpartition("::")[2] for name in part.failures] == ["test_ends_in_an_error", "test_fails"]


@pytest.mark.slow
def test_what_is_cut_off_is_left(suite: Path, tmp_path: Path) -> None:
    (suite / "test_some.py").write_text(SUITE + "\ndef test_takes_long(): time.sleep(100)\n", encoding="utf-8")
    part = slow_suites.run("tests/some", 1, 4, 1)
    assert part.ended == "cut off" and part.failed >= 2
    state = State(1, {"tests/some": part})
    state.write(tmp_path / "state.json")
    assert State.read(tmp_path / "state.json") == state
    assert state.left(["tests/some"], "abc", older=False) == ["tests/some"]


def test_parts_of_other_commits_count_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "commit", lambda: "new")
    state = State(7, {"a": Part("old", 1.0, "whole", 3), "b": Part("new", 2.0, "whole", 4, 1, 0, ["x"])})
    for older, left, passed, commits in ((False, ["a", "c"], 4, ["new"]), (True, ["c"], 7, ["old", "new"])):
        found = slow_suites.told(state, Namespace(older=older), ["a", "b", "c"])
        assert (found["left"], found["passed"], found["failed"], found["commits"]) == (left, passed, 1, commits)
        assert found["origin"]["commit"] == commits[0] and found["parts_left"] == len(left)


def test_what_was_fuzzed_is_kept_by_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, counter = fuzz.State(5), fuzz.Counter[tuple[str, str]]
    for commit in ("one", "two", "two"):
        monkeypatch.setattr(results, "commit", lambda commit=commit: commit)
        state.add(counter({("onnx", "refused"): 40, ("npz", "accepted"): 2}), counter({("kill", "late"): 1}), 10)
        state.add(counter(), counter({("kill", "survived"): 3}), 5)
    found = fuzz.told(state)
    assert (found["inputs"], found["faults"], found["refused"], found["inputs_of_commit"]) == (126, 9, 120, 42)
    assert found["commits"] == {"one": {"inputs": 42, "faults": 3, "seconds": 15},
                                "two": {"inputs": 84, "faults": 6, "seconds": 30}}
    assert found["origin"]["commit"] == "one"
    path = tmp_path / "state.json"
    path.write_text(fuzz.json.dumps(fuzz.asdict(state)), encoding="utf-8")
    assert fuzz.State.read(path) == state
    path.write_text('{"seed": 5, "inputs": {}, "faults": {}, "commits": [], "seconds": 0}', encoding="utf-8")
    assert fuzz.State.read(path) is None
