"""Memory of a process: what it remembers, so much that a long search does not make it grow; Python's cyclic collector,
paused where it only costs time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

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
