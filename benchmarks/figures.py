"""The figures of ``figures.toml``: what each is, how it is read from what its benchmark ends with, and its thresholds.

A ``[[run]]`` is a script with its arguments. It states, before anything is measured, the ``work`` on both sides, the
``baseline``, the ``cases`` with those left out, and the ``samples``; ``minutes`` is about what it takes. Its figures
are the ``[[run.figure]]`` below it: ``name``; ``read``, the way into the script's JSON (:func:`at`); ``aggregate``, of
``AGGREGATES``; and thresholds (``at_least``, ``at_most``, or ``equals``), none for a figure that is only recorded. One
with a mean also names its ``worst``; others may name a ``beside``. Both are ways into the same JSON. ``keep`` names
what else is kept of it, case by case, for ``fidelity.py``: ways in which ``*`` stands for every key or number.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

DEFINED = Path(__file__).with_name("figures.toml")
MEANS = ("mean", "geometric mean")
AGGREGATES = (*MEANS, "worst", "best", "share", "sum", "one")
"""How the cases become one number; ``one`` is of a single case."""

Value: TypeAlias = float | bool


class FigureError(ValueError):
    """A definition or a result that is not of its form: whose it is, what was expected and what was found."""


@dataclass(frozen=True)
class Figure:
    """A figure of a run; ``read``, ``worst`` and ``beside`` are ways into the JSON of the run's script."""

    name: str
    read: str
    aggregate: str
    worst: str = ""
    beside: str = ""
    at_least: float | None = None
    at_most: float | None = None
    equals: Value | None = None

    @property
    def demand(self) -> str:
        """The thresholds in words; a dash for a figure that is only recorded."""
        if self.equals is not None:
            return shown(self.equals)
        if self.at_least is not None and self.at_most is not None:
            return f"{shown(self.at_least)} to {shown(self.at_most)}"
        if self.at_least is not None:
            return f"≥ {shown(self.at_least)}"
        return "–" if self.at_most is None else f"≤ {shown(self.at_most)}"

    def holds(self, value: Value) -> bool | None:
        """Whether the thresholds are met; None where there are none."""
        if self.equals is not None:
            return value == self.equals
        if self.at_least is None and self.at_most is None:
            return None
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def verdict(self, value: Value) -> str:
        """``met``, ``MISSED``, or nothing."""
        return {None: "", True: "met", False: "MISSED"}[self.holds(value)]


@dataclass(frozen=True)
class Run:
    """A script with arguments, what it does, and the figures that are read from it."""

    script: str
    work: str
    baseline: str
    cases: str
    samples: str
    minutes: float
    figures: tuple[Figure, ...]
    arguments: str = ""
    keep: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.script} {self.arguments}".strip()

    @cached_property
    def definition(self) -> str:
        """Changes whenever what is measured does: a row of another definition is none of this one."""
        said = [self.key, self.work, self.baseline, self.cases, self.samples]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]


def load(path: Path = DEFINED) -> dict[str, Run]:
    """All runs by their keys; FigureError for what is not of the form."""
    runs = [_run(table) for table in tomllib.loads(path.read_text(encoding="utf-8")).get("run", ())]
    _once([run.key for run in runs], "runs")
    return {run.key: run for run in runs}


def at(result: Any, way: str) -> Any:
    """What lies at ``way``: keys of objects with dots between (``networks.resnet50.cold_s``), numbers for lists;
    FigureError where nothing does."""
    found = result
    for step in way.split("."):
        try:
            found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, TypeError, ValueError):
            there = f"keys {', '.join(found)}" if isinstance(found, Mapping) else type(found).__name__
            raise FigureError(f"{way}: expected {step!r}, found {there}") from None
    return found


def every(result: Any, way: str) -> list[Any]:
    """What lies at ``way``, in which ``*`` stands for every key or number in turn."""
    before, star, after = way.partition("*")
    if not star:
        return [at(result, way) if way else result]
    found = at(result, before.strip(".")) if before else result
    return [part for inner in (found.values() if isinstance(found, Mapping) else found)
            for part in every(inner, after.strip("."))]


def number(result: Any, way: str) -> Value:
    """The number or the truth at ``way``; FigureError for anything else, NaN and infinities among it."""
    return checked(at(result, way), way)


def checked(found: Any, way: str) -> Value:
    """The number that was found at ``way``; FigureError as :func:`number`."""
    if not isinstance(found, int | float) or abs(found) == float("inf") or found != found:
        raise FigureError(f"{way}: expected a number, found {found!r}")
    return found


def shown(value: Value) -> str:
    """Three digits, or all that stand before the point."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _run(table: dict[str, Any]) -> Run:
    whose = f"figures.toml: {table.get('script', 'a run without a script')}"
    figures = tuple(_figure(row, whose) for row in table.pop("figure", ()))
    run: Run = made(Run, {**table, "figures": figures, "keep": tuple(table.get("keep", ()))}, whose)
    if not figures:
        raise FigureError(f"{whose}: expected figures, found none")
    _once([figure.read for figure in figures], whose)
    return run


def _figure(table: dict[str, Any], whose: str) -> Figure:
    whose = f"{whose}: {table.get('name', 'a figure without a name')}"
    figure: Figure = made(Figure, table, whose)
    if figure.aggregate not in AGGREGATES:
        raise FigureError(f"{whose}: aggregate: expected one of {', '.join(AGGREGATES)}, found {figure.aggregate!r}")
    if figure.aggregate in MEANS and not figure.worst:
        raise FigureError(f"{whose}: expected the worst beside the {figure.aggregate}, found none")
    if figure.equals is not None and (figure.at_least, figure.at_most) != (None, None):
        raise FigureError(f"{whose}: expected either equals or bounds, found both")
    return figure


def made(kind: Any, table: Mapping[str, Any], whose: str) -> Any:
    """An instance of the dataclass ``kind``; FigureError for fields that it lacks or does not know."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := table.keys() - fields.keys():
        raise FigureError(f"{whose}: expected {', '.join(fields)}, found {', '.join(sorted(unknown))}")
    if missing := [name for name, f in fields.items() if f.default is dataclasses.MISSING and not table.get(name)]:
        raise FigureError(f"{whose}: expected {', '.join(missing)}, found none")
    return kind(**table)


def _once(names: Sequence[str], whose: str) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise FigureError(f"{whose}: expected each once, found twice: {', '.join(twice)}")
