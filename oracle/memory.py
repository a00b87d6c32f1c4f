"""Memory of a process: what it remembers, so much that a long search does not make it grow; Python's cyclic collector,
paused where it only costs time; how much it may still take, and what libraries raise where that is too little."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from archloom.oracle.reading import memory_bytes

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(dict[K, V]):
    """A dict whose entries weigh ``most`` together: the oldest go where there would be more, but for the last one. Each
    weighs 1, or what ``weigh`` says of it. Entries are set by item, or by :meth:`once`."""

    def __init__(self, most: int, weigh: Callable[[V], int] | None = None) -> None:
        super().__init__()
        self.most, self._weigh = most, weigh
        self._weights: dict[K, int] = {}

    def __setitem__(self, key: K, value: V) -> None:
        weight = 1 if self._weigh is None else self._weigh(value)
        if self._held() + weight > self.most and key not in self:
            self._make_room(weight)
        super().__setitem__(key, value)
        if self._weigh is not None:
            self._weights[key] = weight

    def _held(self) -> int:
        return len(self) if self._weigh is None else sum(list(self._weights.values()))

    def _make_room(self, weight: int) -> None:
        while len(self) and self._held() + weight > self.most:
            with suppress(RuntimeError, StopIteration):  # another thread took it first
                self._forget(next(iter(self)))

    def _forget(self, key: K) -> None:
        self.pop(key, None)
        self._weights.pop(key, None)

    def clear(self) -> None:
        super().clear()
        self._weights.clear()

    def once(self, key: K, make: Callable[[], V]) -> V:
        """What is remembered, or else made."""
        try:
            return self[key]
        except KeyError:
            pass
        found = self[key] = make()
        return found


@contextmanager
def paused() -> Iterator[None]:
    """No cyclic collection inside; also a decorator.

    Resolving, raising, searching and interpreting make many small objects that live until the end and hold no cycles:
    the collector would scan them over and over, for a quarter of the time. Reference counting goes on.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def room_bytes() -> int:
    """What this process may still take: the machine's memory, or what its limit of addresses leaves of it."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return memory_bytes()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    return max(0, min(memory_bytes(), limit - int(pages) * os.sysconf("SC_PAGE_SIZE")))


@contextmanager
def memory_errors() -> Iterator[None]:
    """MemoryError where XLA or torch have not enough memory, which say so in errors of their own; XLA computes while
    Python goes on, so that it does wherever its results are looked at."""
    try:
        yield
    except RuntimeError as error:
        if not any(said in str(error) for said in ("RESOURCE_EXHAUSTED", "can't allocate memory")):
            raise
        raise MemoryError(str(error)) from error
