"""Plain text tables with aligned columns."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from archloom.oracle.pages import Table

WARNING = "warning: "
"""How a line begins that a terminal shows in colour, with the indented ones below it."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, alignment, and the width beyond which its cells are cut with an ellipsis.

    A ``listing`` has what is parted by ", " on as many lines as that takes.
    """

    title: str
    align: Literal["left", "right"] = "left"
    limit: int = 60
    listing: bool = False


def figures(*titles: str) -> tuple[Column, ...]:
    """Columns of numbers."""
    return tuple(Column(title, "right") for title in titles)


def as_block(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Table:
    """The same table for a page."""
    return Table(tuple(column.title for column in columns), tuple(map(tuple, rows)))


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Comma-separated lines; empty where a row has None."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()


def render(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Heading, rule and rows, columns parted by two spaces, no trailing blanks."""
    cells = [[_cut(cell, column.limit) for cell, column in zip(line, columns)]
             for row in rows for line in _lines(columns, row)]
    widths = [max([len(c.title)] + [len(row[i]) for row in cells]) for i, c in enumerate(columns)]
    rule = ["-" * width for width in widths]
    lines = [[c.title for c in columns], rule, *cells]
    return "\n".join("  ".join(
        t.rjust(w) if c.align == "right" else t.ljust(w) for t, c, w in zip(line, columns, widths)).rstrip()
        for line in lines)


def _lines(columns: Sequence[Column], row: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The lines of a row: one, but for its listings."""
    return zip_longest(*[[*_listed(str(cell), column.limit)] if column.listing else [str(cell)]
                         for cell, column in zip(row, columns)], fillvalue="")


def _listed(text: str, limit: int) -> Iterator[str]:
    """Lines of as many parts as fit into the limit, one at least."""
    line, *parts = text.split(", ")
    for part in parts:
        line += ","
        if len(line) + len(part) + 2 > limit:
            yield line
            line = part
        else:
            line += " " + part
    yield line


def _cut(text: str, limit: int) -> str:
    """On one line, at most so long; blanks in front, which indent, stay."""
    if not text.isprintable() or "  " in text or text[-1:] == " ":
        text = text[:len(text) - len(text.lstrip(" "))] + " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def several(names: Sequence[str], most: int = 5) -> str:
    """The first names, those that come more than once with their number, and how many more there are."""
    shown = [name if times == 1 else f"{name} ({times})" for name, times in Counter(names).items()]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def count(number: int | None) -> str:
    """With thousands separators; a dash for what is not known."""
    return "–" if number is None else f"{number:,}"


def size(number: int | None) -> str:
    """Bytes in the unit that leaves no more than four digits."""
    if number is None:
        return "–"
    for unit, factor in (("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20)):
        if number < 10_000 * factor // (10 if factor > 1 else 1):
            return f"{number / factor:.4g} {unit}"
    return f"{number / (1 << 30):.4g} GiB"


def duration(seconds: float | None) -> str:
    """With the unit that leaves one to three digits before the point."""
    if seconds is None:
        return "–"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"
