"""Reading and writing the files that a user names: whole or not at all, with errors that name them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from archloom.oracle.atomic import replacing, write_through
from archloom.oracle.errors import InputError


def read_file(path: Path) -> bytes:
    """The bytes of ``path``; :class:`InputError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {'no such file' if not path.exists() else error.strerror}") from error


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


def read_arrays(path: Path) -> dict[str, np.ndarray] | np.ndarray:
    """The arrays of an ``.npz`` by name, or the one array of an ``.npy``; objects (pickles) are refused."""
    blob = read_file(path)
    try:
        loaded = np.load(io.BytesIO(blob), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        return {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{path}: expected an .npz or .npy file of plain arrays: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    out = io.BytesIO()
    np.savez(out, **dict(arrays))  # type: ignore[arg-type]  # the stub takes the names for flags
    write_file(path, out.getvalue())
