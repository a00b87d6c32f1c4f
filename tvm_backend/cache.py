"""Finished results by content: what was read, for which target, by which code; in memory and on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from archloom.mapper import disk
from archloom.mapper.cache import code_fingerprint, key_of
from archloom.oracle.fallbacks import Fallback

PACKAGES = ("oracle", "acadl_models", "mapper", "models", "tvm_backend", "uma_targets")

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
