"""Expressions over loop variables in the engine's tables, and the latencies that are made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from archloom.acadl_models.acadl.latency import LARGEST, Expression, LatencyError
from archloom.acadl_models.timing.engine.lowering.latencies import Names, compile_latency, lower_latency
from archloom.acadl_models.timing.engine.lowering.tables import Tables
from archloom.acadl_models.timing.machine import latency_fault
from archloom.acadl_models.timing.program import StaticLoop
from archloom.oracle.affine import Affine, Atom, Bounds, Div, Mod
from archloom.oracle.taidl import ast

Moves: TypeAlias = dict[str, tuple[int, int]]
"""For each variable ``(iterations, shift)``: ``expression(i + iterations) = expression(i) + shift`` for every ``i``, as
long as ``i + iterations`` is below the limit of the variable."""


@dataclass(frozen=True)
class LatencyOwner:
    """Whose latency a program of the tables is: for the message about a bad value."""

    where: str
    expression: Expression
    mnemonic: str
    least: int

    def fault(self, found: str) -> str:
        """The message."""
        return latency_fault(self.where, self.expression, self.mnemonic, found, self.least)


class BadLatencyError(Exception):
    """A latency that cannot be computed; the text is the message."""


class Expressions:
    """Places affine expressions; values are numbered, loop variables first, then divisions and modulos (atoms).

    Expressions are looked up by identity: comparing is slow, and a repetition costs a few words. ``limits``: of loops
    in which an expression takes another turn near the end (``(i + 1) % extent``), the iterations before that.
    """

    def __init__(self, tables: Tables, loops: Sequence[StaticLoop]) -> None:
        self.tables = tables
        self.values: dict[Atom, int] = {loop.var: k for k, loop in enumerate(loops)}
        self.loops = len(loops)
        self.atoms: list[tuple[int, int, int, frozenset[str]]] = []
        self.steps = {loop.var: loop.values.step for loop in loops}
        self.ranges = {loop.var: loop.values for loop in loops}
        self.limits: dict[str, int] = {}
        self._atom_moves: dict[Atom, Moves] = {}
        self._kept: list[Affine] = []
        self._by_id: dict[int, int] = {}
        self._moves: dict[int, tuple[tuple[str, int, int], ...]] = {}

    def place(self, e: Affine) -> int:
        """Position of an expression in the tables, with its atoms."""
        position = self._by_id.get(id(e))
        if position is None:
            flat = [e.constant, len(e.terms)]
            for atom, coefficient in e.terms:
                value = self.values.get(atom)
                flat += self._new_value(atom) if value is None else value, coefficient
            position = self._by_id[id(e)] = self.tables.put(flat)
            self._kept.append(e)
        return position

    def _new_value(self, atom: Atom) -> int:
        """Number of an atom that had none; atoms inside an atom come before it."""
        assert not isinstance(atom, str), atom
        numerator = self.place(atom.numerator)
        number = self.values[atom] = self.loops + len(self.atoms)
        self.atoms.append((int(not isinstance(atom, Div)), atom.divisor, numerator, atom.numerator.variables()))
        return number

    def moves(self, e: Affine) -> tuple[tuple[str, int, int], ...]:
        """For each variable of an expression: after so many iterations of its loop it has moved by so much."""
        if e.is_linear:
            steps = self.steps
            return tuple([(a, 1, c * steps[a]) for a, c in e.terms])  # type: ignore[index,misc]
        found = self._moves.get(id(e))
        if found is None:
            found = self._moves[id(e)] = tuple([(v, *move) for v, move in self._periods(e).items()])
            self._kept.append(e)
        return found

    def _periods(self, expression: Affine) -> Moves:
        """The smallest period along each loop whose variable the expression contains, whatever the others are."""
        found: Moves = {}
        for atom, coefficient in expression.terms:
            for variable, (iterations, shift) in self._periods_of(atom).items():
                before, moved = found.get(variable, (1, 0))
                both = math.lcm(before, iterations)
                found[variable] = both, moved * (both // before) + coefficient * shift * (both // iterations)
        return found

    def _periods_of(self, atom: Atom) -> Moves:
        if isinstance(atom, str):
            return {atom: (1, self.steps[atom])}
        known = self._atom_moves.get(atom)
        if known is None:
            known = self._atom_moves[atom] = {}
            whole = isinstance(atom, Div)
            for variable, (iterations, shift) in self._periods(atom.numerator).items():
                # m periods move the numerator by a multiple of the divisor
                m = atom.divisor // math.gcd(atom.divisor, shift)
                known[variable] = m * iterations, m * shift // atom.divisor if whole else 0
                if 2 * m * iterations >= len(self.ranges[variable]) and (limit := self._turns(atom, variable)):
                    known[variable] = 1, 0 if whole else shift
                    self.limits[variable] = min(limit, self.limits.get(variable, limit))
        return known

    def _turns(self, atom: Div | Mod, variable: str) -> int:
        """From which iteration on the quotient of an atom is another one, where that depends on one variable alone and
        comes in the second half of its loop; else 0."""
        (value, coefficient), *others = atom.numerator.terms
        if others or value != variable:
            return 0
        numbers = self.ranges[variable]
        first, shift = atom.numerator.constant + coefficient * numbers.start, coefficient * numbers.step
        rest = first % atom.divisor
        limit = -(-(atom.divisor - rest) // shift) if shift > 0 else rest // -shift + 1
        return limit if 2 * limit > len(numbers) else 0


class Latencies:
    """Places latencies: numbers where they do not vary, programs where they do or where their value is no legal one.

    ``arguments`` collects what the varying ones depend on: for each variable (iterations, whether it never repeats).
    """

    def __init__(self, expressions: Expressions, bounds: Bounds) -> None:
        self.expressions = expressions
        self.bounds = bounds
        self.owners: list[LatencyOwner] = []
        self.arguments: dict[str, tuple[int, bool]] = {}
        self._constants: dict[tuple[str, tuple[int, ...]], int] = {}

    def code(
        self, expression: Expression, names: Names, mnemonic: str, least: int, where: str, around: Sequence[str]
    ) -> int:
        """The value, or ``-1 - position`` of a program; ``around``: the variables of the loops around it."""
        value = self._constant(expression, names)
        if value is not None and least <= value <= LARGEST:
            return value
        owner = LatencyOwner(where, expression, mnemonic, least)
        lowered = lower_latency(expression, names, self.bounds)
        if not lowered.terms and least <= lowered.constant <= LARGEST:
            return lowered.constant
        try:
            program = compile_latency(lowered, lambda e: self.repeating(e, around))
        except LatencyError as error:
            raise BadLatencyError(owner.fault(str(error))) from None
        self.owners.append(owner)
        flat = [v for pair in program for v in pair]
        return -1 - self.expressions.tables.put([least, len(self.owners) - 1, len(program), *flat])

    def _constant(self, expression: Expression, names: Mapping[str, Affine]) -> int | None:
        """The value where nothing that the expression names varies and it has one."""
        if isinstance(expression.root, ast.Number):
            return int(expression.root.value)
        found = []
        for name in sorted(expression.names):
            value = names.get(name)
            if value is None or value.terms:
                return None
            found.append(value.constant)
        key = (expression.text, tuple(found))
        value_there = self._constants.get(key)
        if value_there is None:
            try:
                value_there = expression.evaluate(dict(zip(sorted(expression.names), found)))
            except LatencyError:
                return None
            self._constants[key] = value_there
        return value_there

    def repeating(self, e: Affine, around: Sequence[str]) -> int:
        """Position of an expression that must be the same again in each period, as a latency depends on it."""
        for variable, iterations, shift in self.expressions.moves(e):
            if variable in around:
                known, never = self.arguments.get(variable, (1, False))
                self.arguments[variable] = math.lcm(known, iterations), never or shift != 0
        return self.expressions.place(e)
