"""Mapping spaces: tables of candidates, one NumPy column for each decision, and the mappings that rows stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from archloom.mapper.mapping import LEVELS, Mapping
from archloom.oracle.errors import MappingError
from archloom.oracle.user_code import Misused, called

Columns: TypeAlias = MappingABC[str, np.ndarray]

STREAM, HOIST, INTERLEAVE = range(len(LEVELS))
"""Codes of the load levels in columns."""


@dataclass(frozen=True, eq=False)
class Table:
    """Candidates of one kind: ``columns`` of equal length, their estimated cycles, and what row ``i`` means.

    ``needs``: what each candidate needs of each memory, which are named as in "3 rows of the scratchpad". ``steps``:
    columns whose next smaller and larger values are tried, too, where a candidate turns out to be the best. ``family``:
    of candidates that agree in these columns few are tried (None: it is not asked). ``least``: cycles that none takes
    fewer than, where any are proven. ``way``: a name for how operands are kept and loaded, where the estimates of
    different ways err by more than those of one; the best of each is tried.
    """

    columns: Columns
    needs: Columns
    estimate: Callable[[Columns], np.ndarray]
    mapping: Callable[[Columns, int], Mapping]
    steps: tuple[str, ...] = ()
    family: tuple[str, ...] | None = None
    least: Callable[[Columns], np.ndarray] | None = None
    way: str = ""

    def __post_init__(self) -> None:
        lengths = {name: np.shape(column) for name, column in (*self.columns.items(), *self.needs.items())}
        if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
            raise Misused(f"a table: expected columns and needs of one length, found {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def estimated(self) -> np.ndarray:
        """Cycles of each candidate."""
        found: np.ndarray = called(self.estimate, self.columns, gives=np.ndarray)
        if found.shape != (len(self),):
            raise Misused(f"the estimate of a table: expected {len(self)} numbers, found {found.shape}", self.estimate)
        return found

    def kept(self, mask: np.ndarray) -> "Table":
        return replace(self, columns=select(self.columns, mask), needs=select(self.needs, mask))

    def neighbours(self, i: int) -> Iterator[int]:
        """Candidates that differ from ``i`` by one step in one column."""
        for name in self.steps:
            here = self.columns[name][i]
            others = np.logical_and.reduce([c == c[i] for other, c in self.columns.items() if other != name])
            for values, side in ((-self.columns[name], -here), (self.columns[name], here)):
                beyond = np.flatnonzero(others & (values > side))
                if len(beyond):
                    yield int(beyond[np.argmin(values[beyond])])


@dataclass(frozen=True, eq=False)
class Space:
    """All candidates of a workload that fit; ``considered`` counts those that do not, too."""

    tables: tuple[Table, ...]
    considered: int

    def __len__(self) -> int:
        return sum(len(t) for t in self.tables)

    @cached_property
    def _starts(self) -> np.ndarray:
        """Number of the first candidate of each table."""
        return np.cumsum([0, *map(len, self.tables)])

    def _place(self, i: int) -> tuple[int, int]:
        """Table and row of candidate ``i``."""
        table = int(np.searchsorted(self._starts, i, side="right")) - 1
        return table, i - int(self._starts[table])

    def mapping(self, i: int) -> Mapping:
        table, row = self._place(i)
        found: Mapping = called(self.tables[table].mapping, self.tables[table].columns, row, gives=Mapping)
        return found

    def neighbours(self, i: int) -> Iterator[int]:
        """Candidates that are one step away from ``i``."""
        table, row = self._place(i)
        return (int(self._starts[table]) + other for other in self.tables[table].neighbours(row))

    def family(self, i: int) -> tuple[int, ...] | None:
        """Equal for candidates of which few are tried; None where as many are as rank first."""
        table, row = self._place(i)
        found = self.tables[table]
        return None if found.family is None else (table, *(int(found.columns[name][row]) for name in found.family))

    def way(self, i: int) -> str:
        """How operands are kept and loaded in candidate ``i``, where there are several ways."""
        return self.tables[self._place(i)[0]].way

    def leaders(self, estimated: np.ndarray) -> dict[str, int]:
        """Of each way the candidate with the lowest of some estimates, the best first."""
        ends = pairwise(self._starts.tolist())
        best = [first + int(np.argmin(estimated[first:end])) for first, end in ends if first < end]
        found: dict[str, int] = {}
        for i in sorted(best, key=estimated.__getitem__):
            found.setdefault(self.way(i), i)
        return found

    @cached_property
    def bounds(self) -> np.ndarray:
        """Cycles that each candidate takes at least; 0 where none are proven."""
        found = [np.zeros(len(t), np.int64) if t.least is None else t.least(t.columns) for t in self.tables]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def least(self) -> int:
        """Cycles that no candidate takes fewer than; 0 where none are proven of some."""
        return int(self.bounds.min(initial=np.iinfo(np.int64).max)) if len(self) else 0

    def first(self) -> tuple[Mapping, float]:
        """The candidate with the lowest estimate, and that: what there is without any simulation."""
        estimated, mapping_of = self.ranked()
        best = int(np.argmin(estimated))
        return mapping_of(best), float(estimated[best])

    def ranked(self) -> tuple[np.ndarray, Callable[[int], Mapping]]:
        """Estimated cycles of all candidates, and the mapping of candidate ``i``."""
        parts = [t.estimated() for t in self.tables]
        return (np.concatenate(parts) if parts else np.zeros(0)), self.mapping


@dataclass
class SpaceBuilder:
    """Collects tables and prunes what needs more than there is ``room`` for; keeps the smallest demand to explain an
    empty space, in which ``help`` says what would help."""

    name: str
    room: MappingABC[str, int]
    help: str = ""
    tables: list[Table] = field(default_factory=list)
    considered: int = 0
    least: list[dict[str, int]] = field(default_factory=list)

    def add(self, table: Table) -> None:
        """Take the candidates of ``table`` that fit."""
        if not len(table):
            return
        self.considered += len(table)
        if not table.needs:
            self.tables.append(table)
            return
        if missing := table.needs.keys() - self.room.keys():
            raise Misused(f"room: expected what there is of {', '.join(sorted(missing))}, as needs have it, found "
                          f"{', '.join(self.room) or 'none'}")
        over = np.max([need / max(self.room[memory], 1e-9) for memory, need in table.needs.items()], axis=0)
        nearest = int(np.argmin(over))
        self.least.append({memory: int(need[nearest]) for memory, need in table.needs.items()})
        fits = over <= 1
        if fits.any():
            self.tables.append(table.kept(fits))

    def build(self) -> Space:
        """The space; MappingError with demand, bound, gap and levers if it is empty."""
        if self.tables:
            return Space(tuple(self.tables), self.considered)
        if not self.least:
            raise MappingError(f"{self.name}: no mapping is defined for this operator with these options")
        demand = min(self.least, key=lambda needs: max(n / max(self.room[m], 1e-9) for m, n in needs.items()))
        gaps = [
            f"{need} {memory}, of which there are {self.room[memory]} ({need - self.room[memory]} too few)"
            for memory, need in demand.items() if need > self.room[memory]
        ]
        raise MappingError(
            f"{self.name}: none of {self.considered} mappings fits; the smallest needs {' and '.join(gaps)}"
            + (f"; {self.help} would help" if self.help else "")
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


def divided(extent: int, unit: int = 1, most: int | None = None, limit: int = 8) -> list[int]:
    """Tile sizes, multiples of ``unit`` elements, at most ``most``, that cut ``extent`` as evenly as can be."""
    units = divisions(extent, unit, None if most is None else max(1, most // unit), limit)
    return [int(u) * unit for u in units]


def product(options: MappingABC[str, Sequence[int] | np.ndarray]) -> dict[str, np.ndarray]:
    """All combinations of the options, as columns."""
    grids = np.meshgrid(*(np.asarray(v, dtype=np.int64) for v in options.values()), indexing="ij")
    return {name: grid.reshape(-1) for name, grid in zip(options, grids, strict=True)}


def select(columns: Columns, mask: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of all columns where ``mask`` holds."""
    return {name: column[mask] for name, column in columns.items()}


def crossed(left: Columns, right: Columns) -> dict[str, np.ndarray]:
    """All pairs of rows."""
    a, b = len(next(iter(left.values()))), len(next(iter(right.values())))
    columns = {name: np.repeat(column, b) for name, column in left.items()}
    return columns | {name: np.tile(column, a) for name, column in right.items()}
