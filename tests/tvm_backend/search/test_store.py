"""What is kept: all of it comes back, nothing else is taken for it, and what goes wrong leaves the file as it was."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import ArtifactError, InputError
from archloom.tvm_backend.search.objectives import aims
from archloom.tvm_backend.search.result import read
from archloom.tvm_backend.search.searching import search
from archloom.tvm_backend.search.store import FILE, Row, Store
from tests.support.examples import examples
from tests.support.limited import limited
from tests.support.tvm_backend.searches import definition

finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.dictionaries(st.text(max_size=3), st.one_of(st.integers(-9, 9), finite, st.text(max_size=3), st.booleans()),
                        max_size=3)


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    keys = draw(st.lists(st.binary(min_size=32, max_size=32), unique=True, max_size=5))
    return [Row(key.hex(), state, draw(plain), draw(plain), () if state == "failed" else tuple(
        draw(st.lists(st.none() | finite, min_size=3, max_size=3))), tuple(draw(st.lists(finite, max_size=2))),
        draw(st.dictionaries(st.text(max_size=3), st.none() | finite, max_size=2)), draw(st.none() | st.text()),
        draw(st.floats(0, 9))) for key in keys for state in [draw(st.sampled_from(("measured", "bounded", "failed")))]]


@pytest.mark.slow
@examples(20, 2000)
@given(rows())
def test_rows_come_back_as_they_were(given_rows: list[Row]) -> None:
    with Store.create(None, definition()) as store:
        store.add(given_rows)
        assert list(store.rows()) == given_rows
        assert [store.get(row.key) for row in given_rows] == given_rows and store.get("f" * 60 + "0000") is None
        assert sum(store.counts().values()) == len(given_rows)
        assert [key for key, _ in store.points()] == [row.key for row in given_rows if row.is_feasible]


ROW = Row("ab" * 32, "measured", {"dim": 8}, {"target": "gemmini"}, (1.0, 2.0, 3.0), (), {"seconds": 1.0})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a store with a row that was closed."""
    with Store.create(tmp_path / FILE, definition()) as store:
        store.add([ROW])
    return tmp_path / FILE


def test_it_is_read_while_it_is_written(path: Path) -> None:
    with Store.create(path, definition()) as store, Store.open(path) as reader:
        assert list(reader.rows()) == [ROW]
        store.add([replace(ROW, key="cd" * 32)])
        assert len(list(reader.rows())) == 2 == len(read(path.parent).front)
        with pytest.raises(ArtifactError, match=r"search\.sqlite: attempt to write a readonly database"):
            reader.add([replace(ROW, key="ef" * 32)])


def test_another_search_is_refused(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(InputError, match="holds another search .*objectives .*give this one a folder of its own"):
        Store.create(path, definition(aims("cycles")))
    assert path.read_bytes() == before


def test_all_or_none_of_several_rows_are_added(path: Path) -> None:
    with Store.create(path, definition()) as store:
        with pytest.raises(ArtifactError, match="UNIQUE"):
            store.add([replace(ROW, key="cd" * 32), ROW])
        assert list(store.rows()) == [ROW]


def broken(data: bytes, how: str) -> bytes:
    if how == "in the middle":
        return data[:5000] + os.urandom(4000) + data[9000:]
    return {"cut": data[:9000], "something else": b"seconds,area\n" * 900, "no results": sqlite(how)}[how]


def sqlite(name: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute(f'CREATE TABLE "{name}" (x)')
    return connection.serialize()


@pytest.mark.parametrize("how", ["in the middle", "cut", "something else", "no results"])
def test_a_damaged_file_is_named_and_left_as_it_is(path: Path, how: str) -> None:
    path.write_bytes(broken(path.read_bytes(), how))
    before = path.read_bytes()
    for act in (lambda: Store.create(path, definition()), lambda: list(Store.open(path).rows())):
        with pytest.raises(ArtifactError, match=rf"{FILE}: "):
            act()
        assert path.read_bytes() == before


def test_of_a_search_that_has_hardly_begun_nothing_is_lost(path: Path) -> None:
    path.write_bytes(b"")  # opened, and killed
    with Store.create(path, definition()) as store:
        store.add([ROW])
    assert list(Store.open(path).rows()) == [ROW]


def test_a_disk_that_is_full_ends_a_search_and_keeps_what_was_there(path: Path) -> None:
    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        with Store.create(path, definition()) as store:
            for i in range(2000):
                store.add([replace(ROW, key=f"{i:064x}")])

    found = limited(fill)
    assert "ArtifactError" in found.printed and f"{FILE}: " in found.printed
    with Store.open(path) as store:
        kept = list(store.rows())
    assert kept[0] == ROW and [row.key for row in kept[1:]] == [f"{i:064x}" for i in range(len(kept) - 1)]
    assert 0 < len(kept) < 2000


def test_a_folder_that_cannot_be_written_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store.create(folder / FILE, definition()) as store:
            store.add([ROW])
        folder.chmod(0o555)
        before = (folder / FILE).read_bytes()

        def begin() -> None:
            if os.getuid() == 0:  # who may write everywhere
                os.setuid(65534)
            search(lambda trial: "gemm(m=1,n=1,k=1)", sampler="grid", output=folder)

        found = limited(begin)
        folder.chmod(0o755)
        assert "InputError" in found.printed and f"{folder}: cannot be written: Permission denied" in found.printed
        assert (folder / FILE).read_bytes() == before


def test_one_process_searches_in_a_folder(tmp_path: Path) -> None:
    def within(trial: object) -> str:
        with pytest.raises(InputError, match="another process is searching there"):
            search(lambda trial: "gemm(m=1,n=1,k=1)", sampler="grid", output=tmp_path)
        return "gemm(m=1,n=1,k=1)"

    result = search(within, sampler="grid", output=tmp_path)
    assert result.counts["measured"] == 1
