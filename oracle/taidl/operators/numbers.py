"""How elements become numbers that NumPy and JAX compute with, and numbers elements: the rounding of every type.

*Values* are the numbers of a tensor in a type that both libraries compute with exactly: integers of 2 and 4 bits in 8
bits, floating-point types under 32 bits in f32, quantized numbers as the f32 they stand for, all others as they are.
An operator computes on values and its result is brought back by :func:`element`: integers wrap around, floats are
rounded once, to nearest, ties to even.

Arithmetic in f32, f64 and bf16 takes subnormal numbers for zeros and gives zeros for them (as XLA's CPU backend and
most tensor hardware do). The narrower types keep theirs, whose values are normal in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from archloom.oracle.taidl.types import Array, as_codes, element_type, limits, numpy_dtype

xp: Any = np
"""What computes here (and ``jax.numpy`` among carriers)."""


def value(x: Array, dtype: str) -> Array:
    """The numbers of a tensor of the interpreter."""
    kind = element_type(element_type(dtype).storage or dtype)
    if kind.kind in ("int", "uint"):
        return x.astype(np.int8 if kind.kind == "int" else np.uint8) if kind.bits < 8 else x
    return x.astype(np.float32) if kind.kind in ("float", "scale") and kind.bits < 32 else x


def element(x: Any, dtype: str) -> Array:
    """Numbers as elements of a type: integers wrap, floats are rounded; f32 and f64 must be given in their own type.

    NaN is 0 where the type has none.
    """
    x, kind, target = np.asarray(x), element_type(dtype), numpy_dtype(dtype)
    if x.dtype == target:
        return x
    if kind.kind in ("int", "uint", "bool"):
        return x.astype(target) if kind.bits >= 8 or kind.kind == "bool" else as_codes(
            x.astype(np.uint8) & np.uint8((1 << kind.bits) - 1), target)
    if kind.bits < 8:
        return np.where(np.isnan(x), np.float32(0), x).astype(target)
    return (flush(x) if dtype == "bf16" else x).astype(target)


def constant(number: float, dtype: str) -> Array:
    """One element: an integer may be given as any with its bits, a float is rounded to f32 (f64) first."""
    kind = element_type(dtype)
    if kind.kind in ("int", "uint"):
        low, high = limits(dtype)
        held = value(np.zeros(0, numpy_dtype(dtype)), dtype).dtype
        return element(np.asarray((int(number) - low) % (high - low + 1) + low, held), dtype)
    if kind.kind == "bool":
        return np.asarray(bool(number))
    return element(np.asarray(number, np.float64 if kind.bits == 64 else np.float32), dtype)


def bits(x: Any, dtype: Any) -> Array:
    """The bits of elements as those of another NumPy type of their size."""
    return np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))


def at(x: Array, index: int, axis: int) -> Array:
    """The part of a tensor at one place of an axis, without that axis."""
    return np.take(x, index, axis)


def repeat(start: int, stop: int, step: Callable[[Any, Any], Any], state: Any) -> Any:
    """The state after ``state = step(i, state)`` for each i from start to before stop."""
    for i in range(start, stop):
        state = step(i, state)
    return state


def scan(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, inputs: Sequence[Any]) -> tuple[Any, Any]:
    """The last state, and the outputs of each step one after the other, of ``state, outputs = step(state, slices)``."""
    rows = []
    for slices in zip(*inputs, strict=True):
        state, outputs = step(state, slices)
        rows.append(outputs)
    return state, tuple(map(np.stack, zip(*rows, strict=True)))


def pair(real: Any, imaginary: Any) -> Array:
    """Complex numbers of their parts, which are of one type."""
    real, imaginary = np.broadcast_arrays(real, imaginary)
    return np.stack([real, imaginary], axis=-1).view(np.result_type(real, np.complex64))[..., 0]


def padded(x: Array, fill: Any, low: Sequence[int], high: Sequence[int], steps: Sequence[int]) -> Array:
    """The tensor in steps along each axis, with so many fillers before and behind it; negative edges crop."""
    if any(step > 1 for step in steps):
        apart = np.full(tuple((n - 1) * step + 1 for n, step in zip(x.shape, steps, strict=True)), fill)
        apart[tuple(slice(None, None, step) for step in steps)] = x
        x = apart
    shape = tuple(n + lo + hi for n, lo, hi in zip(x.shape, low, high, strict=True))
    out = np.full(shape, fill)
    # position r of the result shows position r - low of the operand, where there is one
    first = [max(lo, 0) for lo in low]
    last = [max(f, min(n, lo + size)) for f, n, lo, size in zip(first, shape, low, x.shape, strict=True)]
    into = tuple(slice(f, e) for f, e in zip(first, last, strict=True))
    out[into] = x[tuple(slice(f - lo, e - lo) for f, e, lo in zip(first, last, low, strict=True))]
    return out


# --- subnormal numbers --------------------------------------------------------------------------------------------


_TINY = {np.dtype(t): np.finfo(t).tiny for t in (np.float32, np.float64)}
"""The least normal number of a type."""


def flush(x: Any) -> Any:
    """Subnormal f32 and f64 as zeros of their sign."""
    x = np.asarray(x)
    tiny = _TINY.get(x.dtype)
    if tiny is None:
        return x
    small = np.abs(x) < tiny
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if np.count_nonzero(small) else x


def flushed(f: Callable[..., Any], exact: Callable[..., Fraction] | None = None) -> Callable[..., Any]:
    """``f`` on flushed operands, its result flushed.

    A result is subnormal if it is so before it is rounded: ``exact`` computes single elements where that matters.
    """

    def g(*operands: Any) -> Any:
        operands = tuple(flush(x) for x in operands)
        result = np.asarray(f(*operands))
        if exact is not None and result.dtype.kind == "f":
            edge = np.abs(result) == np.finfo(result.dtype).tiny
            if np.count_nonzero(edge):
                result = _at_the_edge(result, edge, operands, exact)
        return flush(result)

    return g


def _at_the_edge(result: Array, edge: Array, operands: tuple[Any, ...], exact: Callable[..., Fraction]) -> Array:
    """Results that were rounded up to the smallest normal number, as the zeros that they are if too far below it."""
    result = result.copy()
    tiny = Fraction(float(np.finfo(result.dtype).tiny))
    least = tiny * (1 - Fraction(float(np.finfo(result.dtype).eps)) / 4)
    spread = np.broadcast_arrays(result, *operands)[1:]
    for index in np.argwhere(edge):
        place = tuple(index)
        if abs(exact(*(Fraction(float(x[place])) for x in spread))) < least:
            result[place] = np.copysign(result.dtype.type(0), result[place])
    return result


multiply = flushed(np.multiply, Fraction.__mul__)
divide = flushed(np.divide, Fraction.__truediv__)
add, subtract = flushed(np.add), flushed(np.subtract)
sqrt = flushed(np.sqrt)


# --- numbers of one type as numbers of another --------------------------------------------------------------------


def narrowed(x: Array) -> Array:
    """f64 as f32, rounded once, subnormal numbers (before rounding) as zeros."""
    return np.asarray(flushed(lambda v: v.astype(np.float32), lambda v: v)(np.asarray(x)))


def sticky(x: Array) -> Array:
    """Integers as f32; one that is not exact has its last bit set, as in :func:`.conversion.odd`."""
    negative = x < 0
    wide = np.uint64
    magnitude = np.where(negative, wide(0) - x.astype(np.int64).view(wide), x.astype(wide))
    shift = np.zeros(x.shape, wide)
    for step in (32, 16, 8, 4, 2, 1):
        shift += np.where(magnitude >> shift >= wide(1 << 24 + step - 1), wide(step), wide(0))
    cut = magnitude >> shift
    cut |= (cut << shift != magnitude).astype(wide)
    result = np.ldexp(cut.astype(np.float32), shift.astype(np.int32))
    return np.where(negative, -result, result)


def saturated(x: Array, storage: str) -> Array:
    """Floats as integers: truncated, saturated, NaN as 0; the values of an integer type."""
    low, high = limits(storage)
    target = value(np.zeros(0, numpy_dtype(storage)), storage).dtype
    wide = np.trunc(x.astype(np.float64))
    # the upper bound is exact in f64 up to 32 bits; above, high + 1 is
    above, below = wide >= float(high + 1), wide < float(low)
    safe = np.where(above | below | np.isnan(wide), 0.0, wide).astype(target)
    return np.asarray(np.where(above, target.type(high), np.where(below, target.type(low), safe)))


# --- fused multiply-add ---------------------------------------------------------------------------------------------

LEAST_NORMAL = float(np.finfo(np.float32).tiny)
"""2^-126."""

TINY = LEAST_NORMAL - 2.0**-151
"""What lies below, rounded to 24 bits with an exponent of any size, is no normal number: it is flushed."""


def fma(a: Any, b: Any, c: Any, *, flush: bool) -> Any:
    """``a * b + c`` of float32 arrays of one shape, rounded once, to nearest even.

    Float64 holds a product of two float32 exactly, but its sum with a third rounds; rounding that sum to odd instead
    keeps what the second rounding, to float32, needs to know (Boldo and Melquiond, "Emulation of FMA and correctly
    rounded sums: proved algorithms using rounding to odd", 2008).

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
