"""Latencies: integers, or expressions over an instruction's attributes, registers and the ISA's parameters.

The language (section 3 of the ACADL paper leaves it open) is that of TAIDL's integer expressions
(:mod:`archloom.oracle.taidl.expressions`) without the operators on bits: integers, names (``rows``, ``ld_stride[1]``),
``+ - * // %`` with a divisor above 0, comparisons (1 or 0), ``&& || !``, ``select(c, a, b)``, of which only the branch
that is chosen is evaluated, ``min``, ``max`` and ``cdiv(a, b)`` (division rounded up). ``let n = rows * cols;`` before
it names a part, which stands wherever the name does. A text is parsed once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeAlias, Union

import numpy as np

from archloom.oracle.errors import Position, TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import COMPARISONS, INTEGER_OPERATORS, Evaluation, names, operands, register_key
from archloom.oracle.taidl.expressions import parse_expression
from archloom.oracle.taidl.inline import rename

Latency: TypeAlias = Union[int, str]

LARGEST = 1 << 40
"""The largest number in a latency: 18 minutes at 1 GHz, beyond what any instruction takes. Sums of many of them fit
into the 64 bits of the timing engine."""

MOST_NAMES = 1000
"""How many names a latency may have with its ``let`` parts in place."""

BAD_DIVISOR = "divides by a number that is not positive"
FALSE, TRUE = ast.Number(0), ast.Number(1)

_LET = re.compile(r"\s*let\s+([A-Za-z_]\w*)\s*=([^=;][^;]*);")
_PYTHON = re.compile(r"\b(if|else|and|or|not)\b")


class LatencyError(ValueError):
    """A latency text that does not parse, or a value that does not exist; callers name the object."""


@dataclass(frozen=True)
class Expression:
    """A parsed latency: its text, its tree and the names that it needs."""

    text: str
    root: ast.Expr
    names: frozenset[str]

    @property
    def is_constant(self) -> bool:
        return not self.names

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value; KeyError for a missing name, LatencyError for a divisor that is not positive."""
        return int(ArrayValues(values).value(self.root))

    def evaluate_columns(self, values: Mapping[str, "int | np.ndarray"]) -> "int | np.ndarray":
        """As :meth:`evaluate`, for each entry of arrays that broadcast together."""
        found: int | np.ndarray = ArrayValues({n: v for n, v in values.items() if n in self.names}).value(self.root)
        return found

    def __str__(self) -> str:
        return self.text


def parse(latency: Latency) -> Expression:
    """Parse an integer or a text; raises LatencyError with the column of the fault."""
    if isinstance(latency, bool) or not isinstance(latency, (int, str)):
        raise LatencyError(f"a latency is an integer or an expression in a string, not {latency!r}")
    return _parse(str(latency))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Expression:
    try:
        root = _root(text)
        _check(root)
    except TaidlError as error:
        assert error.position is not None
        hint = ""
        if _PYTHON.search(text):
            hint = "; write select(c, a, b) for 'a if c else b', and && || ! for 'and', 'or', 'not'"
        raise LatencyError(f"bad latency {text!r}, column {error.position.column}: {error.message}{hint}") from None
    return Expression(text, root, frozenset(map(key_of, names(root))))


def _root(text: str) -> ast.Expr:
    """The expression of a text, with what it names by ``let`` in place."""
    known: dict[str, ast.Expr] = {}
    sizes: dict[str, int] = {}
    start = 0
    while found := _LET.match(text, start):
        part = _part(text, found.start(2), found.end(2), sizes)
        known[found[1]], sizes[found[1]] = rename(part, known), _size(part, sizes)
        start = found.end()
    return rename(_part(text, start, len(text), sizes), known)


def _part(text: str, start: int, end: int, sizes: Mapping[str, int]) -> ast.Expr:
    """The expression between two places of a text, at its columns; TaidlError where it is too long written out."""
    part = parse_expression(" " * start + text[start:end])
    if _size(part, sizes) > MOST_NAMES:
        raise TaidlError(f"it has more than {MOST_NAMES} names, written out", Position("", 1, start + 1))
    return part


def _size(part: ast.Expr, sizes: Mapping[str, int]) -> int:
    """Names of an expression, with what they stand for."""
    return sum(sizes.get(n.name, 1) for n in names(part))


def _check(e: ast.Expr) -> None:
    """TaidlError for what TAIDL's expressions have and latencies do not."""
    if isinstance(e, ast.Number) and (isinstance(e.value, float) or e.value > LARGEST):
        raise TaidlError(f"expected an integer of at most {LARGEST}, found {e.value}", e.position)
    if isinstance(e, ast.Binary) and e.operator in ("&", "|", "<<", ">>"):
        raise TaidlError(f"a latency has no {e.operator}", e.position)
    if isinstance(e, ast.Element) and not isinstance(e.index, ast.Number):
        raise TaidlError("the number of a register in a latency must be an integer", e.index.position)
    for part in operands(e):
        _check(part)


def key_of(e: ast.Name | ast.Element) -> str:
    """The name of what an expression names: ``rows``, ``ld_stride[1]``."""
    return register_key(e.name, e.index.value) if isinstance(e, ast.Element) else e.name  # type: ignore[union-attr,arg-type]


class ArrayValues(Evaluation[Any]):
    """Over integers and arrays of them; of a choice each entry takes its own branch, the other may have no value."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def number(self, e: ast.Number) -> Any:
        return e.value

    def name(self, e: ast.Name | ast.Element) -> Any:
        return self.values[key_of(e)]

    element = name

    def inverted(self, e: ast.Expr) -> Any:
        return (self.value(e) == 0) * 1

    def logic(self, e: ast.Binary) -> Any:
        both = e.operator == "&&"
        return (self.select(e.left, e.right if both else TRUE, FALSE if both else e.right) != 0) * 1

    def operation(self, e: ast.Binary, left: Any, right: Any) -> Any:
        if e.operator in COMPARISONS:
            return COMPARISONS[e.operator](left, right) * 1
        if e.operator in ("//", "%"):
            _check_divisor(right)
        return INTEGER_OPERATORS[e.operator](left, right)

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> Any:
        chosen = self.value(condition)
        if isinstance(chosen, int):
            return self.value(then if chosen else otherwise)
        chosen = np.asarray(chosen) != 0
        if chosen.all() or not chosen.any():
            return self.value(then if chosen.all() else otherwise)
        shape = np.broadcast_shapes(chosen.shape, *(np.shape(v) for v in self.values.values()))
        chosen = np.broadcast_to(chosen, shape)
        found = [
            ArrayValues({n: np.broadcast_to(v, shape)[where] for n, v in self.values.items()}).value(branch)
            for where, branch in ((chosen, then), (~chosen, otherwise))
        ]
        made = np.empty(shape, np.result_type(*found))
        made[chosen], made[~chosen] = found
        return made

    def function(self, e: ast.Call, values: list[Any]) -> Any:
        if e.function == "cdiv":
            _check_divisor(values[1])
            return -(-values[0] // values[1])
        if all(isinstance(v, int) for v in values):
            return min(values) if e.function == "min" else max(values)
        return reduce(np.minimum if e.function == "min" else np.maximum, values)


def _check_divisor(divisor: Any) -> None:
    if divisor <= 0 if isinstance(divisor, int) else np.any(divisor <= 0):
        raise LatencyError(BAD_DIVISOR)
