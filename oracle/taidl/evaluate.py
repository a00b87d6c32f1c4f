"""What TAIDL's integer expressions mean: over integers, and over affine expressions of loop variables.

``x >> n`` is the floor division by ``2**n`` and ``x & mask`` a sum of modulos, so both stay affine with ``//`` and
``%``. A comparison over affine expressions is True, False or, where the ranges of the variables leave it open, None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from oracle.affine import Affine, Bounds
from oracle.errors import TaidlError, suggest
from oracle.taidl import ast

Value: TypeAlias = int | Affine
Scope: TypeAlias = Mapping[str, Value]
"""Values by name; the elements of a register array go by ``name[i]``."""

NO_BOUNDS: Bounds = {}


class Undecided(Exception):
    """A ``min``, ``max`` or ``select`` depends on a condition that the ranges of the loop variables leave open.

    ``difference`` is the affine expression whose sign (or being zero) decides it.
    """

    def __init__(self, expr: ast.Expr, difference: Affine) -> None:
        self.expr = expr
        self.difference = difference
        super().__init__(f"{difference} is neither always positive nor always negative nor always zero")


def _floor_div(a: int, b: int) -> int:
    return a // b


INTEGER_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _floor_div,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
}
"""Integer operators; Python's integers are what TAIDL's are: unbounded, floor division, arithmetic shifts."""

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def is_boolean(expr: ast.Expr) -> bool:
    """Whether the expression is a condition and not an integer."""
    if isinstance(expr, ast.Unary):
        return expr.operator == "!"
    return isinstance(expr, ast.Binary) and (expr.operator in COMPARISONS or expr.operator in ("&&", "||"))


def register_key(name: str, index: int | None) -> str:
    """The name of a control register, or of an element of an array of them, in a scope."""
    return name if index is None else f"{name}[{index}]"


def evaluate(expr: ast.Expr, scope: Scope, bounds: Bounds = NO_BOUNDS) -> Value:
    """The value of an integer expression: an int where it is constant, else a simplified :class:`Affine`.

    Raises TaidlError (with the position) for what is not affine, a zero divisor or an unknown name, and
    :class:`Undecided` where a ``min``, ``max`` or ``select`` is open within ``bounds``.
    """
    value = _evaluate(expr, scope, bounds)
    return value.constant if isinstance(value, Affine) and value.is_constant else value


def constant(expr: ast.Expr, scope: Scope, bounds: Bounds = NO_BOUNDS) -> int:
    """The value of an expression that must not depend on loop variables (an extent, a stride, a count)."""
    value = evaluate(expr, scope, bounds)
    if isinstance(value, Affine):
        from oracle.taidl.printer import print_expr

        raise TaidlError(f"{print_expr(expr)} = {value} must not depend on a loop variable", expr.position)
    return value


def decide(expr: ast.Expr, scope: Scope, bounds: Bounds = NO_BOUNDS) -> bool | None:
    """Whether a condition holds for all values of the variables (True), for none (False), or neither (None)."""
    if isinstance(expr, ast.Unary) and expr.operator == "!":
        inner = decide(expr.operand, scope, bounds)
        return None if inner is None else not inner
    if isinstance(expr, ast.Binary) and expr.operator in ("&&", "||"):
        return _decide_junction(expr, scope, bounds)
    if isinstance(expr, ast.Binary) and expr.operator in COMPARISONS:
        left, right = (_evaluate(e, scope, bounds) for e in (expr.left, expr.right))
        if isinstance(left, int) and isinstance(right, int):
            return COMPARISONS[expr.operator](left, right)
        return compare(expr.operator, Affine.of(left) - right, bounds)
    raise TaidlError("expected a condition, found an integer", expr.position)


def compare(operator: str, difference: Affine, bounds: Bounds) -> bool | None:
    """``difference operator 0`` for all values of the variables, for none, or neither."""
    difference = difference.simplify(bounds)
    low, high = difference.range(bounds)
    if operator in ("==", "!="):
        if low == high == 0:
            equal: bool | None = True
        elif low > 0 or high < 0 or _never_zero(difference):
            equal = False
        else:
            equal = None
        return equal if operator == "==" or equal is None else not equal
    at_low, at_high = COMPARISONS[operator](low, 0), COMPARISONS[operator](high, 0)
    # the four orderings are monotone, so the ends of the range decide
    return at_low if at_low == at_high else None


def _never_zero(difference: Affine) -> bool:
    step = math.gcd(*(c for _, c in difference.terms))
    return step > 1 and difference.constant % step != 0


def _decide_junction(expr: ast.Binary, scope: Scope, bounds: Bounds) -> bool | None:
    absorbing = expr.operator == "||"
    left = decide(expr.left, scope, bounds)
    if left is absorbing:
        return absorbing
    right = decide(expr.right, scope, bounds)
    if right is absorbing:
        return absorbing
    return None if left is None or right is None else not absorbing


def _evaluate(expr: ast.Expr, scope: Scope, bounds: Bounds) -> Value:
    match expr:
        case ast.Number(value):
            if isinstance(value, float):
                raise TaidlError(f"expected an integer, found {value}", expr.position)
            return value
        case ast.Name(name):
            return _lookup(name, scope, expr)
        case ast.Element(name, index):
            return _lookup(register_key(name, constant(index, scope, bounds)), scope, expr)
        case ast.Unary("-", operand):
            return -_evaluate(operand, scope, bounds)
        case ast.Binary(operator, left, right) if operator in INTEGER_OPERATORS:
            return _binary(expr, _evaluate(left, scope, bounds), _evaluate(right, scope, bounds), bounds)
        case ast.Call():
            return _call(expr, scope, bounds)
    raise TaidlError("expected an integer, found a condition", expr.position)


def _lookup(name: str, scope: Scope, expr: ast.Expr) -> Value:
    try:
        return scope[name]
    except KeyError:
        raise TaidlError(f"unknown name {name!r}{suggest(name, list(scope))}", expr.position) from None


def _binary(expr: ast.Binary, left: Value, right: Value, bounds: Bounds) -> Value:
    if isinstance(left, int) and isinstance(right, int):
        return integer_binary(expr, left, right)
    if isinstance(right, Affine) and right.is_constant:
        right = right.constant
    operator = expr.operator
    if isinstance(right, Affine) and operator in ("*", "&", "|") and (isinstance(left, int) or left.is_constant):
        left, right = right, int(left)
    if operator == "+":
        return Affine.of(left) + right
    if operator == "-":
        return Affine.of(left) - right
    if isinstance(right, Affine):
        raise TaidlError(f"({left}) {operator} ({right}) is not affine: the right side varies", expr.position)
    _check_right(expr, right)
    return _by_constant(operator, Affine.of(left), right).simplify(bounds)


def _by_constant(operator: str, left: Affine, right: int) -> Affine:
    match operator:
        case "*":
            return left * right
        case "//":
            return left // right
        case "%":
            return left % right
        case "<<":
            return left * (1 << right)
        case ">>":
            return left // (1 << right)
        case "&":
            return _mask(left, right)
    # the bits of a sum without carries: x | c = x + c - (x & c)
    return left + right - _mask(left, right)


def _mask(value: Affine, mask: int) -> Affine:
    """``value & mask`` as a sum over the runs of ones of the mask: ``((value >> b) % 2**n) << b``."""
    result, bit = Affine(0), 0
    while mask >> bit:
        if (mask >> bit) & 1:
            width = 0
            while (mask >> (bit + width)) & 1:
                width += 1
            result = result + ((value // (1 << bit)) % (1 << width)) * (1 << bit)
            bit += width
        else:
            bit += 1
    return result


def integer_binary(expr: ast.Binary, left: int, right: int) -> int:
    """``left operator right`` over integers; TaidlError for a divisor that is not positive or a negative shift."""
    _check_right(expr, right)
    return INTEGER_OPERATORS[expr.operator](left, right)


def _check_right(expr: ast.Binary, right: int) -> None:
    if expr.operator in ("//", "%") and right <= 0:
        raise TaidlError(f"the right side of {expr.operator} must be positive, found {right}", expr.position)
    if expr.operator in ("<<", ">>", "&", "|") and right < 0:
        raise TaidlError(f"the right side of {expr.operator} must not be negative, found {right}", expr.position)


def _call(expr: ast.Call, scope: Scope, bounds: Bounds) -> Value:
    if expr.function == "select":
        return _select(expr, scope, bounds)
    values = [_evaluate(a, scope, bounds) for a in expr.arguments]
    if expr.function == "cdiv":
        left, right = values
        divisor = ast.Binary("//", expr.arguments[0], expr.arguments[1], position=expr.position)
        negated = _binary(divisor, -left, right, bounds)
        return -negated
    best = values[0]
    for value in values[1:]:
        best = _extreme(expr, best, value, bounds)
    return best


def _extreme(expr: ast.Call, a: Value, b: Value, bounds: Bounds) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if expr.function == "max" else min(a, b)
    difference = (Affine.of(a) - b).simplify(bounds)
    low, high = difference.range(bounds)
    if low >= 0:
        return a if expr.function == "max" else b
    if high <= 0:
        return b if expr.function == "max" else a
    raise Undecided(expr, difference)


def _select(expr: ast.Call, scope: Scope, bounds: Bounds) -> Value:
    condition, then, otherwise = expr.arguments
    holds = decide(condition, scope, bounds)
    if holds is not None:
        return _evaluate(then if holds else otherwise, scope, bounds)
    a, b = _evaluate(then, scope, bounds), _evaluate(otherwise, scope, bounds)
    if Affine.of(a) == Affine.of(b):
        return a
    raise Undecided(condition, open_difference(condition, scope, bounds) or Affine(0))


def open_difference(condition: ast.Expr, scope: Scope, bounds: Bounds) -> Affine | None:
    """The ``left - right`` of the first comparison in a condition that ``bounds`` leave open."""
    if isinstance(condition, ast.Unary) and condition.operator == "!":
        return open_difference(condition.operand, scope, bounds)
    if isinstance(condition, ast.Binary) and condition.operator in ("&&", "||"):
        first = open_difference(condition.left, scope, bounds)
        return first if first is not None else open_difference(condition.right, scope, bounds)
    if decide(condition, scope, bounds) is not None or not isinstance(condition, ast.Binary):
        return None
    left, right = (_evaluate(e, scope, bounds) for e in (condition.left, condition.right))
    return (Affine.of(left) - right).simplify(bounds)
