"""Processes that answer questions of estimates, each fed by a thread from one queue.

A process (:mod:`archloom.tvm_backend.estimate.worker`) reads questions from its standard input and writes answers to
its standard output: a JSON object after its length, and bytes after theirs.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, TypeAlias

from archloom.mapper.cache import ENVIRONMENT
from archloom.mapper.parallel import ENVIRONMENT as PROCESSES
from archloom.oracle.errors import ArchloomError

Json: TypeAlias = dict[str, Any]
Job: TypeAlias = "tuple[Json, bytes, Future[Json]]"

_LENGTH = struct.Struct("<II")
LARGEST_FRAME = 1 << 30


class Pool:
    """``count`` processes that share the cache of ``folder``; each starts when it has something to do."""

    def __init__(self, folder: str, count: int) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, args=(folder,), daemon=True) for _ in range(count)]

    def __enter__(self) -> "Pool":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """What nobody has begun with is dropped."""
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                job[2].cancel()
        for _thread in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def ask(self, question: Json, blob: bytes = b"") -> "Future[Json]":
        """The answer to come; ArchloomError if the process dies."""
        future: Future[Json] = Future()
        self._jobs.put((question, blob, future))
        return future

    def _serve(self, folder: str) -> None:
        with _Worker(folder) as worker:
            while (job := self._jobs.get()) is not None:
                question, blob, future = job
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result(worker.ask(question, blob))
                except BaseException as error:  # raised where the answer is asked for
                    future.set_exception(error)


class _Worker:
    """A process that answers one question after another."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            assert self.process.stdin is not None and self.process.stdout is not None
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()

    def ask(self, question: Json, blob: bytes) -> Json:
        """The answer to one question; ArchloomError if the process has died."""
        if self.process is None:
            self.process = self._start()
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            send(self.process.stdin, question, blob)
            answer = receive(self.process.stdout)
        except OSError as error:
            answer = None
            reason = str(error)
        else:
            reason = "no answer"
        if answer is None:
            status = self.process.wait()
            self.process = None
            raise ArchloomError(f"a process that estimates networks ended with status {status} ({reason})")
        return answer[0]

    def _start(self) -> "subprocess.Popen[bytes]":
        root = str(Path(__file__).absolute().parents[3])  # the folder of the package archloom
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return subprocess.Popen(
            [sys.executable, "-m", "archloom.tvm_backend.estimate.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **threads, "PYTHONPATH": path, ENVIRONMENT: self.folder, PROCESSES: "1"},
        )


def send(pipe: IO[bytes], message: Json, blob: bytes = b"") -> None:
    """A message and bytes, each after its length."""
    text = json.dumps(message).encode()
    pipe.write(_LENGTH.pack(len(text), len(blob)) + text + blob)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[Json, bytes] | None:
    """What :func:`send` wrote; None at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    text, blob = _LENGTH.unpack(head)
    if text + blob > LARGEST_FRAME:
        return None
    body = pipe.read(text + blob)
    return (json.loads(body[:text]), body[text:]) if len(body) == text + blob else None
