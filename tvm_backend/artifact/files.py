"""Sets of files with checksums, written as a directory or a zip at once or not at all, and verified when read."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from archloom.oracle.atomic import replacing, write_through
from archloom.oracle.errors import ArtifactError
from archloom.tvm_backend.version import VERSION

FORMAT = "archloom.artifact"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def is_artifact(path: Path) -> bool:
    """Whether ``path`` looks like an artifact: a directory or a zip with a manifest."""
    if path.is_dir():
        return (path / MANIFEST).is_file()
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def check_free(path: Path) -> None:
    """Refuse a path that an artifact cannot be written to: something else is there, or no folder is."""
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
    head = {"format": FORMAT, "version": FORMAT_VERSION, "archloom": VERSION, "files": entries}
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
            zipped.writestr(info, data, compression, 1)
    return out.getvalue()


def read(path: Path) -> dict[str, bytes]:
    """The files of the artifact at ``path`` without its manifest, each checked against its checksum."""
    if not path.exists():
        raise ArtifactError(f"{path}: no such artifact")
    try:
        if not path.is_dir():
            return _read_zip(path)
        if not (path / MANIFEST).is_file():
            raise ArtifactError(f"{path}: not an artifact, or half-written: {MANIFEST} is missing")
        return _verified_files(path, lambda name: (path / name).is_file(), lambda name: (path / name).read_bytes())
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ArtifactError(f"{path}: cannot be read, or damaged: {error}") from error


def read_archive(data: bytes, path: Path) -> dict[str, bytes]:
    """The files of an artifact in memory that :func:`archive` has made; ``path`` is what messages call it."""
    try:
        return _read_zip(path, io.BytesIO(data))
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ArtifactError(f"{path}: cannot be read, or damaged: {error}") from error


def _read_zip(path: Path, file: IO[bytes] | Path | None = None) -> dict[str, bytes]:
    file = path if file is None else file
    if not zipfile.is_zipfile(file):
        raise ArtifactError(f"{path}: neither a directory nor a complete zip (truncated, or another kind of file)")
    with zipfile.ZipFile(file) as zipped:
        sizes = {info.filename: info.file_size for info in zipped.infolist()}
        if MANIFEST not in sizes:
            raise ArtifactError(f"{path}: not an artifact: {MANIFEST} is missing")
        return _verified_files(path, lambda name: name in sizes, zipped.read, sizes)


def _verified_files(
    path: Path, has: Callable[[str], bool], data_of: Callable[[str], bytes], sizes: Mapping[str, int] | None = None
) -> dict[str, bytes]:
    """The files of the manifest; of a zip, whose ``sizes`` are known, none is unpacked that is too large."""
    found = {}
    for name, entry in _entries(data_of(MANIFEST), path).items():
        if not has(name):
            raise ArtifactError(f"{path}: {name} is missing")
        if sizes is not None and sizes[name] != entry["bytes"]:
            raise ArtifactError(f"{path}: {name}: expected {entry['bytes']} bytes, found {sizes[name]}")
        found[name] = _verified(path, name, data_of(name), entry)
    return found


def _entries(data: bytes, path: Path) -> dict[str, dict[str, Any]]:
    try:
        manifest = json.loads(data)
    except ValueError as error:
        raise ArtifactError(f"{path}: {MANIFEST} is truncated or damaged: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path}: {MANIFEST} does not describe an artifact of archloom")
    version = manifest.get("version")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: written in artifact version {version} by archloom {manifest.get('archloom')};"
            f" this archloom ({VERSION}) reads version {FORMAT_VERSION}")
    entries = manifest.get("files")
    if not isinstance(entries, dict):
        raise ArtifactError(f"{path}: {MANIFEST} lists no files")
    for name, entry in entries.items():
        if not _NAME.fullmatch(name) or name == MANIFEST:
            raise ArtifactError(f"{path}: {MANIFEST} lists a file of the forbidden name {name!r}")
        if not isinstance(entry, dict) or not isinstance(entry.get("bytes"), int) or "sha256" not in entry:
            raise ArtifactError(f"{path}: {MANIFEST}: {name}: expected a size and a checksum")
    return entries


def _verified(path: Path, name: str, data: bytes, entry: Mapping[str, Any]) -> bytes:
    if len(data) != entry["bytes"]:
        what = "truncated" if len(data) < entry["bytes"] else "too long"
        raise ArtifactError(f"{path}: {name} is {what}: expected {entry['bytes']} bytes, found {len(data)}")
    digest = hashlib.sha256(data).hexdigest()
    if digest != entry["sha256"]:
        raise ArtifactError(f"{path}: {name} is corrupted: its checksum is {digest[:12]}…, the manifest says"
                            f" {str(entry['sha256'])[:12]}…")
    return data
