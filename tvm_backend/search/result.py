"""What a search has found: the front, and where everything else is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archloom.oracle.errors import counted
from archloom.tvm_backend.report.table import WARNING, Column, count, duration, render
from archloom.tvm_backend.search.objectives import objective
from archloom.tvm_backend.search.spent import Spent
from archloom.tvm_backend.search.store import FILE, Row, State, Store

SHOWN_FAILURES = 3
SECONDS = frozenset(("seconds", "accelerator_seconds"))


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The ``front``: candidates that keep all constraints and that no other is better than in every objective, in the
    order of the first objective. ``counts``: how many candidates are done, measured, ``bounded`` (bounds showed that
    they are on no front) or failed; ``failures``: messages with their numbers. ``sampler`` and ``spent`` are those of
    the run that this is the result of, None where it was read from ``folder``."""

    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    front: tuple[Row, ...]
    counts: Mapping[State, int]
    failures: tuple[tuple[str, int], ...]
    folder: Path | None = None
    sampler: str | None = None
    spent: Spent | None = None
    hypervolume: float = 0.0
    _store: Store | None = None

    def rows(self) -> Iterator[Row]:
        """All candidates that are done."""
        if self._store is not None:
            yield from self._store.rows()
        elif self.folder is not None:
            with Store.open(self.folder / FILE) as store:
                yield from store.rows()

    def to_parquet(self, path: str | Path) -> None:
        """Write all candidates to a file of Parquet; InputError where pyarrow is not installed."""
        from archloom.tvm_backend.search.parquet import write

        if self._store is not None:
            write(self._store, Path(path))
        elif self.folder is not None:
            with Store.open(self.folder / FILE) as store:
                write(store, Path(path))

    def to_json(self) -> dict[str, Any]:
        """A JSON object; ``front`` has objects with ``candidate``, ``params``, ``values`` and ``figures``."""
        data: dict[str, Any] = {
            "schema": "archloom.search/1", "objectives": list(self.objectives), "constraints": list(self.constraints),
            "front": [self._json_of(row) for row in self.front], "counts": dict(self.counts),
            "failures": [{"error": error, "candidates": number} for error, number in self.failures],
            "hypervolume": self.hypervolume, "folder": None if self.folder is None else str(self.folder)}
        if self.spent is not None:
            data |= {"sampler": self.sampler, "known": self.spent.known, "seconds": dict(self.spent.seconds)}
        return data

    def _json_of(self, row: Row) -> dict[str, Any]:
        values = dict(zip(_names(self.objectives), row.values))
        return {"key": row.key, "candidate": row.candidate, "params": row.params, "values": values,
                "figures": {name: value for name, value in row.figures.items() if value is not None}}

    def __str__(self) -> str:
        return "\n\n".join(filter(None, [self.table(), *self._notes()]))

    def table(self) -> str:
        """A line for each candidate of the front: objectives, and the parameters by which they differ."""
        names = _names(self.objectives)
        params = list(dict.fromkeys(name for row in self.front for name in row.params))
        columns = [*(Column(name, "right") for name in names), *(Column(name, "right", 28) for name in params)]
        return render(columns, [[*map(_shown, names, row.values), *(_spelled(row.params.get(p, "–")) for p in params)]
                                for row in self.front]) if self.front else ""

    def _notes(self) -> Iterator[str]:
        total = sum(self.counts.values())
        shown = {state: count(number) for state, number in self.counts.items()}
        lines = [f"{counted(total, 'candidate')}: {shown['measured']} measured, {shown['bounded']} ruled out by bounds,"
                 f" {shown['failed']} failed; {len(self.front)} on the front"]
        if self.spent is not None:
            parts = ", ".join(f"{part} {duration(taken)}" for part, taken in self.spent.seconds.items())
            lines.append(f"by {self.sampler}; {count(self.spent.known)} of what it proposed was known; time: {parts}")
        if self.folder is not None:
            lines.append(f"kept in {self.folder}; a page of it: archloom report {self.folder} --html FILE")
        yield "\n".join(lines)
        yield from self._warnings()

    def _warnings(self) -> Iterator[str]:
        if not self.front and self.counts["measured"] + self.counts["bounded"]:
            yield f"{WARNING}no candidate keeps all constraints: {', '.join(self.constraints)}"
        if self.spent is not None and self.spent.waits_for_sampler:
            yield (f"{WARNING}the search waits more for its sampler than for candidates:\n"
                   "  sampler pymoo (a generation at a time) takes less time for each")
        if self.counts["failed"]:
            shown = [f"  {number:,} × {error.splitlines()[0]}" for error, number in self.failures]
            yield "\n".join([f"{WARNING}{counted(self.counts['failed'], 'candidate')} failed:", *shown])


def _names(objectives: Sequence[str]) -> list[str]:
    return [text.partition(":")[2] for text in objectives]


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name in SECONDS:
        return duration(value)
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.5g}"


def _spelled(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def result_of(
    store: Store, folder: Path | None, *, sampler: str | None = None, spent: Spent | None = None
) -> SearchResult:
    """What is in a store, at the moment."""
    aims = [objective(text) for text in store.definition["objectives"]]
    front = store.front([o.sign for o in aims])
    rows = [row for key in front.names if (row := store.get(str(key))) is not None]
    rows.sort(key=lambda row: [o.sign * (value or 0.0) for o, value in zip(aims, row.values)])
    return SearchResult(
        tuple(store.definition["objectives"]), tuple(store.definition["constraints"]), tuple(rows), store.counts(),
        tuple(store.failures(SHOWN_FAILURES)), folder, sampler, spent, front.hypervolume(),
        store if folder is None else None)


def read(folder: Path) -> SearchResult:
    """The result of the search that is kept in a folder, or that is at work there."""
    with Store.open(folder / FILE) as store:
        return result_of(store, folder)
