"""Kernels on disk, as assembly or in the binary form of streams."""

from __future__ import annotations

from pathlib import Path

from archloom.oracle.assembly import parse, to_text
from archloom.oracle.binary import MAGIC, decode, encode
from archloom.oracle.errors import ArtifactError, StreamError
from archloom.oracle.stream import Stream


def write_stream(stream: Stream, path: str | Path) -> None:
    """Write ``stream``: binary where the name ends in ``.bin``, else assembly."""
    path = Path(path)
    data = encode(stream) if path.suffix == ".bin" else to_text(stream).encode()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror}") from None


def read_stream(path: str | Path) -> Stream:
    """The stream in a file of either form; ArtifactError or StreamError where there is none."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}") from None
    if data.startswith(MAGIC):
        return decode(data, str(path))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise StreamError(f"{path}: expected assembly text or a binary stream (which begins with {MAGIC!r})") from None
    return parse(text, str(path))
