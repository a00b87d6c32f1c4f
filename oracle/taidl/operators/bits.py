"""The operators whose results depend on the width of the elements: shifts, counts of bits, high halves of products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from archloom.oracle.resolved import TensorType
from archloom.oracle.taidl.operators import base
from archloom.oracle.taidl.operators.base import Opcode
from archloom.oracle.taidl.types import ElementType, element_type

INTS = ("int", "uint")

def _of_width(name: str, operands: int, f: Callable[[Any, list[Any], ElementType], Any], doc: str) -> Opcode:
    """An operator by a function of NumPy (or JAX), unsigned numbers, and their type."""

    def compute(lib: Any, result: TensorType, x: Sequence[Any], a: Any, types: Sequence[str]) -> Any:
        kind = element_type(result.dtype)
        plain = []
        for v in lib.xp.broadcast_arrays(*(lib.value(v, t) for v, t in zip(x, types, strict=True))):
            unsigned = np.dtype(f"u{v.dtype.itemsize}")
            plain.append(lib.bits(v, unsigned) & np.asarray((1 << kind.bits) - 1, unsigned))
        return lib.element(f(lib.xp, plain, kind), result.dtype)

    return Opcode(name, operands, base.same_type(INTS), *base.in_both(compute), "elementwise", doc)


def _shifted(left: bool, arithmetic: bool) -> Callable[[Any, list[Any], ElementType], Any]:
    """A shift whose amounts count as unsigned; those of the width or more give 0, or the sign."""

    def shift(xp: Any, x: list[Any], of: ElementType) -> Any:
        (value, amount), bits = x, of.bits
        kind = value.dtype.type
        limited = xp.minimum(amount, kind(bits - 1))
        if left:
            moved = value << limited
        elif arithmetic:
            # in two's complement: the sign is spread by a subtraction
            sign = kind(1 << bits - 1)
            moved = ((value ^ sign) >> limited) - (sign >> limited)
        else:
            moved = value >> limited
        return moved if arithmetic else xp.where(amount < kind(bits), moved, kind(0))

    return shift


def _ones(xp: Any, x: list[Any], kind: ElementType) -> Any:
    (v,) = x
    total = xp.zeros_like(v)
    for i in range(kind.bits):
        total = total + ((v >> v.dtype.type(i)) & v.dtype.type(1))
    return total


def _leading_zeros(xp: Any, x: list[Any], kind: ElementType) -> Any:
    (v,) = x
    total = xp.zeros_like(v)
    clear = xp.ones_like(v)
    for i in reversed(range(kind.bits)):
        clear = clear & ~(v >> v.dtype.type(i)) & v.dtype.type(1)
        total = total + clear
    return total


def _high_half(xp: Any, x: list[Any], kind: ElementType) -> Any:
    """The upper bits of the product, of halves: no type is as wide as the whole."""
    a, b = x
    t, half = a.dtype.type, a.dtype.type(kind.bits // 2)
    mask = t((1 << kind.bits // 2) - 1)
    below = (a & mask) * (b & mask)
    middle = (a >> half) * (b & mask) + (below >> half)
    cross = (a & mask) * (b >> half) + (middle & mask)
    high = (a >> half) * (b >> half) + (middle >> half) + (cross >> half)
    if kind.kind == "uint":
        return high
    # a negative number counts 2^bits too much in the other one
    top, zero = t(kind.bits - 1), t(0)
    return high - xp.where(a >> top != zero, b, zero) - xp.where(b >> top != zero, a, zero)


ROWS: list[Opcode] = [
    _of_width("shift_left", 2, _shifted(True, False), "by the width or more, 0"),
    _of_width("shift_right_logical", 2, _shifted(False, False), "by the width or more, 0"),
    _of_width("shift_right_arithmetic", 2, _shifted(False, True), "by the width or more, the sign"),
    _of_width("popcnt", 1, _ones, "how many bits are set"),
    _of_width("count_leading_zeros", 1, _leading_zeros, "zero bits above the highest set one"),
    _of_width("mulhi", 2, _high_half, "the upper half of the whole product"),
]
