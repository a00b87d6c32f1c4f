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
