"""Folds: how a matrix product is cut into what the array takes at a time, the same at both levels.

There is nothing to choose here: a dataflow is defined by what stays in the array, a fold is as large as the array, and
the order of folds is that of SCALE-Sim and of the EQueue paper, whose cycles are met with it. Which tiles of operands
wait beside the array is the mapper's choice (``target.py`` declares them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from archloom.acadl_models.systolic_array import Design
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Node
from archloom.uma_targets.kit.nest import Nodes, each, pieces

Number = Affine | int


@dataclass(frozen=True)
class Problem:
    """``m`` × ``k`` by ``k`` × ``n``: rows (output pixels), columns (filters), reduction."""

    m: int
    n: int
    k: int

    @property
    def exchanged(self) -> "Problem":
        """The transposed product: the second operand first."""
        return Problem(self.n, self.m, self.k)


@dataclass(frozen=True)
class Matrix:
    """Where the elements of a matrix lie in a memory: ``base + row * row_stride + column * column_stride``."""

    base: Number
    row_stride: int
    column_stride: int

    def at(self, row: Number, column: Number) -> Affine:
        return Affine.of(self.base) + Affine.of(row) * self.row_stride + Affine.of(column) * self.column_stride

    @property
    def transposed(self) -> "Matrix":
        return Matrix(self.base, self.column_stride, self.row_stride)


@dataclass(frozen=True)
class Operands:
    """The product's operands in the memories, and whether it is added to what lies in ``c``.

    ``a`` is m × k and ``b`` is k × n; with stationary inputs, ``b`` is on the left and ``a`` on the top. ``c`` is
    m × n, or None: fold after fold, each fold's sums in a row (output-stationary only).
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    add: bool = False

    @property
    def exchanged(self) -> "Operands":
        """The operands of the transposed product."""
        return Operands(self.b.transposed, self.a.transposed, self.c and self.c.transposed, self.add)


@dataclass(frozen=True)
class Fold:
    """One fold: the first element and how many, along what is cut over rows and over columns.

    ``first``: no fold before it added to the same sums.
    """

    row: Affine
    height: int
    column: Affine
    width: int
    first: bool


def folds(problem: Problem, design: Design, body: Callable[[Fold], Iterable[Node]]) -> Nodes:
    """Loops over all folds of ``problem``; inputs that stay are taken for weights of the exchanged problem before.

    Where an operand stays, the reduction is cut over the rows and runs inside, its first fold apart.
    """
    sums_stay = design.dataflow == "os"
    over_rows = pieces(problem.m if sums_stay else problem.k, design.rows, peel_first=not sums_stay)
    over_columns = pieces(problem.n, design.columns)

    def along_rows(inner: Callable[[Affine, int, bool], Iterable[Node]]) -> Nodes:
        return each("fold_row", over_rows, lambda i, run: inner(i * design.rows, run.size, run.is_first or sums_stay))

    def along_columns(inner: Callable[[Affine, int], Iterable[Node]]) -> Nodes:
        return each("fold_column", over_columns, lambda j, run: inner(j * design.columns, run.size))

    if sums_stay:
        return along_rows(lambda row, height, first: along_columns(
            lambda column, width: body(Fold(row, height, column, width, first))
        ))  # fmt: skip
    return along_columns(lambda column, width: along_rows(
        lambda row, height, first: body(Fold(row, height, column, width, first))
    ))  # fmt: skip


def last(extent: int, tile: int) -> int:
    return (extent - 1) % tile + 1
