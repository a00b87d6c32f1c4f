"""Files and folders that are written whole or not at all; and those that a process makes of the sources and keeps for
others, beside bytecode."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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


# --- beside bytecode -----------------------------------------------------------------------------------------------
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Kept:
    """A file of this name beside the bytecode of the module ``home`` (its ``__file__``), or in ``room`` of the caches;
    it counts while it is of the same ``origin``, a SHA-256 of all that it is made of. Like bytecode it is trusted by
    whoever runs the sources."""

    home: str
    room: str
    name: str
    origin: bytes

    def files(self) -> Iterator[Path]:
        """Where it may lie."""
        import platformdirs

        for folder in (Path(importlib.util.cache_from_source(self.home)).parent,
                       Path(platformdirs.user_cache_dir("archloom")) / self.room):
            yield folder / self.name

    def read(self) -> bytes | None:
        """Its content, or None; a damaged file counts as absent."""
        for file in self.files():
            with suppress(OSError):
                data = file.read_bytes()
                content = data[2 * _DIGEST :]
                if data[: 2 * _DIGEST] == self.origin + hashlib.sha256(content).digest():
                    return content
        return None

    def write(self, content: bytes) -> None:
        """Write it to the first place that can be written, if there is one."""
        for file in self.files():
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                with replacing(file) as fresh:
                    fresh.write_bytes(self.origin + hashlib.sha256(content).digest() + content)
                return


def digest_of(files: Iterable[Path]) -> bytes:
    """The SHA-256 of sources, in the order of their names."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.digest()
