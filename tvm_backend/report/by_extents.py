"""Reports of a network with open dimensions, one for each combination of extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from archloom.oracle.errors import ArtifactError
from archloom.oracle.fallbacks import titled
from archloom.oracle.pages import Code, fragment
from archloom.tvm_backend.report.data import Json, Report
from archloom.tvm_backend.report.frames import frame
from archloom.tvm_backend.report.headline import warnings
from archloom.tvm_backend.report.table import count, duration, figures, percent, render, to_csv

SCHEMA = "archloom.report_table/1"
"""Name and version of the schema: the number changes when a field changes its meaning or disappears."""

_COLUMNS = figures("cycles", "time", "MACs", "offloaded", "use")
_FIGURES = ("cycles", "seconds", "accelerator_cycles", "macs", "offloaded_macs_share", "utilization", "joules",
            "host_seconds")


@dataclass(frozen=True)
class ReportRow:
    """The report at ``extents`` (by symbol)."""

    extents: Mapping[str, int]
    report: Report


@dataclass(frozen=True)
class ReportTable:
    """Rows in the order of the extents that were asked for; those of the last symbol change fastest.

    Iterating gives the rows; ``str()`` is a table with a line for each.
    """

    symbols: tuple[str, ...]
    rows: tuple[ReportRow, ...]

    def __iter__(self) -> Iterator[ReportRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, **extents: int) -> Report:
        """The report at these extents; KeyError where there is none."""
        for row in self.rows:
            if dict(row.extents) == extents:
                return row.report
        raise KeyError(extents)

    def __str__(self) -> str:
        first = self.rows[0].report
        energy = figures("energy J") if any(row.report.joules is not None for row in self.rows) else ()
        host = figures("host time") if any(row.report.host_seconds is not None for row in self.rows) else ()
        table = render([*figures(*self.symbols), *_COLUMNS, *energy, *host], [[
            *(count(row.extents[s]) for s in self.symbols), *_cells(row.report),
            *(["–" if row.report.joules is None else f"{row.report.joules:.4g}"] if energy else []),
            *([duration(row.report.host_seconds)] if host else []),
        ] for row in self.rows])
        fallbacks = titled(tuple(dict.fromkeys(f for row in self.rows for f in row.report.fallbacks)))
        warned = "\n".join(dict.fromkeys(w for row in self.rows for w in warnings(row.report)))
        return "\n\n".join(filter(None, [warned, table, fallbacks, f"{first.model} on {first.target}: {first.scope}"]))

    def to_json(self) -> Json:
        """A JSON object: ``schema``, ``symbols``, and ``rows`` with ``extents`` and ``report`` each."""
        return {"schema": SCHEMA, "symbols": list(self.symbols),
                "rows": [{"extents": dict(row.extents), "report": row.report.to_json()} for row in self.rows]}

    @staticmethod
    def from_json(data: Json, origin: str = "table") -> "ReportTable":
        """The table that ``data`` holds; :class:`ArtifactError` naming ``origin`` if it is no complete one."""
        try:
            rows = tuple(ReportRow(dict(row["extents"]), Report.from_json(row["report"], origin))
                         for row in data["rows"])
            symbols = tuple(data["symbols"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{origin}: not a complete table of schema {SCHEMA!r}: {error}") from error
        if not rows:
            raise ArtifactError(f"{origin}: expected at least one report, found none")
        return ReportTable(symbols, rows)

    def _repr_html_(self) -> str:
        return fragment([Code(str(self))])

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with the columns of :meth:`to_csv`; InputError where pandas is not installed."""
        return frame(self.to_csv())

    def to_csv(self) -> str:
        """One row for each report; empty where a figure is not known."""
        return to_csv([*self.symbols, *_FIGURES], [
            [*(row.extents[s] for s in self.symbols), *(getattr(row.report, figure) for figure in _FIGURES)]
            for row in self.rows])


def _cells(report: Report) -> list[str]:
    return [count(report.cycles), duration(report.seconds), count(report.macs), percent(report.offloaded_macs_share),
            percent(report.utilization)]
