"""Matrix products at scalar level: one instruction for each PE and each vector, in plain loops.

Nothing here says when a PE works. A step loads the registers of the first column and of the first row, then visits the
PEs row by row; what has to wait for what follows from the registers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from archloom.acadl_models.systolic_array import Design
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.nest import Nodes, repeat
from archloom.uma_targets.systolic_array.emit import Fold, Matrix, Operands, Problem, folds


def product(design: Design, problem: Problem, operands: Operands) -> Nodes:
    """The nodes of a stream that computes ``problem`` with operands that lie in the array's memories."""
    if design.dataflow == "os":
        return folds(problem, design, lambda f: _SumsStay(design, problem, operands, f).nodes())
    if design.dataflow == "is":
        problem, operands = problem.exchanged, operands.exchanged
    return folds(problem, design, lambda f: _OperandStays(design, problem, operands, f).nodes())


def _span(var: str, start: int, stop: int, body: Callable[[Affine], Nodes]) -> Nodes:
    """A loop from ``start`` to ``stop``."""
    return repeat(var, max(0, stop - start), lambda i: body(i + start))


class _FoldProgram:
    """What both kinds of folds share: the PEs that are charged, ``rows`` × ``columns``, and the west's load units."""

    def __init__(self, design: Design, problem: Problem, operands: Operands, fold: Fold) -> None:
        self.problem, self.operands, self.fold = problem, operands, fold
        whole = design.charging.whole_array
        self.rows, self.columns = (design.rows, design.columns) if whole else (fold.height, fold.width)
        self.hops = design.charging.hops > 0
        self.serial = not design.charging.sums_overlap

    def grid(self, make: Callable[[Affine, Affine, bool, bool], Instr]) -> Nodes:
        """An instruction for every PE, row by row; ``make`` learns whether it is for the first or for the last PE."""
        nodes: Nodes = []
        for rows in _ends(self.rows):
            nodes += _span("i", *rows, lambda i, rows=rows: self._row(i, rows, make))  # type: ignore[misc]
        return nodes

    def _row(self, i: Affine, rows: tuple[int, int], make: Callable[[Affine, Affine, bool, bool], Instr]) -> Nodes:
        """The PEs of row ``i``, which is one of ``rows``."""
        first, last = rows == (0, 1), rows == (self.rows - 1, self.rows)
        nodes: Nodes = []
        for columns in _ends(self.columns) if first or last else [(0, self.columns)]:
            starts = first and columns == (0, 1)
            ends = last and columns == (self.columns - 1, self.columns)
            nodes += _span("j", *columns, lambda j, s=starts, e=ends: [make(i, j, s, e)])  # type: ignore[misc, arg-type]
        return nodes

    def load_west(self, element: Callable[[Affine], Affine], wait: bool) -> Nodes:
        """The first column's west registers, zeros where the fold has no row."""
        nodes = _span("i", 0, self.fold.height, lambda i: [
            Instr.make("load_west", left=element(i), row=i, wait=int(wait))
        ])  # fmt: skip
        return nodes + _span("i", self.fold.height, self.rows, lambda i: [Instr.make("clear_west", row=i)])


def _ends(extent: int) -> list[tuple[int, int]]:
    """``range(extent)`` in pieces: the first alone, the last alone, and what lies between."""
    cuts = sorted({0, 1, extent - 1, extent})
    return [(a, b) for a, b in pairwise(cuts) if a < b]


class _SumsStay(_FoldProgram):
    """Output-stationary: operands from both sides, then the sums leave."""

    def nodes(self) -> Nodes:
        nodes = self._step(Affine(0), first=True)
        nodes += repeat("step", self.problem.k - 1, lambda k: self._step(k + 1, first=False))
        return nodes + self._store()

    def _step(self, k: Affine, first: bool) -> Nodes:
        f, left, top = self.fold, self.operands.a, self.operands.b

        def mac(i: Affine, j: Affine, starts: bool, ends: bool) -> Instr:
            return Instr.make(
                "mac", row=i, column=j, accumulate=int(not first), wait=int(self.serial and first and starts),
                signal=int(self.serial and ends),
            )

        nodes = self.load_west(lambda i: left.at(f.row + i, k), wait=False)
        nodes += _span("j", 0, f.width, lambda j: [Instr.make("load_north", top=top.at(k, f.column + j), column=j)])
        nodes += _span("j", f.width, self.columns, lambda j: [Instr.make("clear_north", column=j)])
        return nodes + self.grid(mac)

    def _store(self) -> Nodes:
        f, given = self.fold, self.operands.c
        out = given or Matrix(f.row * self.problem.n + f.column * f.height, f.width, 1)
        row, column = (f.row, f.column) if given else (Affine(0), Affine(0))
        add = int(self.operands.add)
        return _span("i", 0, f.height, lambda i: _span("j", 0, f.width, lambda j: [
            Instr.make("store_own", row=i, column=j, out=out.at(row + i, column + j), accumulate=add)
        ]))  # fmt: skip


class _OperandStays(_FoldProgram):
    """Weight-stationary (or, exchanged, input-stationary): what stays comes in from the north, the last row first."""

    def nodes(self) -> Nodes:
        return self._fill() + repeat("step", self.problem.m, self._step)

    def _fill(self) -> Nodes:
        f, unused = self.fold, self.rows - self.fold.height
        nodes = self._clear(wait=True) if unused else self._load(Affine(f.height - 1), wait=True)
        nodes += _span("t", 1, unused, lambda _: self._push() + self._clear(wait=False))
        left = f.height if unused else f.height - 1
        nodes += _span("t", 1, left, lambda t: self._push() + self._load(left - t, wait=False))
        return nodes + (self._push() + self._load(Affine(0), wait=False) if left else [])

    def _push(self) -> Nodes:
        return _span("i", 0, self.rows - 1, lambda i: _span("j", 0, self.columns, lambda j: [
            Instr.make("push", row=self.rows - 2 - i, column=j)
        ]))  # fmt: skip

    def _clear(self, wait: bool) -> Nodes:
        return _span("j", 0, self.columns, lambda j: [Instr.make("clear_own", column=j, wait=int(wait))])

    def _load(self, row: Affine, wait: bool) -> Nodes:
        """A row of what stays; its last one tells the west, where vectors are read only then."""
        f, top = self.fold, self.operands.b
        arrived = int(self.hops and row == Affine(0))

        def load(j: Affine, signal: int) -> Nodes:
            return [Instr.make(
                "load_own", top=top.at(f.row + row, f.column + j), column=j, wait=int(wait), signal=signal
            )]  # fmt: skip

        nodes = load(Affine(0), arrived) + _span("j", 1, f.width, lambda j: load(j, 0))
        return nodes + _span("j", f.width, self.columns, lambda j: [
            Instr.make("clear_own", column=j, wait=int(wait))
        ])  # fmt: skip

    def _step(self, m: Affine) -> Nodes:
        f, left, out = self.fold, self.operands.a, self.operands.c
        assert out is not None
        add = int(self.operands.add or not f.first)

        def store(j: Affine, signal: bool) -> Nodes:
            return [Instr.make(
                "store_sum", row=self.rows, column=j, out=out.at(m, f.column + j), accumulate=add, signal=int(signal)
            )]  # fmt: skip

        nodes = self.load_west(lambda i: left.at(m, f.row + i), wait=self.hops)
        nodes += self.grid(lambda i, j, _, ends: Instr.make(
            "pass", row=i, column=j, signal=int(ends and not self.hops)
        ))  # fmt: skip
        nodes += _span("j", 0, f.width - 1, lambda j: store(j, False))
        return nodes + store(Affine(f.width - 1), self.hops)
