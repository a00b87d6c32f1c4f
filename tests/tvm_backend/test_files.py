"""Files that a user names."""

import os
from pathlib import Path

import numpy as np
import pytest

from archloom.oracle.errors import InputError
from archloom.oracle.reading import read_bytes
from archloom.tvm_backend.files import read_arrays, write_arrays, write_file


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
