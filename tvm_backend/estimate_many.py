"""Estimates of many networks, by as many processes as there are cores.

Each process (:mod:`tvm_backend.estimate_worker`) reads networks without their weights from its standard input and
writes reports to its standard output. What they find of kernels they share in the cache on disk, where each distinct
workload is searched for once; where the user turned that cache off, in a folder that is removed at the end.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from mapper.cache import ENVIRONMENT, directory
from mapper.together import ENVIRONMENT as PROCESSES
from oracle import errors as known_errors
from oracle.errors import ArchloomError, InputError
from tvm_backend import estimate, onnx_skeleton
from tvm_backend.estimate import Request
from tvm_backend.onnx_skeleton import NoSkeleton
from tvm_backend.report.data import Report

Outcome = Report | ArchloomError
Json = dict[str, Any]

_LENGTH = struct.Struct("<II")
LARGEST_FRAME = 1 << 30
RAISED = ("ModelError", "MappingError", "TargetError", "InputError", "StreamError")
"""Errors that take nothing but a message."""


def estimate_many(
    models: Iterable[Any], target: str, options: Mapping[str, object], *, as_int8: bool = False,
    input_shapes: Mapping[str, Sequence[int]] | None = None, workers: int | None = None, details: bool = False,
    on_error: Literal["raise", "return"] = "raise",
) -> list[Outcome]:
    """The reports of ``models`` (paths or networks of ONNX's, or loaded ones) in their order.

    ``models`` may be a generator: networks are drawn when they are needed, and not kept. ``workers``: processes (by
    default one for each core; 1 works in this process). Without ``details`` layers have their cycles, bytes and
    mapping, but say nothing of units, stages, storages, links and loops. ``on_error="return"`` puts the error of a
    network in the place of its report.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers: expected at least 1, found {workers}")
    if on_error not in ("raise", "return"):
        raise InputError(f"on_error: expected 'raise' or 'return', found {on_error!r}")
    from tvm_backend.uma import registry
    from tvm_backend.uma.choice import choose, named_options, names_of

    resolved = named_options(choose(target, options))
    request = Request(target, resolved, as_int8, details, on_disk=False)
    batch = _Batch(request, input_shapes, on_error == "raise", enumerate(models))
    count = workers or len(os.sched_getaffinity(0))
    if count == 1 or not set(names_of(target)) <= set(registry.BUILT_IN):
        batch.work(None)
    else:
        with _shared_cache() as folder:
            threads = [threading.Thread(target=batch.work, args=(folder,), daemon=True) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return batch.results()


@contextmanager
def _shared_cache() -> Iterator[str]:
    """The folder in which processes share what they find."""
    plans = directory()
    if plans is not None:
        yield str(plans.parent)
        return
    with tempfile.TemporaryDirectory(prefix="archloom-") as folder:
        yield folder


class _Batch:
    """The networks still to do and the outcomes so far, shared by the threads that each feed one process."""

    def __init__(
        self, request: Request, shapes: Mapping[str, Sequence[int]] | None, stop: bool,
        models: Iterator[tuple[int, Any]],
    ) -> None:
        self.request = request
        self.shapes = {k: list(v) for k, v in (shapes or {}).items()}
        self.stop = stop
        self.models = models
        self.outcomes: dict[int, Outcome] = {}
        self.failed: BaseException | None = None
        self.drawing = threading.Lock()
        self.here = threading.Lock()

    def results(self) -> list[Outcome]:
        if self.failed is not None:
            raise self.failed
        return [self.outcomes[i] for i in range(len(self.outcomes))]

    def work(self, folder: str | None) -> None:
        """Estimate networks until there are none left, in a process that shares the cache of ``folder``."""
        try:
            with _Worker(folder) as worker:
                while (drawn := self.draw()) is not None:
                    position, model = drawn
                    try:
                        self.outcomes[position] = self.one(model, worker)
                    except ArchloomError as error:
                        if self.stop:
                            raise
                        self.outcomes[position] = error
        except BaseException as error:  # raised in the thread that asked
            self.failed = self.failed or error

    def draw(self) -> tuple[int, Any] | None:
        with self.drawing:
            return None if self.failed is not None else next(self.models, None)

    def one(self, model: Any, worker: "_Worker") -> Outcome:
        if not estimate.is_onnx(model) or worker.folder is None:
            return self.in_this_process(model)
        in_file = isinstance(model, str | Path)
        label = str(model) if in_file else model.graph.name or "network"
        try:
            skeleton = onnx_skeleton.of_file(Path(label)) if in_file else onnx_skeleton.of_proto(model)
        except NoSkeleton:
            return self.in_this_process(model)
        title = Path(label).stem if in_file else label
        known = estimate.remembered(skeleton, self.request, title, self.shapes)
        if known is not None:
            return known
        answer = worker.ask({**header(self.request), "label": label, "title": title, "shapes": self.shapes}, skeleton)
        if "report" in answer:
            report = Report.from_json(answer["report"])
            estimate.remember(skeleton, self.request, title, self.shapes, report)
            return report
        if answer.get("error") == "Unreadable":  # needs TVM and the whole network
            return self.in_this_process(model)
        name = answer.get("error", "")
        kind = getattr(known_errors, name) if name in RAISED else ArchloomError
        raise kind(answer.get("message", "a worker process failed"))

    def in_this_process(self, model: Any) -> Report:
        r = self.request
        with self.here:
            if estimate.is_onnx(model):
                return estimate.estimate_onnx(model, r, input_shapes=self.shapes)
            return estimate.estimate_model(_loaded(model, r.target), r.target, r.options)


def _loaded(model: Any, target: str) -> Any:
    from tvm_backend import frontends

    return frontends.loaded(model, {}, target)


def header(request: Request) -> Json:
    """A request as JSON."""
    return {"target": request.target, "options": dict(request.options), "as_int8": request.as_int8,
            "details": request.details}


class _Worker:
    """A process that estimates networks one after another; without a ``folder``, none."""

    def __init__(self, folder: str | None) -> None:
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
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return subprocess.Popen(
            [sys.executable, "-m", "tvm_backend.estimate_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **threads, "PYTHONPATH": path, ENVIRONMENT: str(self.folder), PROCESSES: "1"},
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
