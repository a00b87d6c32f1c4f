"""Finished results on disk, by content: what was read, for which target, by which code."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mapper.cache import code_fingerprint, directory, key_of
from oracle.errors import InputError
from tvm_backend.files import write_file

PACKAGES = ("oracle", "acadl_models", "mapper", "tvm_backend", "uma_targets")


def key(parts: Iterable[str]) -> str:
    """A name for the result that follows from ``parts`` and from archloom's own code."""
    return key_of([code_fingerprint(*PACKAGES), *parts])


def load(kind: str, name: str) -> Any:
    """The JSON value that was stored, or ``None``; a damaged file counts as absent."""
    file = _file(kind, name)
    try:
        return json.loads(file.read_bytes()) if file else None
    except (OSError, ValueError):
        return None


def store(kind: str, name: str, value: Any) -> None:
    """Keep a JSON value. A cache that cannot be written costs time, never a result."""
    if file := _file(kind, name):
        with contextlib.suppress(OSError, InputError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, json.dumps(value).encode())


def _file(kind: str, name: str) -> Path | None:
    """Beside the mapper's plans; ``None`` if the user turned caches off."""
    plans = directory()
    return plans.parent / kind / f"{name}.json" if plans else None
