"""After how many iterations of a loop an expression has moved by a constant, whatever the other variables are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from oracle.affine import Affine, Atom, Div


@dataclass(frozen=True)
class Period:
    """``expression(i + iterations) = expression(i) + shift`` for every ``i``."""

    iterations: int
    shift: int


STILL = Period(1, 0)


class Periods:
    """Periods of expressions along each loop; ``steps`` gives the step of each loop's variable."""

    def __init__(self, steps: Mapping[str, int]) -> None:
        self.steps = steps
        self._atoms: dict[tuple[Atom, str], Period] = {}
        self._expressions: dict[tuple[Affine, str], Period] = {}

    def of(self, expression: Affine, variable: str) -> Period:
        """The period of ``expression`` along the loop over ``variable``."""
        key = (expression, variable)
        if key not in self._expressions:
            self._expressions[key] = self._of(expression, variable)
        return self._expressions[key]

    def _of(self, expression: Affine, variable: str) -> Period:
        parts = [(self._atom(atom, variable), c) for atom, c in expression.terms]
        if len(parts) == 1:
            return Period(parts[0][0].iterations, parts[0][0].shift * parts[0][1])
        iterations = math.lcm(*(p.iterations for p, _ in parts))
        return Period(iterations, sum(c * p.shift * (iterations // p.iterations) for p, c in parts))

    def _atom(self, atom: Atom, variable: str) -> Period:
        if isinstance(atom, str):
            return Period(1, self.steps[variable]) if atom == variable else STILL
        key = (atom, variable)
        if key not in self._atoms:
            inner = self.of(atom.numerator, variable)
            # m periods move the numerator by a multiple of the divisor
            m = atom.divisor // math.gcd(atom.divisor, inner.shift)
            shift = m * inner.shift // atom.divisor if isinstance(atom, Div) else 0
            self._atoms[key] = Period(m * inner.iterations, shift)
        return self._atoms[key]
