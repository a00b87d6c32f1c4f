"""What is on disk of earlier results, and ways to damage it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from archloom.mapper import disk


def file() -> Path:
    """The database."""
    return (disk.folder() or Path()) / disk.FILE


def kept_on_disk(kind: str) -> dict[str, bytes]:
    """All results of a kind, by key."""
    if not file().exists():
        return {}
    with closing(sqlite3.connect(file())) as database:
        keys = [key for (key,) in database.execute("SELECT key FROM results WHERE kind = ?", (kind,))]
    return {key: found for key in keys if (found := disk.load(kind, key)) is not None}


def change(kind: str, by: Callable[[bytes], bytes]) -> None:
    """Write other bytes in the place of each result of a kind."""
    with closing(sqlite3.connect(file())) as database, database:
        for row, value in database.execute("SELECT rowid, value FROM results WHERE kind = ?", (kind,)).fetchall():
            database.execute("UPDATE results SET value = ? WHERE rowid = ?", (by(value), row))
