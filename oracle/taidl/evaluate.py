"""What TAIDL's integer expressions mean: one walk over them, and its meaning over integers.

Integers are unbounded, ``/`` and ``//`` are the floor division, ``%`` its remainder, ``>>`` the arithmetic shift, and
``&`` and ``|`` work on two's complement, as in Python. :class:`Evaluation` is the walk for values of any kind. Here it
gives integers, and closures over a frame; :mod:`archloom.oracle.resolution.symbolic` gives affine values and NumPy
arrays, :mod:`archloom.oracle.taidl.canonical` the forms by which the checks compare dimensions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.taidl import ast

V = TypeVar("V")

Scope: TypeAlias = Mapping[str, int]
"""Values by name; the elements of a register array go by ``name[i]``."""

Frame: TypeAlias = list[int]
"""Values of registers, attributes and locals by slot."""

Compiled: TypeAlias = Callable[[Frame], int]

INTEGER_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
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


def operands(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """The expressions of which an expression is made, from left to right."""
    match expr:
        case ast.Element(_, index):
            return (index,)
        case ast.Unary(_, operand):
            return (operand,)
        case ast.Binary(_, left, right):
            return (left, right)
        case ast.Call(_, arguments):
            return arguments
    return ()


def names(expr: ast.Expr) -> Iterator[ast.Name | ast.Element]:
    """The names and register elements in an expression, from left to right."""
    rest = [expr]
    while rest:
        e = rest.pop()
        if isinstance(e, (ast.Name, ast.Element)):
            yield e
        if not isinstance(e, (ast.Name, ast.Number)):
            rest += operands(e)[::-1]


def float_literal(expr: ast.Expr) -> float | None:
    """The value of a float literal with or without a sign; None for all other expressions."""
    literal = expr.operand if isinstance(expr, ast.Unary) and expr.operator == "-" else expr
    if not isinstance(literal, ast.Number) or not isinstance(literal.value, float):
        return None
    return literal.value if literal is expr else -literal.value


class Evaluation(Generic[V]):
    """The walk over an expression for one kind of values: what leaves and operators give is up to the subclass.

    Operators get the values of their operands; what may leave some of them out (``!``, ``&&``, ``||``, ``select``)
    gets expressions.
    """

    _by_node: ClassVar[dict[type, Callable[[Any, Any], Any]]]

    def __init_subclass__(cls) -> None:
        cls._by_node = {ast.Number: cls.number, ast.Name: cls.name, ast.Element: cls.element, ast.Unary: cls._unary,
                        ast.Binary: cls._binary, ast.Call: cls._call}

    def value(self, e: ast.Expr) -> V:
        value: V = self._by_node[e.__class__](self, e)
        return value

    def number(self, e: ast.Number) -> V:
        raise NotImplementedError

    def name(self, e: ast.Name) -> V:
        raise NotImplementedError

    def element(self, e: ast.Element) -> V:
        raise NotImplementedError

    def negative(self, value: Any) -> Any:
        return -value

    def inverted(self, e: ast.Expr) -> V:
        """``!e``"""
        raise NotImplementedError

    def logic(self, e: ast.Binary) -> V:
        """``left && right`` or ``left || right``; where both sides are evaluated always, as any other operator."""
        return self.operation(e, self.value(e.left), self.value(e.right))

    def operation(self, e: ast.Binary, left: V, right: V) -> V:
        """Any other binary operator, comparisons included."""
        raise NotImplementedError

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> V:
        raise NotImplementedError

    def function(self, e: ast.Call, values: list[V]) -> V:
        """``min``, ``max`` or ``cdiv``"""
        raise NotImplementedError

    def _unary(self, e: ast.Unary) -> V:
        return self.inverted(e.operand) if e.operator == "!" else self.negative(self.value(e.operand))

    def _binary(self, e: ast.Binary) -> V:
        if e.operator in ("&&", "||"):
            return self.logic(e)
        return self.operation(e, self.value(e.left), self.value(e.right))

    def _call(self, e: ast.Call) -> V:
        if e.function == "select":
            return self.select(*e.arguments)
        return self.function(e, [self.value(a) for a in e.arguments])


# --- integers -----------------------------------------------------------------------------------------------------


class _Integers(Evaluation[int]):
    """Over integers; conditions are True or False."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def number(self, e: ast.Number) -> int:
        return whole(e)

    def name(self, e: ast.Name) -> int:
        return known(e.name, self.scope, e)

    def element(self, e: ast.Element) -> int:
        return known(register_key(e.name, self.value(e.index)), self.scope, e)

    def inverted(self, e: ast.Expr) -> int:
        return not self.value(e)

    def logic(self, e: ast.Binary) -> int:
        left = self.value(e.left)
        decided = bool(left) == (e.operator == "||")
        return bool(left if decided else self.value(e.right))

    def operation(self, e: ast.Binary, left: int, right: int) -> int:
        return binary(e, left, right)

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> int:
        return self.value(then if self.value(condition) else otherwise)

    def function(self, e: ast.Call, values: list[int]) -> int:
        return call(e, values)


def evaluate(expr: ast.Expr, scope: Scope) -> int:
    """The value of an integer expression or a condition (True or False).

    Raises TaidlError, with the position, for an unknown name, a divisor that is not positive and a negative shift.
    """
    return _Integers(scope).value(expr)


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
    value: int = INTEGER_OPERATORS[symbol](left, right)
    if value.bit_length() > MAX_BITS:
        raise TaidlError(f"the value of {symbol} has {value.bit_length()} bits, more than {MAX_BITS}", expr.position)
    return value


def call(expr: ast.Call, values: list[int]) -> int:
    """``min``, ``max`` or ``cdiv`` of integers; TaidlError where it has no value."""
    if expr.function == "cdiv":
        if values[1] <= 0:
            raise TaidlError(f"the second argument of cdiv must be positive, found {values[1]}", expr.position)
        return -(-values[0] // values[1])
    return _FUNCTIONS[expr.function](values)


def whole(e: ast.Number) -> int:
    """An integer literal; TaidlError for a float."""
    if isinstance(e.value, float):
        raise TaidlError(f"expected an integer, found {e.value}", e.position)
    return e.value


def known(name: str, scope: Mapping[str, V], expr: ast.Expr) -> V:
    """What a scope has by that name; TaidlError, at the expression, for a name that it does not have."""
    try:
        return scope[name]
    except KeyError:
        raise TaidlError(f"unknown name {name!r}{suggest(name, list(scope))}", expr.position) from None


# --- closures -----------------------------------------------------------------------------------------------------


class Compiler(Evaluation[Compiled]):
    """Compiles expressions to closures over a frame; ``known`` names become constants, others have a slot.

    A closure raises the same errors as :func:`evaluate`.
    """

    def __init__(self, known: Scope, slots: Mapping[str, int]) -> None:
        self.known = known
        self.slots = slots

    def fold(self, e: ast.Expr) -> int | None:
        """The value where it depends on known names alone."""
        if isinstance(e, ast.Number):  # most expressions are numbers and names
            return whole(e)
        if isinstance(e, ast.Name):
            return self.known.get(e.name)
        decided = all(isinstance(n, ast.Name) and n.name in self.known for n in names(e))
        return evaluate(e, self.known) if decided else None

    def value(self, e: ast.Expr) -> Compiled:
        fixed = self.fold(e)
        return super().value(e) if fixed is None else constant(fixed)

    def name(self, e: ast.Name) -> Compiled:
        return operator.itemgetter(known(e.name, self.slots, e))

    def element(self, e: ast.Element) -> Compiled:
        fixed, name, slots = self.fold(e.index), e.name, self.slots
        if fixed is not None:
            return operator.itemgetter(known(register_key(name, fixed), slots, e))
        index = self.value(e.index)
        return lambda v: v[known(register_key(name, index(v)), slots, e)]

    def negative(self, value: Compiled) -> Compiled:
        return lambda v: -value(v)

    def inverted(self, e: ast.Expr) -> Compiled:
        inner = self.value(e)
        return lambda v: not inner(v)

    def logic(self, e: ast.Binary) -> Compiled:
        left, right = self.value(e.left), self.value(e.right)
        return (lambda v: left(v) and right(v)) if e.operator == "&&" else lambda v: left(v) or right(v)

    def operation(self, e: ast.Binary, left: Compiled, right: Compiled) -> Compiled:
        symbol = e.operator
        if symbol not in ("+", "-", "&", "|") and symbol not in COMPARISONS:
            return lambda v: binary(e, left(v), right(v))
        f = INTEGER_OPERATORS.get(symbol) or COMPARISONS[symbol]
        fixed = self.fold(e.right)
        return (lambda v: f(left(v), right(v))) if fixed is None else lambda v: f(left(v), fixed)

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> Compiled:
        c, t, o = self.value(condition), self.value(then), self.value(otherwise)
        return lambda v: t(v) if c(v) else o(v)

    def function(self, e: ast.Call, values: list[Compiled]) -> Compiled:
        if e.function in _FUNCTIONS and len(values) == 2:
            f, (a, b) = _FUNCTIONS[e.function], values
            return lambda v: f(a(v), b(v))
        return lambda v: call(e, [a(v) for a in values])


def constant(value: Any) -> Callable[[Frame], Any]:
    """A closure that gives a value, whatever the frame."""
    return lambda v: value
