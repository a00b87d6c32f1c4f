"""More elementary functions, of those in :mod:`.elementary` and in their way: inverse and hyperbolic ones, tan, erf."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from archloom.oracle.taidl.operators.elementary import Reals, atan2, cosine, exp, expm1, log1p, sine

_ONE, _TWO, _HALF = np.float64(1), np.float64(2), np.float64(0.5)


def tan(r: Reals, x: Any) -> Any:
    return r.xp.where(x == 0, x, r.over(sine(r, x), cosine(r, x)))


def _leg(r: Reals, x: Any) -> Any:
    """``sqrt(1 - x**2)``, of factors that are nearly exact."""
    return r.xp.sqrt(r.times(r.minus(_ONE, x), r.plus(_ONE, x)))


def asin(r: Reals, x: Any) -> Any:
    return r.xp.where(x == 0, x, atan2(r, x, _leg(r, x)))


def acos(r: Reals, x: Any) -> Any:
    return atan2(r, _leg(r, x), x)


def atan(r: Reals, x: Any) -> Any:
    return atan2(r, x, _ONE + r.xp.zeros_like(x))


def _signed(r: Reals, x: Any, size: Any) -> Any:
    """The size with the sign of x, where it is odd in x; zeros and NaN are themselves."""
    return r.xp.where(r.xp.logical_or(x == 0, x != x), x, r.xp.copysign(size, x))


def _growth(r: Reals, x: Any) -> Any:
    """``exp(|x|) - 1``, finite."""
    size = r.xp.abs(x)
    return expm1(r, r.xp.where(size > 300, np.float64(300), size))


def sinh(r: Reals, x: Any) -> Any:
    e = _growth(r, x)
    return _signed(r, x, r.times(_HALF, r.plus(e, r.over(e, r.plus(e, _ONE)))))


def cosh(r: Reals, x: Any) -> Any:
    e = r.plus(_growth(r, x), _ONE)
    return r.xp.where(x != x, x, r.times(_HALF, r.plus(e, r.over(_ONE + r.xp.zeros_like(x), e))))


def asinh(r: Reals, x: Any) -> Any:
    """``log(1 + a + a**2 / (1 + sqrt(1 + a**2)))``"""
    a = r.xp.abs(x)
    square = r.times(a, a)
    more = r.over(square, r.plus(_ONE, r.xp.sqrt(r.plus(_ONE, square))))
    return _signed(r, x, r.xp.where(a == np.inf, a, log1p(r, r.plus(a, more))))


def acosh(r: Reals, x: Any) -> Any:
    """``log(1 + b + sqrt(b * (b + 2)))`` with b = x - 1"""
    b = r.minus(r.xp.where(x < 1, np.float64(np.nan), x), _ONE)
    return log1p(r, r.plus(b, r.xp.sqrt(r.times(b, r.plus(b, _TWO)))))


def atanh(r: Reals, x: Any) -> Any:
    """``log(1 + 2a / (1 - a)) / 2``"""
    a = r.xp.abs(x)
    return _signed(r, x, r.times(_HALF, log1p(r, r.over(r.times(_TWO, a), r.minus(_ONE, a)))))


_ERF = tuple((-1) ** n * 2 / math.sqrt(math.pi) / (math.factorial(n) * (2 * n + 1)) for n in range(34))
"""erf(x) / x in powers of x**2: below 2, what is left out is under 4**34 / 34! < 1e-18, and the largest term 4**4 / 4!
loses 4 bits."""

_LEVELS = 14
"""How deep the continued fraction of erfc goes: from 2 on, erf is known to 1e-11."""


def erf(r: Reals, x: Any) -> Any:
    a = r.xp.abs(x)
    near = r.xp.where(a < 2, a, _TWO)
    far = r.xp.where(a < 2, _TWO, r.xp.where(a > 6, np.float64(6), a))
    small = r.times(near, r.series(r.times(near, near), _ERF))
    # erfc(x) = exp(-x**2) / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + (3/2) / ...)))
    below = far
    for level in range(_LEVELS, 0, -1):
        below = r.plus(far, r.over(np.float64(level / 2) + r.xp.zeros_like(far), below))
    rest = r.over(r.times(exp(r, -r.times(far, far)), np.float64(1 / math.sqrt(math.pi))), below)
    return _signed(r, x, r.xp.where(a < 2, small, r.minus(_ONE, rest)))
