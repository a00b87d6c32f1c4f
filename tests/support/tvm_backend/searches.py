"""Searches whose candidates cost nothing: figures are those of a table, bounds are below them by as much as it says."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from archloom.tvm_backend.search import evaluate
from archloom.tvm_backend.search.candidate import Candidate
from archloom.tvm_backend.search.evaluate import Answer, Context
from archloom.tvm_backend.search.objectives import Aims, aims
from archloom.tvm_backend.search.run import Run
from archloom.tvm_backend.search.samplers.choice import sampler as sampler_of
from archloom.tvm_backend.search.space import space_of
from archloom.tvm_backend.search.spent import Spent
from archloom.tvm_backend.search.store import Row, Store
from archloom.tvm_backend.search.study import Study

AIMS = aims("seconds,area_mm2,max:utilization")
OPTIONS = ("rs_ld", "rs_st")
"""Of Gemmini, which takes all small numbers for them."""


@dataclass(frozen=True)
class Cost:
    """``error``: the candidate fails."""

    seconds: float
    area_mm2: float
    utilization: float
    slack: float = 0.0
    error: str | None = None

    def figures(self, *, bound: bool) -> dict[str, float | None]:
        slack = self.slack if bound else 0.0
        return {"seconds": self.seconds - slack, "area_mm2": self.area_mm2, "utilization": self.utilization + slack,
                "joules": None}


Table = Mapping[tuple[int, int], Cost]


def space(table: Table, own: Sequence[str] = ()) -> Callable[[Any], Candidate]:
    """Two parameters, the second from as many values as the table has for the first; ``own``: figures that functions of
    the user's say, not reports."""

    def made(trial: Any) -> Candidate:
        rows = max(row for row, _ in table) + 1
        row = trial.suggest_int("row", 0, rows - 1)
        column = trial.suggest_int("column", 0, max(c for r, c in table if r == row))
        figures = {name: partial(_own, row, column) for name in own}
        return Candidate("gemm(m=1,n=1,k=1)", "gemmini", dict(zip(OPTIONS, (row + 1, column + 1))), figures)

    return made


def _own(row: int, column: int) -> float:
    raise AssertionError("the table's workers say what this would")


@dataclass
class TableWorkers:
    """Answers from a table. ``count`` above 1: as other processes do, in any order; ``killed_after``: so many
    measurements, after which this process is killed. Of every second candidate all is known without a measurement. What
    bounds say of figures that are the user's own is nonsense, as if a report had figures of these names."""

    table: Table
    count: int = 1
    killed_after: int | None = None
    measured: list[tuple[int, int]] = field(default_factory=list)
    looked_up: list[tuple[int, int]] = field(default_factory=list)
    bounded: list[tuple[int, int]] = field(default_factory=list)

    @property
    def here(self) -> bool:
        return self.count == 1

    def ask(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        if self.here:
            future: Future[Any] = Future()
            future.set_result(self._answer(arguments[1].candidate, function))
            return future
        return self._threads.submit(self._answer, pickle.loads(arguments[1]).candidate, function)

    def send(self) -> None:
        pass

    def batch(self, function: Callable[..., Any]) -> int:
        return 1

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.count)

    def _answer(self, candidate: Candidate, function: Callable[..., Any]) -> Answer:
        place = tuple(candidate.options[name] - 1 for name in OPTIONS)
        nonsense = dict.fromkeys(candidate.figures, 1000000000.0)
        if function in (evaluate.known_bounds_of, evaluate.unpacked_known_bounds):
            self.looked_up.append(place)  # type: ignore[arg-type]
            known = self.table[place].figures(bound=sum(place) % 2 == 0)  # type: ignore[index]
            return Answer({**known, **nonsense})
        bound = function in (evaluate.bounds_of, evaluate.unpacked_bounds)
        if bound:
            self.bounded.append(place)  # type: ignore[arg-type]
        else:
            if len(self.measured) == self.killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
            self.measured.append(place)  # type: ignore[arg-type]
        cost = self.table[place]  # type: ignore[index]
        return Answer({**cost.figures(bound=bound), **(nonsense if bound else {})}, error=None if bound else cost.error)


def run(
    table: Table, store: Store, workers: TableWorkers, *, sampler: Any = "grid", trials: int | None = None,
    seed: int = 0, bounds: bool = True, wanted: Aims = AIMS, study: Study | None = None, own: Sequence[str] = (),
) -> Spent:
    """Search the table to the end."""
    where = space_of(space(table, own))
    chosen = sampler_of(sampler, where, wanted, seed, trials)
    found = Run(where, wanted, chosen, store, workers, Context(None, wanted.names), trials, bounds,  # type: ignore[arg-type]
                study=study)
    found.go()
    return found.spent


def definition(wanted: Aims = AIMS) -> dict[str, Any]:
    return {**wanted.to_json(), "host": "none", "code": "-"}


def kept(rows: list[Row]) -> list[tuple[Any, ...]]:
    """All that rows say but how long it took."""
    return [(r.key, r.state, r.params, r.values, r.violations, r.figures, r.error) for r in rows]


def places(store: Store) -> set[tuple[int, int]]:
    """Those of the table that are on the front."""
    from archloom.tvm_backend.search.result import result_of

    return {(row.params["row"], row.params["column"]) for row in result_of(store, None).front}


def front_of(table: Table) -> set[tuple[int, int]]:
    """By comparing each with each."""
    points = {place: (c.seconds, c.area_mm2, -c.utilization) for place, c in table.items() if c.error is None}
    return {place for place, point in points.items()
            if not any(all(a <= b for a, b in zip(other, point)) and other != point for other in points.values())}
