"""Loop variables of kernels: integer expressions that stay affine, and say where they could not."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError
from archloom.oracle.source_lines import caller


@dataclass(frozen=True)
class Site:
    """A line of Python: where a kernel calls an instruction."""

    file: str
    line: int

    def __str__(self) -> str:
        try:
            file = Path(self.file).relative_to(Path.cwd())
        except ValueError:
            file = Path(self.file)
        return f"{file}:{self.line}"


def call_site() -> Site:
    """The line that called into this package."""
    frame = caller("archloom.oracle.kernel")
    return Site(frame.f_code.co_filename, frame.f_lineno)


def fault(message: str) -> StreamError:
    """A StreamError that begins with the line that called into this package."""
    return StreamError(f"{call_site()}: {message}")


def _refused(what: str) -> Callable[..., Any]:
    def refuse(self: "Index", *others: Any) -> NoReturn:
        raise fault(f"{what.format(self.expression)}: a loop that stays a loop gives its variable no value while the "
                    "kernel is traced; allowed are +, -, and *, //, %, <<, >> with constants (or use a Python loop, "
                    "which is unrolled)")

    return refuse


@dataclass(frozen=True, eq=False)
class Index:
    """An affine expression over the variables of open loops; ``loops`` are the tokens of those loops.

    ``+`` and ``-`` take two of them, ``*``, ``//``, ``%``, ``<<`` and ``>>`` a constant at the right (``*`` also at the
    left). Anything else, comparisons and conversions to a number included, is a StreamError with the line.
    """

    expression: Affine
    loops: frozenset[object]

    def __str__(self) -> str:
        return str(self.expression)

    def _with(self, other: Any, apply: Callable[[Affine, Affine], Affine], sign: str) -> "Index":
        if isinstance(other, Index):
            right, loops = other.expression, self.loops | other.loops
        else:
            right, loops = Affine(constant(other, f"({self}) {sign} {other!r}")), self.loops
        return Index(apply(self.expression, right), loops)

    def __add__(self, other: Any) -> "Index":
        return self._with(other, operator.add, "+")

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Index":
        return self._with(other, operator.sub, "-")

    def __rsub__(self, other: Any) -> "Index":
        return (-self)._with(other, operator.add, "-")

    def __neg__(self) -> "Index":
        return Index(-self.expression, self.loops)

    def __pos__(self) -> "Index":
        return self

    def __mul__(self, other: Any) -> "Index":
        return Index(self.expression * self._constant(other, "*"), self.loops)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> "Index":
        return Index(self.expression // self._divisor(other, "//"), self.loops)

    def __mod__(self, other: Any) -> "Index":
        return Index(self.expression % self._divisor(other, "%"), self.loops)

    def __lshift__(self, other: Any) -> "Index":
        return Index(self.expression * (1 << self._shift(other, "<<")), self.loops)

    def __rshift__(self, other: Any) -> "Index":
        return Index(self.expression // (1 << self._shift(other, ">>")), self.loops)

    def _constant(self, other: Any, sign: str) -> int:
        if isinstance(other, Index):
            if other.expression.is_constant:
                return other.expression.constant
            raise fault(f"({self}) {sign} ({other}) is not affine: one side must be a constant")
        return constant(other, f"({self}) {sign} {other!r}")

    def _divisor(self, other: Any, sign: str) -> int:
        value = self._constant(other, sign)
        if value <= 0:
            raise fault(f"({self}) {sign} {value}: a divisor must be at least 1")
        return value

    def _shift(self, other: Any, sign: str) -> int:
        value = self._constant(other, sign)
        if not 0 <= value < 64:
            raise fault(f"({self}) {sign} {value}: a shift must be in 0..63")
        return value

    __truediv__ = _refused("({}) / ... is no integer (// is)")
    __rtruediv__ = __rfloordiv__ = __rmod__ = _refused("a division by ({}) is not affine")
    __rlshift__ = __rrshift__ = _refused("a shift by ({}) is not affine")
    __and__ = __rand__ = _refused("({}) & ... is not affine")
    __or__ = __ror__ = _refused("({}) | ... is not affine (+ sets bits that are known to be 0)")
    __xor__ = __rxor__ = _refused("({}) ^ ... is not affine")
    __pow__ = __rpow__ = _refused("a power of ({}) is not affine")
    __divmod__ = __rdivmod__ = _refused("divmod of ({}) is not supported (// and % are)")
    __eq__ = _refused("({}) == ... cannot be decided")  # type: ignore[assignment]
    __ne__ = _refused("({}) != ... cannot be decided")  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = _refused("the order of ({}) and another number cannot be decided")
    __bool__ = _refused("the truth of ({}) cannot be decided")
    __int__ = __index__ = __float__ = _refused("({}) is not a known number")
    __hash__ = None  # type: ignore[assignment]


def constant(value: Any, what: str) -> int:
    """``value`` as an integer; StreamError, saying ``what`` it is for, for anything else."""
    if isinstance(value, Index):
        raise fault(f"{what}: expected a constant, found the expression {value}")
    try:
        return operator.index(value)
    except TypeError:
        raise fault(f"{what}: expected an integer, found {value!r} ({type(value).__name__})") from None
