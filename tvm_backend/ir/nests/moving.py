"""Operators that move numbers, and others whose places or types need a rule of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.mapper.nests import Code
from archloom.oracle.affine import Affine
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank
from archloom.tvm_backend.ir.nests.conversions import converted, dequantized, quantized
from archloom.tvm_backend.ir.nests.reading import WHOLE_NUMBERS, WIDE, Index, Reading, dense, item_of
from archloom.tvm_backend.ir.nests.scalars import apply
from archloom.tvm_backend.ir.nests.wide import saturated
from archloom.tvm_backend.ir.sweeps import NotQuantized


def _permuted(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    axes = ir.permutation(call)
    return reading.at(call.args[0], code, tuple(index[axes.index(i)] for i in range(len(index))))


def _reshaped(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    """Of the same number in the order of rows: each axis is what is left after those before it."""
    shape = ir.shape_of(call.args[0])
    place = dense(ir.shape_of(call), index)
    strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    reading.cut(place, strides)
    found = []
    for stride in strides:
        whole, place = _divided(reading, place, stride)
        found.append(whole)
    return reading.at(call.args[0], code, tuple(found))


def _divided(reading: Reading, place: Affine, stride: int) -> tuple[Affine, Affine]:
    """Quotient and remainder of a place, whose axes are cut for it."""
    whole = Affine.build(place.constant // stride, [(a, c // stride) for a, c in place.terms if c % stride == 0])
    rest = place - whole * stride
    if reading.largest(rest) >= stride:
        raise NotQuantized(f"a quotient of {place} by {stride} is not linear")
    return whole, rest


def _repeated(part: int) -> "Callable[[Reading, ir.Call, Code, Index], int]":
    """Of elements that stand in a row so many times (the quotient of a place, 0), or of tensors (the rest, 1)."""
    def number(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
        shape, places = ir.shape_of(call.args[0]), list(index[len(index) - len(ir.shape_of(call.args[0])):])
        for axis, (extent, made) in enumerate(zip(shape, ir.shape_of(call)[-len(shape):], strict=True)):
            by = extent if part else made // extent
            if made != extent:
                reading.cut(places[axis], [by])
                places[axis] = _divided(reading, places[axis], by)[part]
        return reading.at(call.args[0], code, tuple(places))

    return number


def _sliced(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    data, axes, begin, _, *more = call.args
    shape, places = ir.shape_of(data), list(index)
    strides = _ints(more[0]) if more else [1] * len(_ints(axes))
    for axis, first, step in zip(_ints(axes), _ints(begin), strides, strict=True):
        first = max(0, min(first + shape[axis] * (first < 0), shape[axis] - (step < 0)))
        places[axis] = places[axis] * step + first
    return reading.at(data, code, tuple(places))


def _ints(given: Any) -> list[int]:
    """Numbers of an argument, however it is written."""
    if isinstance(given, tuple):
        return list(map(int, given))
    values = ir.tuple_fields(given)
    if values is not None:
        return [int(ir.scalar_of(v)) for v in values]
    shape = ir.shape_values(given)
    return list(shape) if shape is not None else [int(v) for v in np.ravel(ir.const_value(given))]


def _taken(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    """By places that are linear, or that are read."""
    data, indices = call.args
    shape = ir.shape_of(data)
    axis = ir.attr(call, "axis")
    if axis is None or (len(ir.shape_of(indices)) > 1 and not ir.is_tensor(indices)):
        raise NotQuantized("it takes elements of a flat tensor")
    axis, rank = int(axis) % len(shape), len(ir.shape_of(indices))
    before, at, behind = index[:axis], index[axis:axis + rank], index[axis + rank:]
    if ir.is_constant(indices) and not is_blank(ir.const_value(indices)):
        place = _linear(reading, ir.const_value(indices), at, shape[axis])
        if place is not None:
            return reading.at(data, code, (*before, place, *behind))
    if ir.is_var(data) and reading.lookup(data) is not None:
        raise NotQuantized("it takes elements of what is computed here")
    if ir.dtype_of(indices) not in WHOLE_NUMBERS:
        raise NotQuantized(f"places are {ir.dtype_of(indices)}")
    words = _whole(reading, indices, code, at)
    inside = code.apply("whole_maximum", code.apply("whole_minimum", words, code.whole(shape[axis] - 1)), code.whole(0))
    scaled = code.apply("whole_multiply", inside, code.whole(math.prod(shape[axis + 1:])))
    of, first = reading.place(data, (*before, Affine(0), *behind))
    if reading.words_of(data) == 2:
        return code.gather(of, first * 2 + reading.half, code.apply("shift_left", scaled, code.whole(1)))
    found = code.gather(of, first, scaled, item_of(ir.dtype_of(data)))
    return code.apply("shift_right", found, code.whole(31)) if reading.half else found


def _whole(reading: Reading, expr: Any, code: Code, index: Index) -> int:
    """A whole number as the int32 next to it."""
    if ir.dtype_of(expr) == WIDE:
        return saturated(code, reading.wide(expr, code, index))
    return reading.word(0, expr, code, index)


def _linear(reading: Reading, table: np.ndarray, index: Index, extent: int) -> Affine | None:
    """What a table has at a place, where that is linear in the axes."""
    table = np.clip(np.where(table < 0, table + extent, table).astype(np.int64), 0, extent - 1)
    place = dense(table.shape, index)
    flat = table.reshape(-1)
    reading.cut(place, _steps(flat))
    names = [str(a) for a, _ in place.terms if reading.extents[str(a)] > 1]
    first = int(flat[place.constant])
    linear = Affine(first)
    for name in names:
        at = place.constant + place.coefficient(name)
        linear = linear + Affine.variable(name) * (int(flat[at]) - first)
    values = np.meshgrid(*(np.arange(reading.extents[n]) for n in names), indexing="ij")
    grids: dict[str, np.ndarray] = dict(zip(names, values, strict=True))
    still = {str(a): np.zeros((), np.int64) for a, _ in place.terms if str(a) not in grids}
    agree = np.array_equal(flat[place.evaluate({**grids, **still})], np.broadcast_to(linear.evaluate(grids), next(
        iter(grids.values()), np.zeros(())).shape))
    return linear if agree else None


def _steps(flat: np.ndarray) -> list[int]:
    """Numbers of elements after which a table goes on in another step, each a multiple of the one before."""
    found, length = [], 1
    while len(flat) > 1:
        steps = np.diff(flat)
        other = np.flatnonzero(steps != steps[0])
        run = int(other[0]) + 1 if len(other) else len(flat)
        if run == 1 or len(flat) % run:
            break
        length *= run
        found.append(length)
        flat = flat[::run]
    return found


def _spread(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    return reading.broadcast(call.args[0], code, index)


MOST_POWER = 4
"""The largest one that is made of products and roots."""


def _power(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    exponent = ir.number_of(call.args[1])
    x = reading.broadcast(call.args[0], code, index)
    quarters = 0 if exponent is None else abs(exponent) * 4
    if exponent is None or quarters not in range(1, 4 * MOST_POWER + 1):
        raise NotQuantized(f"a power other than quarters up to {MOST_POWER}")
    factors, whole = [x] * (int(quarters) // 4), int(quarters) % 4
    if whole:
        root = code.apply("sqrt", x)
        factors += [root] * (whole // 2) + ([code.apply("sqrt", root)] if whole % 2 else [])
    found = factors[0]
    for factor in factors[1:]:
        found = code.apply("multiply", found, factor)
    return apply(code, "reciprocal", found) if exponent < 0 else found


PLACED: Mapping[str, Callable[[Reading, ir.Call, Code, Index], int]] = {
    "permute_dims": _permuted, "strided_slice": _sliced, "take": _taken, "broadcast_to": _spread, "power": _power,
    "astype": converted, "quantize": quantized, "dequantize": dequantized, "repeat": _repeated(0), "tile": _repeated(1),
    **dict.fromkeys(("reshape", "expand_dims", "squeeze", "flatten"), _reshaped)}
"""How a number of a result comes from operands at other places."""
