"""Texts that include others: what they declare, where their errors and pages are, and when they are read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archloom.oracle import taidl
from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl.manual import manual

BASE = """# what machines share
isa base;
param rows = 4 in 1..64;
[ram] (rows) (i8);                # the memory
# moves a byte
[move](dst, src) { %x:1xi8 <- $ram[src]; %x -> $ram[dst]; }
"""
MORE = """# a machine
isa more;
include base;
[clear](dst) { %x:1xi8 = constant(0); %x -> $ram[dst]; }
"""


def written(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.taidl").write_text(text)
    return folder / f"{next(iter(texts))}.taidl"


def test_declarations_of_both_and_the_name_of_one(tmp_path: Path) -> None:
    isa = taidl.load(written(tmp_path, more=MORE, base=BASE), rows=8)
    assert isa.name == "more" and list(isa.instructions) == ["move", "clear"] and isa.buffer("ram").shape == (8,)


def test_each_file_counts_once(tmp_path: Path) -> None:
    top = written(tmp_path, top="isa top;\ninclude more;\ninclude base;\n", more=MORE, base=BASE)
    assert list(taidl.load(top).instructions) == ["move", "clear"]
    circle = written(tmp_path, one="isa one;\ninclude two;\nr = 1;", two="isa two;\ninclude one;\nq = 2;")
    assert [r.name for r in taidl.load(circle).registers] == ["q", "r"]


def test_a_change_of_what_is_included_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path, more=MORE, base=BASE)
    before = taidl.load(path)
    (tmp_path / "base.taidl").write_text(BASE.replace("rows = 4", "rows = 5"))
    os.utime(tmp_path / "base.taidl", ns=(1, 1))
    after = taidl.load(path)
    assert after.buffer("ram").shape == (5,) and before.digest != after.digest


def test_errors_and_pages_show_the_file_of_the_text(tmp_path: Path) -> None:
    path = written(tmp_path, more=MORE, base=BASE.replace("%x -> $ram", "%y -> $ram"))
    with pytest.raises(TaidlError, match=r"base.taidl:6:\d+: unknown tensor '%y'.*\n    \[move\]\(dst, src\)"):
        taidl.load(path)
    page = manual(taidl.load(written(tmp_path, more=MORE, base=BASE)))
    assert {e.name: e.description for e in page.instructions} == {"move": ("moves a byte",), "clear": ()}
    assert page.introduction == ("a machine",) and page.instructions[0].text.startswith("[move]")
    assert [b.description for b in page.buffers] == ["the memory"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TaidlError, match=r"more.taidl:3:9: there is no file .*base.taidl\n    include base;"):
        taidl.load(written(tmp_path, more=MORE))
    with pytest.raises(TaidlError, match="base.taidl is not there: what includes others is read from a file"):
        taidl.check(taidl.parse(MORE))
