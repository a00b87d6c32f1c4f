"""Long descriptions that another process has read and checked: equal to what this one would make, or made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from archloom.oracle import taidl
from archloom.oracle.atomic import Kept
from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl import keeping
from archloom.oracle.taidl.operators import control

SHIPPED = ("gemmini", "mte", "riscv_v", "wormhole")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was made, in a folder of the test's own in which nothing is kept yet; every text is long."""
    monkeypatch.setattr(Kept, "files", lambda self: iter([tmp_path / self.name]))
    monkeypatch.setattr(keeping, "LONG", 1)
    monkeypatch.setattr(taidl, "_parsed", taidl._parsed.__wrapped__)
    monkeypatch.setattr(taidl, "_joined", taidl._joined.__wrapped__)
    monkeypatch.setattr(taidl, "_read", taidl._read.__wrapped__)
    names: list[str] = []
    for name in ("parse", "check"):
        function = getattr(taidl, name)

        def noted(*args: object, name: str = name, function: object = function) -> object:
            names.append(name)
            return function(*args)  # type: ignore[operator]

        monkeypatch.setattr(taidl, name, noted)
    yield names


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_kept_is_what_was_made(name: str, made: list[str]) -> None:
    path = taidl._find(name)
    definition, instructions = taidl._read(taidl._files(path))
    assert made.count("check") == 1
    made.clear()
    again, kept = taidl._read(taidl._files(path))
    assert not made and again == definition and again is not definition and kept == instructions
    assert list(kept) == list(instructions)
    assert taidl.instantiate(again, {}, kept) == taidl.load(name)


def test_of_another_text_or_with_other_functions_it_is_made_anew(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "own.taidl"

    def read(text: str) -> tuple[str, bool]:
        """The name of what was read, and whether it was made of the text."""
        file.write_text(text)
        made.clear()
        return taidl._read(taidl._files(file))[0].name, {"parse", "check"} <= {*made}

    head = "isa {}; param size = 4 in 1..8; [buf] (size) (i8);"
    assert read(head.format("one")) == ("one", True)
    assert read(head.format("one")) == ("one", False)
    assert read(head.format("two")) == ("two", True)
    monkeypatch.setitem(control._registered, "another", control.Registered(abs, None))
    assert read(head.format("two")) == ("two", True)


def test_what_is_refused_is_refused_again(tmp_path: Path, made: list[str]) -> None:
    file = tmp_path / "bad.taidl"
    file.write_text("isa bad; [x](a) { %1:4xi8 <- $nowhere[a]; }")
    for _ in range(2):
        with pytest.raises(TaidlError, match="nowhere"):
            taidl._read(taidl._files(file))
