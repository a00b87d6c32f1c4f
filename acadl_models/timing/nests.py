"""Sums over all instances of a static instruction, exact and without walking them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl.latency import Expression, LatencyError
from archloom.acadl_models.timing.program import Program, StaticInstruction, StaticLoop, StaticNode
from archloom.oracle.affine import Affine, Atom, Mod

Array = NDArray[np.int64]

CHUNK = 1 << 20
"""Combinations that are held at a time."""

Values: TypeAlias = tuple[Array, Array]
"""Combinations of values, each once, int64 [expressions, combinations], and how often each occurs."""


class Nests:
    """The loops around each static instruction of a program.

    Only those whose variables a value depends on are looked at; the others multiply.
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
            each = self._fixed[key] = int(_values(expression, {n: np.array(e.constant) for n, e in used.items()}, ()))
        return each * self.count(static)

    def _summed(self, static: StaticInstruction, expression: Expression, used: Mapping[str, Affine]) -> int:
        """The same for one whose ``used`` names may depend on loops."""
        found, counts = self.values(static, *used.values())
        known = dict(zip(used, found, strict=True))
        each = _values(expression, known, found.shape[1:])
        return int(each.astype(object) @ counts.astype(object))  # may be beyond 63 bits

    def values(self, static: StaticInstruction, *expressions: Affine) -> Values:
        """The values that the expressions take together, over all instances.

        Variables that no term has in common are looked at apart, and combined: ``8i + j`` over 1,000 × 1,000
        iterations takes two rows of 1,000, not a million. Of a variable that is in nothing but remainders only its own
        remainder matters.
        """
        loops = {loop.var: loop for loop in self.loops[static.index]}
        if not self.count(static):
            return np.zeros((len(expressions), 0), np.int64), np.zeros(0, np.int64)
        found = np.array([[e.constant] for e in expressions], np.int64).reshape(-1, 1), np.ones(1, np.int64)
        for variables in _apart(expressions):
            part = [Affine(0, tuple([t for t in e.terms if _names(t[0]) & variables])) for e in expressions]
            own = _joint(part, {var: _iterations(loops.pop(var), expressions) for var in sorted(variables)})
            found = _sums(found, own)
        return found[0], found[1] * math.prod(len(loop.values) for loop in loops.values())


def _values(expression: Expression, known: Mapping[str, Array], shape: Sequence[int]) -> Array:
    """An expression where names have ``known`` values, int64 of a shape; LatencyError for one below 0."""
    found = np.asarray(expression.evaluate_columns(known))
    if np.any(found < 0):
        raise LatencyError(f"is {int(np.min(found))}")
    return np.broadcast_to(found, shape)


def _names(atom: Atom) -> frozenset[str]:
    return frozenset((atom,)) if isinstance(atom, str) else atom.numerator.variables()


def _apart(expressions: Iterable[Affine]) -> list[frozenset[str]]:
    """The variables of expressions, in sets of which no term has variables of two."""
    found: list[frozenset[str]] = []
    for atom in (atom for e in expressions for atom, _ in e.terms):
        together = _names(atom)
        met = [each for each in found if each & together]
        found = [each for each in found if each not in met] + [together.union(*met)]
    return found


def _iterations(loop: StaticLoop, expressions: Iterable[Affine]) -> Values:
    """The values of a loop's variable, and how many of its iterations stand for each: one, but for a variable in
    nothing but remainders of linear sums."""
    values = loop.values
    atoms = [atom for e in expressions for atom, _ in e.terms if loop.var in _names(atom)]
    count = len(values)
    if all(isinstance(atom, Mod) and atom.numerator.is_linear for atom in atoms):
        modulus = math.lcm(*[atom.divisor for atom in atoms if isinstance(atom, Mod)])
        count = min(count, modulus // math.gcd(modulus, values.step))
    each, more = divmod(len(values), count)
    number = np.arange(count, dtype=np.int64)
    return values.start + values.step * number, each + (number < more)


def _joint(expressions: Sequence[Affine], iterations: Mapping[str, Values]) -> Values:
    """The values of expressions over all combinations of their variables' values."""
    sizes = [len(counts) for _, counts in iterations.values()]
    found: list[Values] = []
    for first in range(0, math.prod(sizes), CHUNK):
        places = np.unravel_index(np.arange(first, min(first + CHUNK, math.prod(sizes))), sizes)
        at = {var: values[place] for (var, (values, _)), place in zip(iterations.items(), places, strict=True)}
        counts = np.ones(len(places[0]), np.int64)
        for (_, times), place in zip(iterations.values(), places, strict=True):
            counts = counts * times[place]
        rows = [np.broadcast_to(np.asarray(e.evaluate(at), np.int64), counts.shape) for e in expressions]
        found.append(_distinct(np.stack(rows), counts))
    return _joined(found)


def _sums(one: Values, other: Values) -> Values:
    """The sums of all pairs."""
    step = max(1, CHUNK // len(other[1]))
    found = []
    for first in range(0, len(one[1]), step):
        values, counts = one[0][:, first : first + step], one[1][first : first + step]
        pairs = (values[:, :, None] + other[0][:, None, :]).reshape(len(values), -1)
        found.append(_distinct(pairs, np.multiply.outer(counts, other[1]).reshape(-1)))
    return _joined(found)


def _joined(found: Sequence[Values]) -> Values:
    if len(found) == 1:
        return found[0]
    return _distinct(np.concatenate([values for values, _ in found], axis=1), np.concatenate([c for _, c in found]))


def _distinct(values: Array, counts: Array) -> Values:
    """Each combination once."""
    each, number = np.unique(values, axis=1, return_inverse=True) if len(values) else (values[:, :1], 0)
    total = np.zeros(each.shape[1], np.int64)
    np.add.at(total, np.reshape(number, -1) if len(values) else 0, counts)
    return each, total
