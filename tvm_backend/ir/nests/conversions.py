"""Conversions between types: of numbers as they are, and of those that quantized integers stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.mapper.nests import Code
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests.reading import BYTES, FLOATS, INTEGERS, WIDE, Index, Reading
from archloom.tvm_backend.ir.nests.scalars import chosen
from archloom.tvm_backend.ir.nests.wide import to_float, truth
from archloom.tvm_backend.ir.sweeps import NotQuantized

BEYOND = 1 << 10
"""More than any byte is from any zero point: what is farther off is saturated whatever that is."""


def converted(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    """``astype``."""
    source, half = call.args[0], reading.half
    kinds = ir.dtype_of(source), ir.dtype_of(call)
    if kinds[0] == kinds[1]:
        return reading.broadcast(source, code, index)
    if kinds[0] == WIDE and (made := "float32" if kinds[1] in FLOATS else kinds[1]) in OF_WIDE:
        return OF_WIDE[made](code, reading.wide(source, code, index))
    given = _sort(kinds[0]), "float32" if kinds[1] in FLOATS else kinds[1]
    if given not in CONVERTED and (kinds[1] != WIDE or given[0] not in ("int32", "bool")):
        raise NotQuantized(f"it converts {kinds[0]} to {kinds[1]}")
    reading.half = 0
    found, reading.half = reading.broadcast(source, code, index), half
    if kinds[1] != WIDE:
        return CONVERTED[given](code, found)
    found = CONVERTED["bool", "int32"](code, found) if kinds[0] == "bool" else found
    return code.apply("shift_right", found, code.whole(31)) if half else found


def _sort(dtype: str) -> str:
    """The type as which a number is computed."""
    return "int32" if dtype in BYTES else "float32" if dtype in FLOATS else dtype


def _to_float(code: Code, x: int) -> int:
    return code.apply("to_float", x)


def _lowest_byte(code: Code, x: int) -> int:
    return code.apply("shift_right", code.apply("shift_left", x, code.whole(24)), code.whole(24))


def _truncated(low: int, high: int) -> Callable[[Code, int], int]:
    """Without what is behind the point, next to what bytes hold."""
    return lambda code, x: _within(code, code.apply("truncated", x), low, high, "whole_")


OF_WIDE: Mapping[str, Callable[[Code, Any], int]] = {
    "int32": lambda code, x: x.low(), "float32": to_float, "bool": truth}
CONVERTED: Mapping[tuple[str, str], Callable[[Code, int], int]] = {
    ("float32", "bool"): lambda code, x: x, ("float32", "float32"): lambda code, x: x,
    ("float32", "int32"): lambda code, x: code.apply("truncated", x),
    ("float32", "int8"): _truncated(-128, 127), ("float32", "uint8"): _truncated(0, 255),
    ("int32", "float32"): _to_float, ("int32", "bool"): _to_float, ("int32", "int32"): lambda code, x: x,
    ("int32", "int8"): _lowest_byte, ("int32", "uint8"): lambda code, x: code.apply("whole_and", x, code.whole(255)),
    ("bool", "float32"): lambda code, x: chosen(code, x, code.number(1), code.number(0)),
    **{("bool", dtype): lambda code, x: chosen(code, x, code.whole(1), code.whole(0)) for dtype in INTEGERS},
}
"""Conversions by types, of int64 and of others; a truth is a number that is 0 or not, bytes are int32 on the way."""


# --- quantized integers ----------------------------------------------------------------------------------------------
def dequantized(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    """``(integer - zero point) * scale``"""
    data, scale, zero = call.args
    if ir.dtype_of(data) not in INTEGERS or ir.dtype_of(call) != "float32":
        raise NotQuantized(f"it dequantizes {ir.dtype_of(data)} to {ir.dtype_of(call)}")
    found = reading.at(data, code, index)
    if _number(zero) != 0 and not (ir.is_constant(zero) and not ir.const_value(zero).any()):
        found = code.apply("whole_subtract", found, _along(reading, call, zero, code, index))
    found = code.apply("to_float", found)
    return found if _number(scale) == 1 else code.apply(
        "multiply", found, _along(reading, call, scale, code, index))


def quantized(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    """``saturate(round_half_even(x / scale) + zero point)``; NaN is the least number."""
    data, scale, zero = call.args
    dtype = ir.dtype_of(call)
    if dtype not in BYTES or ir.dtype_of(data) != "float32":
        raise NotQuantized(f"it quantizes {ir.dtype_of(data)} to {dtype}")
    real, limits, known = reading.at(data, code, index), np.iinfo(dtype), _number(zero)
    if (step := _number(scale)) is None:
        real = code.apply("divide", real, _along(reading, call, scale, code, index))
    elif step != 1:
        power = step > 0 and math.frexp(step)[0] == 0.5 and 2.0**-100 < step < 2.0**100
        real = code.apply(*("multiply", real, code.number(1 / step)) if power else ("divide", real, code.number(step)))
    low, high = int(limits.min), int(limits.max)
    if known is None:
        whole = code.apply("to_whole", _within(code, real, -BEYOND, BEYOND))
        moved = code.apply("whole_add", whole, _along(reading, call, zero, code, index))
        return _within(code, moved, low, high, "whole_")
    if known == 0 and ir.same(call, reading.stored):  # saturated by the store
        return code.apply("to_whole", code.apply("maximum", real, code.number(low)))
    whole = code.apply("to_whole", _within(code, real, low - int(known), high - int(known)))
    return code.apply("whole_add", whole, code.whole(int(known))) if known else whole


def _within(code: Code, x: int, low: int, high: int, prefix: str = "") -> int:
    """From ``low``, which NaN becomes, to ``high``."""
    number = code.whole if prefix else code.number
    return code.apply(f"{prefix}minimum", code.apply(f"{prefix}maximum", x, number(low)), number(high))


def _number(expr: Any) -> float | None:
    """The number of a scale or zero point that is the same for all elements, and constant."""
    return ir.number_of(expr)


def _along(reading: Reading, call: ir.Call, expr: Any, code: Code, index: Index) -> int:
    """A scale or zero point at a place: of all elements, or of those along the call's axis."""
    shape = ir.shape_of(expr)
    if math.prod(shape) == 1:
        return reading.at(expr, code, tuple(place * 0 for place in index[:len(shape)]))
    return reading.at(expr, code, (index[int(ir.attr(call, "axis")) % len(index)],))
