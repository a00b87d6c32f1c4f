"""Who finds out about candidates: this process, others on this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from archloom.oracle.errors import InputError
from archloom.tvm_backend.estimate.many import Pool, shared_cache
from archloom.tvm_backend.search.cluster import Cluster, connected

T = TypeVar("T")


class Workers(Protocol):
    """``count`` questions are answered at a time; ``here``: by this process, which waits for itself."""

    here: bool

    @property
    def count(self) -> int: ...

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """What a function of a module gives; :class:`~archloom.tvm_backend.estimate.many.WorkerEnded` if the process
        that was at it ended. It may be handed out with others, no later than :meth:`send` is called."""

    def send(self) -> None:
        """Hand out what was asked."""

    def batch(self, function: Callable[..., Any]) -> int:
        """How many questions of a kind are handed out together."""


class _Single:
    """Questions are handed out one by one."""

    def send(self) -> None:
        pass

    def batch(self, function: Callable[..., Any]) -> int:
        return 1


class Here(_Single):
    """This process: what is asked is found at once."""

    count, here = 1, True

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        future: Future[T] = Future()
        future.set_result(function(*arguments))
        return future


class Processes(_Single):
    """Processes on this machine, each with one thread; what they find of kernels they share on disk."""

    here = False

    def __init__(self, pool: Pool, count: int) -> None:
        self._pool, self.count = pool, count

    def ask(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        return self._pool.ask(function, *arguments)


@contextmanager
def workers(count: int, cluster: str | None = None) -> Iterator[Workers]:
    """``count`` processes (1: this one), or the cluster whose scheduler has the address."""
    if count < 1:
        raise InputError(f"workers: expected at least 1, found {count}")
    if cluster is not None:
        with connected(cluster) as client:
            yield Cluster(client, cluster)
    elif count == 1:
        yield Here()
    else:
        with shared_cache() as folder, Pool(folder, count) as pool:
            yield Processes(pool, count)
