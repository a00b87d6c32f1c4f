"""Operations on what operations make, with fused multiply-adds among them, as one program of machine code.

XLA has no fused multiply-add, and calls of machine code part what it would compute in one loop: one by one they would
each read and write arrays that no cache holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from archloom.oracle.native import CODES, Program, fuses, operation
from archloom.oracle.xla.lowering.ops import known
from archloom.oracle.xla.lowering.views import extent, names_of
from archloom.oracle.xla.notation.expr import Expr, Leaf, Map, Ranges, from_children

MOST = 256
"""Steps of a program. A free choice: longer ones are several."""

OPERANDS = ("f32", "i32", "u32")
"""Types of what a program is given and gives; truth values are given as u32."""


@dataclass
class Gathered:
    """The program of an expression, whose operands are ``leaves``."""

    leaves: list[Expr]
    program: Program


def gathered(e: Expr, ranges: Ranges, is_leaf: Callable[[Expr], bool]) -> Gathered | None:
    """The program of an expression; None where it is of few numbers, or none of its steps is a fused multiply-add.
    ``is_leaf``: what is made already, or in another way."""
    if not isinstance(e, Map) or e.dtype not in OPERANDS or not _fuses(e):
        return None
    if not fuses([extent(ranges[n]) for n in names_of(e, ranges)]):
        return None
    return _Gathering(e, ranges, is_leaf).found()


@from_children
def _fuses(e: Expr) -> bool:
    """Whether a fused multiply-add is among operations on operations."""
    return isinstance(e, Map) and (e.opcode == "fma" or any(map(_fuses, e.operands)))


def _operation(e: Map) -> str:
    return operation(e.opcode, e.attributes, [o.dtype for o in e.operands], e.dtype)


class _Gathering:
    """The steps of a program: what is computed for each number of the result, as all steps are rounded, or of single
    numbers."""

    def __init__(self, e: Map, ranges: Ranges, is_leaf: Callable[[Expr], bool]) -> None:
        self.e, self.ranges, self.is_leaf = e, ranges, is_leaf
        self.axes = frozenset(names_of(e, ranges))
        self.kind: object = None
        self.steps = set[Expr]()

    def found(self) -> Gathered | None:
        """None where no step is a fused multiply-add, or an operand would be of a type that none may be of."""
        if not self.is_step(self.e):
            return None
        self.gather()
        order = self.ordered()
        return _numbered(order, self.steps) if any(step.opcode == "fma" for step in order) else None

    def gather(self) -> None:
        """The steps that are nearest to the result."""
        waiting, seen = deque([self.e]), {self.e}
        while waiting and len(self.steps) < MOST:
            step = waiting.popleft()
            self.steps.add(step)
            for o in step.operands:
                if o not in seen and isinstance(o, Map) and self.is_step(o) and not self.is_leaf(o):
                    seen.add(o)
                    waiting.append(o)

    def is_step(self, e: Map) -> bool:
        if _operation(e) not in CODES or frozenset(names_of(e, self.ranges)) not in (self.axes, frozenset()):
            return False
        if known(e) is not None:
            return False
        if e.opcode == "fma":  # all of a program take subnormal numbers alike
            self.kind = self.kind or e.attributes
            return self.kind == e.attributes
        return e.opcode not in ("divide", "sqrt") or all(map(_widened, e.operands))

    def ordered(self) -> list[Map]:
        """The steps, each behind its operands."""
        order, done, waiting = list[Map](), set[Expr](), [self.e]
        while waiting:
            step = waiting[-1]
            before = [o for o in step.operands if o in self.steps and o not in done and isinstance(o, Map)]
            waiting += before
            if not before:
                waiting.pop()
                if step not in done:
                    done.add(step)
                    order.append(step)
        return order


def _widened(e: Expr) -> bool:
    """Whether it is of f32, as f64."""
    return isinstance(e, Map) and e.opcode == "convert" and e.dtype == "f64" and e.operands[0].dtype == "f32"


def _numbered(order: list[Map], steps: set[Expr]) -> Gathered | None:
    """The values by their numbers in a program. Of constants, 0.0 and -0.0 are equal expressions."""
    given = [[None if o in steps else _constant(o) for o in step.operands] for step in order]
    leaves = sorted(dict.fromkeys(o for step, row in zip(order, given, strict=True) for o, c in zip(
        step.operands, row, strict=True) if c is None and o not in steps), key=_number)
    if any(o.dtype not in (*OPERANDS, "i1") for o in leaves):
        return None
    constants = list(dict.fromkeys(c for row in given for c in row if c is not None))
    places: dict[object, int] = {o: n for n, o in enumerate((*leaves, *constants))}
    rows = list[tuple[str, tuple[int, ...]]]()

    def add(name: str, of: tuple[int, ...], made: Expr) -> None:
        places[made] = len(leaves) + len(constants) + len(rows)
        rows.append((name, of))

    for o in leaves:
        if o.dtype == "i1":
            add("convert u32 i1", (places[o],), o)
    for step, row in zip(order, given, strict=True):
        add(_operation(step), tuple(places[o if c is None else c] for o, c in zip(
            step.operands, row, strict=True)), step)
    types = tuple("u32" if o.dtype == "i1" else o.dtype for o in leaves)
    return Gathered(leaves, Program(types, tuple(constants), tuple(rows)))


def _number(e: Expr) -> int:
    """Where single numbers of an argument lie: in order, XLA copies those that follow each other at once."""
    return e.index.constant if isinstance(e, Leaf) and not e.index.variables() else -1


def _constant(e: Expr) -> tuple[str, str] | None:
    """The type and the value of a constant, as :class:`Program` has them."""
    value = known(e)
    if value is None or e.dtype not in (*OPERANDS, "i1") or np.isnan(value):
        return None
    number = value.item()
    return e.dtype, number.hex() if isinstance(number, float) else str(int(number))
