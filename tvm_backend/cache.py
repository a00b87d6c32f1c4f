"""Finished results by content: what was read, for which target, by which code; in memory and on disk."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

from archloom.mapper.cache import code_fingerprint, directory, key_of
from archloom.oracle.atomic import replacing
from archloom.oracle.fallbacks import Fallback

PACKAGES = ("oracle", "acadl_models", "mapper", "models", "tvm_backend", "uma_targets")
KEPT = 512
"""Results that a process remembers."""

_DIGEST = hashlib.sha256().digest_size

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
    """The JSON value that was stored, or ``None``; a damaged file counts as absent."""
    data = load_bytes(kind, name)
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return None


def load_bytes(kind: str, name: str) -> bytes | None:
    """The bytes that were stored, or ``None``; a damaged file counts as absent."""
    file = _file(kind, name)
    try:
        data = file.read_bytes() if file else b""
        digest, packed = data[:_DIGEST], data[_DIGEST:]
        if not packed or hashlib.sha256(packed).digest() != digest:
            return None
        return zlib.decompress(packed)
    except (OSError, zlib.error):
        return None


def store(kind: str, name: str, value: Any) -> Fallback | None:
    """Keep a JSON value, see :func:`store_bytes`."""
    return store_bytes(kind, name, json.dumps(value).encode())


def store_bytes(kind: str, name: str, data: bytes) -> Fallback | None:
    """Keep bytes, whole or not at all. A cache that cannot be written costs time, never a result: what is returned then
    says so."""
    file = _file(kind, name)
    if file is None:
        return None
    packed = zlib.compress(data, 1)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as fresh:
            fresh.write_bytes(hashlib.sha256(packed).digest() + packed)
    except OSError as error:
        return Fallback(f"cache in {file.parent}", f"it cannot be written: {error.strerror or error}",
                        "every process computes again what it would have found there")
    return None


def _file(kind: str, name: str) -> Path | None:
    """Beside the mapper's plans; ``None`` if the user turned caches off."""
    plans = directory()
    return plans.parent / kind / f"{name}.bin" if plans else None
