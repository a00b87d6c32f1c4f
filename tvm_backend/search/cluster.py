"""Workers of a Dask cluster, to which questions are handed out in batches, as large as their time asks for.

A scheduler hands out some thousand tasks a second, however small: so a task has as many questions as take a worker
``BATCH_SECONDS`` by what the last ones took, but no more than each worker's share of those that there are. A batch
whose worker ends again and again is handed out question by question, so that one does not take others with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from archloom.oracle.errors import ArchloomError, InputError
from archloom.tvm_backend.estimate.many import WorkerEnded

BATCH_SECONDS = 0.5
"""Of work in a task: so long a worker waits for none, and so much is lost with it. This and the next two are free
choices."""
MOST = 256
"""Questions of a batch."""
LATELY = 0.3
"""What part of what a question is thought to take comes from the last batch."""

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class _Question:
    """What was asked, and who waits for the answer."""

    arguments: tuple[Any, ...]
    found: "Future[Any]" = field(default_factory=Future)


def answers(function: Function, questions: Sequence[tuple[Any, ...]]) -> tuple[list[Any], float]:
    """What a worker finds of a batch, and the seconds that it took."""
    start = time.monotonic()
    return [function(*arguments) for arguments in questions], time.monotonic() - start


class Cluster:
    """The workers of the scheduler to which ``client`` is connected; those that come later are counted, too."""

    here = False

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._asked: dict[Function, list[_Question]] = {}
        self._seconds: dict[Function, float] = {}
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Threads of the workers."""
        return max(1, sum(self._client.nthreads().values()))

    def ask(self, function: Function, *arguments: Any) -> "Future[Any]":
        question = _Question(arguments)
        question.found.set_running_or_notify_cancel()
        self._asked.setdefault(function, []).append(question)
        return question.found

    def batch(self, function: Function) -> int:
        """One, until it is known how long questions of a kind take."""
        seconds = self._seconds.get(function)
        return 1 if seconds is None else min(MOST, max(1, int(BATCH_SECONDS / max(seconds, 1e-6))))

    def send(self) -> None:
        asked, self._asked = self._asked, {}
        for function, questions in asked.items():
            size = min(self.batch(function), -(-len(questions) // self.count))
            for first in range(0, len(questions), size):
                self._submit(function, questions[first:first + size])

    def _submit(self, function: Function, questions: Sequence[_Question]) -> None:
        task = self._client.submit(answers, function, [q.arguments for q in questions], pure=False)
        task.add_done_callback(lambda done: self._ended(done, function, questions))

    def _ended(self, done: Any, function: Function, questions: Sequence[_Question]) -> None:
        if done.status == "finished":
            found, seconds = done.result()
            self._took(function, seconds / len(questions))
            for question, answer in zip(questions, found):
                question.found.set_result(answer)
            return
        error = done.exception() if done.status == "error" else done.status
        killed = type(error).__name__ == "KilledWorker"
        if killed and len(questions) > 1:
            for question in questions:
                self._submit(function, [question])
            return
        kind = WorkerEnded if killed else ArchloomError
        for question in questions:
            question.found.set_exception(kind(f"cluster {self._address}: a candidate was given up: {error}"))

    def _took(self, function: Function, seconds: float) -> None:
        with self._lock:
            before = self._seconds.get(function, seconds)
            self._seconds[function] = before + LATELY * (seconds - before)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("Dask is not installed: pip install 'archloom[cluster]'") from error
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(f"cluster {address}: no Dask scheduler answers: {error}") from error
    with client:
        yield client
