"""Operators from one element type to another: by value, by bits, by rounding, by scale and zero point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import carriers
from archloom.oracle.taidl.operators.base import (
    Attributes,
    Opcode,
    differ,
    in_both,
    integer,
    is_kind,
    types_differ,
    wrong,
)
from archloom.oracle.taidl.operators.complexes import parts
from archloom.oracle.taidl.types import TYPES, ElementType, as_codes, element_type, numpy_dtype

# --- by value -----------------------------------------------------------------------------------------------------


def _convert_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    if "quant" in (element_type(x.dtype).kind, element_type(result.dtype).kind) and x.dtype != result.dtype:
        return "{} does not take quantized types: uniform_quantize and uniform_dequantize do"
    if is_kind(x.dtype, "complex") and not is_kind(result.dtype, "complex"):
        return "{} of complex numbers gives complex ones: real and imag give their parts"
    return wrong(result, x.shape, result.dtype)


def _is_integer(kind: ElementType) -> bool:
    return kind.kind in ("int", "uint", "bool")


def converted(lib: Any, x: Any, source: str, target: str) -> Any:
    """Elements of one type as elements of another, of equal value as far as it can be; ``lib`` as ``in_both`` has it.
    """
    if source == target:
        return x
    v, old, new = lib.value(x, source), element_type(source), element_type(target)
    if new.part:
        halves = parts(lib, x) if old.part else (x, lib.xp.zeros_like(x))
        return lib.pair(*(converted(lib, half, old.part or source, new.part) for half in halves))
    if new.kind == "bool":
        return lib.flush(v) != 0
    if _is_integer(new):
        return lib.element(v if _is_integer(old) else lib.saturated(v, target), target)
    if _is_integer(old):
        exact = new.bits >= 32 or old.bits <= 16
        wide = numpy_dtype(target) if new.bits >= 32 else np.float32
        return lib.element(v.astype(wide) if exact else lib.sticky(v), target)
    if old.bits == 64:
        return lib.narrowed(v) if new.bits == 32 else lib.element(odd(lib, v), target)
    return lib.flush(v).astype(numpy_dtype(target)) if new.bits == 64 else lib.element(v, target)


def odd(lib: Any, x: Any) -> Any:
    """f64 as f32, an inexact one with its last bit set: from there it can be rounded again as if from f64."""
    x = lib.flush(x)
    near = x.astype(np.float32)
    far = abs(near.astype(np.float64)) > abs(x)
    pattern = lib.bits(near, np.uint32) - far.astype(np.uint32)
    inexact = (lib.bits(pattern, np.float32).astype(np.float64) != x) & (abs(x) < np.inf)
    return lib.flush(lib.bits(pattern | inexact.astype(np.uint32), np.float32))


# --- by bits ------------------------------------------------------------------------------------------------------


def width(dtype: str) -> int:
    """Bits that an element has for a bitcast: types of 6 bits have a byte."""
    bits = element_type(dtype).bits
    return 8 if bits == 6 else bits


def _bitcast_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    if is_kind(x.dtype, "complex") or is_kind(result.dtype, "complex"):
        return "{} does not take complex types: real, imag and complex take and give their parts"
    source, target = width(x.dtype), width(result.dtype)
    if source == target:
        return wrong(result, x.shape, result.dtype)
    if source > target:
        return wrong(result, (*x.shape, source // target), result.dtype)
    if not x.shape or differ(x.shape[-1], target // source):
        return f"cannot join the last axis of {x} to {result.dtype}: it must have {target // source} elements"
    return wrong(result, x.shape[:-1], result.dtype)


def _bitcast(result: TensorType, x: Sequence[Any], a: Mapping[str, Any], types: Sequence[str]) -> Any:
    shape, target, narrow = result.shape, numpy_dtype(result.dtype), min(8, element_type(result.dtype).bits)
    widths = [width(types[0]), width(result.dtype)]
    raw = np.ascontiguousarray(x[0]).reshape(-1)
    if min(widths) >= 8 and narrow == 8:
        return raw.view(target).reshape(shape)
    bits = np.unpackbits(raw.view(np.uint8), bitorder="little").reshape(-1, max(widths[0], 8))[:, :widths[0]]
    codes = bits.reshape(-1, widths[1])
    if widths[1] > 8:
        return np.packbits(codes, axis=1, bitorder="little").view(target).reshape(shape)
    joined = np.packbits(codes, axis=1, bitorder="little").reshape(shape)
    return as_codes(joined & np.uint8((1 << narrow) - 1), target)


def bitcast(x: Any, source: str, target: str) -> Any:
    """The bits of a carrier as another type; wider types join the last axis, narrower ones add one."""
    from_bits, to_bits = width(source), width(target)
    if min(from_bits, to_bits) >= 8:
        # XLA joins bitcasts one after the other to one that may not exist, such as from 4 bytes to 2 numbers of 16 bits
        apart = lax.optimization_barrier if 8 < min(from_bits, to_bits) < max(from_bits, to_bits) else lambda v: v
        made = apart(lax.bitcast_convert_type(apart(x), carriers.carrier_dtype(target)))
        small = element_type(target).bits == 6
        return made & np.uint8(63) if small else made
    whole = jnp.dtype(f"uint{max(8, from_bits, to_bits)}")
    plain = code(x, source).astype(whole)
    step = min(from_bits, to_bits)
    shifts = np.arange(0, max(from_bits, to_bits), step).astype(whole)
    if from_bits > to_bits:
        return from_code((plain[..., None] >> shifts) & np.asarray((1 << step) - 1, whole), target)
    if from_bits == to_bits:
        return from_code(plain, target)
    joined = (plain << shifts).sum(axis=-1, dtype=whole)
    return from_code(joined, target)


def bits_as(lib: Any, result: TensorType, x: Any, source: str) -> Any:
    """``bitcast_convert`` in the library of NumPy or of JAX."""
    return _bitcast(result, [x], {}, [source]) if lib.xp is np else bitcast(x, source, result.dtype)


def code(x: Any, dtype: str) -> Any:
    """The bits of a carrier as unsigned numbers."""
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint8)
    plain = lax.bitcast_convert_type(x, jnp.dtype(f"uint{8 * x.dtype.itemsize}"))
    bits = element_type(dtype).bits
    return plain & np.uint8((1 << bits) - 1) if bits < 8 else plain


def from_code(plain: Any, dtype: str) -> Any:
    """The carrier with these bits, given as unsigned numbers."""
    kind, target = element_type(dtype), carriers.carrier_dtype(dtype)
    if target == jnp.bool_:
        return plain != 0
    plain = plain.astype(jnp.dtype(f"uint{8 * target.itemsize}"))
    made = lax.bitcast_convert_type(plain, target)
    if kind.bits < 8 and kind.kind in ("int", "uint", "quant"):
        return carriers.element(made, kind.storage or dtype)
    return made


# --- by rounding --------------------------------------------------------------------------------------------------


def _reduce_precision_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    if not is_kind(x.dtype, "float") or element_type(x.dtype).bits == 64:
        return f"{{}} is not defined for {x.dtype}"
    for name, low, high in (("E", 1, 8), ("M", 0, 23)):
        bits = a[name]
        if isinstance(bits, int) and not low <= bits <= high:
            return f"{name} must be in {low}..{high}, found {bits}"
    return wrong(result, x.shape, x.dtype)


def _reduced(xp: Any, bits: Any, exponent: int, mantissa: int) -> Any:
    """The u32 bits of an f32 in a format with so many bits: ties to even, infinite above, zero below its normals."""
    u = np.uint32
    sign, size = bits & u(0x80000000), bits & u(0x7FFFFFFF)
    drop = 23 - mantissa
    if drop:
        up = ((size >> u(drop)) & u(1)) + u((1 << drop - 1) - 1)
        rounded = ((size + up) >> u(drop)) << u(drop)
    else:
        rounded = size
    bias = (1 << exponent - 1) - 1
    rounded = xp.where(rounded >= u(127 + bias + 1 << 23), u(0x7F800000), rounded)
    # a number is too small by its exponent after the rounding
    rounded = xp.where(rounded < u(127 - bias + 1 << 23), u(0), rounded)
    return sign | xp.where(size > u(0x7F800000), size, rounded)


def rounded_to(lib: Any, x: Any, exponent: int, mantissa: int) -> Any:
    """Numbers of f32 in a format with so many bits."""
    return lib.bits(_reduced(lib.xp, lib.bits(x, np.uint32), exponent, mantissa), np.float32)


def _reduce_precision(lib: Any, result: TensorType, x: Sequence[Any], a: Any, types: Sequence[str]) -> Any:
    return lib.element(rounded_to(lib, lib.value(x[0], types[0]), int(a["E"]), int(a["M"])), result.dtype)


def _stochastic_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, random = operands
    wanted = Shaped(x.shape, f"u{element_type(x.dtype).bits}")
    if not is_kind(x.dtype, "float") or wanted.dtype not in TYPES or not is_kind(result.dtype, "int"):
        return f"{{}} from {x.dtype} to {result.dtype} is not defined: it takes floats and gives signed integers"
    if types_differ(random, wanted):
        return f"the second operand of {{}} must be {wanted}, found {random}"
    return wrong(result, x.shape, result.dtype)


def _stochastic(lib: Any, result: TensorType, x: Sequence[Any], a: Any, types: Sequence[str]) -> Any:
    """Away from zero where the random number, as a fraction of all, is below the fraction that is cut."""
    v = lib.flush(lib.value(x[0], types[0]))
    size, bits = lib.xp.abs(v), element_type(types[1]).bits
    whole = lib.xp.floor(size)
    fraction = lib.xp.where(size < np.inf, size - whole, v.dtype.type(0))
    draw = lib.value(x[1], types[1])
    away = draw < (fraction * v.dtype.type(2.0**bits)).astype(draw.dtype)
    rounded = lib.xp.copysign(whole + away.astype(v.dtype), v)
    return lib.element(lib.saturated(rounded, result.dtype), result.dtype)


# --- by scale and zero point --------------------------------------------------------------------------------------


def _quantize_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    if not is_kind(result.dtype, "quant"):
        return f"is declared {result} but {{}} gives a quantized type"
    if not is_kind(x.dtype, "quant") and x.dtype != "f32":
        return f"{{}} takes f32 or a quantized type, found {x.dtype}"
    return wrong(result, x.shape, result.dtype)


def _dequantize_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    if not is_kind(x.dtype, "quant"):
        return f"{{}} takes a quantized type, found {x.dtype}"
    return wrong(result, x.shape, "f32")


def dequantized(lib: Any, x: Any, dtype: str) -> Any:
    """The f32 that quantized numbers stand for."""
    kind = element_type(dtype)
    stored = lib.subtract(lib.value(x, dtype).astype(np.float32), np.float32(kind.zero_point))
    return lib.multiply(stored, np.float32(kind.scale))


def quantized(lib: Any, x: Any, dtype: str) -> Any:
    """f32 as the nearest quantized number, saturated."""
    kind = element_type(dtype)
    ticks = lib.add(lib.xp.rint(lib.divide(x, np.float32(kind.scale))), np.float32(kind.zero_point))
    return lib.element(lib.saturated(ticks, kind.storage), kind.storage)


def _quantize(lib: Any, result: TensorType, x: Sequence[Any], a: Any, types: Sequence[str]) -> Any:
    return quantized(lib, dequantized(lib, x[0], types[0]) if is_kind(types[0], "quant") else x[0], result.dtype)


ROWS: list[Opcode] = [
    Opcode("convert", 1, _convert_rule, *in_both(
        lambda lib, result, x, a, types: converted(lib, x[0], types[0], result.dtype)),
        "elementwise", "rounds to nearest, ties to even; from floats to integers truncates and saturates, NaN is 0"),
    Opcode("bitcast_convert", 1, _bitcast_rule, _bitcast,
           lambda result, x, a, types: bitcast(x[0], types[0], result.dtype),
           "layout", "the same bits, lowest first; a narrower type adds a last axis, a wider one removes it"),
    Opcode("reduce_precision", 1, _reduce_precision_rule, *in_both(_reduce_precision), "elementwise",
           "rounded to `E` exponent and `M` mantissa bits; what is too large is infinite, what is too small zero",
           (integer("E"), integer("M"))),
    Opcode("stochastic_convert", 2, _stochastic_rule, *in_both(_stochastic), "elementwise",
           "floats to signed integers, away from zero as often as the fraction says, by random bits of an unsigned "
           "type as wide; saturates, NaN is 0"),
    Opcode("uniform_quantize", 1, _quantize_rule, *in_both(_quantize), "elementwise",
           "f32 or another quantized type; round_nearest_even(x / scale) + zero_point, saturated"),
    Opcode("uniform_dequantize", 1, _dequantize_rule, *in_both(
        lambda lib, result, x, a, types: dequantized(lib, x[0], types[0])),
        "elementwise", "(x - zero_point) * scale in f32"),
]
