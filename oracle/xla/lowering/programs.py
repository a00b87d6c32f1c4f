"""Fused multiply-adds of what are fused multiply-adds themselves, such as polynomials, as one program of machine code.

One by one they would each read and write arrays that no cache holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from archloom.oracle.native import Step, fuses
from archloom.oracle.xla.lowering.ops import known
from archloom.oracle.xla.lowering.views import extent, names_of
from archloom.oracle.xla.notation.expr import Expr, Map, Ranges

MOST = 64
"""Steps of a program. A free choice: longer ones are several."""


@dataclass
class Program:
    """The ``steps`` from ``leaves``, by numbers of these and of the steps before, to the result."""

    leaves: list[Expr] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def program(e: Expr, ranges: Ranges, is_leaf: Callable[[Expr], bool]) -> Program | None:
    """The program of an expression; None where it is no fused multiply-add of many numbers. ``is_leaf``: what is made
    already, or in another way."""
    if not isinstance(e, Map) or e.opcode != "fma" or not fuses([extent(ranges[n]) for n in names_of(e, ranges)]):
        return None
    return _Gathering(e, ranges, is_leaf).program


class _Gathering:
    """Steps as they are found, which have negative numbers until all leaves are known."""

    def __init__(self, e: Map, ranges: Ranges, is_leaf: Callable[[Expr], bool]) -> None:
        self.kind, self.ranges, self.is_leaf = e.attributes, ranges, is_leaf
        self.axes = frozenset(names_of(e, ranges))
        self.left, self.numbers = MOST, dict[Expr, int]()
        self.leaves: list[Expr] = []
        self.rows: list[Step] = []
        self.step(e)
        first = len(self.leaves)
        self.program = Program(
            self.leaves, [tuple(n if n >= 0 else first + ~n for n in row) for row in self.rows])  # type: ignore[misc]

    def step(self, e: Map) -> int:
        self.left -= 1
        row = tuple(map(self.number, e.operands))
        self.rows.append(row)  # type: ignore[arg-type]
        return ~(len(self.rows) - 1)

    def number(self, e: Expr) -> int:
        """Of a leaf or a step; constants, of which 0.0 and -0.0 are equal expressions, are leaves of their own."""
        if known(e) is not None:
            return self.leaf(e)
        if e not in self.numbers:
            self.numbers[e] = self.step(e) if isinstance(e, Map) and self.is_step(e) else self.leaf(e)
        return self.numbers[e]

    def leaf(self, e: Expr) -> int:
        self.leaves.append(e)
        return len(self.leaves) - 1

    def is_step(self, e: Map) -> bool:
        """Whether it is computed here: for each number of the result, as all steps are rounded."""
        return (e.opcode == "fma" and e.attributes == self.kind and self.left > 0 and not self.is_leaf(e)
                and frozenset(names_of(e, self.ranges)) == self.axes)
