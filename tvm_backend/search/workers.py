"""Who finds out about candidates: this process, others on this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from archloom.oracle.errors import ArchloomError, InputError
from archloom.tvm_backend.estimate.many import Pool, WorkerEnded, shared_cache

T = TypeVar("T")


class Workers(Protocol):
    """``count`` questions are answered at a time; ``here``: by this process, which waits for itself."""

    count: int
    here: bool

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """What a function of a module gives; :class:`~archloom.tvm_backend.estimate.many.WorkerEnded` if the process
        that was at it ended."""


class Here:
    """This process: what is asked is found at once."""

    count, here = 1, True

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        future: Future[T] = Future()
        future.set_result(function(*arguments))
        return future


class Processes:
    """Processes on this machine, each with one thread; what they find of kernels they share on disk."""

    here = False

    def __init__(self, pool: Pool, count: int) -> None:
        self._pool, self.count = pool, count

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        return self._pool.ask(function, *arguments)


class Cluster:
    """The workers of a Dask cluster."""

    here = False

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self.count = max(1, sum(client.nthreads().values()))

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        found: Future[T] = Future()
        found.set_running_or_notify_cancel()
        asked = self._client.submit(function, *arguments, pure=False)

        def ended(done: Any) -> None:
            if done.status == "finished":
                found.set_result(done.result())
                return
            error = done.exception() if done.status == "error" else done.status
            kind = WorkerEnded if type(error).__name__ == "KilledWorker" else ArchloomError
            found.set_exception(kind(f"cluster {self._address}: a candidate was given up: {error}"))

        asked.add_done_callback(ended)
        return found


@contextmanager
def workers(count: int, cluster: str | None = None) -> Iterator[Workers]:
    """``count`` processes (1: this one), or the cluster whose scheduler has the address."""
    if count < 1:
        raise InputError(f"workers: expected at least 1, found {count}")
    if cluster is not None:
        with _client(cluster) as client:
            yield Cluster(client, cluster)
    elif count == 1:
        yield Here()
    else:
        with shared_cache() as folder, Pool(folder, count) as pool:
            yield Processes(pool, count)


@contextmanager
def _client(address: str) -> Iterator[Any]:
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
