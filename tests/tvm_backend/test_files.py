"""Files that a user names."""

import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.oracle import reading
from archloom.oracle.errors import InputError, ModelError
from archloom.oracle.reading import read_bytes
from archloom.tvm_backend import files
from archloom.tvm_backend.files import read_arrays, write_arrays, write_file
from archloom.tvm_backend.search.content import of_network
from tests.support.examples import examples


def test_write_is_whole_or_absent(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no/out.npz: cannot be written: No such file or directory"):
        write_file(tmp_path / "no" / "out.npz", b"x")
    with pytest.raises(InputError, match="/dev/full: cannot be written: No space left on device"):
        write_file(Path("/dev/full"), b"x")
    write_file(tmp_path / "out", b"x")
    write_file(tmp_path / "out", b"y")
    assert (tmp_path / "out").read_bytes() == b"y" and os.listdir(tmp_path) == ["out"]


def test_arrays_round_trip(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"x": np.arange(3), "y": np.ones((2, 2), np.float32)})
    arrays = read_arrays(tmp_path / "a.npz")
    assert isinstance(arrays, dict) and set(arrays) == {"x", "y"} and arrays["y"].dtype == np.float32


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"a.npy: expected an .npz or .npy file of plain arrays"):
        read_arrays(tmp_path / "a.npy")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 nonsense", b"\x93NUMPY", bytes(range(100))],
                         ids=["empty", "zip", "npy", "bytes"])
def test_damaged_arrays(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(InputError, match="a.npz: expected an .npz or .npy file"):
        read_arrays(tmp_path / "a.npz")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nope: no such file"):
        read_bytes(tmp_path / "nope", 10)


def test_no_more_is_read_than_there_may_be(tmp_path: Path) -> None:
    """A file of holes and a device without end: refused at once."""
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 40)
    for path, found in ((tmp_path / "holes", "found 1,099,511,627,776"), (Path("/dev/zero"), "found a device"),
                        (tmp_path / "a\0b", "cannot be read: embedded null byte")):
        with pytest.raises(InputError, match=found):
            read_bytes(path, 1 << 20)
    (tmp_path / "ten").write_bytes(bytes(10))
    assert read_bytes(tmp_path / "ten", 10) == bytes(10)


@given(content=st.binary(max_size=1 << 17), written=st.booleans())
@examples(4, 40)
def test_pipes_are_read_to_their_ends_if_anybody_writes(content: bytes, written: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        pipe = Path(folder) / "pipe"
        os.mkfifo(pipe)
        patch.setattr(reading, "PATIENCE_SECONDS", 20 if written else 0.05)
        if not written:
            with pytest.raises(InputError, match="found a pipe into which nobody has written"):
                read_bytes(pipe, 1 << 20)
            return
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        assert read_bytes(pipe, 1 << 20) == content
        writer.join()


def test_networks_are_no_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.onnx")
    for use in (archloom.load, archloom.estimate):
        with pytest.raises(ModelError, match="expected a file, found a device or a pipe"):
            use(tmp_path / "net.onnx")
    with pytest.raises(InputError, match="expected a file, found a device or a pipe"):
        of_network(tmp_path / "net.onnx")


@pytest.mark.parametrize("zeros", [True, False])
def test_arrays_are_no_larger_than_what_was_stored_of_them_lets_expect(
    zeros: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "JSON_BYTES", 1 << 16)
    x = np.zeros(1 << 18, np.uint8) if zeros else np.random.default_rng(0).integers(0, 4, 1 << 18).astype(np.uint8)
    np.savez_compressed(tmp_path / "x.npz", x=x)
    if zeros:
        with pytest.raises(InputError, match=r"its arrays have 262,\d+ bytes, at most 65,536 are read of \d{3}:?"):
            read_arrays(tmp_path / "x.npz")
    else:
        np.testing.assert_array_equal(read_arrays(tmp_path / "x.npz")["x"], x)
