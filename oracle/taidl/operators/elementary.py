"""The elementary functions (exp, log, sine, ...), defined by archloom: the same IEEE operations in NumPy and in JAX.

XLA does not define the bits of these functions; they differ from backend to backend, and with how loops are
vectorized. So that the interpreter and every oracle agree, they are written here once, over f64 additions,
multiplications and divisions that both libraries round in the same way, and rounded to f32 (or, once, to the narrower
type) at the end. That gives the correctly rounded f32 nearly always, and never more than 0.51 units in the last place
off. An f64 has no such headroom: these functions are not for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from archloom.oracle.late_jax import jax, jnp, lax
from archloom.oracle.taidl.operators import carriers, numbers

_LN2 = (0.693147180369123816490, 1.90821492927058770002e-10)
"""ln 2 with its first part short enough that a whole number below 2^11 times it is exact."""


@dataclass(frozen=True)
class Reals:
    """f64 in NumPy (``xp`` numpy) or JAX: ``times`` and ``plus`` are rounded one by one."""

    xp: Any
    times: Callable[[Any, Any], Any]
    plus: Callable[[Any, Any], Any]
    over: Callable[[Any, Any], Any]
    bits: Callable[[Any], Any]
    """An f64 as i64 bits."""
    real: Callable[[Any], Any]
    """i64 bits as an f64."""

    def series(self, x: Any, terms: tuple[float, ...]) -> Any:
        """``terms[0] + x * (terms[1] + x * ...)``."""
        total = self.plus(self.times(x, np.float64(terms[-1])), np.float64(terms[-2]))
        for term in reversed(terms[:-2]):
            total = self.plus(self.times(total, x), np.float64(term))
        return total

    def minus(self, a: Any, b: Any) -> Any:
        return self.plus(a, -b)


PLAIN = Reals(np, np.multiply, np.add, np.divide, lambda x: np.asarray(x, np.float64).view(np.int64),
               lambda x: np.asarray(x, np.int64).view(np.float64))
"""The reals of NumPy, for constants."""

_JAX = Reals(jnp, carriers.multiply, carriers.add, carriers.divide,
             lambda x: lax.bitcast_convert_type(x, jnp.int64), lambda x: lax.bitcast_convert_type(x, jnp.float64))


def in_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function(reals, *f64)`` as a function of f32 in NumPy."""

    def f(*operands: Any) -> Any:
        wide = [numbers.flush(np.asarray(x)).astype(np.float64) for x in operands]
        with np.errstate(all="ignore"):
            return numbers.narrowed(np.asarray(function(PLAIN, *wide)))

    return f


def in_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function(reals, *f64)`` as a function of f32 in JAX, in 64-bit mode or not."""

    def f(*operands: Any) -> Any:
        with jax.enable_x64(True):
            wide = [lax.convert_element_type(carriers.flush(x), np.float64) for x in operands]
            return carriers.native(lax.convert_element_type(function(_JAX, *wide), np.float32))

    return f


# --- exponentials and logarithms ----------------------------------------------------------------------------------

_EXP = tuple(1 / math.factorial(n) for n in range(15))


def _exp_parts(r: Reals, x: Any) -> tuple[Any, Any]:
    """``2**k`` and ``s`` with ``exp(x) = 2**k * exp(s)`` and s small; x within 1000 of 0, NaN gives NaN."""
    k = r.xp.rint(r.times(x, np.float64(1 / math.log(2))))
    s = r.minus(r.minus(x, r.times(k, np.float64(_LN2[0]))), r.times(k, np.float64(_LN2[1])))
    whole = r.xp.where(k == k, k, np.float64(0)).astype(np.int64)
    return r.real((whole + np.int64(1023)) << np.int64(52)), s


def _within(r: Reals, x: Any, bound: float) -> Any:
    """x between -bound and bound; NaN stays."""
    return r.xp.where(x > bound, np.float64(bound), r.xp.where(x < -bound, np.float64(-bound), x))


def exp(r: Reals, x: Any) -> Any:
    power, s = _exp_parts(r, _within(r, x, 700.0))
    y = r.times(power, r.series(s, _EXP))
    return r.xp.where(x > 700.0, np.float64(np.inf), r.xp.where(x < -700.0, np.float64(0), y))


def expm1(r: Reals, x: Any) -> Any:
    power, s = _exp_parts(r, _within(r, x, 700.0))
    small = r.times(s, r.series(s, _EXP[1:]))
    y = r.plus(r.times(power, small), r.minus(power, np.float64(1)))
    return r.xp.where(x > 700.0, np.float64(np.inf), r.xp.where(x == 0, x, y))


def logistic(r: Reals, x: Any) -> Any:
    return r.over(np.float64(1) + r.xp.zeros_like(x), r.plus(np.float64(1) + r.xp.zeros_like(x), exp(r, -x)))


def tanh(r: Reals, x: Any) -> Any:
    e = expm1(r, r.times(_within(r, x, 300.0), np.float64(2)))
    return r.xp.where(x == 0, x, r.over(e, r.plus(e, np.float64(2))))


_ATANH = tuple(2 / n for n in range(1, 28, 2))


def _log_of_ratio(r: Reals, above: Any, below: Any) -> Any:
    """``log((below + above) / (below - above))`` from the ratio above/below, which is small."""
    s = r.over(above, below)
    return r.times(s, r.series(r.times(s, s), _ATANH))


def log(r: Reals, x: Any) -> Any:
    bits = r.bits(x)
    # mantissa in sqrt(1/2) .. sqrt(2)
    offset = (bits - np.int64(0x3FE6A09E667F3BCD)) >> np.int64(52)
    mantissa = r.real(bits - (offset << np.int64(52)))
    small = _log_of_ratio(r, r.minus(mantissa, np.float64(1)), r.plus(mantissa, np.float64(1)))
    k = offset.astype(np.float64)
    y = r.plus(r.times(k, np.float64(_LN2[0])), r.plus(small, r.times(k, np.float64(_LN2[1]))))
    y = r.xp.where(x == np.inf, x, r.xp.where(x == 0, np.float64(-np.inf), y))
    # XLA takes abs(x) >= 0 for always true, so NaN has a case of its own
    return r.xp.where(x == x, r.xp.where(x < 0, np.float64(np.nan), y), x)


def log1p(r: Reals, x: Any) -> Any:
    near = _log_of_ratio(r, x, r.plus(x, np.float64(2)))
    return r.xp.where(x == 0, x, r.xp.where(r.xp.abs(x) < 0.25, near, log(r, r.plus(x, np.float64(1)))))


def power(r: Reals, x: Any, y: Any) -> Any:
    xp = r.xp
    size = exp(r, r.times(y, log(r, xp.abs(x))))
    whole = xp.rint(y) == y
    half = r.times(y, np.float64(0.5))
    odd = xp.logical_and(whole, xp.rint(half) != half)
    negative = xp.copysign(np.float64(1) + xp.zeros_like(x), x) < 0
    signed = xp.where(xp.logical_and(negative, odd), -size, size)
    result = xp.where(xp.logical_and(xp.logical_and(x < 0, xp.abs(x) < np.inf), ~whole), np.float64(np.nan), signed)
    one = xp.logical_or(y == 0, xp.logical_or(x == 1, xp.logical_and(x == -1, xp.abs(y) == np.inf)))
    return xp.where(one, np.float64(1), result)


def rsqrt(r: Reals, x: Any) -> Any:
    return r.over(np.float64(1) + r.xp.zeros_like(x), r.xp.sqrt(x))


def cbrt(r: Reals, x: Any) -> Any:
    size = r.xp.abs(x)
    y = exp(r, r.times(log(r, size), np.float64(1 / 3)))
    square = r.times(y, y)
    better = r.minus(y, r.over(r.minus(r.times(square, y), size), r.times(square, np.float64(3))))
    result = r.xp.where(r.xp.logical_or(size == 0, size == np.inf), size, better)
    return r.xp.copysign(result, x)


# --- trigonometry -------------------------------------------------------------------------------------------------


def _split(value: Any, bits: tuple[int, ...]) -> tuple[float, ...]:
    """An exact fraction as a sum of floats, each cut at so many bits after the point."""
    parts = []
    for n in bits:
        part = math.floor(value * (1 << n) + value.__class__(1, 2))
        parts.append(part / (1 << n))
        value -= value.__class__(part, 1 << n)
    return (*parts, float(value))


@cache
def _half_turns() -> tuple[tuple[float, ...], np.ndarray[Any, Any]]:
    """pi/2, and ``2**e`` modulo pi/2 for e in 0 .. 104, each in three parts of which the first two are short.

    The fourth column counts the quarters left out, modulo 4.
    """
    from fractions import Fraction

    # pi by Machin's formula in 400 bits
    def arctan(n: int) -> Fraction:
        one, total, k = 1 << 400, 0, 0
        power = one // n
        while power:
            total += (power // (2 * k + 1)) * (-1 if k % 2 else 1)
            power //= n * n
            k += 1
        return Fraction(total, one)

    quarter = 2 * (4 * arctan(5) - arctan(239))
    rows = []
    for e in range(105):
        quarters = math.floor(Fraction(1 << e) / quarter + Fraction(1, 2))
        rows.append((*_split(Fraction(1 << e) - quarter * quarters, (29, 58)), float(quarters % 4)))
    return _split(quarter, (29, 58)), np.array(rows)


def _turned(r: Reals, x: Any) -> tuple[Any, Any]:
    """x (an f32's value) as ``n * pi/2 + s``: n modulo 4 and s, within about pi/4."""
    (p0, p1, p2), rows = _half_turns()
    usable = r.xp.where(r.xp.abs(x) < np.inf, x, np.float64(0))
    exponent = ((r.bits(r.xp.abs(usable)) >> np.int64(52)) - np.int64(1023 + 23))
    large = exponent > 0
    e = r.xp.where(large, exponent, np.int64(0))
    digits = r.times(usable, r.real((np.int64(1023) - e) << np.int64(52)))
    table = r.xp.asarray(rows)[e]
    zero = np.float64(0)
    first, second, third = (r.times(digits, table[..., i]) for i in range(3))
    first = r.xp.where(large, first, usable)
    second, third = r.xp.where(large, second, zero), r.xp.where(large, third, zero)
    n = r.xp.rint(r.times(r.plus(first, second), np.float64(2 / math.pi)))
    s = r.plus(r.minus(first, r.times(n, np.float64(p0))), r.minus(second, r.times(n, np.float64(p1))))
    s = r.plus(s, r.minus(third, r.times(n, np.float64(p2))))
    left_out = r.xp.where(large, r.times(digits, table[..., 3]), zero)
    return (n.astype(np.int64) + left_out.astype(np.int64)) & np.int64(3), s


_SINE = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(10))
_COSINE = tuple((-1) ** n / math.factorial(2 * n) for n in range(10))


def _wave(r: Reals, x: Any, ahead: int) -> Any:
    n, s = _turned(r, x)
    square = r.times(s, s)
    sine, cosine = r.times(s, r.series(square, _SINE)), r.series(square, _COSINE)
    n = (n + np.int64(ahead)) & np.int64(3)
    y = r.xp.where((n & np.int64(1)) == 0, sine, cosine)
    y = r.xp.where((n & np.int64(2)) == 0, y, -y)
    return r.xp.where(r.xp.abs(x) < np.inf, y, np.float64(np.nan))


def sine(r: Reals, x: Any) -> Any:
    return r.xp.where(x == 0, x, _wave(r, x, 0))


def cosine(r: Reals, x: Any) -> Any:
    return _wave(r, x, 1)


_ATAN = tuple((-1) ** n / (2 * n + 1) for n in range(24))


def atan2(r: Reals, y: Any, x: Any) -> Any:
    xp = r.xp
    a, b = xp.abs(y), xp.abs(x)
    most, least = xp.maximum(a, b), xp.minimum(a, b)
    both = xp.logical_and(a == np.inf, b == np.inf)
    t = r.over(xp.where(both, np.float64(1), least), xp.where(most == 0, np.float64(1), xp.where(both, 1.0, most)))
    # around tan(pi/8): atan(t) = pi/4 + atan((t - 1) / (t + 1))
    far = t > 0.41421356237309503
    u = xp.where(far, r.over(r.minus(t, np.float64(1)), r.plus(t, np.float64(1))), t)
    angle = r.times(u, r.series(r.times(u, u), _ATAN))
    angle = r.plus(angle, xp.where(far, np.float64(math.pi / 4), np.float64(0)))
    angle = xp.where(a > b, r.minus(np.float64(math.pi / 2), angle), angle)
    left = xp.copysign(np.float64(1) + xp.zeros_like(x), x) < 0
    angle = xp.where(left, r.minus(np.float64(math.pi), angle), angle)
    return xp.where(xp.logical_or(a != a, b != b), np.float64(np.nan), xp.copysign(angle, y))
