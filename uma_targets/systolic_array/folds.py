"""Folds: how a matrix product is cut into what the array takes at a time, the same at both levels.

A product of ``m`` × ``k`` by ``k`` × ``n`` is seen from the array: ``stays`` is what is cut over rows and columns, and
``steps`` is how many vectors enter for each fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from acadl_models.systolic_array import Design
from oracle.affine import Affine
from oracle.stream import Loop, Node

Nodes: TypeAlias = list[Node]


@dataclass(frozen=True)
class Run:
    """``count`` tiles of ``size`` elements in a row; the first begins at element ``start``."""

    start: int
    count: int
    size: int


def runs(extent: int, tile: int, *, first_apart: bool = False) -> tuple[Run, ...]:
    """``extent`` elements in tiles of ``tile``: the whole tiles, then what is left; the first tile apart if asked."""
    whole, rest = divmod(extent, tile)
    found = [Run(0, whole, tile)] if whole else []
    if rest:
        found.append(Run(whole * tile, 1, rest))
    if first_apart and found[0].count > 1:
        found[:1] = [Run(0, 1, tile), Run(tile, found[0].count - 1, tile)]
    return tuple(found)


def repeat(var: str, count: int, body: Callable[[Affine], Iterable[Node]], start: int = 0) -> Nodes:
    """``for var in range(start, count)``; a single iteration needs no loop."""
    if count - start <= 1:
        return list(body(Affine(start))) if count > start else []
    return [Loop(var, start, count, 1, tuple(body(Affine.variable(var))))]


def over(var: str, extent: int, tile: int, body: Callable[[Affine, int], Iterable[Node]]) -> Nodes:
    """A loop for each run of tiles; ``body`` gets a tile's first element and its size."""
    nodes: Nodes = []
    for run in runs(extent, tile):
        nodes += _tiles(var, run, body)
    return nodes


def over_sums(var: str, extent: int, tile: int, body: Callable[[Affine, int, bool], Iterable[Node]]) -> Nodes:
    """As :func:`over` along a reduction: ``body`` also learns whether it is the first tile."""
    nodes: Nodes = []
    for run in runs(extent, tile, first_apart=True):
        nodes += _tiles(var, run, lambda start, size, run=run: body(start, size, run.start == 0))  # type: ignore[misc]
    return nodes


def _tiles(var: str, run: Run, body: Callable[[Affine, int], Iterable[Node]]) -> Nodes:
    return repeat(var, run.count, lambda i: body(i * run.size + run.start, run.size))


@dataclass(frozen=True)
class Problem:
    """``m`` × ``k`` by ``k`` × ``n``: rows (output pixels), columns (filters), reduction."""

    m: int
    n: int
    k: int

    @property
    def macs(self) -> int:
        return self.m * self.n * self.k

    def over_rows(self, design: Design) -> int:
        """The extent that is cut over the array's rows."""
        return self.m if design.dataflow == "os" else self.k

    def over_columns(self, design: Design) -> int:
        """The extent that is cut over the array's columns."""
        return self.m if design.dataflow == "is" else self.n

    def steps(self, design: Design) -> int:
        """Vectors that enter for each fold."""
        return {"os": self.k, "ws": self.m, "is": self.n}[design.dataflow]

    def folds(self, design: Design) -> int:
        """How many folds the product takes."""
        return -(-self.over_rows(design) // design.rows) * -(-self.over_columns(design) // design.columns)
