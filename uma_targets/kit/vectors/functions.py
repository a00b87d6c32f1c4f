"""Functions by polynomials: how what a vector unit has no instruction for becomes arithmetic that it has.

Errors, of float32 against float64 over all inputs (:data:`BOUNDS`; ``tests/uma_targets/mte/test_vector_functions.py``):
e^x is taken from 2^k e^r, where ``k`` is the whole number next to x / ln 2 and ``r`` what is left, by two parts of
ln 2; tanh and erf near zero from odd polynomials, further out from e^x. A NaN gives a NaN. The coefficients are those
of ``benchmarks/recorders/polynomials.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from archloom.mapper.nests import Code, Pass

EXP = (1.0, 1.0, 0.4999999403953552, 0.1666652113199234, 0.041668280959129333, 0.008368690498173237,
       0.0013819490559399128)
TANH = (-0.3333333134651184, 0.1333322823047638, -0.05394969508051872, 0.02171747013926506, -0.008220641873776913,
        0.0021842136047780514)
ERF = (0.12837916612625122, -0.3761262893676758, 0.1128363162279129, -0.026856495067477226, 0.005195796024054289,
       -0.0008117625839076936, 8.623459871159866e-05, -2.1722182736994e-06)
ERFC = (1.1284712553024292, 0.6360663771629333, 0.1042272076010704, -0.021315159276127815, 0.0018403393914923072,
        0.0004969422589056194, -0.00021287656272761524, 3.350724728079513e-05, -2.083364734062343e-06)
LN2 = (0.693359375, -2.12194440e-4)
"""Two parts of ln 2: the first has few bits, so that its products with whole numbers are exact."""
LEAST_EXP = -104.0
"""Below it e^x is less than half of the least float32."""


@dataclass(frozen=True)
class Bound:
    """The greatest error: so many units in the last place, or so much beside it."""

    places: float
    beside: float = 0.0


BOUNDS: Mapping[str, Bound] = {
    "exp": Bound(1.0), "tanh": Bound(1.5), "erf": Bound(1.25), "sigmoid": Bound(2.75, 2.0**-126)}


def _polynomial(code: Code, x: int, coefficients: Sequence[float]) -> int:
    """By Horner's rule."""
    found = code.number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        found = code.apply("multiply_add", found, x, code.number(coefficient))
    return found


def _power(code: Code, whole: int) -> int:
    """2 to a whole number from -126 to 127, by its bits."""
    return code.apply("shift_left", code.apply("whole_add", whole, code.whole(127)), code.whole(23))


def exp(code: Code, x: int) -> int:
    """In two halves of k, since 2^k alone may be no normal number."""
    scaled = code.apply("multiply", x, code.number(1 / math.log(2)))
    near = code.apply("minimum", code.apply("maximum", scaled, code.number(-151)), code.number(129))
    whole = code.apply("to_whole", near)
    k, rest = code.apply("to_float", whole), x
    for part in LN2:
        rest = code.apply("multiply_add", k, code.number(-part), rest)
    half = code.apply("shift_right", whole, code.whole(1))
    found = _polynomial(code, rest, EXP)
    for power in (half, code.apply("whole_subtract", whole, half)):
        found = code.apply("multiply", found, _power(code, power))
    below = code.apply("less", x, code.number(LEAST_EXP))
    return code.apply("select", below, code.number(0), found)


def sigmoid(code: Code, x: int) -> int:
    """1 / (1 + e^-x)"""
    return code.apply("divide", code.number(1), code.apply(
        "add", exp(code, code.apply("negate", x)), code.number(1)))


def tanh(code: Code, x: int) -> int:
    """1 - 2 / (1 + e^2x) of |x| from 0.6 on, with the sign of x."""
    size = code.apply("abs", x)
    square = code.apply("multiply", x, x)
    inner = code.apply("multiply_add", code.apply("multiply", x, square), _polynomial(code, square, TANH), x)
    power = exp(code, code.apply("add", size, size))
    share = code.apply("divide", code.number(2), code.apply("add", power, code.number(1)))
    outer = code.apply("with_sign", code.apply("subtract", code.number(1), share), x)
    return code.apply("select", code.apply("less", size, code.number(0.6)), inner, outer)


def erf(code: Code, x: int) -> int:
    """1 - erfc(|x|) from 1 on, with the sign of x."""
    size = code.apply("abs", x)
    square = code.apply("multiply", x, x)
    inner = code.apply("multiply_add", x, _polynomial(code, square, ERF), x)
    power = code.apply("multiply", code.apply("negate", size), _polynomial(code, size, ERFC))
    outer = code.apply("with_sign", code.apply("subtract", code.number(1), exp(code, power)), x)
    one = code.apply("with_sign", code.number(1), x)
    far = code.apply("select", code.apply("less", code.number(3.9), size), one, outer)
    return code.apply("select", code.apply("less", size, code.number(1)), inner, far)


FUNCTIONS: Mapping[str, Callable[..., int]] = {"exp": exp, "sigmoid": sigmoid, "tanh": tanh, "erf": erf}


def expanded(each: Pass) -> Pass:
    """A pass whose code has instructions alone."""
    if not any(o.name in FUNCTIONS for o in each.code):
        return each
    code = Code()
    now: list[int] = []
    for operation in each.code:
        args = [now[a] for a in operation.args]
        function = FUNCTIONS.get(operation.name)
        now.append(code.again(operation, args) if function is None else function(code, *args))
    return replace(
        each, code=tuple(code.operations), stores=tuple(replace(s, value=now[s.value]) for s in each.stores),
        folds=tuple(replace(f, value=now[f.value]) for f in each.folds))
