"""One kernel of a suite: its stream, the same mathematics in plain JAX, its inputs and what TAIDL's oracle took."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.common import ROOT

BASELINE = ROOT / "benchmarks" / "data" / "taidl_baseline.csv"
"""Times of TAIDL-TO and Spike, measured on a machine of two AMD EPYC cores: columns as its README names them."""


@dataclass(frozen=True)
class Recorded:
    """What TAIDL's own oracle took for a kernel, least of several runs; ``thp`` is with transparent huge pages."""

    run_ms: float
    compile_ms: float
    thp_run_ms: float | None = None
    paper_ms: float | None = None
    """What the paper's machine took (64 cores)."""

    @property
    def fair_ms(self) -> float:
        """The smaller of the two run times."""
        return self.run_ms if self.thp_run_ms is None else min(self.run_ms, self.thp_run_ms)


@dataclass(frozen=True)
class Case:
    """A kernel to be measured.

    ``stream`` makes the stream (an :class:`archloom.oracle.stream.Stream`, or anything with a ``stream`` that is one)
    and its ISA; both are made anew for each compilation. A network of several kernels has None for an ISA and compiles
    itself: it has ``compile()``, ``raised`` and ``count()``, as oracles and streams have. ``native`` takes the
    arguments, in order and in their shapes, and returns the results as a tuple. ``inputs`` makes the arguments as NumPy
    arrays.

    ``tolerance`` is None where native results must be equal bit for bit, else the largest difference relative to the
    largest magnitude. Results always equal the interpreter's, which runs where ``interpreted`` says so.
    """

    name: str
    stream: Callable[[], tuple[Any, Any]]
    native: Callable[..., tuple[Any, ...]]
    inputs: Callable[[np.random.Generator], Sequence[np.ndarray]]
    taidl: Recorded | None = None
    interpreted: bool = False
    tolerance: float | None = None
    most_over_native: float = 1.5
    """The most that the oracle's time may be of the native one."""
    least_over_taidl: float = 1.0
    """How many times as fast as TAIDL's oracle it must be."""
    rounds: int = 25


def int8(shapes: Sequence[tuple[int, ...]]) -> Callable[[np.random.Generator], Sequence[np.ndarray]]:
    """Arguments of the whole range of int8."""
    return lambda random: [random.integers(-128, 128, s, dtype=np.int8) for s in shapes]


@cache
def _rows() -> tuple[Mapping[str, str], ...]:
    with BASELINE.open(newline="", encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    return tuple(csv.DictReader(lines))


def recorded(**columns: object) -> Recorded | None:
    """The recorded times of the one kernel whose columns have these values; None for a kernel that was not recorded."""
    found = [r for r in _rows() if all(r[k] == str(v) for k, v in columns.items())]
    if len(found) != 1:
        if not found:
            return None
        raise ValueError(f"{len(found)} rows of {BASELINE.name} have {columns}")
    row = found[0]
    thp, paper = (float(row[key]) if row[key] else None for key in ("thp_run_ms_min", "paper_taidl_cpu_ms"))
    return Recorded(float(row["run_ms_min"]), float(row["compile_ms_min"]), thp, paper)
