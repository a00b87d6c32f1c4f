"""What a process makes of the sources and keeps for others: in files beside the bytecode of a module, or among the
user's caches where that folder cannot be written. Like bytecode they are read by whoever runs the sources."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from archloom.oracle.atomic import replacing

_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Kept:
    """A file of this name beside the bytecode of the module ``home`` (its ``__file__``), or in ``room`` of the caches;
    it counts while it is of the same ``origin``, a SHA-256 of all that it is made of."""

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
