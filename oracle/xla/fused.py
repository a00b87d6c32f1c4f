"""Fused multiply-add in float32 on JAX: :mod:`oracle.taidl.fused`, bit for bit.

XLA has no such operation, its CPU backend fuses what it likes, and it computes with subnormal float32 as zeros. So
the sum is made in float64, where all of this is exact, and subnormal numbers pass by as integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.taidl.fused import LEAST_NORMAL, TINY

_UNIT = 2.0**-149
"""The smallest positive float32."""


def fma(a: Any, b: Any, c: Any, *, flush: bool) -> Any:
    """``a * b + c`` of float32 arrays that broadcast against each other, rounded once; see the NumPy twin."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        x, y, z = (_widened(v, flush) for v in (a, b, c))
        odd, size = _sum_to_odd(x * y, z)
        rounded = odd.astype(jnp.float32)
        small = jnp.zeros_like(size) if flush else jnp.round(size * (1 / _UNIT))
        pattern = small.astype(jnp.int32) | jnp.where(_negative(odd), jnp.int32(-(1 << 31)), jnp.int32(0))
        least = np.float64(TINY if flush else LEAST_NORMAL)
        return jnp.where(size < least, _bits(pattern, jnp.float32), rounded)


def _widened(v: Any, flush: bool) -> Any:
    """The values in float64; of subnormal ones the sign and the integer that their bits are."""
    import jax.numpy as jnp

    pattern = _bits(v, jnp.int32)
    fraction = pattern & 0x7FFFFF
    size = jnp.zeros(v.shape, jnp.float64) if flush else fraction.astype(jnp.float64) * np.float64(_UNIT)
    small = jnp.where(pattern < 0, -size, size)
    return jnp.where((pattern & 0x7F800000) == 0, small, v.astype(jnp.float64))


def _sum_to_odd(p: Any, c: Any) -> tuple[Any, Any]:
    """``p + c`` rounded to odd, and its magnitude."""
    import jax.numpy as jnp

    s = p + c
    high = s - p
    error = (p - (s - high)) + (c - high)
    bits = _bits(s, jnp.int64)
    inexact = (jnp.abs(s) < np.float64(np.inf)) & (error != 0)
    odd = jnp.where((error > 0) == (s > 0), bits, bits - 1) | 1
    made = _bits(jnp.where(inexact, odd, bits), jnp.float64)
    return made, jnp.abs(made)


def _negative(x: Any) -> Any:
    import jax.numpy as jnp

    return _bits(x, jnp.int64) < 0


def _bits(x: Any, dtype: Any) -> Any:
    from jax import lax

    return lax.bitcast_convert_type(x, dtype)
