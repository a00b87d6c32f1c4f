"""What is written whole or not at all leaves nothing behind, wherever it is interrupted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from archloom.oracle import atomic


def write(path: Path) -> None:
    with atomic.replacing(path) as new:
        new.write_text("new")


def interrupted_at(line: int, path: Path) -> bool:
    """Write a file, with an interrupt before so many lines of the module have run; whether there were as many."""
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != atomic.__file__:
            return None
        if event == "line":
            passed += 1
            if passed == line:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        write(path)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("is_there", [False, True])
def test_an_interrupt_at_any_line_leaves_the_old_or_the_new(is_there: bool, tmp_path: Path) -> None:
    path, line = tmp_path / "file", 0
    while line == 0 or interrupted_at(line, path):
        assert [p.name for p in tmp_path.iterdir()] in ([], ["file"])
        assert not path.exists() or path.read_text() in ("old", "new")
        path.unlink(missing_ok=True)
        if is_there:
            path.write_text("old")
        line += 1
    assert path.read_text() == "new" and line > 5


def test_a_file_is_kept_for_what_it_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / "unwritable" / "code", tmp_path / "caches" / "code"]
    places[0].parent.write_text("a file, not a folder")
    monkeypatch.setattr(atomic.Kept, "files", lambda self: iter(places))
    kept = atomic.Kept(__file__, "room", "code", bytes(32))
    assert kept.read() is None
    kept.write(b"machine code")
    assert kept.read() == b"machine code"
    assert atomic.Kept(__file__, "room", "code", bytes([1] * 32)).read() is None  # of other sources
    data = places[1].read_bytes()
    for damaged in (data[:-1], data[:40], b"", bytes([data[0] ^ 1]) + data[1:], data[:-1] + bytes([data[-1] ^ 1])):
        places[1].write_bytes(damaged)
        assert kept.read() is None


def test_it_lies_beside_bytecode_or_among_the_caches_of_the_user() -> None:
    first, second = atomic.Kept(__file__, "room", "code", bytes(32)).files()
    assert first.parent == Path(__file__).parent / "__pycache__" and second.parent.name == "room"
