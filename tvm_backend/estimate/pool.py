"""Processes that estimate, each fed by a thread: functions with arguments in, what they give out.

A process is a Python of its own (:mod:`archloom.tvm_backend.estimate.worker`); those of :mod:`concurrent.futures` would
run the user's script again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from archloom.mapper.cache import ENVIRONMENT
from archloom.mapper.parallel import ENVIRONMENT as PROCESSES
from archloom.oracle.errors import ArchloomError

T = TypeVar("T")
_Worker = tuple["subprocess.Popen[bytes]", "Connection[Any, Any]"]


class Pool:
    """``count`` processes that share the cache of ``folder``; each starts when it has something to do."""

    def __init__(self, folder: str, count: int) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor(count)
        self._workers: dict[int, _Worker] = {}

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        """What nobody has begun with is dropped."""
        self._threads.shutdown(cancel_futures=True)
        for process, connection in self._workers.values():
            connection.close()
            process.wait()

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """What a function of a module gives for arguments that can be pickled; ArchloomError if the process dies."""
        return self._threads.submit(self._asked, function, *arguments)

    def _asked(self, *question: Any) -> Any:
        thread = threading.get_ident()
        process, connection = self._workers.get(thread) or self._workers.setdefault(thread, self._started())
        try:
            connection.send(question)
            return connection.recv()
        except (OSError, EOFError) as error:
            del self._workers[thread]
            connection.close()
            raise ArchloomError(f"a process that estimates networks ended with status {process.wait()} "
                                f"({str(error) or 'no answer'})") from error

    def _started(self) -> _Worker:
        root = str(Path(__file__).absolute().parents[3])  # the folder of the package archloom
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        here, there = Pipe()
        with there:
            return subprocess.Popen(
                [sys.executable, "-m", "archloom.tvm_backend.estimate.worker", str(there.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[there.fileno()],
                env={**os.environ, **threads, "PYTHONPATH": path, ENVIRONMENT: self._folder, PROCESSES: "1"}), here
