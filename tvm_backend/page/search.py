"""What a page shows of a search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from archloom.oracle.errors import InputError
from archloom.tvm_backend.page import thinning
from archloom.tvm_backend.page.columns import columns
from archloom.tvm_backend.page.importance import importance
from archloom.tvm_backend.page.remade import remade
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.search.front import Front
from archloom.tvm_backend.search.objectives import Objective, objective
from archloom.tvm_backend.search.result import SearchResult, result_of
from archloom.tvm_backend.search.store import FILE, Row, Store

MOST = 100_000
"""Candidates that a page can have."""
MOMENTS = 60
"""At which the hypervolume is found, or fewer of a front that is large."""
_STATES = {"bounded": "bounds only", "failed": "failed"}


def search_view(folder: Path, reports: int = 0, progress: Progress | None = None) -> dict[str, Any]:
    """JSON for ``searchView`` of the page's scripts; the first candidates of the front, so many as ``reports``, are
    estimated again for their reports. InputError for a search of more than :data:`MOST` candidates."""
    with Store.open(folder / FILE) as store:
        result, host = result_of(store, folder), store.definition["host"]
        if (done := sum(result.counts.values())) > MOST:
            raise InputError(f"{folder}: a page has at most {MOST:,} candidates, found {done:,}; archloom search "
                             f"{folder} --parquet FILE writes them for other tools")
        rows, code = list(store.rows()), store.definition["code"]
    view = _view(result, rows)
    return {**view, "host": host, **remade(rows, view["front"][:reports], host, code, progress)}


def _view(result: SearchResult, rows: Sequence[Row]) -> dict[str, Any]:
    aims = [objective(text) for text in result.objectives]
    places = {row.key: place for place, row in enumerate(rows)}
    front = [places[row.key] for row in result.front]
    on_front = set(front)
    statuses = ["front" if i in on_front else _status(row) for i, row in enumerate(rows)]
    values = _values(rows, len(aims))
    drawn = thinning.points(values, front)
    found = columns(rows, [aim.name for aim in aims], statuses)
    params = [one["name"] for one in found if one["group"] == "param"]
    return {
        "objectives": [{"id": f"objective.{a.name}", "name": a.name, "maximize": a.maximize} for a in aims],
        "constraints": list(result.constraints), "counts": dict(result.counts), "count": len(rows),
        "failures": [{"error": error, "candidates": number} for error, number in result.failures],
        "hypervolume": result.hypervolume if front else None, "columns": found, "front": front, "drawn": drawn,
        "drawable": int(np.isfinite(values).all(axis=1).sum()), "lines": thinning.lines(drawn, front),
        "params": [f"param.{name}" for name in params], "volume": volume(rows, aims, len(front)),
        "importance": _importance(rows, values, params, aims)}


def _status(row: Row) -> str:
    if row.state != "measured":
        return _STATES[row.state]
    return "measured" if row.is_feasible else "breaks a constraint"


def _values(rows: Sequence[Row], size: int) -> np.ndarray:
    """[rows, objectives]; NaN for those that were not measured."""
    found = np.full((len(rows), size), np.nan)
    for place, row in enumerate(rows):
        if row.state == "measured":
            found[place] = [np.nan if value is None else value for value in row.values]
    return found


def volume(rows: Sequence[Row], aims: Sequence[Objective], size: int) -> dict[str, list[Any]]:
    """The hypervolume at some moments of a search, ever further apart, in the box of its end: after so many candidates
    (``done``), for which workers took so many ``seconds``, the ``share``. ``size``: of the front at the end."""
    points = [(place, [aim.sign * value for aim, value in zip(aims, row.values) if value is not None])
              for place, row in enumerate(rows) if row.is_feasible and None not in row.values]
    last = Front(len(aims))
    for place, point in points:
        last.add(place, point)
    seconds = list(accumulate(row.took for row in rows))
    moments = max(8, min(MOMENTS, 20_000 // max(size, 1)))
    ends = np.unique(np.geomspace(1, len(points), moments).astype(int)) - 1 if points else np.array([], int)
    found: dict[str, list[Any]] = {"done": [], "seconds": [], "share": []}
    front, at = Front(len(aims)), 0
    for end in map(int, ends):
        for place, point in points[at:end + 1]:
            front.add(place, point)
        at = end + 1
        place = points[end][0]
        found["done"].append(place + 1)
        found["seconds"].append(seconds[place])
        found["share"].append(front.hypervolume(last.box))
    return found


def _importance(
    rows: Sequence[Row], values: np.ndarray, params: Sequence[str], aims: Sequence[Objective]
) -> dict[str, Any]:
    """Of the parameters that vary, the most important first."""
    known = np.flatnonzero(np.isfinite(values).all(axis=1)).tolist()
    found = {name: [rows[row].params.get(name) for row in known] for name in params}
    varied = [name for name, each in found.items() if len(set(map(repr, each))) > 1]
    shares = importance([found[name] for name in varied], values[known])
    order = sorted(range(len(shares)), key=lambda k: -sum(shares[k]))
    return {"params": [varied[k] for k in order], "objectives": [aim.name for aim in aims],
            "shares": [shares[k] for k in order]}
