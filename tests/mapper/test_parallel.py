"""Searches by several processes give what searches one by one give, whatever becomes of the processes."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archloom.mapper import cache, disk, parallel, search
from archloom.mapper.workload import Epilogue, Workload, add, gemm
from archloom.oracle.errors import InputError
from archloom.tvm_backend import progress
from archloom.uma_targets.gemmini.target import GEMMINI

PLAIN = Epilogue(bias=False, scale=0.5, relu=False, out_dtype="int8")
WORKS = [gemm(8 * i, 16, 24, epilogue=PLAIN, name=f"g{i}") for i in range(1, 6)] + [add(64, epilogue=PLAIN)]
TOO_MANY = gemm(1 << 20, 1 << 20, 1 << 20, epilogue=PLAIN, name="too_large")
OPTIONS = {"dim": 8}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked on Linux alone")


@pytest.fixture(autouse=True)
def two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two processes on any machine, whatever the tests before have imported; nothing on disk, nothing remembered."""
    monkeypatch.setattr(parallel, "_processes", lambda: 2)
    monkeypatch.setenv(disk.ENVIRONMENT, "")
    search.KEPT.forget()
    yield
    search.KEPT.forget()


def wanted(works: list[Workload]) -> list[Any]:
    return [(w, GEMMINI, OPTIONS) for w in works]


@pytest.mark.slow
def test_the_same_plans_without_a_cache_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [search.search(w, GEMMINI, OPTIONS, use_cache=False) for w in WORKS]
    heard: list[int] = []
    assert parallel.look_ahead(wanted([*WORKS, *WORKS]), heard.append) == 2
    monkeypatch.setattr(search, "_search", lambda *_: pytest.fail("searched again"))
    for w, plan in zip(WORKS, alone, strict=True):
        found = search.search(w, GEMMINI, OPTIONS)
        assert (found.mapping, found.timing, found.simulated) == (plan.mapping, plan.timing, plan.simulated)
    assert set(heard) <= set(range(len(WORKS)))
    assert parallel.look_ahead(wanted(WORKS)) == 0  # all is known


def test_a_process_that_is_killed_takes_nothing_along(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, real = os.getpid(), search._search

    def fatal(*arguments: Any) -> Any:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    monkeypatch.setattr(search, "_search", fatal)
    assert parallel.look_ahead(wanted(WORKS)) == 2
    plans = [search.search(w, GEMMINI, OPTIONS) for w in WORKS]
    assert all(p.timing.cycles > 0 for p in plans)


@pytest.mark.slow
def test_errors_are_left_to_the_search_of_the_plan() -> None:
    parallel.look_ahead(wanted([TOO_MANY, *WORKS]))
    with pytest.raises(Exception, match="too_large"):
        search.search(TOO_MANY, GEMMINI, OPTIONS)


def test_where_processes_are_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name in parallel.THREADED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.delenv(parallel.ENVIRONMENT, raising=False)
    assert parallel._processes() == 3
    monkeypatch.setenv(parallel.ENVIRONMENT, "2")
    assert parallel._processes() == 2
    monkeypatch.setenv(parallel.ENVIRONMENT, "two")
    with pytest.raises(InputError, match="ARCHLOOM_PROCESSES: expected a number of processes, found 'two'"):
        parallel.look_ahead(wanted(WORKS))
    monkeypatch.setenv(parallel.ENVIRONMENT, "2")
    monkeypatch.setitem(sys.modules, "jax", sys)
    assert parallel._processes() == 1
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), threading.Thread()])
    assert parallel._processes() == 1
    assert parallel.look_ahead(wanted(WORKS)) == 0


class Terminal(io.StringIO):
    """Whose drawing is never at an end: a fork in the midst of it would copy a lock that is held."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        time.sleep(0.02)
        return super().write(text)


def test_a_line_of_progress_is_drawn_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name in parallel.THREADED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.0)
    others = threading.enumerate()
    with warnings.catch_warnings(), progress.bar(stream=Terminal()):
        (line,) = set(threading.enumerate()) - set(others)
        monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), line])
        assert parallel._processes() == 2
        warnings.simplefilter("ignore")  # later Pythons warn of any thread
        for _ in range(20):
            if (child := os.fork()) == 0:
                os._exit(int(not progress._DRAWING.acquire(timeout=5)))
            assert os.waitpid(child, 0)[1] == 0


def test_what_a_process_wrote_is_read_up_to_where_it_was_cut_off(tmp_path: Path) -> None:
    entry = search.found(WORKS[0], GEMMINI.configure(OPTIONS))[1]
    import json

    line = json.dumps(["k", cache.to_json(entry)]).encode()
    (tmp_path / "found").write_bytes(line + b"\n" + line[:100])
    assert list(parallel._read((tmp_path / "found").open("rb"))) == [("k", entry)]
