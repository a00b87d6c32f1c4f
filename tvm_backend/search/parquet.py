"""All candidates of a search as a file of Parquet, for other tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
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
        with replacing(path) as fresh, parquet.ParquetWriter(fresh, schema, use_dictionary=_repeated(schema)) as out:
            for rows in _batches(store.rows()):
                columns = zip(_columns(rows, store, figures, params), schema.types)
                out.write_table(pa.Table.from_arrays([pa.array(*column) for column in columns], schema=schema))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _repeated(schema: Any) -> list[str]:
    """Columns of few texts; to look for equal ones among keys and numbers takes as long as to read the rows."""
    return [column.name for column in schema if str(column.type) == "string" and column.name != "key"]


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


def _columns(
    rows: Sequence[Row], store: Store, figures: Sequence[str], params: Mapping[str, bool]
) -> Iterator[list[Any]]:
    """The values of each column of the schema."""
    yield from map(list, zip(*((row.key, row.state, row.error, row.candidate.get("target")) for row in rows)))
    for part in ("networks", "options"):
        yield [json.dumps(row.candidate.get(part)) for row in rows]
    yield [row.took for row in rows]
    for place in range(len(store.objectives)):
        yield [row.values[place] if row.values else None for row in rows]
    for name in figures:
        yield [row.figures.get(name) for row in rows]
    for name, numeric in params.items():
        yield [_cell(row.params.get(name), numeric) for row in rows]


def _cell(value: Any, numeric: bool) -> Any:
    if value is None or numeric:
        return value
    return value if isinstance(value, str) else json.dumps(value)
