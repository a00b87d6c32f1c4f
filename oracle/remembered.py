"""What a process remembers of what it has found out, so much of it that a long search does not make it grow."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(dict[K, V]):
    """A dict of at most ``most`` entries: the oldest goes where there would be more. Entries are set by item, or by
    :meth:`once`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        while len(self) >= self.most and key not in self:
            with suppress(RuntimeError, StopIteration):  # another thread took it first
                self.pop(next(iter(self)), None)
        super().__setitem__(key, value)

    def once(self, key: K, make: Callable[[], V]) -> V:
        """What is remembered, or else made."""
        try:
            return self[key]
        except KeyError:
            found = self[key] = make()
            return found
