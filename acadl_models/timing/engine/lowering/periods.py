"""After how many iterations of a loop an expression has moved by a constant, whatever the other variables are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from archloom.oracle.affine import Affine, Atom, Div

Moves: TypeAlias = dict[str, tuple[int, int]]
"""For each variable ``(iterations, shift)``: ``expression(i + iterations) = expression(i) + shift`` for every ``i``."""


class Periods:
    """Periods of expressions along each loop; ``steps`` gives the step of each loop's variable."""

    def __init__(self, steps: Mapping[str, int]) -> None:
        self.steps = steps
        self._atoms: dict[Atom, Moves] = {}

    def moves(self, expression: Affine) -> Moves:
        """The smallest period along each loop whose variable the expression contains."""
        if len(expression.terms) == 1:
            atom, coefficient = expression.terms[0]
            return {v: (n, coefficient * shift) for v, (n, shift) in self._atom(atom).items()}
        found: Moves = {}
        for atom, coefficient in expression.terms:
            for variable, (iterations, shift) in self._atom(atom).items():
                if variable not in found:
                    found[variable] = iterations, coefficient * shift
                    continue
                before, moved = found[variable]
                both = math.lcm(before, iterations)
                total = moved * (both // before) + coefficient * shift * (both // iterations)
                found[variable] = both, total
        return found

    def _atom(self, atom: Atom) -> Moves:
        if isinstance(atom, str):
            return {atom: (1, self.steps[atom])}
        known = self._atoms.get(atom)
        if known is None:
            known = self._atoms[atom] = {}
            whole = isinstance(atom, Div)
            for variable, (iterations, shift) in self.moves(atom.numerator).items():
                # m periods move the numerator by a multiple of the divisor
                m = atom.divisor // math.gcd(atom.divisor, shift)
                known[variable] = m * iterations, m * shift // atom.divisor if whole else 0
        return known
