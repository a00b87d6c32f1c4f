"""How JAX holds tensors, and the JAX counterpart of :mod:`archloom.oracle.taidl.operators.numbers`.

A *carrier* is what JAX holds for a tensor: integers of 2 and 4 bits are held in 8 bits, floating-point numbers of up to
8 bits as their bits in u8, all others in their own type. So no operator depends on how XLA treats a type of 4 bits,
and what only moves elements is the same for all types.

XLA's CPU backend takes subnormal f32 and f64 for zeros in arithmetic, but not where it only compares or selects;
:func:`flush` does it there, :func:`native` on other backends.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from archloom.oracle.late_jax import jax, jnp, lax
from archloom.oracle.native import ALONE, fused, fuses
from archloom.oracle.taidl.operators import numbers
from archloom.oracle.taidl.types import element_type, limits, numpy_dtype

xp: Any = jnp


def carrier_name(dtype: str) -> str:
    """NumPy's (JAX's) name of the type that holds elements of a TAIDL type."""
    kind = element_type(dtype)
    if kind.kind == "quant":
        return carrier_name(kind.storage)
    if kind.kind in ("int", "uint") and kind.bits < 8:
        return kind.kind + "8"
    return "uint8" if kind.kind in ("float", "scale") and kind.bits <= 8 else kind.numpy


def carrier_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(jnp.dtype(carrier_name(dtype)))


def is_wide(dtype: str) -> bool:
    """Whether JAX needs its 64-bit mode for the type."""
    kind = element_type(dtype)
    return element_type(kind.part or dtype).bits == 64


def constant(number: float, dtype: str) -> np.ndarray[Any, Any]:
    """The carrier of a number (an integer may be given as any with its bits)."""
    return carried(numbers.constant(number, dtype), dtype)


def carried(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Elements of the interpreter as their carrier, in NumPy."""
    target = carrier_dtype(dtype)
    if array.dtype == target:
        return array
    return array.view(np.uint8) if element_type(dtype).kind in ("float", "scale") else array.astype(target)


def elements(carrier: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """A carrier as elements of the interpreter, in NumPy."""
    target = numpy_dtype(dtype)
    if carrier.dtype == target:
        return carrier
    return carrier.view(target) if element_type(dtype).kind in ("float", "scale") else carrier.astype(target)


def value(x: Any, dtype: str) -> Any:
    """The numbers that a carrier holds (see :mod:`archloom.oracle.taidl.operators.numbers`)."""
    kind = element_type(dtype)
    if kind.kind not in ("float", "scale") or kind.bits >= 32:
        return x
    if kind.bits == 8:
        x = lax.bitcast_convert_type(x, jnp.dtype(kind.numpy))
    elif kind.bits < 8:
        return _decoded(x, kind.numpy)
    return x.astype(jnp.float32)


def element(x: Any, dtype: str) -> Any:
    """Numbers as a carrier: integers wrap, floats are rounded once, NaN is 0 where the type has none."""
    kind = element_type(dtype)
    if kind.kind in ("int", "uint"):
        x = x.astype(carrier_dtype(dtype))
        if kind.bits >= 8:
            return x
        shift = np.asarray(8 - kind.bits, x.dtype)
        return (x << shift) >> shift
    if kind.kind not in ("float", "scale"):
        return x.astype(carrier_dtype(dtype))
    if kind.bits < 8:
        return _encoded(x, kind.numpy)
    if kind.bits == 8:
        made = lax.bitcast_convert_type(x.astype(jnp.dtype(kind.numpy)), jnp.uint8)
        if kind.kind == "scale":
            # what is not positive is NaN; XLA's folding of constants has other results
            return jnp.where(lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32) > 0, made, np.uint8(255))
        if not kind.name.endswith("fnuz"):
            return made
        # one of XLA's emitters gives -0 for what is too small, whose bits are those of NaN in these types
        least = np.float32(jnp.finfo(jnp.dtype(kind.numpy)).smallest_subnormal) / np.float32(2)
        return jnp.where(jnp.abs(x) <= least, np.uint8(0), made)
    return (flush(x) if kind.name == "bf16" and x.dtype != jnp.bfloat16 else x).astype(jnp.dtype(kind.numpy))


def _form(name: str) -> tuple[int, int, int]:
    """Exponent bits, mantissa bits and bias of ``float4_e2m1fn`` and its like (no infinities, no NaN)."""
    exponent, mantissa = int(name.split("_e")[1][0]), int(name.split("m")[1][0])
    return exponent, mantissa, (1 << exponent - 1) - 1


def _decoded(codes: Any, name: str) -> Any:
    exponent, mantissa, bias = _form(name)
    code = codes.astype(jnp.uint32)
    magnitude = code & np.uint32((1 << exponent + mantissa) - 1)
    normal = lax.bitcast_convert_type(
        (magnitude + np.uint32(127 - bias << mantissa)) << np.uint32(23 - mantissa), jnp.float32)
    small = magnitude.astype(jnp.float32) * np.float32(2.0 ** (1 - bias - mantissa))
    absolute = jnp.where(magnitude < np.uint32(1 << mantissa), small, normal)
    return jnp.where(code >> np.uint32(exponent + mantissa) != 0, -absolute, absolute)


def _encoded(x: Any, name: str) -> Any:
    exponent, mantissa, bias = _form(name)
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    sign, magnitude = bits >> np.uint32(31), bits & np.uint32(0x7FFFFFFF)
    drop = 23 - mantissa
    up = (magnitude >> np.uint32(drop) & np.uint32(1)) + np.uint32((1 << drop - 1) - 1)
    normal = ((magnitude + up) >> np.uint32(drop)) - np.uint32(127 - bias << mantissa)
    absolute = lax.bitcast_convert_type(magnitude, jnp.float32)
    small = jnp.minimum(absolute, np.float32(2.0 ** (1 - bias))) * np.float32(2.0 ** (bias + mantissa - 1))
    ticks = lax.round(small, lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.uint32)
    code = jnp.where(absolute < np.float32(2.0 ** (1 - bias)), ticks, normal)
    code = jnp.minimum(code, np.uint32((1 << exponent + mantissa) - 1)) | sign << np.uint32(exponent + mantissa)
    return jnp.where(jnp.isnan(x), np.uint32(0), code).astype(jnp.uint8)


# --- exact floating point -----------------------------------------------------------------------------------------


def uncontracted(x: Any) -> Any:
    """``x``, whatever it is, through a selection that XLA's CPU backend cannot see through.

    Its code generator fuses the product in ``a * b + c`` into the addition, without rounding it (an FMA), and has no
    option against that. Behind a selection the product stands alone.
    """
    return jnp.where(jnp.abs(x) <= jnp.finfo(x.dtype).max, x, x + x)


def flush(x: Any) -> Any:
    """Subnormal f32 and f64 as zeros of their sign."""
    if x.dtype not in (jnp.float32, jnp.float64):
        return x
    return jnp.where(jnp.abs(x) < np.finfo(x.dtype).tiny, jnp.copysign(np.zeros((), x.dtype), x), x)


def native(x: Any) -> Any:
    """``x`` with subnormals flushed where the backend does not do so by itself in arithmetic."""
    return x if jax.default_backend() == "cpu" else flush(x)


def tied(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands of a rounding operation such that XLA cannot rewrite it.

    XLA joins the constants of ``(x * 2.1) * 3.3`` and ``(x + 2.1) + 3.3``, divides by multiplying with the inverse of
    what is broadcast, drops ``+ 0.0``, and makes ``1 / sqrt(x)`` an approximation: each with other bits. Behind
    selections, the second one by the first operand, it sees neither the operands' operations nor a second constant.
    """
    a, b = native(uncontracted(a)), native(uncontracted(b))
    return a, jnp.where(a == a, b, a)


def add(a: Any, b: Any) -> Any:
    """The rounded sum of floats; 0.0 + -0.0 is 0.0, also where XLA sees that the first is a constant."""
    a, b = tied(a, b)
    return native(jnp.where(b == b, a, b) + b)


def _rounded(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: native(f(*tied(a, b)))


subtract, multiply, divide = _rounded(operator.sub), _rounded(operator.mul), _rounded(operator.truediv)
"""The rounded difference, product and quotient of floats."""


def sqrt(x: Any) -> Any:
    """The rounded square root of floats."""
    return jnp.sqrt(native(uncontracted(x)))


def bits(x: Any, dtype: Any) -> Any:
    """The bits of elements as those of another NumPy type of their size."""
    return lax.bitcast_convert_type(x, dtype)


def at(x: Any, index: Any, axis: int) -> Any:
    """As :func:`.numbers.at`."""
    return lax.dynamic_index_in_dim(x, index, axis, keepdims=False)


def repeat(start: int, stop: int, step: Callable[[Any, Any], Any], state: Any) -> Any:
    """As :func:`.numbers.repeat`, for a state of arrays of JAX."""
    return lax.fori_loop(start, stop, step, jax.tree.map(jnp.asarray, state))


def scan(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, inputs: Sequence[Any]) -> tuple[Any, Any]:
    """As :func:`.numbers.scan`."""
    return lax.scan(step, state, list(inputs))  # type: ignore[no-any-return]


def pair(real: Any, imaginary: Any) -> Any:
    """Complex numbers of their parts, which are of one type."""
    return lax.complex(*jnp.broadcast_arrays(real, imaginary))


def padded(x: Any, fill: Any, low: Sequence[int], high: Sequence[int], steps: Sequence[int]) -> Any:
    """As :func:`.numbers.padded`."""
    return lax.pad(x, fill, [(lo, hi, step - 1) for lo, hi, step in zip(low, high, steps, strict=True)])


# --- numbers of one type as numbers of another --------------------------------------------------------------------


def narrowed(x: Any) -> Any:
    """f64 as f32, rounded once, subnormal numbers as zeros."""
    return native(x.astype(jnp.float32))


def sticky(x: Any) -> Any:
    """Integers as f32; one that is not exact has its last bit set, as in :func:`.conversion.odd`."""
    wide = jnp.dtype("uint64" if x.dtype.itemsize == 8 else "uint32")
    negative = x < 0
    bits = 8 * wide.itemsize
    plain = x.astype(wide)
    magnitude = jnp.where(negative, np.zeros((), wide) - plain, plain)
    shift = jnp.maximum(np.int32(bits - 24) - lax.clz(magnitude).astype(jnp.int32), np.int32(0)).astype(wide)
    cut = magnitude >> shift
    cut = cut | ((cut << shift) != magnitude).astype(wide)
    power = lax.bitcast_convert_type((shift.astype(jnp.uint32) + np.uint32(127)) << np.uint32(23), jnp.float32)
    result = cut.astype(jnp.float32) * power
    return jnp.where(negative, -result, result)


def saturated(x: Any, storage: str) -> Any:
    """Floats as integers: truncated, saturated, NaN as 0; the carrier of an integer type."""
    low, high = limits(storage)
    target = carrier_dtype(storage)
    # the largest float not above the bound: 2^31 - 1 itself is no f32
    most = np.asarray(high, x.dtype)
    if int(most) > high:
        most = np.nextafter(most, np.zeros((), x.dtype))
    inside = jnp.clip(x, np.asarray(low, x.dtype), most).astype(target)
    above = jnp.where(x > most, np.asarray(high, target), inside)
    return jnp.where(jnp.isnan(x), np.zeros((), target), above)


# --- fused multiply-add ---------------------------------------------------------------------------------------------

_UNIT = 2.0**-149
"""The smallest positive float32."""


def fma(a: Any, b: Any, c: Any, *, flush: bool) -> Any:
    """As :func:`.numbers.fma`, of arrays that broadcast against each other.

    XLA has no such operation, its CPU backend fuses what it likes, and it computes with subnormal float32 as zeros. So
    the sum is made in float64, where all of this is exact, and subnormal numbers pass by as integers; of many numbers,
    by machine code, where that is possible. Operands that are NumPy arrays are constants: with ``b`` 1 or ``c`` -0, sum
    and product are left, which need less.
    """
    if fuses(np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c))):
        return fused(ALONE[flush], *(jnp.asarray(x, jnp.float32) for x in (a, b, c)))
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
        small = np.abs(v) < np.float32(numbers.LEAST_NORMAL)
        return np.where(small & flush, np.copysign(np.float32(0), v), v).astype(np.float64)
    wide = lax.convert_element_type(v, np.float64)
    pattern = bits(v, np.int32)
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
    sign = lax.select(lax.lt(bits(x, np.int64), _full(x, 0, np.int64)), _full(x, -(1 << 31), np.int32),
                      _full(x, 0, np.int32))
    if not flush:
        units = lax.round(lax.mul(size, _full(x, 1 / _UNIT)), lax.RoundingMethod.TO_NEAREST_EVEN)
        sign = lax.bitwise_or(lax.convert_element_type(units, np.int32), sign)
    least = _full(x, numbers.TINY if flush else numbers.LEAST_NORMAL)
    return lax.select(lax.lt(size, least), bits(sign, np.float32), rounded)


def _sum_to_odd(p: Any, c: Any) -> Any:
    """``p + c`` rounded to odd."""
    s = p + c
    high = s - p
    error = (p - (s - high)) + (c - high)
    pattern = bits(s, np.int64)
    zero = _full(s, 0.0)
    inexact = lax.bitwise_and(lax.lt(lax.abs(s), _full(s, np.inf)), lax.ne(error, zero))
    towards = lax.select(lax.eq(lax.gt(error, zero), lax.gt(s, zero)), pattern, lax.sub(pattern, _full(pattern, 1)))
    odd = lax.bitwise_or(towards, _full(pattern, 1))
    return bits(lax.select(inexact, odd, pattern), np.float64)


def _full(like: Any, number: float, dtype: Any = None) -> Any:
    return lax.full_like(like, number, dtype)
