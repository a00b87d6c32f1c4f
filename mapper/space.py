"""Mapping spaces: tables of candidates, one NumPy column for each decision, and the mappings that rows stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from mapper.mapping import LEVELS, Mapping
from oracle.errors import MappingError

Columns: TypeAlias = MappingABC[str, np.ndarray]

STREAM, HOIST, INTERLEAVE = range(len(LEVELS))
"""Codes of the load levels in columns."""


@dataclass(frozen=True, eq=False)
class Table:
    """Candidates of one kind: ``columns`` of equal length, their estimated cycles, and what row ``i`` means.

    ``spad_rows`` and ``acc_rows`` are what each candidate needs.
    """

    columns: Columns
    spad_rows: np.ndarray
    acc_rows: np.ndarray
    estimate: Callable[[Columns], np.ndarray]
    mapping: Callable[[Columns, int], Mapping]

    def __len__(self) -> int:
        return len(self.spad_rows)

    def kept(self, mask: np.ndarray) -> "Table":
        """The rows where ``mask`` holds."""
        columns = {name: column[mask] for name, column in self.columns.items()}
        return Table(columns, self.spad_rows[mask], self.acc_rows[mask], self.estimate, self.mapping)


@dataclass(frozen=True, eq=False)
class Space:
    """All candidates of a workload that fit; ``considered`` counts those that do not, too."""

    tables: tuple[Table, ...]
    considered: int

    def __len__(self) -> int:
        return sum(len(t) for t in self.tables)

    def ranked(self) -> tuple[np.ndarray, Callable[[int], Mapping]]:
        """Estimated cycles of all candidates, and the mapping of candidate ``i``."""
        parts = [t.estimate(t.columns) for t in self.tables]
        starts = np.cumsum([0, *map(len, parts)])

        def mapping(i: int) -> Mapping:
            table = int(np.searchsorted(starts, i, side="right")) - 1
            return self.tables[table].mapping(self.tables[table].columns, i - int(starts[table]))

        return (np.concatenate(parts) if parts else np.zeros(0)), mapping


@dataclass(frozen=True)
class Bounds:
    """Rows of the two local memories."""

    spad_rows: int
    acc_rows: int


@dataclass
class SpaceBuilder:
    """Collects tables and prunes what does not fit; keeps the smallest demand to explain an empty space."""

    name: str
    bounds: Bounds
    tables: list[Table] = field(default_factory=list)
    considered: int = 0
    least: list[tuple[int, int]] = field(default_factory=list)

    def add(self, table: Table) -> None:
        """Take the candidates of ``table`` that fit."""
        if not len(table):
            return
        self.considered += len(table)
        over = np.maximum(table.spad_rows / self.bounds.spad_rows, table.acc_rows / self.bounds.acc_rows)
        nearest = int(np.argmin(over))
        self.least.append((int(table.spad_rows[nearest]), int(table.acc_rows[nearest])))
        fits = over <= 1
        if fits.any():
            self.tables.append(table.kept(fits))

    def build(self) -> Space:
        """The space; MappingError with demand, bound, gap and levers if it is empty."""
        if self.tables:
            return Space(tuple(self.tables), self.considered)
        if not self.least:
            raise MappingError(f"{self.name}: no mapping is defined for this operator with these options")
        bounds = (("scratchpad", self.bounds.spad_rows), ("accumulator", self.bounds.acc_rows))
        demand = min(self.least, key=lambda d: max(d[0] / bounds[0][1], d[1] / bounds[1][1]))
        gaps = [
            f"{need} rows of the {what}, which has {bound} ({need - bound} too few)"
            for need, (what, bound) in zip(demand, bounds, strict=True) if need > bound
        ]
        raise MappingError(
            f"{self.name}: none of {self.considered} mappings fits; the smallest needs {' and '.join(gaps)}; "
            "a larger scratchpad or accumulator (scratchpad_kib, accumulator_kib) or a smaller dim would help"
        )


def divisions(extent: int, unit: int, most: int | None = None, limit: int = 24) -> np.ndarray:
    """Tile sizes in units of ``unit`` elements that cut ``extent`` into equal parts, as far as parts can be equal.

    At most ``most`` units, ascending; beyond ``limit`` sizes only some, evenly over the logarithm. The size of the
    whole extent is given in elements that exist.
    """
    blocks = -(-extent // unit)
    parts = np.arange(1, blocks + 1)
    sizes = np.unique(-(-blocks // parts))
    if most is not None:
        sizes = sizes[sizes <= max(1, most)]
    if len(sizes) > limit:
        keep = np.unique(np.round(np.geomspace(1, len(sizes), limit)).astype(int)) - 1
        sizes = sizes[np.unique([*(len(sizes) - 1 - keep), 0])]
    return sizes


def product(options: MappingABC[str, Sequence[int] | np.ndarray]) -> dict[str, np.ndarray]:
    """All combinations of the options, as columns."""
    grids = np.meshgrid(*(np.asarray(v, dtype=np.int64) for v in options.values()), indexing="ij")
    return {name: grid.reshape(-1) for name, grid in zip(options, grids, strict=True)}


def select(columns: Columns, mask: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of all columns where ``mask`` holds."""
    return {name: column[mask] for name, column in columns.items()}
