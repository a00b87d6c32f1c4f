"""Files that a user names, read no further than they may be long: a device, a pipe or a file of holes costs no more."""

from __future__ import annotations

import os
import select
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

from archloom.oracle.errors import ArchloomError, InputError

MEBIBYTE = 1 << 20
TEXT_BYTES = 64 * MEBIBYTE
"""Of a text that somebody writes, or a stream."""
JSON_BYTES = 256 * MEBIBYTE
PACKED = 64
"""Bytes of a file for each byte that it takes in a zip, at most: a writer stores what could be packed more densely."""
PATIENCE_SECONDS = 30
"""Until the first byte of a pipe, which nobody may ever write."""

BROKEN_ZIP = (OSError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError,
              ValueError, LookupError)
"""What opening a file as a zip, or reading one, ends in, where it is damaged or none."""


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def data_bytes() -> int:
    """Of the largest file of numbers that is read: as much again is made of it, more than once."""
    return memory_bytes() // 4


def file_size(path: str | Path, most: int, error: type[ArchloomError] = InputError) -> int:
    """The bytes of a regular file; ``error`` for anything else, and for more than ``most`` bytes."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as fault:
        raise error(f"{_shown(path)}: {_why(fault)}") from fault
    if not stat.S_ISREG(found.st_mode):
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "device or a pipe"
        raise error(f"{path}: expected a file, found a {kind}")
    if found.st_size > most:
        raise error(f"{path}: expected a file of at most {most:,} bytes, found {found.st_size:,}")
    return found.st_size


def read_bytes(path: str | Path, most: int, error: type[ArchloomError] = InputError) -> bytes:
    """The bytes of a file, or of a pipe that ends; ``error`` where it cannot be read, or has more than ``most``."""
    try:
        with open(path, "rb", opener=_unblocked) as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > most:
                raise error(f"{path}: expected a file of at most {most:,} bytes, found {status.st_size:,}")
            if stat.S_ISCHR(status.st_mode) and not os.isatty(file.fileno()):
                raise error(f"{path}: expected a file, found a device")
            if stat.S_ISFIFO(status.st_mode) and not select.select([file], [], [], PATIENCE_SECONDS)[0]:
                raise error(f"{path}: expected a file, found a pipe into which nobody has written for "
                            f"{PATIENCE_SECONDS} s")
            os.set_blocking(file.fileno(), True)
            # no more room is made for it than it needs
            data = file.read(status.st_size + 1) if stat.S_ISREG(status.st_mode) else _up_to(file, most + 1)
    except (OSError, ValueError) as fault:
        raise error(f"{_shown(path)}: {_why(fault)}") from fault
    if len(data) > most:
        raise error(f"{path}: expected at most {most:,} bytes, found more")
    return data


def _unblocked(path: str, flags: int) -> int:
    """A file's descriptor at once, where a pipe's would wait for whoever writes into it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _up_to(file: IO[bytes], most: int) -> bytes:
    parts, left = [], most
    while left and (part := file.read(min(left, MEBIBYTE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _shown(path: str | Path) -> str:
    return str(path).replace("\0", "\\0")


def _why(fault: OSError | ValueError) -> str:
    """A ValueError is of a name that no file can have."""
    if isinstance(fault, FileNotFoundError):
        return "no such file"
    return f"cannot be read: {fault.strerror if isinstance(fault, OSError) else fault}"
