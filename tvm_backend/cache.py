"""Finished results on disk, by content: what was read, for which target, by which code."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tvm_backend.files import write_file

PACKAGES = ("oracle", "acadl_models", "mapper", "tvm_backend", "uma_targets")
_SOURCES = (".py", ".taidl", ".lark")


def folder(kind: str) -> Path:
    """Where results of ``kind`` lie: below ``$ARCHLOOM_CACHE_DIR``, or else the user's cache directory."""
    if chosen := os.environ.get("ARCHLOOM_CACHE_DIR"):
        return Path(chosen) / kind
    import platformdirs

    return Path(platformdirs.user_cache_dir("archloom")) / kind


def key(parts: Iterable[bytes]) -> str:
    """A name for the result that follows from ``parts`` and from archloom's own code."""
    digest = hashlib.blake2b(code_fingerprint(), digest_size=20)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@cache
def code_fingerprint() -> bytes:
    """Changes whenever a source file of archloom does: by name, size and time of change."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.blake2b(digest_size=20)
    for package in PACKAGES:
        for path, _, names in sorted(os.walk(root / package)):
            for name in sorted(names):
                if name.endswith(_SOURCES):
                    file = Path(path, name)
                    seen = file.stat()
                    digest.update(f"{file}:{seen.st_size}:{seen.st_mtime_ns}\n".encode())
    return digest.digest()


def load(kind: str, name: str) -> Any:
    """The JSON value that was stored, or ``None``; a damaged file counts as absent."""
    try:
        return json.loads((folder(kind) / f"{name}.json").read_bytes())
    except (OSError, ValueError):
        return None


def store(kind: str, name: str, value: Any) -> None:
    """Keep a JSON value. A cache that cannot be written costs time, never a result."""
    from oracle.errors import InputError

    with contextlib.suppress(OSError, InputError):
        folder(kind).mkdir(parents=True, exist_ok=True)
        write_file(folder(kind) / f"{name}.json", json.dumps(value).encode())
