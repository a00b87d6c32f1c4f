"""Scalar operations that are several of :data:`~archloom.mapper.nests.SCALAR`, by the names that operators have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from archloom.mapper.nests import COMPARISONS, Code


def apply(code: Code, name: str, *args: int) -> int:
    """A scalar operation by the name that :data:`~archloom.tvm_backend.ir.operators.OPERATORS` has for it."""
    return COMPOSED[name](code, *args) if name in COMPOSED else code.apply(name, *args)


def _gelu(code: Code, x: int) -> int:
    """x (1 + erf(x / sqrt(2))) / 2"""
    share = code.apply("erf", code.apply("multiply", x, code.number(math.sqrt(0.5))))
    return code.apply("multiply", code.apply("multiply", x, code.number(0.5)), code.apply("add", share, code.number(1)))


def _gelu_tanh(code: Code, x: int) -> int:
    """x / (1 + e^-2y) for y = sqrt(2/pi) (x + 0.044715 x^3): half of x (1 + tanh y)."""
    square = code.apply("multiply", x, x)
    inner = code.apply("multiply_add", code.apply("multiply", square, code.number(0.044715)), x, x)
    return code.apply("multiply", x, code.apply(
        "sigmoid", code.apply("multiply", inner, code.number(2 * math.sqrt(2 / math.pi)))))


def chosen(code: Code, condition: int, a: int, b: int) -> int:
    """By a comparison, or by a number that is not 0."""
    if code.operations[condition].name in COMPARISONS:
        return code.apply("select", condition, a, b)
    return code.apply("select", code.apply("equal", condition, code.number(0)), b, a)


def _opposite(code: Code, x: int) -> int:
    return code.apply("equal", _truth(code, x), code.number(0))


def _truth(code: Code, x: int) -> int:
    """A truth as a number that is 0 or not."""
    compared = code.operations[x].name in COMPARISONS
    return code.apply("select", x, code.number(1), code.number(0)) if compared else x


INTEGRAL = 2.0**23
"""From here on float32 numbers have nothing behind the point."""


def _integral(code: Code, x: int, whole: int) -> int:
    """A float that is next to ``x`` in some way, given as int32, with its sign; ``x`` where it has no other."""
    near = code.apply("less", code.apply("abs", x), code.number(INTEGRAL))
    return code.apply("select", near, code.apply("with_sign", code.apply("to_float", whole), x), x)


def _beside(step: int) -> Callable[[Code, int], int]:
    """The integral float at most (-1) or at least (1) as large."""
    def beside(code: Code, x: int) -> int:
        cut = code.apply("truncated", x)
        real = code.apply("to_float", cut)
        passed = code.apply("less", *((x, real) if step < 0 else (real, x)))
        return _integral(code, x, code.apply(
            "whole_add", cut, code.apply("select", passed, code.whole(step), code.whole(0))))

    return beside


COMPOSED: Mapping[str, Callable[..., int]] = {
    "round": lambda code, x: _integral(code, x, code.apply("to_whole", x)),
    "floor": _beside(-1), "ceil": _beside(1),
    "relu": lambda code, x: code.apply("maximum", x, code.number(0)),
    "square": lambda code, x: code.apply("multiply", x, x),
    "reciprocal": lambda code, x: code.apply("divide", code.number(1), x),
    "silu": lambda code, x: code.apply("multiply", x, code.apply("sigmoid", x)),
    "gelu": _gelu, "gelu_tanh": _gelu_tanh, "choose": chosen,
    "clip": lambda code, x, low, high: code.apply("minimum", code.apply("maximum", x, low), high),
    "both": lambda code, a, b: code.apply("multiply", _truth(code, a), _truth(code, b)),
    "not": _opposite, "not_equal": lambda code, a, b: _opposite(code, code.apply("equal", a, b)),
    "greater": lambda code, a, b: code.apply("less", b, a),
    "greater_equal": lambda code, a, b: code.apply("less_equal", b, a),
    "whole_greater": lambda code, a, b: code.apply("whole_less", b, a),
    "whole_less_equal": lambda code, a, b: _opposite(code, code.apply("whole_less", b, a)),
    "whole_greater_equal": lambda code, a, b: _opposite(code, code.apply("whole_less", a, b)),
    "whole_not_equal": lambda code, a, b: _opposite(code, code.apply("whole_equal", a, b)),
}
"""Scalar operations that are several of :data:`~archloom.mapper.nests.SCALAR`."""
OF_WHOLE: Mapping[str, str] = {
    **{name: f"whole_{name}" for name in (
        "add", "subtract", "multiply", "maximum", "minimum", "less", "less_equal", "greater", "greater_equal", "equal",
        "not_equal")},
    "choose": "choose"}
"""Those on int32, by the names of those on float32."""
