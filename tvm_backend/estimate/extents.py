"""Estimates of networks with open dimensions: a report at given extents, or a table of several."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from archloom.oracle.errors import InputError
from archloom.tvm_backend.estimate.network import report_of
from archloom.tvm_backend.estimate.request import Request
from archloom.tvm_backend.host.profile import HostProfile
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.report.build import with_host
from archloom.tvm_backend.report.by_extents import ReportRow, ReportTable
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.sources.dynamic import shapes_alone
from archloom.tvm_backend.sources.source import Source


def reports(
    source: Source, symbols: Mapping[str, Any] | None, request: Request, profile: HostProfile | None = None,
    progress: Progress | None = None,
) -> "Report | ReportTable":
    """The report of a network, at an extent of each symbol where it has some, or, where a symbol has several, a table
    of all combinations.

    All extents are checked before the first is estimated: InputError for those that the network does not take.
    ``profile``: the host by whose roofline the seconds of host layers are estimated; None for the accelerator only.
    """

    def of(static: Source) -> Report:
        return with_host(report_of(static, request, progress), profile)

    if symbols is None:
        return of(source)
    if not isinstance(symbols, Mapping):
        raise InputError(f"symbols: expected a mapping such as {{'n': 128}}, found {symbols!r}")
    model = shapes_alone(source)
    given = {name: _listed(name, value) for name, value in symbols.items()}
    found = [model.shapes.checked(dict(zip(given, chosen, strict=True))) for chosen in itertools.product(
        *(value if isinstance(value, list) else [value] for value in given.values()))]
    rows = tuple(ReportRow(extents, of(model.source_at(extents))) for extents in found)
    is_table = any(isinstance(value, list) for value in given.values())
    return ReportTable(tuple(symbols), rows) if is_table else rows[0].report


def _listed(name: str, value: Any) -> Any:
    """Several extents as a list; anything else as it is, for the check of single ones."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        return value
    values = list(value)
    if not values:
        raise InputError(f"symbols: {name!r}: expected at least one extent, found none")
    return values
