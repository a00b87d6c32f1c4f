"""Results of a search in one SQLite file, to which rows are added: by one process, while others may read.

A row is a candidate that is done: ``measured``, ``bounded`` (its bounds, which stand in the columns of the objectives,
show that it is on no front) or ``failed``. What one commit adds is there whole or not at all, whenever the process
ends.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from archloom.oracle.errors import ArtifactError, InputError
from archloom.tvm_backend.search.front import Front

FILE = "search.sqlite"
SCHEMA = "archloom.search/1"
AT_A_TIME = 50_000
"""Points that are looked at together."""
State: TypeAlias = Literal["measured", "bounded", "failed"]


@dataclass(frozen=True)
class Row:
    """A candidate that is done.

    ``values``: of the objectives, in their order and as users know them; ``violations``: of the constraints, above 0
    where they are not kept; both empty where it failed, and None where bounds say nothing of one. ``figures``: all that
    was found out. ``took``: seconds of whoever did it.
    """

    key: str
    state: State
    params: dict[str, Any]
    candidate: dict[str, Any]
    values: tuple[float | None, ...] = ()
    violations: tuple[float | None, ...] = ()
    figures: dict[str, float | None] = field(default_factory=dict)
    error: str | None = None
    took: float = 0.0

    @property
    def is_feasible(self) -> bool:
        return self.state == "measured" and all(v is None or v <= 0 for v in self.violations)


class Store:
    """The rows of a search with ``objectives`` (names of columns); ``path`` None keeps them in memory."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection, definition: dict[str, Any]) -> None:
        self.path, self.definition = path, definition
        self._connection = connection
        self.objectives = tuple(name.partition(":")[2] for name in definition["objectives"])
        columns = "".join(f", {_quoted(name)}" for name in self.objectives)
        self._columns = f"key, state, params, candidate, violations, figures, error, took{columns}"

    @staticmethod
    def create(path: Path | None, definition: dict[str, Any]) -> "Store":
        """The search that is kept at ``path``, begun there if nothing is; InputError where another one is.

        ArtifactError for a file that is damaged or cannot be written, which stays as it is.
        """
        stated = {"schema": SCHEMA, **definition}
        if path is None:
            return Store(path, _connected(path, "file::memory:"), stated)._begun()
        with _told(path):
            if path.exists():
                _require_sound(path)
            connection = _connected(path, path.absolute().as_uri())
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return Store(path, connection, stated)._begun()
        connection.close()
        store = Store.open(path, "rw")
        if store.definition != stated:
            store.close()
            raise InputError(_differs(path, store.definition, stated))
        return store

    @staticmethod
    def open(path: Path, mode: Literal["ro", "rw"] = "ro") -> "Store":
        """The search that is kept at ``path``, to be read, also while another process adds to it."""
        if not path.exists():
            raise ArtifactError(f"{path}: expected the results of a search, found nothing")
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = _connected(path, uri)
        with _told(path):
            try:
                rows = dict(connection.execute("SELECT name, value FROM search"))
                definition = json.loads(rows["definition"])
            except (KeyError, ValueError) as error:
                raise ArtifactError(f"{path}: not the results of a search") from error
            if definition.get("schema") != SCHEMA:
                raise ArtifactError(f"{path}: expected schema {SCHEMA!r}, found {definition.get('schema')!r}")
            if mode == "rw":
                _prepare(connection)
        return Store(path, connection, definition)

    def _begun(self) -> "Store":
        values = "".join(f", {_quoted(name)} REAL" for name in self.objectives)
        with self._told():
            _prepare(self._connection)
            with self._connection as here:
                here.execute("BEGIN")
                here.execute("CREATE TABLE search (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
                here.execute("CREATE TABLE candidates (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, state TEXT "
                             "NOT NULL, params TEXT NOT NULL, candidate TEXT NOT NULL, violations TEXT NOT NULL, "
                             f"figures TEXT NOT NULL, error TEXT, took REAL NOT NULL{values})")
                here.execute("CREATE TABLE own_figures (key BLOB PRIMARY KEY, value REAL NOT NULL)")
                here.execute("INSERT INTO search VALUES ('definition', ?)", [json.dumps(self.definition)])
        return self

    def add(self, rows: Sequence[Row]) -> None:
        """Add candidates that are done, all or none of them; ArtifactError where they cannot be written."""
        places = ", ".join("?" * (8 + len(self.objectives)))
        with self._told(), self._connection as here:
            here.executemany(f"INSERT INTO candidates ({self._columns}) VALUES ({places})", map(self._packed, rows))

    def get(self, key: str) -> Row | None:
        """The candidate of a key, if it is done."""
        with self._told():
            found = self._connection.execute(f"SELECT {self._columns} FROM candidates WHERE key = ?",
                                             [bytes.fromhex(key)]).fetchone()
        return None if found is None else _unpacked(found)

    def rows(self) -> Iterator[Row]:
        """All candidates that are done, in their order."""
        with self._told():
            for found in self._connection.execute(f"SELECT {self._columns} FROM candidates ORDER BY id"):
                yield _unpacked(found)

    def points(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Key and values of those that were measured and keep all constraints."""
        columns = ", ".join(map(_quoted, self.objectives))
        with self._told():
            for key, violations, *values in self._connection.execute(
                    f"SELECT key, violations, {columns} FROM candidates WHERE state = 'measured' ORDER BY id"):
                if violations == "[]" or all(v is None or v <= 0 for v in json.loads(violations)):
                    yield key.hex(), tuple(values)

    def front(self, signs: Sequence[int]) -> Front:
        """Of the points, by their keys; ``signs``: by what the values of each objective are multiplied so that less is
        better."""
        found, points = Front(len(signs)), self.points()
        while batch := list(itertools.islice(points, AT_A_TIME)):
            keys, values = zip(*batch)
            found.extend(keys, np.multiply(values, signs))
        return found

    def counts(self) -> dict[State, int]:
        """How many candidates are done, and how."""
        with self._told():
            found = dict(self._connection.execute("SELECT state, count(*) FROM candidates GROUP BY state"))
        return {"measured": found.get("measured", 0), "bounded": found.get("bounded", 0),
                "failed": found.get("failed", 0)}

    def failures(self, most: int) -> list[tuple[str, int]]:
        """The messages of those that failed, the most frequent first, with their numbers."""
        with self._told():
            return list(self._connection.execute(
                "SELECT error, count(*) FROM candidates WHERE state = 'failed' GROUP BY error "
                "ORDER BY count(*) DESC, min(id) LIMIT ?", [most]))

    def own_figures(self, keys: Sequence[str]) -> dict[str, float]:
        """Those of the user's figures that were found before, by the keys of their content."""
        found = {}
        with self._told():
            for key in keys:
                value = self._connection.execute("SELECT value FROM own_figures WHERE key = ?",
                                                 [bytes.fromhex(key)]).fetchone()
                if value is not None:
                    found[key] = value[0]
        return found

    def add_own_figures(self, found: dict[str, float]) -> None:
        with self._told(), self._connection as here:
            here.executemany("INSERT OR IGNORE INTO own_figures VALUES (?, ?)",
                             [(bytes.fromhex(key), value) for key, value in found.items()])

    def query(self, text: str, *arguments: Any) -> Iterator[tuple[Any, ...]]:
        """What SQL says of the tables ``candidates``, ``own_figures`` and ``search``."""
        with self._told():
            yield from self._connection.execute(text, arguments)

    def close(self) -> None:
        """Where nobody reads it, nothing is left beside the file."""
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _told(self) -> Any:
        return _told(self.path)

    def _packed(self, row: Row) -> tuple[Any, ...]:
        values = row.values or (None,) * len(self.objectives)
        return (bytes.fromhex(row.key), row.state, _written(row.params), _written(row.candidate),
                _written(row.violations), _written(row.figures), row.error, row.took, *values)


def _unpacked(found: tuple[Any, ...]) -> Row:
    key, state, params, candidate, violations, figures, error, took, *values = found
    return Row(key.hex(), state, json.loads(params), json.loads(candidate), () if state == "failed" else tuple(values),
               tuple(json.loads(violations)), json.loads(figures), error, took)


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """What is kept of ``data``: NumPy's numbers as numbers, what JSON has no form for as text."""
    kept: dict[str, Any] = json.loads(_written(data))
    return kept


# made once: json.dumps makes it anew for each text, which takes longer than to write one
_written = json.JSONEncoder(default=lambda value: value.item() if hasattr(value, "item") else str(value)).encode


def _connected(path: Path | None, uri: str) -> sqlite3.Connection:
    with _told(path):
        return sqlite3.connect(uri, uri=True, timeout=30)


def _prepare(connection: sqlite3.Connection) -> None:
    """Readers do not wait for the writer, and what is committed survives the end of the process."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _require_sound(path: Path) -> None:
    """ArtifactError for a file that is damaged, before anything is written to it."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    finally:
        connection.close()
    if found != "ok":
        raise ArtifactError(f"{path}: is damaged ({' '.join(found.split())}); nothing was written to it")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _differs(path: Path, there: dict[str, Any], asked: dict[str, Any]) -> str:
    """What is not the same in two definitions."""
    parts = [f"{name} {there.get(name)!r} there, {asked.get(name)!r} here"
             for name in sorted({*there, *asked}) if there.get(name) != asked.get(name)]
    return f"{path}: holds another search ({'; '.join(parts)}); give this one a folder of its own"


@contextmanager
def _told(path: Path | None) -> Iterator[None]:
    """Errors of SQLite with the file that they are about."""
    try:
        yield
    except sqlite3.Error as error:
        raise ArtifactError(f"{path or 'results in memory'}: {error}") from error
