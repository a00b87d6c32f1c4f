"""What the operators of :mod:`oracle.taidl.opcodes` compute, in NumPy: XLA-HLO's meaning, bit for bit on integers.

A kernel gets the declared shape and element type, the operands and the attributes, all checked before by the
operator's type rule. Integers wrap around; ``convert`` from float to integer truncates and saturates, NaN gives 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from oracle.taidl.fused import fma
from oracle.taidl.opcodes import DTYPES

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Kernel: TypeAlias = Callable[[tuple[int, ...], Any, Sequence[Any], Mapping[str, Any]], Any]


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of a TAIDL element type (``"i8"`` → int8; i1 is bool)."""
    if name == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    kind, bits = DTYPES[name]
    return np.dtype(bool) if kind == "bool" else np.dtype(f"{kind}{bits}")


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    """An integer reduced to the range of an integer type (two's complement)."""
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


# --- creation and movement ----------------------------------------------------------------------------------------


def _constant(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    value = a["value"]
    return np.full(shape, wrap(value, dtype) if dtype.kind in "iu" else value, dtype)


def _iota(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    column = [1] * len(shape)
    column[a["dim"]] = -1
    return np.broadcast_to(np.arange(shape[a["dim"]]).astype(dtype).reshape(column), shape).copy()


def _broadcast(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    return np.full(shape, x[0])


def _broadcast_in_dim(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    dims = a["dims"]
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    aligned = [1] * len(shape)
    for i in order:
        aligned[dims[i]] = x[0].shape[i]
    return np.broadcast_to(x[0].transpose(order).reshape(aligned), shape).copy()


def _slice(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    stride = a["stride"] or (1,) * len(a["start"])
    return x[0][tuple(slice(*part) for part in zip(a["start"], a["limit"], stride, strict=True))]


def _pad(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    out = _constant(shape, dtype, (), {"value": a["value"]})
    # position r of the result shows position r - low of the operand, where there is one; negative edges crop
    first = [max(lo, 0) for lo in a["low"]]
    last = [max(f, min(n, lo + size)) for f, n, lo, size in zip(first, shape, a["low"], x[0].shape, strict=True)]
    into = tuple(slice(f, e) for f, e in zip(first, last, strict=True))
    out[into] = x[0][tuple(slice(f - lo, e - lo) for f, e, lo in zip(first, last, a["low"], strict=True))]
    return out


def _convert(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    (value,) = x
    if dtype.kind in "iu" and value.dtype.kind not in "iub":
        return _float_to_int(value, dtype)
    return value != 0 if dtype.kind == "b" else value.astype(dtype)


def _float_to_int(value: Any, dtype: np.dtype[Any]) -> Any:
    info = np.iinfo(dtype)
    wide = np.trunc(value.astype(np.float64))
    # the bounds are exact powers of two in f64; the upper one is excluded
    above, below = wide >= float(info.max) + (dtype.itemsize < 8), wide < float(info.min)
    safe = np.where(above | below | np.isnan(wide), 0.0, wide).astype(dtype)
    return np.where(above, dtype.type(info.max), np.where(below, dtype.type(info.min), safe))


def _bitcast_convert(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    value = np.ascontiguousarray(x[0]).reshape(-1)
    return value.view(dtype).reshape(shape)


# --- element by element -------------------------------------------------------------------------------------------


def _ufunc(f: Callable[..., Any]) -> Kernel:
    return lambda shape, dtype, x, a: f(*x)


def _clamp(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    return np.minimum(np.maximum(x[1], x[0]), x[2])


def _round_away(value: Any) -> Any:
    whole = np.trunc(value)
    return np.where(np.abs(value - whole) >= 0.5, whole + np.copysign(value.dtype.type(1), value), whole)


def _shift(f: Callable[..., Any], logical: bool, fill: bool) -> Kernel:
    """A shift whose amounts count as unsigned; those of the width or more give ``fill`` (0, or the sign)."""

    def kernel(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
        bits = dtype.itemsize * 8
        unsigned = np.dtype(f"uint{bits}")
        amount = x[1].view(unsigned)
        value = x[0].view(unsigned if logical else np.dtype(f"int{bits}"))
        limited = np.minimum(amount, unsigned.type(bits - 1)).astype(value.dtype)
        shifted = f(value, limited)
        return (shifted if fill else np.where(amount < bits, shifted, value.dtype.type(0))).view(dtype)

    return kernel


_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
            "ge": np.greater_equal}


def _compare(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    return _COMPARE[a["direction"]](x[0], x[1])


# --- contractions and reductions ----------------------------------------------------------------------------------

_LARGE_DOT = 1 << 16
"""Multiply-accumulates from which NumPy's integer matrix product loses to BLAS in float64."""


def _dot_general(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    left = _as_matrices(x[0], a["lhs_batch"], a["lhs_contracting"], contracting_last=True)
    right = _as_matrices(x[1], a["rhs_batch"], a["rhs_contracting"], contracting_last=False)
    if a.get("rounding") == "fused":
        return _fused(left, right, flush=a["subnormals"] == "flush").reshape(shape)
    return _matmul(left, right, dtype).reshape(shape)


def _as_matrices(x: Any, batch: Sequence[int], contracting: Sequence[int], *, contracting_last: bool) -> Any:
    if x.ndim == 2 and not batch and tuple(contracting) == ((1,) if contracting_last else (0,)):
        return x
    free = [i for i in range(x.ndim) if i not in (*batch, *contracting)]
    inner = [*free, *contracting] if contracting_last else [*contracting, *free]
    sizes = [math.prod(x.shape[i] for i in part) for part in (batch, free, contracting)]
    matrix = (sizes[1], sizes[2]) if contracting_last else (sizes[2], sizes[1])
    return x.transpose([*batch, *inner]).reshape(sizes[0], *matrix)


def _matmul(left: Any, right: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "iu":
        return _ordered(left.astype(dtype), right.astype(dtype))
    if left.shape[-2] * left.shape[-1] * right.shape[-1] < _LARGE_DOT:
        return left.astype(dtype) @ right.astype(dtype)
    bound = float(_magnitude(left)) * float(_magnitude(right)) * left.shape[-1]
    if bound >= 2.0**53:
        return left.astype(dtype) @ right.astype(dtype)
    # every partial sum is an integer below 2**53, so float64 holds it exactly in any order
    return (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64).astype(dtype)


def _ordered(left: Any, right: Any) -> Any:
    """In the order of the contracted axis, each product and each sum rounded: what every fast path must give."""
    total = left[..., :1] * right[..., :1, :]
    for i in range(1, left.shape[-1]):
        total = total + left[..., i:i + 1] * right[..., i:i + 1, :]
    return total


def _fused(left: Any, right: Any, *, flush: bool) -> Any:
    """In the order of the contracted axis, from zero on, one rounding for each product that is added."""
    left, right = left.astype(np.float32), right.astype(np.float32)
    total = np.zeros((*left.shape[:-1], right.shape[-1]), np.float32)
    for i in range(left.shape[-1]):
        total = fma(*np.broadcast_arrays(left[..., i:i + 1], right[..., i:i + 1, :], total), flush=flush)
    return total


def _magnitude(x: Any) -> int:
    return max(abs(int(x.min())), abs(int(x.max())))


_REDUCE: dict[str, Any] = {"add": np.add, "max": np.maximum, "min": np.minimum}


def _reduce(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    f = _REDUCE[a["kind"]]
    return f.reduce(x[0], axis=tuple(a["dim"]), **({"dtype": dtype} if a["kind"] == "add" else {}))


def _reduce_window(shape: tuple[int, ...], dtype: Any, x: Sequence[Any], a: Mapping[str, Any]) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x[0], a["size"])
    picked = windows[tuple(slice(None, None, s) for s in a["stride"])]
    axes = tuple(range(x[0].ndim, 2 * x[0].ndim))
    return _reduce(shape, dtype, (picked,), {"kind": a["kind"], "dim": axes})


KERNELS: dict[str, Kernel] = {
    "constant": _constant,
    "iota": _iota,
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda shape, dtype, x, a: x[0].reshape(shape),
    "transpose": lambda shape, dtype, x, a: x[0].transpose(a["dim"]),
    "slice": _slice,
    "pad": _pad,
    "concatenate": lambda shape, dtype, x, a: np.concatenate(x, axis=a["dim"]),
    "convert": _convert,
    "bitcast_convert": _bitcast_convert,
    "add": _ufunc(np.add),
    "subtract": _ufunc(np.subtract),
    "multiply": _ufunc(np.multiply),
    "maximum": _ufunc(np.maximum),
    "minimum": _ufunc(np.minimum),
    "and": _ufunc(np.bitwise_and),
    "or": _ufunc(np.bitwise_or),
    "xor": _ufunc(np.bitwise_xor),
    "not": _ufunc(np.invert),
    "negate": _ufunc(np.negative),
    "abs": _ufunc(np.abs),
    "floor": _ufunc(np.floor),
    "ceil": _ufunc(np.ceil),
    "round_nearest_even": _ufunc(np.rint),
    "round_nearest_afz": _ufunc(_round_away),
    "shift_left": _shift(np.left_shift, logical=True, fill=False),
    "shift_right_logical": _shift(np.right_shift, logical=True, fill=False),
    "shift_right_arithmetic": _shift(np.right_shift, logical=False, fill=True),
    "clamp": _clamp,
    "compare": _compare,
    "fma": lambda shape, dtype, x, a: fma(*x, flush=a["subnormals"] == "flush"),
    "select": lambda shape, dtype, x, a: np.where(*x),
    "dot_general": _dot_general,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
}
"""A kernel for each operator."""
