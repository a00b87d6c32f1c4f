"""Fused multiply-add in float32 on NumPy: ``a * b + c`` with one rounding, to nearest even.

Float64 holds a product of two float32 exactly, but its sum with a third rounds; rounding that sum to odd instead keeps
what the second rounding, to float32, needs to know (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST_NORMAL = float(np.finfo(np.float32).tiny)
"""2^-126."""

TINY = LEAST_NORMAL - 2.0**-151
"""What lies below, rounded to 24 bits with an exponent of any size, is no normal number: it is flushed."""


def fma(a: Any, b: Any, c: Any, *, flush: bool) -> Any:
    """``a * b + c`` of float32 arrays of one shape, rounded once.

    With ``flush``, subnormal operands count as zeros of their sign, and a result that is tiny after rounding is a zero
    of its sign (x86's DAZ and FTZ); otherwise subnormal numbers are kept, as IEEE 754 says.
    """
    x, y, z = (np.asarray(v, np.float32) for v in (a, b, c))
    if flush:
        x, y, z = (np.where(np.abs(v) < np.float32(LEAST_NORMAL), np.copysign(np.float32(0), v), v) for v in (x, y, z))
    with np.errstate(all="ignore"):
        odd = _sum_to_odd(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
        rounded = odd.astype(np.float32)
    return np.where(np.abs(odd) < TINY, np.copysign(np.float32(0), rounded), rounded) if flush else rounded


def _sum_to_odd(p: Any, c: Any) -> Any:
    """``p + c`` in float64, and where that is not exact, of the two neighbours the one with an odd last bit."""
    s = p + c
    high = s - p
    error = (p - (s - high)) + (c - high)
    bits = s.view(np.int64)
    # magnitudes count up in the bit patterns, whatever the sign
    odd = np.where((error > 0) == (s > 0), bits, bits - 1) | 1
    return np.where(np.isfinite(s) & (error != 0), odd, bits).view(np.float64)
