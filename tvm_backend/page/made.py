"""Pages of what a user names: reports (JSON or artifacts), or the folder of a search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from archloom.oracle.errors import ArtifactError, InputError, counted
from archloom.oracle.reading import JSON_BYTES, read_bytes
from archloom.tvm_backend.page.document import document
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.report import by_extents
from archloom.tvm_backend.report.by_extents import ReportTable
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.search.store import FILE


def page(paths: Sequence[Path], reports: int = 0, progress: Progress | None = None) -> str:
    """The page of one search, or of one report or more; ``reports``: of candidates of a search."""
    searches = [path for path in paths if is_search(path)]
    if searches and len(paths) > 1:
        raise InputError(f"{searches[0]}: the page of a search has no other beside it; name it alone")
    if searches:
        return _of_search(searches[0], reports, progress)
    return page_of([each for path in paths for each in opened(path)])


def page_of(reports: Sequence[tuple[str, Report]]) -> str:
    """The page of reports with their titles."""
    from archloom.tvm_backend.page.network import network_view

    views = [network_view(title, report) for title, report in reports]
    title = " and ".join(dict.fromkeys(f"{report.model} on {report.target}" for _, report in reports))
    below = views[0]["headline"] if len(views) == 1 else f"{len(views)} reports: {', '.join(v['title'] for v in views)}"
    return document(title, below, {"networks": views})


def _of_search(folder: Path, reports: int, progress: Progress | None) -> str:
    from archloom.tvm_backend.page.search import search_view

    view = search_view(folder, reports, progress)
    aims = ", ".join(each["name"] for each in view["objectives"])
    below = f"{counted(view['count'], 'candidate')} for {aims}, {len(view['front']):,} of them on the front"
    return document(f"Search {folder.resolve().name}", below, {"search": view})


def is_search(path: Path) -> bool:
    return (path / FILE).exists()


def opened(path: Path) -> list[tuple[str, Report]]:
    """The report of a file of JSON or of an artifact, or the reports of a table, with what to call them."""
    found = report_of(path)
    if isinstance(found, Report):
        return [(path.stem, found)]
    return [(", ".join(f"{name}={extent}" for name, extent in row.extents.items()), row.report) for row in found]


def report_of(path: Path) -> Report | ReportTable:
    """What a file of JSON or an artifact holds; ArtifactError where it holds none."""
    if path.suffix.lower() != ".json":
        from archloom.tvm_backend.artifact.network import load_report

        return load_report(path)
    try:
        data = json.loads(read_bytes(path, JSON_BYTES))
    except ValueError as error:
        raise ArtifactError(f"{path}: expected the JSON of a report: {error}") from error
    is_table = isinstance(data, dict) and data.get("schema") == by_extents.SCHEMA
    return ReportTable.from_json(data, str(path)) if is_table else Report.from_json(data, str(path))
