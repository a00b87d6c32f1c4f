"""Artifacts on disk: whole or absent, and every kind of damage named."""

import contextlib
import errno
import json
import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import ArtifactError
from archloom.tvm_backend.artifact import signing
from archloom.tvm_backend.artifact.files import (
    FORMAT_VERSION,
    MANIFEST,
    archive,
    is_artifact,
    read,
    with_manifest,
    write,
)
from tests.support.examples import examples

FILES = {"report.json": b'{"a": 1}', "streams/0.bin": bytes(range(256)) * 40}


@pytest.fixture(params=["net.loom", "net.zip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def test_round_trip(path: Path) -> None:
    write(path, FILES)
    assert read(path) == FILES
    assert is_artifact(path)
    assert os.listdir(path.parent) == [path.name]


def test_same_contents_give_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", FILES)
    write(tmp_path / "b.zip", FILES)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@given(st.lists(st.tuples(st.integers(1, 400), st.binary(min_size=1, max_size=3)), min_size=1, max_size=4))
@examples(few=300, many=20_000)
def test_zips_with_damaged_directories_are_told_from_others(
    tmp_path_factory: pytest.TempPathFactory, damages: list[tuple[int, bytes]]
) -> None:
    """Whatever stands in the last bytes, where a zip has its directory, nothing but an ArtifactError is raised."""
    file = tmp_path_factory.getbasetemp() / "damaged.zip"
    write(file, FILES)
    data = bytearray(file.read_bytes())
    for place, found in damages:
        data[-place:len(data) - place + len(found)] = found
    file.write_bytes(data)
    is_artifact(file)
    with contextlib.suppress(ArtifactError):
        read(file)
    file.unlink()


def changed(path: Path, contained: dict[str, bytes], /, **entries: object) -> None:
    """Write files with a manifest in which some entries are others, as a directory or a zip."""
    contents = with_manifest(contained)
    manifest = {**json.loads(contents[MANIFEST]), **entries}
    write_raw(path, {**contents, MANIFEST: json.dumps(manifest).encode()})


def write_raw(path: Path, contents: dict[str, bytes]) -> None:
    if path.suffix == ".zip":
        path.write_bytes(archive(contents, zipfile.ZIP_DEFLATED))
        return
    for name, data in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


def test_signed_by_whom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this user wrote is known as that; not what was changed with its checksums, nor what another user wrote."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(path, FILES)
    assert read(path).own and read(path, ("report.json",)) == {"report.json": FILES["report.json"]}
    assert (tmp_path / "cache" / "archloom" / "key").stat().st_mode & 0o777 == 0o600
    signed = json.loads(with_manifest(FILES)[MANIFEST])["signature"]
    other = {**FILES, "report.json": b"{}"}
    for files, signature in ((other, signed), (FILES, signed[::-1]), (FILES, 7), (FILES, "é")):
        changed(path, files, signature=signature)
        assert read(path) == files and not read(path).own
    write(path, FILES)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert not read(path).own


def test_keys_that_are_none_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that others can read, and one that is damaged."""
    for number, (content, mode) in enumerate(((b"k" * 32, 0o644), (b"k" * 31, 0o600), (b"", 0o600))):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(number)))
        key = tmp_path / str(number) / "archloom" / "key"
        key.parent.mkdir(parents=True)
        key.write_bytes(content)
        key.chmod(mode)
        assert signing.is_own({"a": 1}, signing.signature({"a": 1}))
        assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32 and key.read_bytes() != content
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/self/nowhere")
    assert signing.is_own({"a": 1}, signing.signature({"a": 1}))  # by a key of this process


def test_nothing_is_read_that_is_larger_than_stated(tmp_path: Path) -> None:
    """Bombs: a zip that is mostly nothing, files of holes, a manifest that states what no machine holds."""
    zeros = {"constants.safetensors": bytes(1 << 24)}
    write(tmp_path / "zeros.zip", zeros)
    assert read(tmp_path / "zeros.zip") == zeros and (tmp_path / "zeros.zip").stat().st_size > 1 << 24
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        for name, data in with_manifest(zeros).items():
            bomb.writestr(name, data)
    with pytest.raises(ArtifactError, match=r"constants.safetensors: expected at most 64 bytes for each .* 16,777,216"):
        read(tmp_path / "bomb.zip")
    changed(tmp_path / "holes.loom", FILES)
    with (tmp_path / "holes.loom" / "report.json").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ArtifactError, match=r"report.json is too long: expected 8 bytes, found 1099511627776"):
        read(tmp_path / "holes.loom")
    for size, found in ((1 << 50, "its files have 1,125,899,906,842,624 bytes"), (-1, "expected a size")):
        changed(tmp_path / "stated.loom", FILES, files={"a": {"bytes": size, "sha256": ""}})
        with pytest.raises(ArtifactError, match=found):
            read(tmp_path / "stated.loom")
    with pytest.raises(ArtifactError, match="expected a file, found a device"):
        read(Path("/dev/zero"))


def test_overwrites_an_artifact(path: Path) -> None:
    write(path, {**FILES, "old": b"x"})
    write(path, FILES)
    assert read(path) == FILES
    assert os.listdir(path.parent) == [path.name]


def test_does_not_overwrite_anything_else(path: Path) -> None:
    path.write_bytes(b"precious")
    with pytest.raises(ArtifactError, match="exists and is not an artifact"):
        write(path, FILES)
    assert path.read_bytes() == b"precious"


def test_full_disk_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, FILES)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match=rf"{path.name}: cannot be written: No space left on device"):
        write(path, {"other": b"y"})
    monkeypatch.undo()
    assert read(path) == FILES
    assert os.listdir(path.parent) == [path.name]


def test_interrupted_write_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(path, FILES)
    assert os.listdir(path.parent) == []


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be written: the folder .* does not exist"):
        write(tmp_path / "no" / "net.loom", FILES)


def test_missing_artifact(path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such artifact"):
        read(path)


def test_directory_damage(tmp_path: Path) -> None:
    path = tmp_path / "net.loom"
    write(path, FILES)
    file = path / "streams/0.bin"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ArtifactError, match=r"streams/0.bin is truncated: expected 10240 bytes, found 100"):
        read(path)
    file.write_bytes(b"\0" * 10240)
    with pytest.raises(ArtifactError, match=r"streams/0.bin is corrupted"):
        read(path)
    file.unlink()
    with pytest.raises(ArtifactError, match=r"streams/0.bin is missing"):
        read(path)
    (path / MANIFEST).write_text('{"format"')
    with pytest.raises(ArtifactError, match="manifest.json is truncated or damaged"):
        read(path)
    (path / MANIFEST).unlink()
    with pytest.raises(ArtifactError, match="half-written: manifest.json is missing"):
        read(path)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_truncated_zip(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "net.zip"
    write(path, FILES)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if keep < 1 else int(keep)])
    with pytest.raises(ArtifactError, match="complete zip|damaged"):
        read(path)


def test_every_flipped_byte_of_a_zip_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "net.zip"
    write(path, FILES)
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1:])
        with contextlib.suppress(ArtifactError):
            assert read(path) == FILES


def _edit_manifest(path: Path, **changes: object) -> None:
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, **changes}))


def test_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "net.loom"
    write(path, FILES)
    _edit_manifest(path, version=FORMAT_VERSION + 1, archloom="9.0")
    newer, here = FORMAT_VERSION + 1, FORMAT_VERSION
    with pytest.raises(ArtifactError, match=rf"version {newer} by archloom 9.0; this archloom .* version {here}"):
        read(path)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../b", "", "a//b"])
def test_manifest_cannot_point_outside(tmp_path: Path, name: str) -> None:
    path = tmp_path / "net.loom"
    write(path, FILES)
    _edit_manifest(path, files={name: {"bytes": 1, "sha256": ""}})
    with pytest.raises(ArtifactError, match="forbidden name"):
        read(path)


def test_foreign_zip(tmp_path: Path) -> None:
    path = tmp_path / "net.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello", "x")
    with pytest.raises(ArtifactError, match="not an artifact: manifest.json is missing"):
        read(path)
