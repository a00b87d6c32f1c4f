"""Reports as they are kept on disk: fields of layers in rows, and what units and memories did once for equal layers.

A decoder has thousands of layers and a dozen different ones: so it is read and written several times faster than in
the public schema.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_type_hints

from archloom.oracle.errors import ArtifactError
from archloom.oracle.records import plain, typed
from archloom.tvm_backend.report.data import HostLayer, Json, Layer, Report
from archloom.tvm_backend.report.uses import USES

ROW = tuple(f.name for f in fields(Layer) if f.name not in USES)
_TYPES = get_type_hints(Layer)
HOST_ROW = tuple(f.name for f in fields(HostLayer))
NOTHING = -1
"""In place of a number of uses: a layer that nothing is said of."""


def packed(report: Report) -> Json:
    """A JSON object that :func:`unpacked` makes the report of; layers share uses that are one object."""
    numbers: dict[tuple[tuple[str, int], ...], int] = {}
    uses: list[Json] = []
    rows: list[list[Any]] = []
    for layer in report.layers:
        found = {name: value for name in USES if (value := getattr(layer, name))}
        key = tuple([(name, id(value)) for name, value in found.items()])
        if found and key not in numbers:
            numbers[key] = len(uses)
            uses.append(plain(found))
        rows.append([*(getattr(layer, name) for name in ROW), numbers.get(key, NOTHING)])
    host = [[getattr(layer, name) for name in HOST_ROW] for layer in report.host]
    return {"rows": rows, "uses": uses, "host": host, "report": replace(report, layers=(), host=()).to_json()}


def unpacked(data: Any, origin: str = "report") -> Report:
    """The report that :func:`packed` wrote; :class:`ArtifactError` naming ``origin`` for anything else."""
    try:
        uses = [{name: typed(value, _TYPES[name]) for name, value in item.items()} for item in data["uses"]]
        layers = tuple([_layer(row, {} if row[-1] == NOTHING else uses[row[-1]]) for row in data["rows"]])
        host = tuple([HostLayer(**dict(zip(HOST_ROW, row, strict=True))) for row in data["host"]])
        return replace(Report.from_json(data["report"], origin), layers=layers, host=host)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise ArtifactError(f"{origin}: not a report as it is kept: {error}") from error


def _layer(row: list[Any], uses: dict[str, Any]) -> Layer:
    known = dict(zip(ROW, row[:-1], strict=True))
    return Layer(**{**known, "shape": tuple(known["shape"])}, **uses)
