"""Fused multiply-add in float32 on JAX: :mod:`archloom.oracle.taidl.fused`, bit for bit.

XLA has no such operation, its CPU backend fuses what it likes, and it computes with subnormal float32 as zeros. So
the sum is made in float64, where all of this is exact, and subnormal numbers pass by as integers.

Operands that are NumPy arrays are constants: with ``b`` 1 or ``c`` -0, sum and product are left, which need less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archloom.oracle.late_jax import jax, jnp, lax
from archloom.oracle.taidl.fused import LEAST_NORMAL, TINY

_UNIT = 2.0**-149
"""The smallest positive float32."""


def fma(a: Any, b: Any, c: Any, *, flush: bool) -> Any:
    """``a * b + c`` of float32 arrays that broadcast against each other, rounded once; see the NumPy twin."""
    with jax.enable_x64(True):
        x, z = _widened(a, flush), _widened(c, flush)
        if _is(b, 1.0):
            # rounding a sum of two f32 to f64 first changes nothing: f64 has more than twice the digits, and two
            x, z = _apart(x, z)
            return _narrowed(x + z, flush)
        product = x * _widened(b, flush)  # f64 holds it
        if _is(c, -0.0):
            return _narrowed(product, flush)
        return _narrowed(_sum_to_odd(*_apart(product, z)), flush)


def _known(v: Any) -> bool:
    """Whether it is a constant."""
    return isinstance(v, (np.ndarray, np.generic))


def _apart(p: Any, c: Any) -> tuple[Any, Any]:
    """Two summands such that XLA sees no constant in either, whether it is one here or turns out to be one there.

    XLA drops ``+ 0.0``, which makes -0.0 of -0.0 + 0.0. Behind a selection by the other summand it sees no zero.
    """
    if _known(p) and _known(c):
        return p, c
    return p if _known(c) else jnp.where(c == c, p, c), c if _known(p) else jnp.where(p == p, c, p)


def _is(v: Any, number: float) -> bool:
    """Whether all of ``v`` is a constant of exactly these bits."""
    return _known(v) and bool(v.tobytes() == np.full(v.shape, number, np.float32).tobytes())


def _widened(v: Any, flush: bool) -> Any:
    """The values in float64; of subnormal ones the sign and the integer that their bits are."""
    if _known(v):
        small = np.abs(v) < np.float32(LEAST_NORMAL)
        return np.where(small & flush, np.copysign(np.float32(0), v), v).astype(np.float64)
    wide = lax.convert_element_type(v, np.float64)
    pattern = _bits(v, np.int32)
    size = lax.bitwise_and(pattern, _full(pattern, 0x7FFFFFFF))
    count = lax.full_like(wide, 0.0) if flush else lax.mul(lax.convert_element_type(size, np.float64),
                                                           _full(wide, _UNIT))
    signed = lax.select(lax.lt(pattern, _full(pattern, 0)), lax.neg(count), count)
    return lax.select(lax.lt(size, _full(size, 0x800000)), signed, wide)


def _narrowed(x: Any, flush: bool) -> Any:
    """Float64 rounded to float32."""
    rounded = lax.convert_element_type(x, np.float32)
    size = lax.abs(x)
    # rounded first: 0.x units of a subnormal number may be one
    sign = lax.select(lax.lt(_bits(x, np.int64), _full(x, 0, np.int64)), _full(x, -(1 << 31), np.int32),
                      _full(x, 0, np.int32))
    if not flush:
        units = lax.round(lax.mul(size, _full(x, 1 / _UNIT)), lax.RoundingMethod.TO_NEAREST_EVEN)
        sign = lax.bitwise_or(lax.convert_element_type(units, np.int32), sign)
    least = _full(x, TINY if flush else LEAST_NORMAL)
    return lax.select(lax.lt(size, least), _bits(sign, np.float32), rounded)


def _sum_to_odd(p: Any, c: Any) -> Any:
    """``p + c`` rounded to odd."""
    s = p + c
    high = s - p
    error = (p - (s - high)) + (c - high)
    bits = _bits(s, np.int64)
    zero = _full(s, 0.0)
    inexact = lax.bitwise_and(lax.lt(lax.abs(s), _full(s, np.inf)), lax.ne(error, zero))
    towards = lax.select(lax.eq(lax.gt(error, zero), lax.gt(s, zero)), bits, lax.sub(bits, _full(bits, 1)))
    odd = lax.bitwise_or(towards, _full(bits, 1))
    return _bits(lax.select(inexact, odd, bits), np.float64)


def _full(like: Any, number: float, dtype: Any = None) -> Any:
    return lax.full_like(like, number, dtype)


def _bits(x: Any, dtype: Any) -> Any:
    return lax.bitcast_convert_type(x, dtype)
