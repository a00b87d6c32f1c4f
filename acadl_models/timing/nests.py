"""Sums over all instances of a static instruction, exact and without walking them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

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
        self.parameters = {name: Affine(value) for name, value in program.parameters.items()}
        self.loops: dict[int, tuple[StaticLoop, ...]] = {}
        self._fixed: dict[tuple[str, tuple[int, ...]], int] = {}
        """Values of expressions, by their texts and what they name, where that is no loop's."""
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
        names = {**self.parameters, **dict(static.node.registers), **dict(static.node.attributes)}
        used = {name: names[name] for name in sorted(expression.names)}
        if any(e.terms for e in used.values()):
            return self._summed(static, expression, used)
        key = expression.text, tuple([e.constant for e in used.values()])
        each = self._fixed.get(key)
        if each is None:
            each = self._fixed[key] = int(_values(expression, used, {}))
        return each * self.count(static)

    def _summed(self, static: StaticInstruction, expression: Expression, used: Mapping[str, Affine]) -> int:
        """The same for one whose ``used`` names may depend on loops."""
        total = 0
        for values, times in self.spread(static, *used.values()):
            size = max((len(v) for v in values.values()), default=1)
            total += times * int(np.sum(np.broadcast_to(_values(expression, used, values), size)))
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


def _values(expression: Expression, used: Mapping[str, Affine], values: Mapping[str, Array]) -> Array:
    """An expression at values of loop variables; LatencyError for one below 0."""
    known = {name: np.asarray(e.evaluate(values), np.int64) for name, e in used.items()}
    found = np.asarray(expression.evaluate_columns(known))
    if np.any(found < 0):
        raise LatencyError(f"is {int(np.min(found))}")
    return found
