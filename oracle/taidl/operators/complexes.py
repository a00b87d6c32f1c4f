"""Complex numbers: pairs of floats, computed as the operators on floats compute with their parts, each step rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import base
from archloom.oracle.taidl.operators.base import Attributes, Compute, Opcode
from archloom.oracle.taidl.types import TYPES, element_type

Pair = tuple[Any, Any]

WHOLE = {t.part: t.name for t in TYPES.values() if t.part}
"""The complex type by the type of its parts."""


def parts(lib: Any, x: Any) -> Pair:
    """The real and the imaginary part."""
    return lib.xp.real(x), lib.xp.imag(x)


def _multiply(lib: Any, x: Pair, y: Pair) -> Any:
    (a, b), (c, d) = x, y
    return lib.pair(lib.subtract(lib.multiply(a, c), lib.multiply(b, d)),
                    lib.add(lib.multiply(a, d), lib.multiply(b, c)))


def _divide(lib: Any, x: Pair, y: Pair) -> Any:
    """By the quotient of the smaller part of y and the larger (Smith, 1962): nothing is squared."""
    (a, b), (c, d) = x, y
    turned = lib.xp.abs(lib.flush(c)) < lib.xp.abs(lib.flush(d))
    # (a + bi) / (c + di) = (b - ai) / (d - ci)
    a, b, c, d = (lib.xp.where(turned, *v) for v in ((b, a), (-a, b), (d, c), (-c, d)))
    ratio = lib.divide(d, c)
    below = lib.add(c, lib.multiply(d, ratio))
    return lib.pair(lib.divide(lib.add(a, lib.multiply(b, ratio)), below),
                    lib.divide(lib.subtract(b, lib.multiply(a, ratio)), below))


def _abs(lib: Any, x: Pair) -> Any:
    """The larger part times ``sqrt(1 + ratio**2)``; infinite if a part is."""
    a, b = (lib.flush(lib.xp.abs(v)) for v in x)
    most, least = lib.xp.where(a < b, b, a), lib.xp.where(a < b, a, b)
    one = lib.xp.ones_like(most)
    ratio = lib.divide(least, lib.xp.where(most == 0, one, most))
    size = lib.multiply(most, lib.sqrt(lib.add(one, lib.multiply(ratio, ratio))))
    infinite = lib.xp.logical_or(lib.xp.isinf(a), lib.xp.isinf(b))
    return lib.xp.where(infinite, one / (one - one), size)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda lib, x, y: lib.pair(lib.add(x[0], y[0]), lib.add(x[1], y[1])),
    "subtract": lambda lib, x, y: lib.pair(lib.subtract(x[0], y[0]), lib.subtract(x[1], y[1])),
    "multiply": _multiply, "divide": _divide, "abs": _abs,
    "negate": lambda lib, x: lib.pair(-x[0], -x[1]),
}
"""Operators of numbers that are there for complex ones, by the library and pairs of parts."""


def or_real(lib: Any, name: str, real: Compute) -> Compute:
    """The operator of that name for complex operands, and ``real`` for all others."""

    def compute(result: TensorType, x: Sequence[Any], a: Mapping[str, Any], types: Sequence[str]) -> Any:
        if not base.is_kind(types[0], "complex"):
            return real(result, x, a, types)
        return FUNCTIONS[name](lib, *(parts(lib, v) for v in x))

    return compute


def _pair_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, y = operands
    if base.types_differ(x, y) or x.dtype not in WHOLE:
        return f"{{}} takes two tensors of {' or '.join(WHOLE)}, found {x} and {y}"
    return base.wrong(result, x.shape, WHOLE[x.dtype])


def _part_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    if not base.is_kind(x.dtype, "complex"):
        return f"{{}} takes complex numbers, found {x}"
    return base.wrong(result, x.shape, element_type(x.dtype).part)


def _part(name: str, doc: str) -> Opcode:
    return Opcode(name, 1, _part_rule, *base.in_both(
        lambda lib, result, x, a, types: getattr(lib.xp, name)(x[0])), "elementwise", doc)


ROWS: list[Opcode] = [
    Opcode("complex", 2, _pair_rule, *base.in_both(lambda lib, result, x, a, types: lib.pair(*x)), "elementwise",
           "of the real and the imaginary part"),
    _part("real", "the real part"),
    _part("imag", "the imaginary part"),
]
