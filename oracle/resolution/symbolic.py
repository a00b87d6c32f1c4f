"""TAIDL's integer expressions over affine values: the arithmetic of :mod:`archloom.oracle.resolution.specialize`.

A value is an :class:`~archloom.oracle.affine.Affine` over variables whose ranges are known; truth values are the
constants 0 and 1. What the ranges decide is decided; what they do not raises :class:`Undecided`, which carries the
affine quantity in question, so that the caller can split a loop where the answer changes. :func:`evaluate_grid` is the
same arithmetic over NumPy arrays, for exact checks. Over plain integers it is :mod:`archloom.oracle.taidl.evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import (
    COMPARISONS,
    INTEGER_OPERATORS,
    MAX_BITS,
    Evaluation,
    known,
    register_key,
    whole,
)

Names: TypeAlias = Mapping[str, Affine]
"""Values by name; the elements of a register array go by ``name[i]``."""

FALSE, TRUE = Affine(0), Affine(1)
ANY = (-(1 << 62), 1 << 62)
"""The range of a value about which nothing is known."""

_MIRRORED = {">": "<", ">=": "<="}


class Ranges(dict[str, tuple[int, int]]):
    """Bounds in which every name that is missing may have any value."""

    def __missing__(self, name: str) -> tuple[int, int]:
        return ANY


@dataclass(eq=False)
class Undecided(Exception):
    """The ranges do not decide ``quantity operator 0``; with operator ``"int"``, the value of ``quantity``."""

    operator: str
    quantity: Affine

    def __str__(self) -> str:
        return f"the value of {self.quantity}" if self.operator == "int" else f"{self.quantity} {self.operator} 0"


def integer(value: Affine) -> int:
    """``value`` as an int; Undecided where it depends on a variable."""
    if value.terms:
        raise Undecided("int", value)
    return value.constant


def compare(operator: str, left: Affine, right: Affine, bounds: Bounds) -> bool:
    """``left operator right``; Undecided where it is neither always nor never so."""
    if operator in _MIRRORED:
        operator, left, right = _MIRRORED[operator], right, left
    if not right.terms:
        if not left.terms:
            return COMPARISONS[operator](left.constant, right.constant)
        d = left + -right.constant
    else:
        d = left - right
    verdict = decide(operator, d, bounds)
    if verdict is None and not d.is_linear:
        d = d.simplify(bounds)
        verdict = decide(operator, d, bounds)
    if verdict is None:
        raise Undecided(operator, d)
    return verdict


def decide(operator: str, d: Affine, bounds: Bounds) -> bool | None:
    """Whether ``d operator 0``: True (always), False (never) or None (not decided by the ranges)."""
    low, high = d.range(bounds)
    if operator == "<":
        return True if high < 0 else False if low >= 0 else None
    if operator == "<=":
        return True if high <= 0 else False if low > 0 else None
    equal: bool | None = None
    if low == high == 0:
        equal = True
    elif low > 0 or high < 0 or (d.terms and d.constant % math.gcd(*(c for _, c in d.terms))):
        equal = False
    return equal if equal is None or operator == "==" else not equal


class Evaluator(Evaluation[Affine]):
    """Evaluates expressions over ``names`` whose variables lie in ``bounds``.

    Raises :class:`Undecided` where ranges leave a comparison open, or where a factor, shift or index depends on a
    variable, and TaidlError for an unknown name, a divisor that is not positive and a shift out of 0..64.
    """

    def __init__(self, names: Names, bounds: Bounds) -> None:
        self.names = names
        self.bounds = bounds

    def truth(self, e: ast.Expr) -> bool:
        v = self.value(e)
        return compare("!=", v, FALSE, self.bounds) if v.terms else v.constant != 0

    def number(self, e: ast.Number) -> Affine:
        return Affine.number(whole(e))

    def name(self, e: ast.Name) -> Affine:
        return known(e.name, self.names, e)

    def element(self, e: ast.Element) -> Affine:
        return known(register_key(e.name, integer(self.value(e.index))), self.names, e)

    def inverted(self, e: ast.Expr) -> Affine:
        return FALSE if self.truth(e) else TRUE

    def operation(self, e: ast.Binary, left: Affine, right: Affine) -> Affine:
        if e.operator in COMPARISONS:
            return TRUE if compare(e.operator, left, right, self.bounds) else FALSE
        return self._arithmetic(e.operator, left, right, e)

    def logic(self, e: ast.Binary) -> Affine:
        """Either side alone may decide: where the left is open, the right is asked."""
        deciding = e.operator == "||"
        try:
            if self.truth(e.left) == deciding:
                return TRUE if deciding else FALSE
        except Undecided as left:
            try:
                if self.truth(e.right) == deciding:
                    return TRUE if deciding else FALSE
            except Undecided:
                pass
            raise left from None
        return TRUE if self.truth(e.right) else FALSE

    def _arithmetic(self, operator: str, left: Affine, right: Affine, e: ast.Expr) -> Affine:
        if operator == "*":
            if left.terms and right.terms:
                raise Undecided("int", right)
        elif operator in ("//", "%", "<<", ">>"):
            amount = integer(right)
            if operator in ("//", "%") and amount <= 0:
                raise TaidlError(f"the right side of {operator} must be positive, found {amount}", e.position)
            if operator in ("<<", ">>") and not 0 <= amount <= 64:
                raise TaidlError(f"the right side of {operator} must be in 0..64, found {amount}", e.position)
        result = _ARITHMETIC[operator](left, right)
        if result.constant.bit_length() > MAX_BITS:
            raise TaidlError(f"the value of {operator} has more than {MAX_BITS} bits", e.position)
        return result if result.is_linear else result.simplify(self.bounds)

    def function(self, e: ast.Call, values: list[Affine]) -> Affine:
        if e.function == "cdiv":
            return -self._arithmetic("//", -values[0], values[1], e)
        best = values[0]
        for v in values[1:]:
            smaller = compare("<=", best, v, self.bounds)
            best = best if smaller == (e.function == "min") else v
        return best

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> Affine:
        try:
            return self.value(then if self.truth(condition) else otherwise)
        except Undecided:
            left, right = self.value(then), self.value(otherwise)
            if left == right:
                return left
            raise


def _and(left: Affine, right: Affine) -> Affine:
    """``left & right``, one of them constant, as a sum over the runs of ones of the mask."""
    if left.is_constant:
        left, right = right, left
    mask = integer(right)
    if left.is_constant:
        return Affine(left.constant & mask)
    if mask < 0:
        # all bits but the few that are missing
        return left - _and(left, Affine(~mask))
    result = FALSE
    while mask:
        # x & (ones from bit low to bit low+width-1) = (x // 2**low % 2**width) * 2**low
        low = (mask & -mask).bit_length() - 1
        ones = (mask >> low) + 1
        width = (ones & -ones).bit_length() - 1
        result = result + left // (1 << low) % (1 << width) * (1 << low)
        mask &= ~((1 << low + width) - 1)
    return result


_ARITHMETIC: dict[str, Callable[[Affine, Affine], Affine]] = {
    **{sign: INTEGER_OPERATORS[sign] for sign in ("+", "-", "*", "//", "%")},
    "<<": lambda a, b: a * (1 << b.constant), ">>": lambda a, b: a // (1 << b.constant),
    # of two numbers, the bits of a sum without carries
    "&": _and, "|": lambda a, b: a + b - _and(a, b),
}


# --- over arrays --------------------------------------------------------------------------------------------------

GRID: dict[str, Callable[[Any, Any], Any]] = {
    **INTEGER_OPERATORS, **COMPARISONS, "&&": np.logical_and, "||": np.logical_or, "min": np.minimum, "max": np.maximum,
    "cdiv": lambda a, b: -(-a // b),
}


class _Grid(Evaluation[Any]):
    """Evaluates expressions over int64 arrays that broadcast together."""

    def __init__(self, names: Callable[[str], Any]) -> None:
        self.names = names

    def number(self, e: ast.Number) -> Any:
        return np.int64(e.value)

    def name(self, e: ast.Name) -> Any:
        return self.names(e.name)

    def element(self, e: ast.Element) -> Any:
        at = self.value(e.index)
        chosen = np.unique(at)
        return np.select([at == i for i in chosen], [self.names(register_key(e.name, int(i))) for i in chosen])

    def negative(self, value: Any) -> Any:
        return -_number(value)

    def inverted(self, e: ast.Expr) -> Any:
        return np.logical_not(self.value(e))

    def operation(self, e: ast.Binary, left: Any, right: Any) -> Any:
        return GRID[e.operator](_number(left), _number(right))

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> Any:
        chosen, yes, no = (_number(self.value(e)) for e in (condition, then, otherwise))
        return np.where(chosen != 0, yes, no)

    def function(self, e: ast.Call, values: list[Any]) -> Any:
        return reduce(GRID[e.function], map(_number, values))


WHOLE = 1 << 62
"""What is evaluated over int64 arrays stays below."""


def evaluate_grid(e: ast.Expr, names: Callable[[str], Any]) -> Any:
    """``e`` over int64 arrays that broadcast together; ``names`` gives the array or int of each name."""
    return _Grid(names).value(e)


def _number(x: Any) -> Any:
    """Truth values as 0 and 1."""
    return np.asarray(x).astype(np.int64) if np.asarray(x).dtype == bool else x


def grid(values: Mapping[str, range]) -> dict[str, NDArray[np.int64]]:
    """The values of each variable along an axis of its own, in the order given; they broadcast together."""
    axes: dict[str, NDArray[np.int64]] = {}
    for axis, (name, of) in enumerate(values.items()):
        line = np.arange(of.start, of.stop, of.step, dtype=np.int64)
        axes[name] = line.reshape([-1 if k == axis else 1 for k in range(len(values))])
    return axes


def reach(value: Affine, bounds: Bounds) -> int:
    """No number that comes up while ``value`` is evaluated is greater, signs aside."""
    most = abs(value.constant)
    for atom, coefficient in value.terms:
        inner = max(map(abs, bounds[atom])) if isinstance(atom, str) else reach(atom.numerator, bounds)
        most += abs(coefficient) * inner
    return most


def whole_grid(variables: tuple[str, ...], bounds: Bounds) -> dict[str, NDArray[np.int64]]:
    """The grid of all values that the variables may have."""
    return grid({v: range(bounds[v][0], bounds[v][1] + 1) for v in variables})


def grid_size(variables: tuple[str, ...], bounds: Bounds) -> int:
    return math.prod(bounds[v][1] - bounds[v][0] + 1 for v in variables)
