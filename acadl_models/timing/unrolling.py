"""Loops taken apart where the unit that takes an instruction depends on them: space is unrolled, time stays a loop.

Along a loop, values at which everything below goes to the same units stay together: neighbours as a shorter loop, a
repeating pattern as a loop over its repetitions. Only what is left becomes instructions with fixed values.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.affine import Affine

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """A loop as ``repeat`` repetitions of ``pieces``: ranges of its first ``period`` iterations, alike in each."""

    repeat: int
    period: int
    pieces: tuple[range, ...]


SHORT = 128
"""Iterations that are told apart one by one: loops over cores are short, and many."""


def classes(extent: int, tables: Sequence[Array]) -> Array:
    """Number the iterations of a loop: equal numbers where all ``tables``, along their first axis, are equal."""
    code = np.zeros(extent, np.int64)
    if tables and extent <= SHORT:
        numbers: dict[tuple[bytes, ...], int] = {}
        for k in range(extent):
            code[k] = numbers.setdefault(tuple([table[k].tobytes() for table in tables]), len(numbers))
        return code
    for table in tables:
        _, own = np.unique(table.reshape(extent, -1), axis=0, return_inverse=True)
        _, code = np.unique(code * extent + own.reshape(-1), return_inverse=True)
    return code.reshape(-1)


def take_apart(code: Array) -> Parts:
    """The fewest pieces of a loop with iterations of one class each."""
    n = len(code)
    breaks = [0, *(np.flatnonzero(np.diff(code)) + 1).tolist(), n]
    period = _period(code, len(breaks) - 1)
    if period is not None:
        breaks = [b for b in breaks if b < period] + [period]
    pieces = tuple(range(a, b) for a, b in itertools.pairwise(breaks))
    return Parts(1, n, pieces) if period is None else Parts(n // period, period, pieces)


def _period(code: Array, runs: int) -> int | None:
    """The smallest period after which the classes repeat to the end, if it leaves fewer pieces than there are runs."""
    n = len(code)
    for period in range(1, n // 2 + 1):
        if n % period == 0 and (code[period:] == code[:-period]).all():
            pieces = 1 + int(np.count_nonzero(np.diff(code[:period])))
            return period if pieces < runs else None
    return None


class Names:
    """Unique names for the variables of a program, none of which means something else in the stream."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}

    def same(self, name: str) -> str:
        """``name`` for a loop that stays as it is, the first time; then a new name."""
        if name in self.used:
            return self.new(name)
        self.used.add(name)
        return name

    def new(self, name: str) -> str:
        """A name like ``name`` that the stream does not have: loop variables are identifiers with dots."""
        self.counts[name] = self.counts.get(name, 0) + 1
        return f"{name}'{self.counts[name]}"


class Substitution:
    """Variables of the stream by expressions over those of the program; expressions are remembered."""

    def __init__(self, values: Mapping[str, Affine]) -> None:
        self.values = dict(values)
        self.fixed = tuple(self.values.items())
        self._known: dict[Affine, Affine] = {}

    def __call__(self, expression: Affine) -> Affine:
        if not expression.terms or not self.fixed:
            return expression
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = expression.substitute(self.values)
        return found

    def extended(self, var: str, value: Affine) -> "Substitution":
        """With one more variable; one that stands for itself is none."""
        rest = {k: v for k, v in self.values.items() if k != var}
        return Substitution(rest if value == Affine.variable(var) else {**rest, var: value})


NOTHING = Substitution({})
