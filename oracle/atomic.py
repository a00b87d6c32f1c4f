"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name at which to write a file or a folder, which takes the place of ``path`` when the block ends well.

    It lies beside ``path``, so that it is renamed, never copied. Where the block or a rename fails, or is interrupted
    anywhere, ``path`` is as it was, and nothing else is left there.
    """
    work = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"  # known before it is there
    try:
        try:
            work.mkdir(mode=0o700)
            yield work / "new"
            _swap(work / "new", path, work / "old")
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:  # where that was interrupted, too
        shutil.rmtree(work, ignore_errors=True)


def write_through(file: Path, data: bytes) -> None:
    """Write a file to the disk itself: a full one shows here, not after a rename."""
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _swap(fresh: Path, path: Path, old: Path) -> None:
    """Put ``fresh`` at ``path``; a folder that was there goes to ``old``, and comes back if the second rename fails."""
    if not path.is_dir():
        fresh.replace(path)
        return
    path.rename(old)
    try:
        fresh.rename(path)
    except OSError:
        old.rename(path)
        raise
