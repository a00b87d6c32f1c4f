"""What is kept beside bytecode: for the sources that it is of, whole or not at all, wherever there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from archloom.oracle.beside import Kept


def test_a_file_is_kept_for_what_it_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / "unwritable" / "code", tmp_path / "caches" / "code"]
    places[0].parent.write_text("a file, not a folder")
    monkeypatch.setattr(Kept, "files", lambda self: iter(places))
    kept = Kept(__file__, "room", "code", bytes(32))
    assert kept.read() is None
    kept.write(b"machine code")
    assert kept.read() == b"machine code"
    assert Kept(__file__, "room", "code", bytes([1] * 32)).read() is None  # of other sources
    data = places[1].read_bytes()
    for damaged in (data[:-1], data[:40], b"", bytes([data[0] ^ 1]) + data[1:], data[:-1] + bytes([data[-1] ^ 1])):
        places[1].write_bytes(damaged)
        assert kept.read() is None


def test_it_lies_beside_bytecode_or_among_the_caches_of_the_user() -> None:
    first, second = Kept(__file__, "room", "code", bytes(32)).files()
    assert first.parent == Path(__file__).parent / "__pycache__" and second.parent.name == "room"
