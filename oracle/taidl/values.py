"""Integer expressions, slices and tensors of TAIDL as Python objects, for :mod:`archloom.oracle.taidl.builder`.

Operators make expressions: ``(row + 1) % 4``, ``dram + window((rows, stride[0]), (dim, 1))``. What they are is decided
when the ISA is checked, not here.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeAlias, Union

from archloom.oracle.errors import Position, TaidlError
from archloom.oracle.taidl import ast

Integer: TypeAlias = Union["Value", int]
Typed: TypeAlias = Union[str, Sequence[Any]]
"""A tensor type: ``(rows, 4, "i8")``, or ``"f32"`` for a scalar."""

_OWN = tuple(str(Path(__file__).with_name(name)) for name in ("values.py", "builder.py"))


def here() -> Position:
    """Where the user's code is: the innermost frame outside of the builder."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename in _OWN or "contextlib" in frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ast.NOWHERE
    _, _, column, _ = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return Position(frame.f_code.co_filename, frame.f_lineno, (column or 0) + 1)


def fail(message: str) -> NoReturn:
    """TaidlError at the place of the user's call."""
    raise located(TaidlError(message, here()))


def located(error: TaidlError) -> TaidlError:
    """The error with the lines of Python that its faults are at."""
    from archloom.oracle.errors import together

    made = []
    for fault in error.faults:
        source = None
        if fault.position is not None:
            lines = linecache.getlines(fault.position.file)
            source = "".join(lines) or None
        made.append(TaidlError(fault.message, fault.position, source))
    return together(made)


class Value:
    """An integer expression or a condition of an instruction."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: ast.Expr) -> None:
        self.expr = expr

    def __bool__(self) -> bool:
        fail(f"the value of {self} is not known in Python: use IF, select, all_of, any_of or negated")

    def __str__(self) -> str:
        from archloom.oracle.taidl.printer import print_expr

        return print_expr(self.expr)

    __repr__ = __str__

    def _with(self, operator: str, other: Integer) -> Value:
        return Value(ast.Binary(operator, self.expr, expr(other), position=here()))

    def _after(self, operator: str, other: Integer) -> Value:
        return Value(ast.Binary(operator, expr(other), self.expr, position=here()))

    def __add__(self, other: Any) -> Any:
        return Window(self.expr, other.entries) if isinstance(other, Window) else self._with("+", other)

    def __radd__(self, other: Integer) -> Value:
        return self._after("+", other)

    def __sub__(self, other: Integer) -> Value:
        return self._with("-", other)

    def __rsub__(self, other: Integer) -> Value:
        return self._after("-", other)

    def __mul__(self, other: Integer) -> Value:
        return self._with("*", other)

    def __rmul__(self, other: Integer) -> Value:
        return self._after("*", other)

    def __floordiv__(self, other: Integer) -> Value:
        return self._with("//", other)

    def __rfloordiv__(self, other: Integer) -> Value:
        return self._after("//", other)

    def __mod__(self, other: Integer) -> Value:
        return self._with("%", other)

    def __rmod__(self, other: Integer) -> Value:
        return self._after("%", other)

    def __lshift__(self, other: Integer) -> Value:
        return self._with("<<", other)

    def __rlshift__(self, other: Integer) -> Value:
        return self._after("<<", other)

    def __rshift__(self, other: Integer) -> Value:
        return self._with(">>", other)

    def __rrshift__(self, other: Integer) -> Value:
        return self._after(">>", other)

    def __and__(self, other: Integer) -> Value:
        return self._with("&", other)

    def __rand__(self, other: Integer) -> Value:
        return self._after("&", other)

    def __or__(self, other: Integer) -> Value:
        return self._with("|", other)

    def __ror__(self, other: Integer) -> Value:
        return self._after("|", other)

    def __neg__(self) -> Value:
        return Value(ast.Unary("-", self.expr, position=here()))

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self._with("==", other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self._with("!=", other)

    def __lt__(self, other: Integer) -> Value:
        return self._with("<", other)

    def __le__(self, other: Integer) -> Value:
        return self._with("<=", other)

    def __gt__(self, other: Integer) -> Value:
        return self._with(">", other)

    def __ge__(self, other: Integer) -> Value:
        return self._with(">=", other)


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


# --- slices and tensors -------------------------------------------------------------------------------------------


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
    """The type that ``(rows, 4, "i8")`` or ``"f32"`` says; TaidlError for an element type that there is not."""
    from archloom.oracle.taidl.types import element_type

    *dims, dtype = (written,) if isinstance(written, str) else tuple(written)
    if not isinstance(dtype, str):
        fail(f"a type ends with the element type, such as 'i8', found {dtype!r}")
    try:
        name = element_type(dtype).name
    except (KeyError, ValueError):
        fail(f"{dtype!r} is no element type")
    return ast.Type(tuple(expr(d) for d in dims), name, position=here())
