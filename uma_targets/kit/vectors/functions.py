"""Functions by polynomials: how what a vector unit has no instruction for becomes arithmetic that it has.

Errors, of float32 against float64 over all inputs (:data:`BOUNDS`; ``tests/uma_targets/mte/test_vector_functions.py``):
e^x is taken from 2^k e^r, where ``k`` is the whole number next to x / ln 2 and ``r`` what is left, by two parts of
ln 2; tanh and erf near zero from odd polynomials, further out from e^x; sine and cosine from polynomials of what is
left of quarters of a turn, which are exact for any number. A NaN gives a NaN. The coefficients are those of
``benchmarks/recorders/polynomials.py``.
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
SIN = (-0.16666655242443085, 0.008332191035151482, -0.00019518614863045514)
COS = (0.04166664555668831, -0.00138873013202101, 2.443066841806285e-05)
QUARTERS = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
"""2 / pi behind 32 bits of zeros: words of a fraction."""
PI_HALF = (1.57079637050628662109375, -4.37113900018624283e-8)
"""Two parts of pi / 2."""
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
    "exp": Bound(1.0), "tanh": Bound(1.5), "erf": Bound(1.25), "sigmoid": Bound(2.75, 2.0**-126),
    "sin": Bound(1.75), "cos": Bound(1.75)}


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
    found = _polynomial(code, rest, EXP)
    half = code.apply("shift_right", whole, code.whole(1))
    for power in (half, code.apply("whole_subtract", whole, half)):
        found = code.apply("multiply", found, _power(code, power))
    below = code.apply("less", x, code.number(LEAST_EXP))
    return code.apply("select", below, code.number(0), found)


def sigmoid(code: Code, x: int) -> int:
    """1 / (1 + e^-x)"""
    return code.apply("divide", code.number(1), code.apply(
        "add", exp(code, code.apply("negate", x)), code.number(1)))


def tanh(code: Code, x: int) -> int:
    """1 - 2 / (1 + e^2x) of |x| from 0.6 on, with the sign of x; that first, so that few vectors are there at once."""
    size = code.apply("abs", x)
    power = exp(code, code.apply("add", size, size))
    share = code.apply("divide", code.number(2), code.apply("add", power, code.number(1)))
    outer = code.apply("with_sign", code.apply("subtract", code.number(1), share), x)
    square = code.apply("multiply", x, x)
    inner = code.apply("multiply_add", code.apply("multiply", x, square), _polynomial(code, square, TANH), x)
    return code.apply("select", code.apply("less", square, code.number(0.36)), inner, outer)


def erf(code: Code, x: int) -> int:
    """1 - erfc(|x|) from 1 on, with the sign of x."""
    size = code.apply("abs", x)
    power = code.apply("multiply", code.apply("negate", size), _polynomial(code, size, ERFC))
    outer = code.apply("with_sign", code.apply("subtract", code.number(1), exp(code, power)), x)
    one = code.apply("with_sign", code.number(1), x)
    square = code.apply("multiply", x, x)
    far = code.apply("select", code.apply("less", code.number(3.9**2), square), one, outer)
    inner = code.apply("multiply_add", x, _polynomial(code, square, ERF), x)
    return code.apply("select", code.apply("less", square, code.number(1)), inner, far)


def _word(code: Code, place: int, first: int, *, upwards: bool) -> int:
    """The word of :data:`QUARTERS` in which bit ``place`` lies, so many words on. It is chosen in two ways, so that one
    that is needed twice is no vector that stays."""
    words = QUARTERS[first:first + 5]
    found = code.whole(_signed(words[0 if upwards else -1]))
    for number in range(1, 5) if upwards else range(4, 0, -1):
        border = code.whole(32 * number - 1 if upwards else 32 * number)
        beyond = code.apply("whole_less", *((border, place) if upwards else (place, border)))
        found = code.apply("select", beyond, code.whole(_signed(words[number if upwards else number - 1])), found)
    return found


def _signed(word: int) -> int:
    """32 bits as an int32."""
    return word - (1 << 32) if word >> 31 else word


def _quarters(code: Code, x: int) -> tuple[int, int]:
    """Quarters of a turn in |x| from pi / 4 on, modulo 4 as an int32, and the angle that is left, within pi / 4.

    x is m 2^e of whole numbers, so that what 2 / pi has before the bit of weight 2^(1 - e) counts whole turns. 96 bits
    behind it, times m, are the turns modulo 4 and 62 bits of a fraction, which leaves enough of it where x lies next to
    a multiple of pi / 2."""
    place = code.apply("whole_add", code.apply("whole_and", code.apply(
        "unsigned_shift_right", x, code.whole(23)), code.whole(255)), code.whole(-120))
    m = code.apply("whole_or", code.apply("whole_and", x, code.whole((1 << 23) - 1)), code.whole(1 << 23))

    def bits(number: int) -> int:
        lower = code.apply("unsigned_shift_right", _word(code, place, number + 1, upwards=False), code.whole(1))
        lower = code.apply("unsigned_shift_right", lower, code.apply(  # by 31 less the last five bits of the place
            "whole_subtract", code.whole(32 * number + 31), place))
        return code.apply("whole_or", code.apply(
            "shift_left", _word(code, place, number, upwards=True), place), lower)

    third = code.apply("multiply_high", m, bits(2))
    middle = bits(1)
    least = code.apply("whole_multiply", m, middle)
    low = code.apply("whole_add", least, third)
    carry = code.apply("select", code.apply("unsigned_less", low, least), code.whole(1), code.whole(0))
    more = code.apply("whole_add", code.apply("multiply_high", m, middle), carry)
    high = code.apply("whole_add", code.apply("whole_multiply", m, bits(0)), more)
    quarter = code.apply("unsigned_shift_right", code.apply("whole_add", high, code.whole(1 << 29)), code.whole(30))
    rest = code.apply("whole_subtract", high, code.apply("shift_left", quarter, code.whole(30)))
    angle = _angle(code, rest, low)
    size = code.apply("abs", x)
    near = code.apply("less", size, code.number(math.pi / 4))
    return (code.apply("select", near, code.whole(0), quarter), code.apply("select", near, size, angle))


def _angle(code: Code, high: int, low: int) -> int:
    """(high 2^-30 + low 2^-62) pi / 2, by three numbers of at most 24 bits and two parts of pi / 2."""
    first = code.apply("multiply", code.apply("to_float", code.apply(
        "shift_right", high, code.whole(8))), code.number(2.0**-22))
    second = code.apply("whole_or", code.apply("shift_left", code.apply("whole_and", high, code.whole(255)), code.whole(
        16)), code.apply("unsigned_shift_right", low, code.whole(16)))
    second = code.apply("multiply", code.apply("to_float", second), code.number(2.0**-46))
    total = code.apply("add", first, second)
    left = code.apply("add", code.apply("subtract", first, total), second)
    last = code.apply("to_float", code.apply("whole_and", low, code.whole(0xFFFF)))
    left = code.apply("multiply_add", last, code.number(2.0**-62), left)
    beside = code.apply("multiply_add", left, code.number(PI_HALF[0]), code.apply(
        "multiply", total, code.number(PI_HALF[1])))
    return code.apply("multiply_add", total, code.number(PI_HALF[0]), beside)


def _turned(code: Code, x: int, quarter: int, angle: int) -> int:
    """The sine of so many quarters of a turn and an angle within pi / 4; NaN where x is no finite number."""
    square = code.apply("multiply", angle, angle)
    sine = code.apply("multiply_add", code.apply("multiply", square, angle), _polynomial(code, square, SIN), angle)
    cosine = code.apply("multiply", _polynomial(code, square, COS), code.apply("multiply", square, square))
    cosine = code.apply("add", code.apply("multiply_add", square, code.number(-0.5), code.number(1)), cosine)
    even = code.apply("whole_equal", code.apply("whole_and", quarter, code.whole(1)), code.whole(0))
    found = code.apply("select", even, sine, cosine)
    upper = code.apply("whole_equal", code.apply("whole_and", quarter, code.whole(2)), code.whole(0))
    found = code.apply("multiply", found, code.apply("select", upper, code.number(1), code.number(-1)))
    finite = code.apply("add", code.apply("subtract", x, x), code.number(1))
    return code.apply("multiply", found, finite)


def sin(code: Code, x: int) -> int:
    """Of |x|, with the sign of x."""
    quarter, angle = _quarters(code, x)
    return code.apply("multiply", _turned(code, x, quarter, angle), code.apply("with_sign", code.number(1), x))


def cos(code: Code, x: int) -> int:
    """A quarter of a turn on."""
    quarter, angle = _quarters(code, x)
    return _turned(code, x, code.apply("whole_add", quarter, code.whole(1)), angle)


FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "exp": exp, "sigmoid": sigmoid, "tanh": tanh, "erf": erf, "sin": sin, "cos": cos}


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
