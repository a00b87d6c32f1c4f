"""Sets of files with checksums, written as a directory or a zip at once or not at all, and verified when read."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from archloom.oracle.atomic import replacing, write_through
from archloom.oracle.errors import ArtifactError
from archloom.oracle.reading import BROKEN_ZIP, JSON_BYTES, MEBIBYTE, PACKED, data_bytes, file_size, read_bytes
from archloom.tvm_backend.artifact import signing
from archloom.tvm_backend.version import VERSION

FORMAT = "archloom.artifact"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
NETWORKS = (".onnx", ".pt2")
"""Endings of files that are no artifacts yet."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_EPOCH = (1980, 1, 1, 0, 0, 0)
MANIFEST_BYTES = 16 * MEBIBYTE


class Files(dict[str, bytes]):
    """The files of an artifact by name, without its manifest; ``own``: signed with this user's key."""

    own = False


def is_artifact(path: Path) -> bool:
    """Whether ``path`` looks like an artifact: a directory or a zip with a manifest."""
    if path.is_dir():
        return (path / MANIFEST).is_file()
    if not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()
    except BROKEN_ZIP:
        return False


def check_free(path: Path) -> None:
    """Refuse a path that an artifact cannot be written to: something else is there, or no folder is."""
    if "\0" in str(path):
        raise ArtifactError(f"{str(path)!r}: cannot be written: no file has such a name")
    if (path.exists() or path.is_symlink()) and not is_artifact(path):
        raise ArtifactError(f"{path}: exists and is not an artifact: it is not overwritten; choose another name")
    if not path.parent.is_dir():
        raise ArtifactError(f"{path}: cannot be written: the folder {path.parent} does not exist")


def write(path: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files`` and their manifest to ``path``, a zip if its name ends in ``.zip``, else a directory.

    Everything goes to a temporary name beside ``path`` first, so that ``path`` holds the old artifact, the new one or
    nothing, never a part. Whatever cannot be written raises :class:`ArtifactError` and leaves no file behind.
    """
    check_free(path)
    contents = with_manifest(files)
    try:
        with replacing(path) as fresh:
            (_write_zip if path.suffix == ".zip" else _write_directory)(fresh, contents)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error.strerror or error}; nothing was left there") from error


def with_manifest(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files with the manifest that lists them."""
    entries = {n: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for n, b in sorted(files.items())}
    head = {"format": FORMAT, "version": FORMAT_VERSION, "archloom": VERSION, "files": entries,
            "signature": signing.signature(entries)}
    return {**files, MANIFEST: json.dumps(head, indent=1).encode()}


def _write_directory(root: Path, contents: Mapping[str, bytes]) -> None:
    root.mkdir()
    for name, data in contents.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_through(file, data)


def _write_zip(file: Path, contents: Mapping[str, bytes]) -> None:
    write_through(file, archive(contents, zipfile.ZIP_DEFLATED))


def archive(contents: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Files and their manifest as one zip; the same artifact gives the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression, compresslevel=1) as zipped:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            zipped.writestr(info, data, _compression(data, compression), 1)
    return out.getvalue()


def _compression(data: bytes, wanted: int) -> int:
    """How a file is packed: not at all, if readers would take it for a bomb."""
    dense = wanted == zipfile.ZIP_DEFLATED and len(zlib.compress(data, 1)) * PACKED < len(data)
    return zipfile.ZIP_STORED if dense else wanted


def read(path: Path, only: Container[str] | None = None) -> Files:
    """The files of the artifact at ``path`` without its manifest, or ``only`` some, each checked against its checksum.

    Nothing is read or unpacked that is larger than the manifest states, and the manifest may not state more than this
    machine can work with.
    """
    if not path.exists():
        raise ArtifactError(f"{path}: no such artifact")
    if path.suffix in NETWORKS:
        raise ArtifactError(f"{path}: expected an artifact, found a network: archloom compile {path} -o "
                            f"{path.stem}.loom makes one")
    with _damage(path):
        if not path.is_dir():
            file_size(path, data_bytes(), ArtifactError)
            return _read_zip(path, path, only)
        if not (path / MANIFEST).is_file():
            raise ArtifactError(f"{path}: not an artifact, or half-written: {MANIFEST} is missing")
        return _Reader(path, lambda name: _size(path / name), lambda name: read_bytes(
            path / name, data_bytes(), ArtifactError)).files(only)


def read_archive(data: bytes, path: Path) -> Files:
    """The files of an artifact in memory that :func:`archive` has made; ``path`` is what messages call it."""
    with _damage(path):
        return _read_zip(path, io.BytesIO(data), None)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except BROKEN_ZIP as error:
        raise ArtifactError(f"{path}: cannot be read, or damaged: {error}") from error


def _size(file: Path) -> int | None:
    """Of a file that is there."""
    return file.stat().st_size if file.is_file() else None


def _read_zip(path: Path, file: IO[bytes] | Path, only: Container[str] | None) -> Files:
    if not zipfile.is_zipfile(file):
        raise ArtifactError(f"{path}: neither a directory nor a complete zip (truncated, or another kind of file)")
    with zipfile.ZipFile(file) as zipped:
        parts = {info.filename: info for info in zipped.infolist()}

        def size(name: str) -> int | None:
            part = parts.get(name)
            if part is not None and part.file_size > PACKED * max(part.compress_size, 1):
                raise ArtifactError(f"{path}: {name}: expected at most {PACKED} bytes for each that is stored, found "
                                    f"{part.file_size:,} in {part.compress_size:,}")
            return None if part is None else part.file_size

        return _Reader(path, size, zipped.read).files(only)


@dataclass(frozen=True)
class _Reader:
    """An artifact at ``path``: ``size`` of a file that is there, None of others, and its ``data``."""

    path: Path
    size: Callable[[str], int | None]
    data: Callable[[str], bytes]

    def files(self, only: Container[str] | None) -> Files:
        """The files of the manifest, with their checksums verified."""
        size = self.size(MANIFEST)
        if size is None:
            raise ArtifactError(f"{self.path}: not an artifact: {MANIFEST} is missing")
        if size > MANIFEST_BYTES:
            raise ArtifactError(f"{self.path}: {MANIFEST}: expected at most {MANIFEST_BYTES:,} bytes, found {size:,}")
        manifest = _manifest(self.data(MANIFEST), self.path)
        entries = _entries(manifest, self.path)
        wanted = {name: entry for name, entry in entries.items() if only is None or name in only}
        for name, entry in wanted.items():
            self._refuse_size(name, entry["bytes"])
        found = Files({name: _verified(self.path, name, self.data(name), e) for name, e in wanted.items()})
        found.own = signing.is_own(entries, manifest.get("signature"))
        return found

    def _refuse_size(self, name: str, stated: int) -> None:
        size = self.size(name)
        if size is None:
            raise ArtifactError(f"{self.path}: {name} is missing")
        if size != stated:
            what = "truncated" if size < stated else "too long"
            raise ArtifactError(f"{self.path}: {name} is {what}: expected {stated} bytes, found {size}")


def _manifest(data: bytes, path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: {MANIFEST} is truncated or damaged: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path}: {MANIFEST} does not describe an artifact of archloom")
    version = manifest.get("version")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: written in artifact version {version} by archloom {manifest.get('archloom')};"
            f" this archloom ({VERSION}) reads version {FORMAT_VERSION}")
    return manifest


def _entries(manifest: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Sizes and checksums of the files by name."""
    entries = manifest.get("files")
    if not isinstance(entries, dict):
        raise ArtifactError(f"{path}: {MANIFEST} lists no files")
    for name, entry in entries.items():
        if not _NAME.fullmatch(name) or name == MANIFEST:
            raise ArtifactError(f"{path}: {MANIFEST} lists a file of the forbidden name {name!r}")
        size = entry.get("bytes") if isinstance(entry, dict) else None
        if not isinstance(size, int) or size < 0 or "sha256" not in entry:
            raise ArtifactError(f"{path}: {MANIFEST}: {name}: expected a size and a checksum")
        if name.endswith(".json") and size > JSON_BYTES:
            raise ArtifactError(f"{path}: {name}: expected at most {JSON_BYTES:,} bytes, found {size:,}")
    total, most = sum(entry["bytes"] for entry in entries.values()), data_bytes()
    if total > most:
        raise ArtifactError(f"{path}: its files have {total:,} bytes; at most {most:,}, a quarter of this machine's "
                            "memory, are read")
    return entries


def _verified(path: Path, name: str, data: bytes, entry: Mapping[str, Any]) -> bytes:
    digest = hashlib.sha256(data).hexdigest()
    if digest != entry["sha256"]:
        raise ArtifactError(f"{path}: {name} is corrupted: its checksum is {digest[:12]}…, the manifest says"
                            f" {str(entry['sha256'])[:12]}…")
    return data
