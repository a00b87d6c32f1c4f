"""Results on disk, against a dictionary; their limit; damage, kills and places that cannot be written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.mapper import disk
from tests.support.examples import examples
from tests.support.kept import change, file, kept_on_disk

KINDS = ("plans", "reports")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(disk.ENVIRONMENT, str(tmp_path))
    yield tmp_path


Step = tuple[str, str, str, bytes]
STEPS = st.lists(st.tuples(st.sampled_from(["store", "load", "clear"]), st.sampled_from(KINDS), st.sampled_from("abc"),
                           st.binary(max_size=64)), max_size=20)


@examples(15, 200)
@given(STEPS)
def test_as_a_dictionary(steps: list[Step]) -> None:
    disk.clear()
    known: dict[tuple[str, str], bytes] = {}
    for what, kind, key, data in steps:
        if what == "store":
            assert disk.store(kind, key, data) is None
            known[kind, key] = data
        elif what == "clear":
            assert disk.clear(kind) is None
            known = {place: value for place, value in known.items() if place[0] != kind}
        assert disk.load(kind, key) == known.get((kind, key))
    counts = {kind.name: kind.results for kind in disk.kinds()}
    assert counts == {kind: n for kind in KINDS if (n := sum(place[0] == kind for place in known))}


def test_the_least_lately_used_leave(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000_000]
    monkeypatch.setattr("time.time", lambda: clock[0])
    disk.set_limit(2**20)
    for number in range(400):
        clock[0] += disk.SAME_USE_SECONDS + 1
        disk.store("plans", str(number), os.urandom(10_000))
        assert disk.load("plans", "0") is not None  # used all the time
        assert file().stat().st_size < 1.1 * 2**20
    left = sorted(map(int, kept_on_disk("plans")))
    assert left[0] == 0 and left[1:] == list(range(left[1], 400)) and len(left) > 80
    clock[0] += disk.SAME_USE_SECONDS + 1
    assert disk.load("plans", "0") is not None
    disk.set_limit(2**19)
    assert 0 in (kept := sorted(map(int, kept_on_disk("plans")))) and len(kept) < 51
    assert file().stat().st_size < 1.1 * 2**19


@examples(20, 300)
@given(st.data())
def test_damage_is_never_read(data: st.DataObject) -> None:
    """What is loaded is what was stored, or nothing; and the next results are kept."""
    disk.clear()
    stored = {str(n): os.urandom(700) for n in range(20)}
    for key, value in stored.items():
        disk.store("plans", key, value)
    whole = bytearray(file().read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=8)):
        whole[place] = data.draw(st.integers(0, 255))
    file().write_bytes(whole[:data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))])
    for key, value in stored.items():
        assert disk.load("plans", key) in (None, value)
    again = [disk.store("plans", "new", b"new") for _ in range(2)]
    assert again[1] is not None or disk.load("plans", "new") == b"new"
    if again[1] is not None:  # damage that shows only where something is written
        file().unlink()


def test_results_that_were_changed_count_as_absent(own_folder: Path) -> None:
    disk.store("plans", "a", b"something")
    change("plans", lambda value: value[:-1])
    assert disk.load("plans", "a") is None


def test_a_file_of_another_version_is_begun_anew(own_folder: Path) -> None:
    with closing(sqlite3.connect(file())) as database:
        database.executescript("CREATE TABLE results (other TEXT); PRAGMA user_version = 999")
    assert disk.load("plans", "a") is None and disk.store("plans", "a", b"1") is None
    assert disk.load("plans", "a") == b"1"


def test_a_file_that_is_replaced_is_opened_again(own_folder: Path) -> None:
    disk.store("plans", "a", b"1")
    file().unlink()
    assert disk.load("plans", "a") is None and disk.store("plans", "a", b"2") is None
    assert disk.load("plans", "a") == b"2"


def test_a_forked_process_opens_its_own(own_folder: Path) -> None:
    disk.store("plans", "a", b"1")
    child = os.fork()
    if child == 0:
        os._exit(0 if disk.load("plans", "a") == b"1" and disk.store("plans", "b", b"2") is None else 1)
    assert os.waitpid(child, 0)[1] == 0 and disk.load("plans", "b") == b"2"


def test_what_cannot_be_kept_is_told(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_folder / "file").write_text("no folder")
    monkeypatch.setenv(disk.ENVIRONMENT, str(own_folder / "file"))
    failure = disk.store("plans", "a", b"1")
    assert failure is not None and failure.where == f"cache in {own_folder / 'file'}"
    assert failure.why.startswith("it cannot be written: ")
    assert disk.load("plans", "a") is None and disk.clear() is not None and not disk.kinds()
    monkeypatch.setenv(disk.ENVIRONMENT, "")
    assert disk.store("plans", "a", b"1") is None and disk.load("plans", "a") is None and disk.folder() is None


WRITER = """
import sys
from archloom.mapper import disk
print("ready", flush=True)
while True:
    for key in sys.argv[1:]:
        failure = disk.store("plans", key, key.encode() * 5000)
        assert failure is None, failure
"""


@pytest.mark.slow
def test_writers_that_are_killed_leave_whole_results(own_folder: Path) -> None:
    keys = ("a", "b", "c")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, *keys], stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        for number in range(200):
            if number in (50, 100):
                writers[number // 50 - 1].kill()
            for key in keys:
                assert disk.load("plans", key) in (None, key.encode() * 5000)
        assert writers[2].poll() is None
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert disk.store("plans", "d", b"1") is None  # no lock is left behind
    assert disk.load("plans", "d") == b"1" and set(kept_on_disk("plans")) == {*keys, "d"}
