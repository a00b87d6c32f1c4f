"""Operators that combine many elements into one: reduce and reduce_window.

Sums and products of floats are rounded at each step, in row-major order of the elements combined, from the first one
on. All other kinds do not depend on an order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import base, carriers, numbers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, in_both, integers, ints
from archloom.oracle.taidl.operators.contraction import window_extent, windows
from archloom.oracle.taidl.operators.elementwise import largest, smallest
from archloom.oracle.taidl.types import Array, element_type, limits

KINDS = ("add", "max", "min", "multiply", "and", "or", "xor")

_BITWISE = ("and", "or", "xor")


def kind_fault(kind: object, dtype: str) -> str | None:
    """What is wrong with combining elements of a type in this way."""
    bits = element_type(dtype).kind
    allowed = ("int", "uint", "bool") if kind in _BITWISE else ("int", "uint", "float")
    return None if bits in allowed else f"{{}} of kind {kind} is not defined for {dtype}"


def is_ordered(kind: str, dtype: str) -> bool:
    """Whether the result depends on the order in which elements are combined."""
    return kind in ("add", "multiply") and element_type(dtype).kind == "float"


def identity(kind: str, dtype: str) -> Array:
    """The element that changes nothing: what pads a window."""
    plain = {"add": 0, "or": 0, "xor": 0, "multiply": 1, "and": -1}
    if kind in plain:
        return numbers.constant(plain[kind], dtype)
    if element_type(dtype).kind != "float":
        return numbers.constant(limits(dtype)[kind == "min"], dtype)
    most = numbers.constant(-np.inf if kind == "max" else np.inf, dtype)
    if np.isnan(most.astype(np.float64)):
        import ml_dtypes

        target = ml_dtypes.finfo(most.dtype)
        most = np.asarray(target.max if kind == "min" else target.min, most.dtype)
    return most


# --- NumPy --------------------------------------------------------------------------------------------------------

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "max": largest, "min": smallest, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "add": np.add, "multiply": np.multiply,
}


def _combined(x: Array, kind: str, dtype: str) -> Array:
    """The last axis combined."""
    v = numbers.value(x, dtype)
    if is_ordered(kind, dtype):
        step = numbers.add if kind == "add" else numbers.multiply
        total = v[..., 0]
        for i in range(1, v.shape[-1]):
            total = numbers.value(numbers.element(step(total, v[..., i]), dtype), dtype)
        return numbers.element(total, dtype)
    while v.shape[-1] > 1:
        half = v.shape[-1] // 2
        pairs = _COMBINE[kind](v[..., :half], v[..., half:2 * half])
        v = np.concatenate([pairs, v[..., 2 * half:]], axis=-1)
    return numbers.element(numbers.flush(v[..., 0]) if kind in ("max", "min") else v[..., 0], dtype)


def last(x: Any, dims: Sequence[int]) -> Any:
    """The tensor (NumPy's or JAX's) with these axes as one, the last."""
    dims = sorted(dims)
    rest = [i for i in range(x.ndim) if i not in dims]
    count = math.prod(x.shape[i] for i in dims)
    return x.transpose([*rest, *dims]).reshape(*(x.shape[i] for i in rest), count)


def _reduce_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), dims = operands, integers(a, "dim")
    fault = kind_fault(a["kind"], x.dtype) or base.axes_fault(dims, len(x.shape))
    return fault or base.wrong(result, [d for i, d in enumerate(x.shape) if i not in dims], x.dtype)


# --- JAX ----------------------------------------------------------------------------------------------------------


def jax_combined(x: Any, kind: str, dtype: str) -> Any:
    """The last axis combined."""
    v = carriers.value(x, dtype)
    axis = v.ndim - 1
    if is_ordered(kind, dtype):
        step = carriers.add if kind == "add" else carriers.multiply

        def body(i: Any, total: Any) -> Any:
            term = lax.dynamic_index_in_dim(v, i, axis, keepdims=False)
            return carriers.value(carriers.element(step(total, term), dtype), dtype)

        return carriers.element(lax.fori_loop(1, v.shape[-1], body, v[..., 0]), dtype)
    if kind in ("max", "min"):
        return carriers.element(getattr(jnp, kind)(carriers.flush(v), axis=axis), dtype)
    if kind in ("add", "multiply"):
        return carriers.element(getattr(jnp, {"add": "sum", "multiply": "prod"}[kind])(v, axis=axis, dtype=v.dtype),
                                dtype)
    start = carriers.carried(identity(kind, dtype), dtype)
    function = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}[kind]
    return carriers.element(lax.reduce(v, start, function, (axis,)), dtype)


# --- windows ------------------------------------------------------------------------------------------------------


def _lists(a: Attributes, rank: int) -> dict[str, tuple[Any, ...]]:
    fill = {"low": 0, "high": 0, "base_dilation": 1, "window_dilation": 1}
    return {name: (a.get(name) or (value,) * rank) for name, value in fill.items()}  # type: ignore[misc]


def _window_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), size, stride, lists = operands, integers(a, "size"), integers(a, "stride"), _lists(a, len(operands[0].shape))
    if not all(len(v) == len(x.shape) for v in (size, stride, *lists.values())):
        return f"size, stride and {', '.join(lists)} need one entry for each axis of {x}"
    fault = kind_fault(a["kind"], x.dtype)
    if fault:
        return fault
    shape: list[Dim] = []
    for i, extent in enumerate(x.shape):
        count = window_extent(extent, lists["low"][i], lists["high"][i], lists["base_dilation"][i], size[i],
                              lists["window_dilation"][i], stride[i])
        if count is None:
            return f"a window of {size[i]} in steps of {stride[i]} does not fit an axis of extent {extent}"
        shape.append(count)
    return base.wrong(result, shape, x.dtype)


def combined(lib: Any, x: Any, kind: str, dtype: str) -> Any:
    """The last axis combined, by the library of NumPy or of JAX."""
    return (_combined if lib is numbers else jax_combined)(x, kind, dtype)


def _reduce(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    return combined(lib, last(x[0], a["dim"]), a["kind"], result.dtype)


def _reduce_window(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    lists, fill = _lists(a, x[0].ndim), identity(a["kind"], result.dtype)
    fill = fill if lib is numbers else carriers.carried(fill, result.dtype)
    padded = lib.padded(x[0], fill, lists["low"], lists["high"], lists["base_dilation"])
    # the elements of each window along a new last axis
    dilation, shape, stride = lists["window_dilation"], result.shape, a["stride"]
    places = [windows(padded, [p * d for p, d in zip(place, dilation, strict=True)], shape, stride)
              for place in np.ndindex(*a["size"])]
    return combined(lib, lib.xp.stack(places, axis=-1), a["kind"], result.dtype)


ROWS: list[Opcode] = [
    Opcode("reduce", 1, _reduce_rule, *in_both(_reduce),
           "reduction", "over the axes `dim`; sums and products of floats in row-major order, each step rounded",
           (ints("dim", None, "dimensions"), Attribute("kind", "word", KINDS))),
    Opcode("reduce_window", 1, _window_rule, *in_both(_reduce_window), "reduction",
           "as `reduce` over each window; what pads changes nothing (0 of add, -inf of max, ...)",
           (Attribute("kind", "word", KINDS), ints("size"), ints("stride"), ints("low", ()), ints("high", ()),
            ints("base_dilation", ()), ints("window_dilation", ()))),
]
