"""Numbers of 64 bits by words of 32: int64 as two of them, exactly, as a vector unit of 32 bits has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from archloom.mapper.nests import Code
from archloom.tvm_backend.ir.nests.scalars import chosen


@dataclass(frozen=True)
class Wide:
    """The words of an int64, each computed where it is asked for: the low one as the bits of an unsigned number."""

    low: Callable[[], int]
    high: Callable[[], int]

    def word(self, half: int) -> int:
        return self.high() if half else self.low()


def wide(code: Code, name: str, half: int, *args: "int | Wide") -> int:
    """A word of an operator's result, or its truth as a number that is 0 or 1."""
    return OF_WIDE[name](code, half, *args)


def _add(code: Code, half: int, a: Wide, b: Wide) -> int:
    low = code.apply("whole_add", first := a.low(), b.low())
    if not half:
        return low
    carry = code.apply("select", code.apply("unsigned_less", low, first), code.whole(1), code.whole(0))
    return code.apply("whole_add", code.apply("whole_add", a.high(), b.high()), carry)


def _subtract(code: Code, half: int, a: Wide, b: Wide) -> int:
    if not half:
        return code.apply("whole_subtract", a.low(), b.low())
    borrow = code.apply("select", code.apply("unsigned_less", a.low(), b.low()), code.whole(1), code.whole(0))
    return code.apply("whole_subtract", code.apply("whole_subtract", a.high(), b.high()), borrow)


def _multiply(code: Code, half: int, a: Wide, b: Wide) -> int:
    if not half:
        return code.apply("whole_multiply", a.low(), b.low())
    mixed = [code.apply("whole_multiply", x, y) for x, y in ((a.high(), b.low()), (a.low(), b.high()))]
    return code.apply("whole_add", code.apply("multiply_high", a.low(), b.low()), code.apply("whole_add", *mixed))


def _less(code: Code, half: int, a: Wide, b: Wide) -> int:
    no, yes = code.number(0), code.number(1)
    below = code.apply("select", code.apply("unsigned_less", a.low(), b.low()), yes, no)
    below = code.apply("select", code.apply("whole_equal", a.high(), b.high()), below, no)
    return code.apply("select", code.apply("whole_less", a.high(), b.high()), yes, below)


def _equal(code: Code, half: int, a: Wide, b: Wide) -> int:
    no, yes = code.number(0), code.number(1)
    found = code.apply("select", code.apply("whole_equal", a.low(), b.low()), yes, no)
    return code.apply("select", code.apply("whole_equal", a.high(), b.high()), found, no)


def _not(code: Code, truth: int) -> int:
    return code.apply("subtract", code.number(1), truth)


def _choose(code: Code, half: int, condition: int, a: Wide, b: Wide) -> int:
    return chosen(code, condition, a.word(half), b.word(half))


OF_WIDE: Mapping[str, Callable[..., int]] = {
    "add": _add, "subtract": _subtract, "multiply": _multiply, "choose": _choose, "less": _less, "equal": _equal,
    "greater": lambda code, half, a, b: _less(code, half, b, a),
    "less_equal": lambda code, half, a, b: _not(code, _less(code, half, b, a)),
    "greater_equal": lambda code, half, a, b: _not(code, _less(code, half, a, b)),
    "not_equal": lambda code, half, a, b: _not(code, _equal(code, half, a, b)),
    "maximum": lambda code, half, a, b: _choose(code, half, _less(code, half, a, b), b, a),
    "minimum": lambda code, half, a, b: _choose(code, half, _less(code, half, b, a), b, a),
}
"""Operators of int64, by the names of those on float32: of a word of the result, or a truth."""


def saturated(code: Code, x: Wide) -> int:
    """The int32 that lies next to an int64."""
    far = code.apply("select", code.apply("whole_less", x.high(), code.whole(0)), code.whole(-1 << 31), code.whole(
        (1 << 31) - 1))
    fits = code.apply("whole_equal", code.apply("shift_right", x.low(), code.whole(31)), x.high())
    return code.apply("select", fits, x.low(), far)


def truth(code: Code, x: Wide) -> int:
    """1 where a number is not 0."""
    any_bit = code.apply("whole_or", x.low(), x.high())
    return code.apply("select", code.apply("whole_equal", any_bit, code.whole(0)), code.number(0), code.number(1))


SHIFTS = (30, 24, 18, 12, 6)
"""Bits that are left out of numbers with more than 31: what is kept has at least 26 of them, two more than float32."""


def to_float(code: Code, x: Wide) -> int:
    """The float32 next to an int64, rounded once: from the highest 31 bits, the last of which is set where any bit is
    behind them (to odd), which does not change where they are rounded to."""
    low, high = x.low(), x.high()
    sign = code.apply("shift_right", high, code.whole(31))
    found = _rounded(code, code.apply("shift_right", high, code.whole(1)), code.apply(
        "whole_or", code.apply("shift_left", high, code.whole(31)), low), 33)
    for shift in SHIFTS:
        kept = code.apply("whole_or", code.apply("shift_left", high, code.whole(32 - shift)), code.apply(
            "unsigned_shift_right", low, code.whole(shift)))
        value = _rounded(code, kept, code.apply("shift_left", low, code.whole(32 - shift)), shift)
        fits = code.apply("whole_equal", code.apply("shift_right", high, code.whole(shift - 1)), sign)
        found = code.apply("select", fits, value, found)
    fits = code.apply("whole_equal", code.apply("shift_right", low, code.whole(31)), high)
    return code.apply("select", fits, code.apply("to_float", low), found)


def _rounded(code: Code, kept: int, rest: int, shift: int) -> int:
    """``kept`` 2^shift, where ``rest`` has what lies behind it."""
    odd = code.apply("whole_or", kept, code.whole(1))
    kept = code.apply("select", code.apply("whole_equal", rest, code.whole(0)), kept, odd)
    return code.apply("multiply", code.apply("to_float", kept), code.number(2.0**shift))
