"""What instructions written in Python are made of, as trees of TAIDL: integers, windows, slices and tensors."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, Union

from archloom.oracle.errors import Position, TaidlError, combined
from archloom.oracle.source_lines import caller
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.printer import print_expr
from archloom.oracle.taidl.types import OPEN, element_type

Integer: TypeAlias = Union["Value", int]
Typed: TypeAlias = Union[str, Sequence[Any]]
"""A tensor type: ``(rows, 4, "i8")``, or ``"f32"`` for a scalar."""


def here() -> Position:
    """Where the user's code is: the innermost frame outside of the builder."""
    frame = caller("archloom.oracle.taidl.builder", __name__)
    _, _, column, _ = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return Position(frame.f_code.co_filename, frame.f_lineno, (column or 0) + 1)


def fail(message: str) -> NoReturn:
    """TaidlError at the place of the user's call."""
    raise located(TaidlError(message, here()))


def located(error: TaidlError) -> TaidlError:
    """The error with the lines of Python that its faults are at."""
    made = []
    for fault in error.faults:
        source = None
        if fault.position is not None:
            lines = linecache.getlines(fault.position.file)
            source = "".join(lines) or None
        made.append(TaidlError(fault.message, fault.position, source))
    return combined(made)


def _before(operator: str) -> Callable[[Value, Integer], Value]:
    """The method for a value before the operator."""
    return lambda self, other: Value(ast.Binary(operator, self.expr, expr(other), position=here()))


def _after(operator: str) -> Callable[[Value, Integer], Value]:
    """The method for a value after the operator."""
    return lambda self, other: Value(ast.Binary(operator, expr(other), self.expr, position=here()))


class Value:
    """An integer expression or a condition of an instruction."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: ast.Expr) -> None:
        self.expr = expr

    def __bool__(self) -> bool:
        fail(f"the value of {self} is not known in Python: use IF, select, all_of, any_of or negated")

    def __str__(self) -> str:
        return print_expr(self.expr)

    __repr__ = __str__

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Window):
            return Window(self.expr, other.entries)
        return Value(ast.Binary("+", self.expr, expr(other), position=here()))

    __radd__ = _after("+")
    __sub__, __rsub__ = _before("-"), _after("-")
    __mul__, __rmul__ = _before("*"), _after("*")
    __floordiv__, __rfloordiv__ = _before("//"), _after("//")
    __mod__, __rmod__ = _before("%"), _after("%")
    __lshift__, __rlshift__ = _before("<<"), _after("<<")
    __rshift__, __rrshift__ = _before(">>"), _after(">>")
    __and__, __rand__ = _before("&"), _after("&")
    __or__, __ror__ = _before("|"), _after("|")
    __eq__, __ne__ = _before("=="), _before("!=")  # type: ignore[assignment]
    __lt__, __le__ = _before("<"), _before("<=")
    __gt__, __ge__ = _before(">"), _before(">=")

    def __neg__(self) -> Value:
        return Value(ast.Unary("-", self.expr, position=here()))


class Registers:
    """An array of control registers; ``registers[i]`` is one of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, index: Integer) -> Value:
        return Value(ast.Element(self.name, expr(index), position=here()))


def expr(value: Any) -> ast.Expr:
    """The expression that a value stands for; TaidlError for anything but an integer or a :class:`Value`."""
    if isinstance(value, Value):
        return value.expr
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            return ast.Unary("-", ast.Number(-value, position=here()), position=here())
        return ast.Number(value, position=here())
    fail(f"expected an integer or an expression, found {value!r}")


def number(value: int) -> Value:
    """A number as an expression: ``number(1) <= rows`` is written in this order."""
    return Value(expr(value))


def _joined(operator: str, conditions: Sequence[Value]) -> Value:
    if not conditions:
        fail("expected at least one condition")
    result = expr(conditions[0])
    for c in conditions[1:]:
        result = ast.Binary(operator, result, expr(c), position=here())
    return Value(result)


def all_of(*conditions: Value) -> Value:
    """``a && b && ...``"""
    return _joined("&&", conditions)


def any_of(*conditions: Value) -> Value:
    """``a || b || ...``"""
    return _joined("||", conditions)


def negated(condition: Value) -> Value:
    """``!a``"""
    return Value(ast.Unary("!", expr(condition), position=here()))


def _call(function: str, *arguments: Integer) -> Value:
    return Value(ast.Call(function, tuple(expr(a) for a in arguments), position=here()))


def least(*values: Integer) -> Value:
    """``min(a, b, ...)``"""
    return _call("min", *values)


def greatest(*values: Integer) -> Value:
    """``max(a, b, ...)``"""
    return _call("max", *values)


def cdiv(a: Integer, b: Integer) -> Value:
    """``cdiv(a, b)``: the quotient, rounded up."""
    return _call("cdiv", a, b)


def select(condition: Value, then: Integer, otherwise: Integer) -> Value:
    """``select(condition, then, otherwise)``"""
    return _call("select", condition, then, otherwise)


@dataclass(frozen=True)
class Window:
    """``base + {extent : stride, ...}``"""

    base: ast.Expr
    entries: tuple[tuple[ast.Expr, ast.Expr], ...]

    def __radd__(self, base: int) -> Window:
        return Window(expr(base), self.entries)


def window(*entries: tuple[Integer, Integer]) -> Window:
    """``{extent : stride, ...}``, to be added to where it begins."""
    return Window(ast.Number(0), tuple((expr(e), expr(s)) for e, s in entries))


@dataclass(frozen=True)
class Storage:
    """A buffer or HBM, or a slice of one: ``ram[row : row + 4, ::2]``."""

    piece: ast.Slice

    def __getitem__(self, axes: Any) -> Storage:
        if self.piece.axes:
            fail(f"${self.piece.buffer} is sliced already")
        given = axes if isinstance(axes, tuple) else (axes,)
        return Storage(ast.Slice(self.piece.buffer, tuple(_axis(a) for a in given), position=here()))


def _axis(axis: Any) -> ast.Axis:
    if isinstance(axis, Window):
        return ast.Walk(axis.base, axis.entries, position=here())
    if isinstance(axis, slice):
        start, stop, step = (None if e is None else expr(e) for e in (axis.start, axis.stop, axis.step))
        return ast.Range(start, stop, step, position=here())
    return ast.At(expr(axis), position=here())


@dataclass(frozen=True)
class Tensor:
    """A tensor of an instruction; ``type`` is None for one that a block is given."""

    name: str
    type: ast.Type | None = None


def type_of(written: Typed) -> ast.Type:
    """The type that ``(rows, 4, "i8")`` or ``"f32"`` says; TaidlError for an element type that there is not.

    A letter and an expression at the end, ``(rows, "i", width)``, are an element type whose width is open.
    """
    *dims, dtype = (written,) if isinstance(written, str) else tuple(written)
    if not isinstance(dtype, str) and dims and isinstance(dims[-1], str) and re.fullmatch(OPEN, dims[-1]):
        return ast.Type(tuple(expr(d) for d in dims[:-1]), dims[-1], expr(dtype), position=here())
    if not isinstance(dtype, str):
        fail(f"a type ends with the element type, such as 'i8', found {dtype!r}")
    try:
        name = element_type(dtype).name
    except (KeyError, ValueError):
        fail(f"{dtype!r} is no element type")
    return ast.Type(tuple(expr(d) for d in dims), name, position=here())
