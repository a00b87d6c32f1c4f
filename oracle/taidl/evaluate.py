"""What TAIDL's integer expressions mean over integers: evaluated directly, or compiled to closures over a frame.

Integers are unbounded, ``/`` and ``//`` are the floor division, ``%`` its remainder, ``>>`` the arithmetic shift, and
``&`` and ``|`` work on two's complement, as in Python. :mod:`archloom.oracle.symbolic` is the same over affine values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.taidl import ast

Scope: TypeAlias = Mapping[str, int]
"""Values by name; the elements of a register array go by ``name[i]``."""

Frame: TypeAlias = list[int]
"""Values of registers, attributes and locals by slot."""

Compiled: TypeAlias = Callable[[Frame], int]

INTEGER_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}
MAX_BITS = 4096
"""How large an integer may become: addresses and sizes need some 64 bits, and what grows without bound is a mistake."""

MAX_REPEATED = 1_000_000
"""How many statements an instruction may have with its REPEATs unrolled."""

_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}


def register_key(name: str, index: int | None) -> str:
    """The name of a control register, or of an element of an array of them, in a scope."""
    return name if index is None else f"{name}[{index}]"


def names(expr: ast.Expr) -> Iterator[ast.Name | ast.Element]:
    """The names and register elements in an expression, from left to right."""
    match expr:
        case ast.Name():
            yield expr
        case ast.Element(_, index):
            yield expr
            yield from names(index)
        case ast.Unary(_, operand):
            yield from names(operand)
        case ast.Binary(_, left, right):
            yield from names(left)
            yield from names(right)
        case ast.Call(_, arguments):
            for argument in arguments:
                yield from names(argument)


def evaluate(expr: ast.Expr, scope: Scope) -> int:
    """The value of an integer expression or a condition (True or False).

    Raises TaidlError, with the position, for an unknown name, a divisor that is not positive and a negative shift.
    """
    match expr:
        case ast.Number(value):
            return _whole(value, expr)
        case ast.Name(name):
            return _lookup(name, scope, expr)
        case ast.Element(name, index):
            return _lookup(register_key(name, evaluate(index, scope)), scope, expr)
        case ast.Unary(symbol, operand):
            value = evaluate(operand, scope)
            return not value if symbol == "!" else -value
        case ast.Binary("&&", left, right):
            return bool(evaluate(left, scope) and evaluate(right, scope))
        case ast.Binary("||", left, right):
            return bool(evaluate(left, scope) or evaluate(right, scope))
        case ast.Binary():
            return binary(expr, evaluate(expr.left, scope), evaluate(expr.right, scope))
        case ast.Call("select", (condition, then, otherwise)):
            return evaluate(then if evaluate(condition, scope) else otherwise, scope)
        case ast.Call():
            return _call(expr, [evaluate(a, scope) for a in expr.arguments])


def binary(expr: ast.Binary, left: int, right: int) -> int:
    """``left operator right`` for any operator but ``&&`` and ``||``; TaidlError where it has no value."""
    symbol = expr.operator
    if symbol in COMPARISONS:
        return COMPARISONS[symbol](left, right)
    if symbol in ("//", "%") and right <= 0:
        raise TaidlError(f"the right side of {symbol} must be positive, found {right}", expr.position)
    if symbol in ("<<", ">>") and right < 0:
        raise TaidlError(f"the right side of {symbol} must not be negative, found {right}", expr.position)
    if symbol == "<<" and right > MAX_BITS:
        raise TaidlError(f"a shift by {right} gives a number of more than {MAX_BITS} bits", expr.position)
    value = INTEGER_OPERATORS[symbol](left, right)
    if value.bit_length() > MAX_BITS:
        raise TaidlError(f"the value of {symbol} has {value.bit_length()} bits, more than {MAX_BITS}", expr.position)
    return value


def _call(expr: ast.Call, values: list[int]) -> int:
    if expr.function == "cdiv":
        if values[1] <= 0:
            raise TaidlError(f"the second argument of cdiv must be positive, found {values[1]}", expr.position)
        return -(-values[0] // values[1])
    return _FUNCTIONS[expr.function](values)


def _whole(value: int | float, expr: ast.Expr) -> int:
    if isinstance(value, float):
        raise TaidlError(f"expected an integer, found {value}", expr.position)
    return value


def _lookup(name: str, scope: Scope, expr: ast.Expr) -> int:
    try:
        return scope[name]
    except KeyError:
        raise TaidlError(f"unknown name {name!r}{suggest(name, list(scope))}", expr.position) from None


# --- closures -----------------------------------------------------------------------------------------------------


class Compiler:
    """Compiles expressions to closures over a frame; ``known`` names become constants, others have a slot."""

    def __init__(self, known: Scope, slots: Mapping[str, int]) -> None:
        self.known = known
        self.slots = slots

    def fold(self, expr: ast.Expr) -> int | None:
        """The value where it depends on known names alone."""
        return evaluate(expr, self.known) if all(self._is_known(n) for n in names(expr)) else None

    def _is_known(self, node: ast.Name | ast.Element) -> bool:
        return isinstance(node, ast.Name) and node.name in self.known

    def compile(self, expr: ast.Expr) -> Compiled:
        """The closure that gives the expression's value; the same errors as :func:`evaluate` when called."""
        value = self.fold(expr)
        if value is not None:
            return _constant(value)
        match expr:
            case ast.Name(name):
                return operator.itemgetter(_slot(name, self.slots, expr))
            case ast.Element(name, index):
                return self._element(name, index, expr)
            case ast.Unary("!", operand):
                inner = self.compile(operand)
                return lambda v: not inner(v)
            case ast.Unary(_, operand):
                inner = self.compile(operand)
                return lambda v: -inner(v)
            case ast.Binary():
                return self._binary(expr)
            case ast.Call("select", (condition, then, otherwise)):
                c, t, o = self.compile(condition), self.compile(then), self.compile(otherwise)
                return lambda v: t(v) if c(v) else o(v)
            case ast.Call():
                return self._call(expr)
        raise AssertionError(expr)

    def _element(self, name: str, index: ast.Expr, expr: ast.Expr) -> Compiled:
        fixed = self.fold(index)
        if fixed is not None:
            return operator.itemgetter(_slot(register_key(name, fixed), self.slots, expr))
        inner, slots = self.compile(index), self.slots
        return lambda v: v[_slot(register_key(name, inner(v)), slots, expr)]

    def _binary(self, expr: ast.Binary) -> Compiled:
        left, right, symbol = self.compile(expr.left), self.compile(expr.right), expr.operator
        if symbol == "&&":
            return lambda v: left(v) and right(v)
        if symbol == "||":
            return lambda v: left(v) or right(v)
        if symbol in ("+", "-", "&", "|") or symbol in COMPARISONS:
            f = INTEGER_OPERATORS.get(symbol) or COMPARISONS[symbol]
            fixed = self.fold(expr.right)
            if fixed is not None:
                return lambda v: f(left(v), fixed)
            return lambda v: f(left(v), right(v))
        return lambda v: binary(expr, left(v), right(v))

    def _call(self, expr: ast.Call) -> Compiled:
        arguments = [self.compile(a) for a in expr.arguments]
        if expr.function in _FUNCTIONS and len(arguments) == 2:
            f, (a, b) = _FUNCTIONS[expr.function], arguments
            return lambda v: f(a(v), b(v))
        return lambda v: _call(expr, [a(v) for a in arguments])


def _constant(value: int) -> Compiled:
    return lambda v: value


def _slot(name: str, slots: Mapping[str, int], expr: ast.Expr) -> int:
    try:
        return slots[name]
    except KeyError:
        raise TaidlError(f"unknown name {name!r}{suggest(name, list(slots))}", expr.position) from None
