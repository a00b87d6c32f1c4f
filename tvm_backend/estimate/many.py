"""Estimates of many networks, by as many processes as there are cores.

This process draws the networks and reads them without their weights. Where they are chains of segments
(:mod:`archloom.tvm_backend.estimate.segments`) it puts their partitions together itself; each workload that is not
known yet is given to one of the other processes, once, as it turns up, and reports are made when all plans of a network
are there. Other networks go to those processes as a whole. What these find of kernels they share in the cache on disk,
where each distinct workload is searched for once; where the user turned that cache off, in a folder that is removed at
the end. A process is a Python of its own (:mod:`archloom.tvm_backend.estimate.worker`), fed by a thread; those of
:mod:`concurrent.futures` would run the user's script again.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeVar

from archloom.mapper import cache, disk, search
from archloom.mapper.accelerator import Configuration
from archloom.mapper.cache import Entry
from archloom.mapper.disk import ENVIRONMENT
from archloom.mapper.parallel import ENVIRONMENT as PROCESSES
from archloom.mapper.workload import Workload
from archloom.oracle.errors import ArchloomError, InputError, MappingError, ModelError, StreamError, TargetError
from archloom.tvm_backend.estimate.network import OnnxNetwork, report_of
from archloom.tvm_backend.estimate.pieces import Undivided
from archloom.tvm_backend.estimate.request import Request, in_floats
from archloom.tvm_backend.estimate.segments import Chain
from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton
from archloom.tvm_backend.host.profile import HostProfile
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.report.build import with_host
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.sources.source import Source, is_network
from archloom.tvm_backend.targets.choice import choose, named_options

Outcome = Report | ArchloomError
Asked = Report | ArchloomError | None
T = TypeVar("T")
_Worker = tuple["subprocess.Popen[bytes]", "Connection[Any, Any]"]

PLAIN = (ModelError, MappingError, TargetError, InputError, StreamError)
"""Errors that are made of nothing but a message."""
AHEAD = 4
"""Networks for each process that are with the processes as a whole at a time."""


Options = Mapping[str, object]


def estimate_many(
    models: Any, target: str, options: Options | Sequence[Options], *, as_int8: bool = False,
    input_shapes: Mapping[str, Sequence[int]] | None = None, example_inputs: Any = None,
    workers: int | None = None, details: bool = False,
    on_error: Literal["raise", "return"] = "raise", profile: HostProfile | None = None,
    progress: Progress = lambda what, done, total: None,
) -> list[Outcome]:
    """The reports of ``models``, in their order, as :func:`archloom.estimate_many` has them.

    ``models`` may be a generator: networks are drawn when they are needed, and not kept. One of ``workers`` works in
    this process. ``profile``: the host whose time is estimated; None for the accelerator only.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers: expected at least 1, found {workers}")
    if on_error not in ("raise", "return"):
        raise InputError(f"on_error: expected 'raise' or 'return', found {on_error!r}")
    several = [options] if isinstance(options, Mapping) else list(options)
    requests = [Request(target, named_options(choose(target, o)), as_int8, details, on_disk=False) for o in several]
    asked = _asked(models, requests, single=not isinstance(options, Mapping), example_inputs=example_inputs)
    count = workers or len(os.sched_getaffinity(0))
    if count == 1 or not all(request.is_built_in for request in requests):
        outcomes = _Batch(input_shapes, on_error == "raise", None, 0, progress).outcomes_of(asked)
    else:
        with shared_cache() as folder, Pool(folder, count) as pool:
            outcomes = _Batch(input_shapes, on_error == "raise", pool, AHEAD * count, progress).outcomes_of(asked)
    return [with_host(o, profile) if isinstance(o, Report) else o for o in outcomes]


@dataclass(frozen=True, eq=False)
class _Wanted:
    """A network as it was given, and what is to be estimated of it."""

    model: Any
    request: Request
    example_inputs: Any = None


def _asked(models: Any, requests: Sequence[Request], *, single: bool, example_inputs: Any) -> Iterator[_Wanted]:
    """Each model with its request; InputError where their numbers do not fit. ``single``: a model alone is taken with
    all requests."""
    if is_network(models):
        models = [models] * len(requests)
    elif single:
        models = list(models)
        models = models * len(requests) if len(models) == 1 else models
        if len(models) != len(requests):
            raise InputError(f"options: expected one set for all models or {len(models)}, one for each; found "
                             f"{len(requests)}")
    return _paired(models, requests, example_inputs)


def _paired(models: Iterable[Any], requests: Sequence[Request], example_inputs: Any) -> Iterator[_Wanted]:
    for model, request in zip(models, itertools.cycle(requests)):
        if isinstance(model, tuple) and len(model) == 2:
            yield _Wanted(model[0], request, model[1])
        else:
            yield _Wanted(model, request, example_inputs)


def shared_cache() -> AbstractContextManager[str]:
    """The folder in which processes share what they find."""
    kept = disk.folder()
    return tempfile.TemporaryDirectory(prefix="archloom-") if kept is None else nullcontext(str(kept))


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A network whose report waits for what the processes find: of some ``kernels`` of a chain, or as a ``whole``."""

    network: OnnxNetwork
    kernels: "Mapping[str, Future[Entry | None]]"
    chain: Chain | None = None
    whole: "Future[Asked] | None" = None


@dataclass(eq=False)
class _Batch:
    """The networks of one call, whose reports are made in their order. ``stop``: raise the first error; ``ahead``: how
    many networks may be with the processes as a whole at a time."""

    shapes: Mapping[str, Sequence[int]] | None
    stop: bool
    pool: Pool | None
    ahead: int
    progress: Progress
    asked: "dict[str, Future[Entry | None]]" = field(default_factory=dict)

    def outcomes_of(self, models: Iterable[_Wanted]) -> list[Outcome]:
        """The outcome of each network; the first error is raised where the user wants that."""
        outcomes: list[Outcome] = []
        waiting: deque[Outcome | _Waiting] = deque()
        away = 0
        for model in models:
            begun = self.tried(self.begun, model)
            waiting.append(begun)
            away += isinstance(begun, _Waiting) and begun.whole is not None
            while waiting and (away > self.ahead or _is_there(waiting[0])):
                away -= self.settled(waiting.popleft(), outcomes)
        for begun in waiting:
            self.settled(begun, outcomes)
        return outcomes

    def settled(self, begun: "Outcome | _Waiting", outcomes: list[Outcome]) -> bool:
        """Put a network's outcome to the others; whether the processes have had it as a whole."""
        self.progress(f"network {len(outcomes) + 1}", 0, 0)
        if not isinstance(begun, _Waiting):
            outcomes.append(begun)
            return False
        outcomes.append(self.tried(self.report_of, begun))
        return begun.whole is not None

    def tried(self, function: Any, argument: Any) -> Any:
        try:
            return function(argument)
        except ArchloomError as error:
            if self.stop:
                raise
            return error

    def begun(self, wanted: _Wanted) -> "Outcome | _Waiting":
        """A network's report, if it is at hand or this process has to make it, or what it waits for."""
        given = Source.of(wanted.model, input_shapes=self.shapes, example_inputs=wanted.example_inputs)
        source, request = in_floats(given, wanted.request)
        if self.pool is None or not (source.kind == "onnx" or request.as_int8):
            return report_of(source, request)
        try:
            network = OnnxNetwork.of(source, request)
        except NoSkeleton:
            return report_of(source, request)
        known = network.remembered()
        if known is not None:
            return known
        try:
            chain = network.chain()
        except Undivided:
            return _Waiting(network, {}, whole=self.pool.ask(estimated, replace(network, source=None)))
        in_file = isinstance(source.given, Path)
        return _Waiting(network if in_file else replace(network, source=None), self.kernels_of(chain, request), chain)

    def kernels_of(self, chain: Chain, request: Request) -> "dict[str, Future[Entry | None]]":
        """What the processes find of the chain's workloads that are not known yet."""
        assert self.pool is not None
        found, configuration = {}, _configuration(request)
        for workload in chain.unplanned():
            key = search.key_of(workload, configuration)
            if key not in self.asked and search.KEPT.get(key, cache.from_json) is None:
                self.asked[key] = self.pool.ask(planned, workload, request)
            if key in self.asked:
                found[key] = self.asked[key]
        return found

    def report_of(self, waiting: _Waiting) -> Report:
        """The report of a network that waits, with what the processes have found."""
        report = self.of_whole(waiting) if waiting.whole is not None else self.of_chain(waiting)
        waiting.network.remember(report)
        return waiting.network.completed(report)

    def of_chain(self, waiting: _Waiting) -> Report:
        assert waiting.chain is not None
        for key, future in waiting.kernels.items():
            entry = future.result()
            if entry is not None and key not in search.KEPT:
                search.KEPT.remember(key, entry)
        try:
            return waiting.network.of_chain(waiting.chain)
        except ArchloomError:  # said of the network as a whole, whose operators have names
            return waiting.network.as_whole()

    def of_whole(self, waiting: _Waiting) -> Report:
        assert waiting.whole is not None
        found = waiting.whole.result()
        if isinstance(found, ArchloomError):
            raise found
        if found is None:
            assert waiting.network.source is not None
            return report_of(waiting.network.source, waiting.network.request)
        return found


def _is_there(begun: "Outcome | _Waiting") -> bool:
    """Whether nothing has to be waited for."""
    if not isinstance(begun, _Waiting):
        return True
    return all(f.done() for f in begun.kernels.values()) and (begun.whole is None or begun.whole.done())


class WorkerEnded(ArchloomError):
    """A process of a pool ended before it had answered."""


class Pool:
    """``count`` processes that share the cache of ``folder``; each starts when it has something to do."""

    def __init__(self, folder: str, count: int) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor(count)
        self._workers: dict[int, _Worker] = {}

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """What nobody has begun with is dropped; where an exception ends the work, what is at work, too."""
        for process, _connection in [] if kind is None else list(self._workers.values()):
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process, connection in self._workers.values():
            connection.close()
            process.wait()

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """What a function of a module gives for arguments that can be pickled; WorkerEnded if the process dies."""
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
            raise WorkerEnded(f"a process that estimates networks ended with status {process.wait()} "
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


# by the processes -----------------------------------------------------------------------------------------------------


def estimated(network: OnnxNetwork) -> Asked:
    """The report of a network, or the error; None for one that needs TVM, and its weights."""
    try:
        return network.report()
    except (NoSkeleton, Unsupported):
        return None
    except ArchloomError as error:
        return (type(error) if type(error) in PLAIN else ArchloomError)(str(error))


def planned(workload: "Workload", request: Request) -> Entry | None:
    """What a search for the plan of a workload finds; None where it fails, which it will do again."""
    try:
        return search.found(workload, _configuration(request))[1]
    except ArchloomError:
        return None


def _configuration(request: Request) -> "Configuration":
    (target,) = request.chosen()
    return target.backend.accelerator.configure(target.accelerator_options)
