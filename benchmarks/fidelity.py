"""How far results are from what papers, chips and other tools publish: writes ``docs/fidelity.md``, a row a comparison.

``fidelity.toml`` says where both sides of a row lie, and holds no number. A place is ``FILE: WAY`` in ``data``,
``RUN: WAY`` in ``RESULTS.json`` (a figure of the run, or what it keeps), or ``MODULE: FUNCTION``, which is called here;
several places make one list. ``over`` in place of ``ours`` is the place of ours over theirs. The error of a pair is
ours over theirs, less one; of a row, the least and the most. A row promises what the thresholds of its figure say
(``figures.toml``): that of ``ours`` or ``over``, or those that ``promise`` names; with ``equal``, that there is no
error. Nothing is measured here: ``run_all.py`` does that, and writes this page, too.
"""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks import results
from benchmarks.common import ROOT, arguments, finish, refuse
from benchmarks.figures import Figure, FigureError, Run, Value, checked, every, load, made, shown

DEFINED = Path(__file__).with_name("fidelity.toml")
DATA = Path(__file__).with_name("data")
PAGE = ROOT / "docs" / "fidelity.md"

KEPT, OUTSIDE, OPEN, UNMEASURED, NOT_COMPARED = "as promised", "outside", "no promise", "not measured", "not compared"
"""The states of a row; ``no promise``: nothing says how far it may be off."""
STATES = (KEPT, OUTSIDE, OPEN, UNMEASURED, NOT_COMPARED)

GIVEN = {"": lambda x: x, "percent": lambda x: x / 100, "percent more": lambda x: 1 + x / 100}
"""How a published number becomes the measured quantity."""


@dataclass(frozen=True)
class Row:
    """A comparison; ``of``: the table, figure or section; ``given``: of ``GIVEN``; ``reason``: why there is none."""

    of: str
    item: str
    theirs: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    over: str = ""
    unit: str = ""
    given: str = ""
    promise: tuple[str, ...] = ()
    equal: bool = False
    note: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Source:
    """A paper, a chip or a tool; ``numbers``: its tables and figures that have any, ``rest``: those that have none."""

    name: str
    title: str
    says: str
    rows: tuple[Row, ...]
    numbers: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """A row with what both sides are now, pair by pair, and the figures that it promises with their values."""

    source: str
    row: Row
    theirs: tuple[Value, ...]
    ours: tuple[Value, ...]
    promised: tuple[tuple[Figure, Value], ...] = ()

    @cached_property
    def error(self) -> tuple[float, float] | None:
        """The least and the most of ours over theirs, less one (0 of equal numbers); None where nothing is measured."""
        found = [0.0 if ours == theirs else ours / theirs - 1 for theirs, ours in zip(self.theirs, self.ours)]
        return (min(found), max(found)) if found else None

    @property
    def state(self) -> str:
        if self.row.reason or not self.ours:
            return NOT_COMPARED if self.row.reason else UNMEASURED
        if not self.promised and not self.row.equal:
            return OPEN
        return OUTSIDE if self.broken else KEPT

    @property
    def broken(self) -> list[str]:
        """What does not hold of the promise."""
        unequal = [f"{_errors(self)} off, promised equality"] if self.row.equal and self.error != (0, 0) else []
        return [f"{figure.name} {shown(value)}, promised {figure.demand}"
                for figure, value in self.promised if figure.holds(value) is False] + unequal

    @property
    def how(self) -> str:
        """The command that makes ours."""
        place = (*self.row.ours, self.row.over)[0]
        if not place:
            return ""
        name = place.partition(": ")[0]
        return "python benchmarks/fidelity.py" if _module(name) else f'python benchmarks/run_all.py "{name}"'

    @property
    def json(self) -> dict[str, Any]:
        return {"source": self.source, "item": f"{self.row.of}: {self.row.item}", "unit": self.row.unit,
                "theirs": _one(self.theirs), "ours": _one(self.ours), "error": self.error, "state": self.state,
                "broken": self.broken, "how": self.how, "why": self.row.reason or self.row.note}


def sources(path: Path = DEFINED) -> tuple[Source, ...]:
    """All of ``fidelity.toml``; FigureError for what is not of the form."""
    return tuple(_source(table) for table in tomllib.loads(path.read_text(encoding="utf-8"))["source"])


def judged(all_sources: Sequence[Source], state: results.Results, runs: Mapping[str, Run]) -> list[Judged]:
    """Every row by what is measured; FigureError for a place where nothing can be."""
    return [_judge(source.name, row, state, runs) for source in all_sources for row in source.rows]


def write(state: results.Results, runs: Mapping[str, Run]) -> list[Judged]:
    """The page anew."""
    found = sources()
    rows = judged(found, state, runs)
    PAGE.write_text(markdown(found, rows), encoding="utf-8")
    return rows


def markdown(all_sources: Sequence[Source], rows: Sequence[Judged]) -> str:
    """``docs/fidelity.md``."""
    lines = ["# Fidelity", "", *_head(rows)]
    for source in all_sources:
        mine = [row for row in rows if row.source == source.name]
        lines += ["", f"## {source.name}", "", f"{source.title}.", "", source.says, *_rest(source)]
        if compared := [row for row in mine if not row.row.reason]:
            lines += ["", "| | theirs | ours | error | state | by |", "|---|---|---|---|---|---|"]
            lines += map(_line, compared)
        if noted := [row for row in compared if row.row.note]:
            lines += ["", *(f"- {row.row.of}, {row.row.item}: {row.row.note}" for row in noted)]
        if left := [row for row in mine if row.row.reason]:
            lines += ["", "Not compared:", "", "| | theirs | why not |", "|---|---|---|", *map(_left, left)]
    return "\n".join(lines) + "\n"


def _head(rows: Sequence[Judged]) -> Iterator[str]:
    counts = Counter(row.state for row in rows)
    yield ("What the tables and figures of five papers, measured chips and other tools say, and what comes out here. "
           "`python benchmarks/fidelity.py` writes this page from `benchmarks/fidelity.toml`, the published numbers in "
           "`benchmarks/data` and what `make bench` measured (`RESULTS.json`), never by hand.")
    yield from ("", "**Error** is ours over theirs, less one: above zero, ours is the larger number. Where a row has "
                "several numbers, the least and the most of theirs, of ours and of their errors are shown. A row "
                "**promises** what the thresholds of its figure in `benchmarks/figures.toml` say, or equality. **By** "
                "is the benchmark: `python benchmarks/run_all.py NAME` measures it.")
    yield from ("", f"{len(rows)} rows: " + ", ".join(f"{counts[state]} {state}" for state in STATES) + ".")
    outside = [f"- {row.source}, {row.row.of}, {row.row.item}: {'; '.join(row.broken)}" for row in rows
               if row.state == OUTSIDE]
    yield from ("", "Outside of what they promise:", "", *(outside or ["- none"]))


def _rest(source: Source) -> list[str]:
    """What has no numbers, as ``Table 1; Figure 1, 2, 3``."""
    kinds: dict[str, list[str]] = {}
    for name in source.rest:
        kind, _, number = name.partition(" ")
        kinds.setdefault(kind, []).append(number)
    said = "; ".join(f"{kind} {', '.join(numbers)}" for kind, numbers in kinds.items())
    return ["", f"Without numbers (code, structure, answers of yes and no): {said}."] if said else []


def _line(found: Judged) -> str:
    row = found.row
    by = "here" if found.how.endswith("fidelity.py") else f"`{(*row.ours, row.over)[0].partition(': ')[0]}`"
    state = f"**{found.state}**" if found.state in (OUTSIDE, UNMEASURED) else found.state
    cells = (f"{row.of}: {row.item}{f' [{row.unit}]' if row.unit else ''}", _range(found.theirs), _range(found.ours),
             _errors(found), state, by)
    return f"| {' | '.join(cells)} |"


def _left(found: Judged) -> str:
    row = found.row
    return f"| {row.of}: {row.item} | {_range(found.theirs)}{f' {row.unit}' if row.unit else ''} | {row.reason} |"


def _range(numbers: Sequence[Value]) -> str:
    if len(numbers) < 2:
        return "".join(map(shown, numbers))
    return f"{shown(min(numbers))} to {shown(max(numbers))} ({len(numbers)})"


def _errors(found: Judged) -> str:
    return " to ".join(dict.fromkeys(map(_signed, found.error or ())))


def _signed(error: float) -> str:
    return "0" if error == 0 else f"{100 * error:+.3g} %".replace("-", "−")


def _one(numbers: Sequence[Value]) -> Value | list[Value] | None:
    return (numbers[0] if len(numbers) == 1 else list(numbers)) if numbers else None


def _source(table: Mapping[str, Any]) -> Source:
    whose = f"fidelity.toml: {table.get('name', 'a source without a name')}"
    rows = tuple(_row(row, whose) for row in table.get("row", ()))
    rest = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items() if key != "row"}
    source: Source = made(Source, {**rest, "rows": rows}, whose)
    return source


def _row(table: Mapping[str, Any], whose: str) -> Row:
    whose = f"{whose}: {table.get('of', 'a row of nothing')}: {table.get('item', '')}"
    lists = {key: _several(table.get(key, ())) for key in ("theirs", "ours", "promise")}
    row: Row = made(Row, {**table, **lists}, whose)
    if sum(map(bool, (row.ours, row.over, row.reason))) != 1:
        raise FigureError(f"{whose}: expected one of ours, over and reason")
    if row.given not in GIVEN or not (row.theirs or row.reason):
        raise FigureError(f"{whose}: expected theirs, given as one of {', '.join(GIVEN)}, found {row.given!r}")
    return row


def _several(places: str | Sequence[str]) -> tuple[str, ...]:
    return (places,) if isinstance(places, str) else tuple(places)


def _judge(source: str, row: Row, state: results.Results, runs: Mapping[str, Run]) -> Judged:
    theirs = [None if x is None else GIVEN[row.given](x) for x in _found(row.theirs, state, runs)]
    ours = _found((row.over,) if row.over else row.ours, state, runs)
    if not ours or not theirs:
        return Judged(source, row, tuple(x for x in theirs if x is not None), ())
    if len(ours) != len(theirs):
        raise FigureError(f"{source}, {row.of}, {row.item}: {len(theirs)} of theirs, {len(ours)} of ours")
    pairs = [(x, x * y if row.over else y) for x, y in zip(theirs, ours) if x is not None and y is not None]
    if wrong := [y for x, y in pairs if y and not x]:
        raise FigureError(f"{source}, {row.of}, {row.item}: expected 0 as published, found {wrong[0]}")
    promised = tuple((figure, found["value"]) for run, figure in promises(row, runs)
                     if (found := results.values(state, run).get(figure.read)))
    return Judged(source, row, tuple(x for x, _ in pairs), tuple(y for _, y in pairs), promised)


def _found(places: Sequence[str], state: results.Results, runs: Mapping[str, Run]) -> list[Value | None]:
    """The numbers of all places; none if those of one are not measured."""
    lists = [_numbers(place, state, runs) for place in places]
    return [number for numbers in lists for number in numbers] if all(lists) else []


def _numbers(place: str, state: results.Results, runs: Mapping[str, Run]) -> list[Value | None]:
    name, _, way = place.partition(": ")
    if name in runs:
        return results.cases(state, runs[name], way)
    if _module(name):
        numbers: list[Value | None] = getattr(importlib.import_module(name), way)()
        return numbers
    if not (path := DATA / name).is_file():
        raise FigureError(f"fidelity.toml: {place}: expected a file of {DATA}, a run or a module of benchmarks")
    return [None if x is None else checked(x, place) for x in every(json.loads(path.read_text("utf-8")), way)]


def _module(name: str) -> bool:
    return name.startswith("benchmarks.")


def promises(row: Row, runs: Mapping[str, Run]) -> list[tuple[Run, Figure]]:
    """The figures whose thresholds a row promises; FigureError for one that is named and has none."""
    found = [(run, figure) for place in row.promise or (*row.ours, row.over)
             if (run := runs.get(place.partition(": ")[0])) for figure in run.figures
             if figure.read == place.partition(": ")[2] and figure.demand != "–"]
    if len(found) < len(row.promise):
        raise FigureError(f"fidelity.toml: {row.of}: {row.item}: expected figures with thresholds: {row.promise}")
    return found


def main() -> None:
    args = arguments((__doc__ or "").split("\n", maxsplit=1)[0])
    try:
        rows = write(results.read(), load())
    except FigureError as error:
        refuse(str(error))
    counts = Counter(row.state for row in rows)
    for row in rows:
        if row.state == OUTSIDE:
            print(f"outside: {row.source}, {row.row.of}, {row.row.item}: {'; '.join(row.broken)}")
    finish(args, {**{state: counts[state] for state in STATES}, "page": str(PAGE), "rows": [row.json for row in rows]})


if __name__ == "__main__":
    main()
