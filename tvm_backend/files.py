"""Reading and writing the files that a user names: whole or not at all, with errors that name them."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from archloom.oracle.atomic import replacing, write_through
from archloom.oracle.errors import InputError
from archloom.oracle.reading import BROKEN_ZIP, JSON_BYTES, PACKED, data_bytes, read_bytes


def write_file(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` through a temporary name beside it, so that a failure leaves nothing half-written.

    What exists and is no regular file (a device, a pipe) is written directly.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            with replacing(path) as fresh:
                write_through(fresh, data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # a name that no file can have
        raise InputError(f"{str(path)!r}: cannot be written: {error}") from error


def read_arrays(path: Path) -> dict[str, np.ndarray] | np.ndarray:
    """The arrays of an ``.npz`` by name, or the one array of an ``.npy``; objects (pickles) are refused, and so is what
    is more than 256 MiB and :data:`PACKED` times as large as its file: zeros, that somebody says are samples."""
    blob = read_bytes(path, data_bytes())
    try:
        loaded = np.load(io.BytesIO(blob), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        unpacked, most = sum(part.file_size for part in loaded.zip.infolist()), max(PACKED * len(blob), JSON_BYTES)
        if unpacked > min(most, data_bytes()):
            raise ValueError(f"its arrays have {unpacked:,} bytes, at most {min(most, data_bytes()):,} are read of "
                             f"{len(blob):,}")
        return {name: np.asarray(loaded[name]) for name in loaded.files}
    except (*BROKEN_ZIP, TypeError, AttributeError, SyntaxError, MemoryError, tokenize.TokenError) as error:
        raise InputError(f"{path}: expected an .npz or .npy file of plain arrays: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    out = io.BytesIO()
    np.savez(out, **dict(arrays))  # type: ignore[arg-type]  # the stub takes the names for flags
    write_file(path, out.getvalue())
