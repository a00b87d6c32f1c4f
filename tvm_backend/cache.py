"""Finished results by content: what was read, for which target, by which code; in memory and on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from archloom.mapper import disk
from archloom.mapper.cache import code_fingerprint, key_of
from archloom.oracle.fallbacks import Fallback

PACKAGES = ("oracle", "acadl_models", "mapper", "models", "tvm_backend", "uma_targets")
KEPT = 512
"""Results that a process remembers."""

T = TypeVar("T")


class Memory(Generic[T]):
    """What this process has found, the oldest forgotten first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._values: dict[str, T] = {}

    def get(self, name: str) -> T | None:
        return self._values.get(name)

    def put(self, name: str, value: T) -> None:
        while len(self._values) >= self._kept:
            self._values.pop(next(iter(self._values)), None)
        self._values[name] = value

    def clear(self) -> None:
        self._values.clear()


def key(parts: Iterable[str]) -> str:
    """A name for the result that follows from ``parts`` and from archloom's own code."""
    return key_of([code_fingerprint(*PACKAGES), *parts])


def load(kind: str, name: str) -> Any:
    """The JSON value that was stored, or ``None``."""
    data = disk.load(kind, name)
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return None


def store(kind: str, name: str, value: Any) -> Fallback | None:
    """Keep a JSON value, see :func:`archloom.mapper.disk.store`."""
    return disk.store(kind, name, json.dumps(value).encode())
