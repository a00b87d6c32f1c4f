"""Sums over all instances of a static instruction, exact and without walking them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl.latency import Expression, LatencyError
from archloom.acadl_models.timing.program import Program, StaticInstruction, StaticLoop, StaticNode
from archloom.oracle.affine import Affine

Array = NDArray[np.int64]

CHUNK = 1 << 20
"""Values that are held at a time."""


class Nests:
    """The loops around each static instruction of a program.

    Only those whose variables a value depends on are spread out, as NumPy arrays; the others multiply.
    """

    def __init__(self, program: Program) -> None:
        self.parameters = program.parameters
        self.loops: dict[int, tuple[StaticLoop, ...]] = {}
        self._walk(program.body, ())

    def _walk(self, body: tuple[StaticNode, ...], around: tuple[StaticLoop, ...]) -> None:
        for node in body:
            if isinstance(node, StaticInstruction):
                self.loops[node.index] = around
            else:
                self._walk(node.body, (*around, node))

    def count(self, static: StaticInstruction) -> int:
        """How many instances an instruction has."""
        return math.prod(len(loop.values) for loop in self.loops[static.index])

    def total(self, static: StaticInstruction, expression: Expression) -> int:
        """The sum of an expression over attributes, registers and parameters, over all instances.

        LatencyError for a value that does not exist or is below 0.
        """
        names: dict[str, Affine] = {k: Affine(v) for k, v in self.parameters.items()}
        names.update(static.node.registers)
        names.update(static.node.attributes)
        used = {name: names[name] for name in expression.names}
        total = 0
        for values, times in self.spread(static, *used.values()):
            known = {k: np.asarray(a.evaluate(values), np.int64) for k, a in used.items()}
            found = expression.evaluate_columns(known)
            if np.any(found < 0):
                raise LatencyError(f"is {int(np.min(found))}")
            size = max((len(v) for v in values.values()), default=1)
            total += times * int(np.sum(np.broadcast_to(found, size)))
        return total

    def spread(self, static: StaticInstruction, *expressions: Affine) -> Iterator[tuple[dict[str, Array], int]]:
        """The combinations of the loop variables that the expressions depend on, and how often each occurs."""
        variables = frozenset[str]().union(*(e.variables() for e in expressions))
        loops = self.loops[static.index]
        inner = [loop for loop in loops if loop.var in variables]
        times = math.prod(len(loop.values) for loop in loops if loop.var not in variables)
        size = math.prod(len(loop.values) for loop in inner)
        for first in range(0, size, CHUNK):
            rest = np.arange(first, min(first + CHUNK, size), dtype=np.int64)
            values: dict[str, Array] = {}
            for loop in reversed(inner):
                rest, iteration = np.divmod(rest, len(loop.values))
                values[loop.var] = loop.values.start + loop.values.step * iteration
            yield values, times
