"""Batches that a Dask cluster is handed, as large as their time asks for, and those whose worker ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.mapper.disk import ENVIRONMENT
from archloom.tvm_backend.estimate.many import WorkerEnded
from archloom.tvm_backend.search import cluster
from archloom.tvm_backend.search.cluster import BATCH_SECONDS, MOST, Cluster
from archloom.tvm_backend.search.result import read
from tests.support.examples import examples
from tests.support.tvm_backend.searches import kept


class KilledWorker(Exception):
    """As Dask's is called."""


@dataclass
class Task:
    """A task that is done as soon as somebody looks at it."""

    status: str
    value: Any

    def add_done_callback(self, call: Callable[["Task"], None]) -> None:
        call(self)

    def result(self) -> Any:
        return self.value

    def exception(self) -> Any:
        return self.value


@dataclass
class Client:
    """``threads`` workers to which each question takes ``seconds``, and that die of those that are ``bad``."""

    threads: int
    seconds: float = 0.0
    bad: frozenset[int] = frozenset()
    batches: list[list[int]] = field(default_factory=list)

    def nthreads(self) -> dict[str, int]:
        return {str(i): 1 for i in range(self.threads)}

    def submit(self, answers: Any, function: Any, questions: Sequence[tuple[int]], pure: bool) -> Task:
        numbers = [number for number, in questions]
        self.batches.append(numbers)
        if self.bad.intersection(numbers):
            return Task("error", KilledWorker("died"))
        found, _ = answers(function, questions)
        return Task("finished", (found, self.seconds * len(numbers)))


def double(number: int) -> int:
    return 2 * number


@examples(60, 2000)
@given(st.integers(1, 5), st.lists(st.integers(0, 60), min_size=1, max_size=5), st.floats(1e-5, 2),
       st.frozensets(st.integers(0, 100), max_size=5))
def test_every_question_has_its_answer(threads: int, rounds: list[int], seconds: float, bad: frozenset[int]) -> None:
    client, number = Client(threads, seconds, bad), 0
    workers = Cluster(client, "here")
    for count in rounds:
        size = workers.batch(double)
        asked = {i: workers.ask(double, i) for i in range(number, number + count)}
        number += count
        before = len(client.batches)
        workers.send()
        for i, found in asked.items():
            if i in bad:
                assert isinstance(found.exception(0), WorkerEnded)
            else:
                assert found.result(0) == 2 * i
        sent = client.batches[before:]
        assert all(len(batch) <= min(size, -(-count // threads)) for batch in sent)
    if number and not bad:  # a batch takes as long as it is meant to
        expected = min(MOST, max(1, int(BATCH_SECONDS / seconds)))
        assert abs(workers.batch(double) - expected) <= 1


SPACE = '''
from functools import partial
import archloom
def network(k):
    return f"gemm(m=8,n=8,k={k})"
def space(trial):
    return archloom.Candidate(partial(network, trial.suggest_int("k", 1, 400)), "oma")
'''


@contextmanager
def started(*words: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          env={**os.environ, ENVIRONMENT: str(folder / "cache")}) as process:
        yield process
        process.kill()


def _scheduler(folder: Path, port: int) -> Any:
    return started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard",
                   folder=folder)


def _worker(folder: Path, port: int) -> Any:
    return started("distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny",
                   "--no-dashboard", "--local-directory", str(folder), folder=folder)


def _rows(folder: Path) -> int:
    try:
        return sum(read(folder).counts.values())
    except Exception:  # nothing is there yet
        return 0


@pytest.mark.slow
def test_a_worker_and_a_scheduler_that_are_killed_lose_what_was_at_work(tmp_path: Path) -> None:
    """The worker first, whose questions another one answers; then the scheduler: the same command goes on with it."""
    (tmp_path / "space.py").write_text(SPACE, "utf-8")
    port, found = 18786, tmp_path / "found"
    command = ["archloom.tvm_backend.cli", "search", str(tmp_path / "space.py"), "--sampler", "grid", "--objective",
               "cycles", "--no-bounds", "-q", "--cluster", f"tcp://127.0.0.1:{port}", "-o", str(found)]
    with _scheduler(tmp_path, port) as scheduler, _worker(tmp_path, port) as first, _worker(tmp_path, port):
        time.sleep(10)
        with started(*command, folder=tmp_path) as search:
            for victim, rows in ((first, 20), (scheduler, 60)):
                while _rows(found) < rows:
                    assert search.poll() is None
                    time.sleep(0.2)
                victim.send_signal(signal.SIGKILL)
            assert search.wait(120) != 0
    before = {row[0] for row in kept(list(read(found).rows()))}
    assert 60 <= len(before) < 400
    with _scheduler(tmp_path, port), _worker(tmp_path, port), started(*command, folder=tmp_path) as search:
        assert search.wait(300) == 0
    rows = kept(list(read(found).rows()))
    assert len(rows) == 400 and all(row[1] == "measured" for row in rows) and before <= {row[0] for row in rows}


def test_a_batch_says_what_it_took() -> None:
    found, seconds = cluster.answers(double, [(1,), (2,)])
    assert found == [2, 4] and seconds >= 0
