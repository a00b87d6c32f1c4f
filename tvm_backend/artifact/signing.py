"""The user's key, with which artifacts are signed: machine code is run only where the same user saved it.

Machine code cannot be looked through before it runs, and checksums are for anyone to make. The key lies in the user's
cache directory, readable by nobody else, wherever results are cached: artifacts go from one cache to another.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

KEY = "key"
"""The file's name."""
_BYTES = 32


def signature(entries: Mapping[str, Any]) -> str:
    """Of the files of a manifest, with their sizes and checksums."""
    import platformdirs

    content = json.dumps(entries, sort_keys=True).encode()
    return hmac.new(_key(Path(platformdirs.user_cache_dir("archloom")) / KEY), content, hashlib.sha256).hexdigest()


def is_own(entries: Mapping[str, Any], signed: object) -> bool:
    """Whether this user signed these files."""
    return isinstance(signed, str) and signed.isascii() and hmac.compare_digest(signature(entries), signed)


@lru_cache(maxsize=8)
def _key(file: Path) -> bytes:
    """The key in a file, which is made where there is none; one for this process where no file can be had."""
    with contextlib.suppress(OSError):
        return _read(file) or _made(file)
    return secrets.token_bytes(_BYTES)


def _read(file: Path) -> bytes | None:
    """The key; None for a file that others may read or write, or that is damaged."""
    with contextlib.suppress(FileNotFoundError), file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        key = opened.read(_BYTES + 1) if private else b""
        return key if len(key) == _BYTES else None
    return None


def _made(file: Path) -> bytes:
    """A new key; of processes that make one at the same time, all take the first's. One that is no use is replaced."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(secrets.token_bytes(_BYTES))
        try:
            os.link(fresh, file)
        except FileExistsError:
            if _read(file) is None:
                fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    key = _read(file)
    if key is None:
        raise OSError(f"{file} is not as it was written")
    return key
