"""All candidates of a search as a file of Parquet, for other tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archloom.oracle.atomic import replacing
from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.store import Row, Store

ROWS = 50_000
"""That are held at a time."""


def write(store: Store, path: Path) -> None:
    """A row for each candidate: ``key``, ``state``, ``error``, ``took``, ``target``, ``networks`` and ``options``
    (JSON), a column for each objective, ``figure.NAME`` and ``param.NAME`` (numbers where all are, else text)."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("pyarrow is not installed: pip install 'archloom[search]'") from error
    figures, params = _names(store, "figures"), _kinds(store)
    schema = pa.schema([
        *((name, pa.string()) for name in ("key", "state", "error", "target", "networks", "options")),
        ("took", pa.float64()), *((name, pa.float64()) for name in store.objectives),
        *((f"figure.{name}", pa.float64()) for name in figures),
        *((f"param.{name}", pa.float64() if numeric else pa.string()) for name, numeric in params.items())])
    try:
        with replacing(path) as fresh, parquet.ParquetWriter(fresh, schema) as out:
            for rows in _batches(store.rows()):
                out.write_table(pa.Table.from_pylist([_flat(row, store, figures, params) for row in rows], schema))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(itertools.islice(rows, ROWS)):
        yield batch


def _names(store: Store, column: str) -> list[str]:
    return [name for (name,) in store.query(
        f"SELECT DISTINCT each.key FROM candidates, json_each(candidates.{column}) AS each ORDER BY each.key")]


def _kinds(store: Store) -> dict[str, bool]:
    """Parameters, and whether all of their values are numbers."""
    return {name: bool(numeric) for name, numeric in store.query(
        "SELECT each.key, min(each.type IN ('integer', 'real')) FROM candidates, json_each(candidates.params) AS each "
        "GROUP BY each.key ORDER BY each.key")}


def _flat(row: Row, store: Store, figures: list[str], params: dict[str, bool]) -> dict[str, Any]:
    candidate = row.candidate
    return {
        "key": row.key, "state": row.state, "error": row.error, "took": row.took, "target": candidate.get("target"),
        "networks": json.dumps(candidate.get("networks")), "options": json.dumps(candidate.get("options")),
        **dict(zip(store.objectives, row.values)), **{f"figure.{name}": row.figures.get(name) for name in figures},
        **{f"param.{name}": _cell(row.params.get(name), numeric) for name, numeric in params.items()}}


def _cell(value: Any, numeric: bool) -> Any:
    if value is None or numeric:
        return value
    return value if isinstance(value, str) else json.dumps(value)
