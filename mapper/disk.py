"""What was found before, in one file of SQLite: by kind and key, shared by processes, of a limited size.

A result is bytes. They are compressed, and stand behind their SHA-256: what was damaged counts as absent, and so does a
file that is no database, which the next result replaces. Where the results take more room than the limit, those leave
that were used least lately; when a result was used is known to an hour.

Changes are undone by a journal beside the file when a process is killed under them. The file is not flushed to the disk
after each: a power cut may cost the cache, never a result. Nothing here needs memory that processes share, so that the
folder may lie on a network file system whose locks work.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from archloom.oracle.fallbacks import Fallback

ENVIRONMENT = "ARCHLOOM_CACHE_DIR"
"""Environment variable that names the folder of what is kept; an empty value turns that off."""
FILE = "results.sqlite"
LIMIT = 2 * 2**30
"""Bytes that the results take at most, unless the user sets another limit."""
LEFT = 0.9
"""Of the limit, when results have left."""
SAME_USE_SECONDS = 3600
"""Within which uses of a result count as one."""
BUSY_SECONDS = 20.0
"""How long another process is waited for that writes."""

_DIGEST = hashlib.sha256().digest_size
_SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS results (kind TEXT, key TEXT, used INTEGER, size INTEGER, value BLOB, UNIQUE (kind, key));
CREATE INDEX IF NOT EXISTS by_use ON results (used, size);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value INTEGER);
"""

T = TypeVar("T")


def folder() -> Path | None:
    """Where results are kept, or None if the user turned that off."""
    named = os.environ.get(ENVIRONMENT)
    if named is not None:
        return Path(named) if named else None
    import platformdirs

    return Path(platformdirs.user_cache_dir("archloom"))


def load(kind: str, key: str) -> bytes | None:
    """The bytes that were stored, or None."""
    packed = _asked(lambda file: file.get(kind, key), None)
    if packed is None or hashlib.sha256(packed[_DIGEST:]).digest() != packed[:_DIGEST]:
        return None
    return zlib.decompress(packed[_DIGEST:])


def store(kind: str, key: str, data: bytes) -> Fallback | None:
    """Keep bytes, whole or not at all. What cannot be kept costs time, never a result: that is returned."""
    root = folder()
    if root is None:
        return None
    packed = zlib.compress(data, 1)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _unwritten(root, error.strerror or str(error))
    return _asked(lambda file: file.put(kind, key, hashlib.sha256(packed).digest() + packed), None,
                  failed=partial(_unwritten, root))


def _unwritten(root: Path, why: object) -> Fallback:
    return Fallback(f"cache in {root}", f"it cannot be written: {why}",
                    "every process computes again what it would have found there")


@dataclass(frozen=True)
class Kind:
    """How many results of a kind there are, and the bytes that they take."""

    name: str
    results: int
    bytes: int


def kinds() -> list[Kind]:
    """What is kept, the largest first."""
    return _asked(lambda file: file.kinds(), [])


def limit() -> int:
    """Bytes that results may take."""
    return _asked(lambda file: file.limit(), LIMIT)


def set_limit(size: int) -> Fallback | None:
    """Keep no more than ``size`` bytes from now on, in any process."""
    return _changed(lambda file: file.set_limit(size))


def clear(kind: str | None = None) -> Fallback | None:
    """Forget all results, or those of a kind."""
    return _changed(lambda file: file.clear(kind))


def _changed(change: "Callable[[_File], None]") -> Fallback | None:
    root = folder()
    if root is None:
        return None
    with contextlib.suppress(OSError):  # it is said below
        root.mkdir(parents=True, exist_ok=True)
    return _asked(change, None, failed=partial(_unwritten, root))


# the file -------------------------------------------------------------------------------------------------------------


class _File:
    """An open database. Its methods raise errors of sqlite3."""

    def __init__(self, path: Path) -> None:
        import sqlite3

        self.path = path
        self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._db.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = TRUNCATE")
        (schema,) = self._db.execute("PRAGMA user_version").fetchone()
        if schema != _SCHEMA:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Of a new file, or one of another version of archloom."""
        with self._changing():
            (schema,) = self._db.execute("PRAGMA user_version").fetchone()
            if schema == _SCHEMA:  # another process was faster
                return
            for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                self._db.execute(f'DROP TABLE "{name}"')
            for statement in filter(str.strip, _TABLES.split(";")):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {_SCHEMA}")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def get(self, kind: str, key: str) -> bytes | None:
        row = self._db.execute("SELECT value, used FROM results WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        if row is None:
            return None
        now = int(time.time())
        if now - row[1] > SAME_USE_SECONDS:
            with contextlib.suppress(self._db.OperationalError):  # a cache that can only be read
                self._db.execute("UPDATE results SET used = ? WHERE kind = ? AND key = ?", (now, kind, key))
        return bytes(row[0])

    def put(self, kind: str, key: str, value: bytes) -> None:
        with self._changing():
            self._db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)",
                             (kind, key, int(time.time()), len(value), value))
            self._make_room()

    def _make_room(self) -> None:
        """Let the least lately used go, where there is too much."""
        over = self._bytes() - self.limit()
        if over <= 0:
            return
        over += int((1 - LEFT) * self.limit())
        leaving = []
        for row, size in self._db.execute("SELECT rowid, size FROM results ORDER BY used, rowid"):
            if over <= 0:
                break
            leaving.append((row,))
            over -= size
        self._db.executemany("DELETE FROM results WHERE rowid = ?", leaving)

    def _bytes(self) -> int:
        """Of all pages that hold something."""
        size, pages, free = (self._db.execute(f"PRAGMA {name}").fetchone()[0]
                             for name in ("page_size", "page_count", "freelist_count"))
        return int(size * (pages - free))

    def limit(self) -> int:
        row = self._db.execute("SELECT value FROM settings WHERE name = 'limit'").fetchone()
        return LIMIT if row is None else int(row[0])

    def set_limit(self, size: int) -> None:
        with self._changing():
            self._db.execute("INSERT OR REPLACE INTO settings VALUES ('limit', ?)", (size,))
            self._make_room()
        self._db.execute("VACUUM")

    def clear(self, kind: str | None) -> None:
        if kind is None:
            self._db.execute("DELETE FROM results")
        else:
            self._db.execute("DELETE FROM results WHERE kind = ?", (kind,))
        self._db.execute("VACUUM")

    def kinds(self) -> list[Kind]:
        rows = self._db.execute("SELECT kind, count(*), sum(size) FROM results GROUP BY kind ORDER BY 3 DESC")
        return [Kind(*row) for row in rows]


_lock = threading.Lock()
_open: dict[tuple[object, ...], _File] = {}
"""The open file, by path and identity: another process may have put a new one in its place."""
_of_parents: list[object] = []


def _begin_child() -> None:
    """A forked process uses neither its parent's lock, which may be held, nor its file, of which it must not close
    anything, either: that would undo what the parent is writing."""
    global _lock, _open
    _of_parents.append(_open)
    _lock, _open = threading.Lock(), {}


os.register_at_fork(after_in_child=_begin_child)


def _asked(ask: Callable[[_File], T], absent: T, failed: Callable[[object], Any] | None = None) -> T:
    """The answer of the file; ``absent`` without one, or what ``failed`` makes of the reason."""
    root = folder()
    if root is None or (failed is None and not (root / FILE).exists()):
        return absent
    import sqlite3

    with _lock:
        try:
            try:
                return ask(_file_at(root / FILE))
            except sqlite3.OperationalError:  # locked, full, not to be written
                raise
            except sqlite3.DatabaseError:  # no database, or a damaged one
                _discard(root / FILE)
                return ask(_file_at(root / FILE)) if failed is not None else absent
        except (sqlite3.Error, OSError) as error:
            return failed(error) if failed is not None else absent


def _file_at(path: Path) -> _File:
    if (found := _open.get(_place(path))) is None:
        _open.clear()
        found = _File(path)
        _open[_place(path)] = found
    return found


def _place(path: Path) -> tuple[object, ...]:
    with contextlib.suppress(OSError):
        status = path.stat()
        return path, status.st_dev, status.st_ino
    return ()


def _discard(path: Path) -> None:
    """A journal goes first: it is of this file, and must not be undone in the next one."""
    _open.clear()
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
