"""Operators that make tensors of nothing, or move elements to places that are known when a stream is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from archloom.oracle.late_jax import lax
from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import base
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, in_both, integer, integers, ints
from archloom.oracle.taidl.operators.conversion import bits_as, converted, width

# --- creation -----------------------------------------------------------------------------------------------------


def _constant_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    return f"{{}} is not defined for {result.dtype}" if base.is_kind(result.dtype, "quant") else None


def _iota(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    column = [1] * len(result.shape)
    column[a["dim"]] = -1
    count = lib.xp.arange(result.shape[a["dim"]], dtype=np.int32).reshape(column)
    return lib.xp.broadcast_to(converted(lib, count, "i32", result.dtype), result.shape)


# --- shapes -------------------------------------------------------------------------------------------------------


def _broadcast_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    if operands[0].shape:
        return f"broadcast takes a scalar, found {operands[0]}; broadcast_in_dim takes the others"
    return base.wrong(result, result.shape, operands[0].dtype)


def _broadcast_in_dim_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), dims = operands, integers(a, "dims")
    if len(dims) != len(x.shape):
        return f"dims has {len(dims)} entries for the {len(x.shape)} axes of {x}"
    fault = base.axes_fault(dims, len(result.shape))
    if fault:
        return fault
    for extent, axis in zip(x.shape, dims, strict=True):
        if extent != 1 and base.differ(extent, result.shape[int(axis)]):
            return f"cannot broadcast {x} to {result} along dims {base.show(dims)}"
    return base.wrong(result, result.shape, x.dtype)


def _aligned(x: Any, dims: Sequence[int], rank: int) -> Any:
    """The tensor with its axes in the order of the result's, and axes of extent 1 for those that it has not."""
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    aligned = [1] * rank
    for i in order:
        aligned[dims[i]] = x.shape[i]
    return x.transpose(order).reshape(aligned)


def _reshape_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    fixed = all(isinstance(d, int) for d in x.shape + result.shape)
    if x.dtype != result.dtype or (fixed and math.prod(map(int, x.shape)) != math.prod(map(int, result.shape))):
        return f"is declared {result} but {{}} is given {x}: another number of elements or another type"
    return None


def _transpose_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), dims = operands, integers(a, "dim")
    if sorted(map(str, dims)) != sorted(map(str, range(len(x.shape)))):
        return f"dim={base.show(dims)} is no permutation of the {len(x.shape)} axes of {x}"
    return base.wrong(result, [x.shape[int(d)] for d in dims], x.dtype)


def _reverse_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    return base.axes_fault(integers(a, "dim"), len(x.shape)) or base.wrong(result, x.shape, x.dtype)


def _size_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    return base.axis_fault(a["dim"], len(operands[0].shape)) or base.wrong(result, (), "i32")


def _bits_of(x: Shaped) -> int | None:
    """How many bits a tensor has, where that is known."""
    return math.prod(map(int, x.shape)) * width(x.dtype) if all(isinstance(d, int) for d in x.shape) else None


def _bitcast_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    if base.is_kind(x.dtype, "complex") or base.is_kind(result.dtype, "complex"):
        return "{} does not take complex types: real, imag and complex take and give their parts"
    bits = _bits_of(x), _bits_of(result)
    return f"is declared {result} but {{}} is given {x}: another number of bits" if None not in bits and (
        bits[0] != bits[1]) else None


def _bitcast(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    """A list of elements, joined or split as ``bitcast_convert`` does, in the shape that is declared."""
    flat, source, target = x[0].reshape(-1), width(types[0]), width(result.dtype)
    count = flat.size * source // target
    if source != target:
        flat = flat.reshape(count, -1) if source < target else flat
    kind = TensorType((flat.size, source // target) if source > target else (count,), result.dtype)
    return bits_as(lib, kind, flat, types[0]).reshape(result.shape)


# --- parts --------------------------------------------------------------------------------------------------------


def _slice_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    start, limit, stride = (integers(a, k) for k in ("start", "limit", "stride"))
    stride = stride or (1,) * len(x.shape)
    if not len(start) == len(limit) == len(stride) == len(x.shape):
        return f"start, limit and stride need one entry for each axis of {x}"
    shape: list[Dim] = []
    for extent, lo, hi, step in zip(x.shape, start, limit, stride, strict=True):
        if not (isinstance(lo, int) and isinstance(hi, int) and isinstance(step, int)):
            shape.append("?")
            continue
        if lo < 0 or step < 1 or hi <= lo or (isinstance(extent, int) and hi > extent):
            return f"slice {lo}:{hi}:{step} does not lie in an axis of extent {extent}"
        shape.append(-(-(hi - lo) // step))
    return base.wrong(result, shape, x.dtype)


def _slice(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    stride = a["stride"] or (1,) * len(a["start"])
    return x[0][tuple(slice(*part) for part in zip(a["start"], a["limit"], stride, strict=True))]


def _pad_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), low, high = operands, integers(a, "low"), integers(a, "high")
    inner = integers(a, "interior") or (0,) * len(x.shape)
    if not len(low) == len(high) == len(inner) == len(x.shape):
        return f"low, high and interior need one entry for each axis of {x}"
    if base.is_kind(x.dtype, "quant"):
        return f"{{}} is not defined for {x.dtype}"
    shape: list[Dim] = []
    for d, lo, hi, between in zip(x.shape, low, high, inner, strict=True):
        if not all(isinstance(n, int) for n in (d, lo, hi, between)):
            shape.append("?")
            continue
        if int(between) < 0:
            return f"interior must not be negative, found {between}"
        shape.append(int(d) + int(lo) + int(hi) + (int(d) - 1) * int(between))
    return base.wrong(result, shape, x.dtype)


def _pad(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    steps = [n + 1 for n in a["interior"]] or (1,) * len(a["low"])
    return lib.padded(x[0], lib.constant(a["value"], result.dtype), a["low"], a["high"], steps)


def _concatenate_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    axis, first = a["dim"], operands[0]
    fault = base.axis_fault(axis, len(first.shape))
    if fault or not isinstance(axis, int):
        return fault
    for x in operands:
        others = [base.shapes_differ(x.shape[:axis], first.shape[:axis]),
                  base.shapes_differ(x.shape[axis + 1:], first.shape[axis + 1:])]
        if x.dtype != first.dtype or len(x.shape) != len(first.shape) or any(others):
            return f"cannot concatenate {' and '.join(map(str, operands))} along axis {axis}"
    total: Dim = 0
    for x in operands:
        extent = x.shape[axis]
        total = total + extent if isinstance(total, int) and isinstance(extent, int) else "?"
    return base.wrong(result, (*first.shape[:axis], total, *first.shape[axis + 1:]), first.dtype)


ROWS: list[Opcode] = [
    Opcode("constant", 0, _constant_rule, *in_both(
        lambda lib, result, x, a, types: lib.xp.full(result.shape, lib.constant(a["value"], result.dtype))),
        "creation", "an integer expression or a float, wrapped or rounded to the type", value=True),
    Opcode("iota", 0,
           lambda result, x, a: _constant_rule(result, x, a) or base.axis_fault(a["dim"], len(result.shape)),
           *in_both(_iota), "creation", "0, 1, 2, ... along an axis", (integer("dim", None, "iota_dimension"),)),
    Opcode("broadcast", 1, _broadcast_rule, *in_both(
        lambda lib, result, x, a, types: lib.xp.broadcast_to(x[0], result.shape)), "layout", "a scalar",
        spelled=("broadcast_type",)),
    Opcode("broadcast_in_dim", 1, _broadcast_in_dim_rule, *in_both(
        lambda lib, result, x, a, types: lib.xp.broadcast_to(
            _aligned(x[0], a["dims"], len(result.shape)), result.shape)),
        "layout", "axis i of the operand is axis `dims`[i] of the result; an extent of 1 is repeated",
        (ints("dims", None, "dimensions", "broadcast_dimensions"),), spelled=("broadcast_dim",)),
    Opcode("reshape", 1, _reshape_rule, *in_both(lambda lib, result, x, a, types: x[0].reshape(result.shape)),
           "layout", "row-major"),
    Opcode("copy", 1, lambda result, x, a: base.wrong(result, x[0].shape, x[0].dtype),
           *in_both(lambda lib, result, x, a, types: x[0]), "layout", "the tensor itself",
           spelled=("optimization_barrier", "opt_barrier")),
    Opcode("bitcast", 1, _bitcast_rule, *in_both(_bitcast), "opaque",
           "the same bits, row-major and lowest first, as another shape and type"),
    Opcode("get_dimension_size", 1, _size_rule, *in_both(
        lambda lib, result, x, a, types: lib.xp.full((), np.int32(x[0].shape[a["dim"]]))), "opaque",
           "the extent of an axis, as i32", (integer("dim", None, "dimension"),)),
    Opcode("transpose", 1, _transpose_rule, *in_both(lambda lib, result, x, a, types: x[0].transpose(a["dim"])),
           "layout", "axis i of the result is axis `dim`[i]", (ints("dim", None, "dimensions", "permutation"),)),
    Opcode("reverse", 1, _reverse_rule, *in_both(lambda lib, result, x, a, types: lib.xp.flip(x[0], a["dim"])),
           "layout", "along the axes named", (ints("dim", None, "dimensions"),)),
    Opcode("slice", 1, _slice_rule, _slice,
           lambda result, x, a, types: lax.slice(x[0], a["start"], a["limit"], a["stride"] or None),
           "layout", "as Python's; `stride` 1 by default", (ints("start"), ints("limit"), ints("stride", ()))),
    Opcode("pad", 1, _pad_rule, *in_both(_pad), "layout",
           "negative edges crop; `interior` (0) is put between neighbours, `value` is 0 by default",
           (ints("low"), ints("high"), Attribute("value", "number", default=0), ints("interior", ()))),
    Opcode("concatenate", None, _concatenate_rule, *in_both(
        lambda lib, result, x, a, types: lib.xp.concatenate(x, axis=a["dim"])),
        "layout", "along an axis", (integer("dim", None, "dimension"),)),
]
