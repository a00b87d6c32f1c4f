"""Operators that pick elements by how they compare: top_k, and select_and_scatter (the gradient of a pooling)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import base, numbers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, flag, integer, integers, ints
from archloom.oracle.taidl.operators.contraction import window_extent, windows
from archloom.oracle.taidl.operators.elementwise import COMPARE
from archloom.oracle.taidl.operators.indexing import meeting, ranks
from archloom.oracle.taidl.operators.reduction import KINDS, kind_fault
from archloom.oracle.taidl.types import Array


def _top_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), k = operands, a["k"]
    if not x.shape or base.is_kind(x.dtype, "quant", "scale", "complex"):
        return f"{{}} is not defined for {x}"
    if not isinstance(k, int):
        return None
    extent = x.shape[-1]
    if k < 1 or (isinstance(extent, int) and k > extent):
        return f"k must be in 1..{extent}, found {k}"
    shape = (*x.shape[:-1], k)
    return base.flags_fault(a, "largest") or base.chosen(result, (Shaped(shape, x.dtype), Shaped(shape, "i32")), a)


def _top(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    rank = ranks(lib, lib.flush(lib.value(x[0], types[0])), bool(a["largest"]))
    order = lib.xp.lexsort([rank], axis=-1)[..., :a["k"]]
    return order.astype(np.int32) if a["result"] else lib.xp.take_along_axis(lib.xp.asarray(x[0]), order, -1)


# --- select_and_scatter -------------------------------------------------------------------------------------------


def _scatter_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, source, start = operands
    size, stride = integers(a, "size"), integers(a, "stride")
    low, high = (integers(a, k) or (0,) * len(x.shape) for k in ("low", "high"))
    if not all(len(v) == len(x.shape) for v in (size, stride, low, high)):
        return f"size, stride, low and high need one entry for each axis of {x}"
    fault = kind_fault(a["kind"], x.dtype)
    if fault or base.types_differ(start, Shaped((), x.dtype)) or source.dtype != x.dtype:
        return fault or f"the second and third operand of {{}} are a tensor and a scalar of {x.dtype}, found {start}"
    counts = [window_extent(n, lo, hi, 1, k, 1, step)
              for n, lo, hi, k, step in zip(x.shape, low, high, size, stride, strict=True)]
    shape = [0 if n is None else n for n in counts]
    if base.shapes_differ(source.shape, shape):
        return f"the source of {{}} has an element for each window, {base.show(shape)}, found {source}"
    return base.wrong(result, x.shape, x.dtype)


def _candidates(shape: Sequence[int], windows_: Sequence[int], a: Values) -> Array:
    """For each place of a window and each window the element there, in row-major order; -1 for padding."""
    low, high = (a[k] or (0,) * len(shape) for k in ("low", "high"))
    numbered = np.arange(np.prod(shape, dtype=np.int64), dtype=np.int32).reshape(shape)
    padded = numbers.padded(numbered, np.int32(-1), low, high, (1,) * len(shape))
    return np.stack([windows(padded, place, windows_, a["stride"]).reshape(-1) for place in np.ndindex(*a["size"])])


def _select_and_scatter(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    dtype, where = result.dtype, lib.xp.where
    flat, source = (lib.xp.asarray(v).reshape(-1) for v in x[:2])
    compared = lib.flush(lib.value(flat, dtype))
    keeps = getattr(lib.xp, COMPARE[a["select"]])
    candidates = _candidates(result.shape, x[1].shape, a)
    chosen: Any = np.full(candidates.shape[1], -1, np.int32)
    for places in candidates:
        kept = (chosen >= 0) & ((places < 0) | keeps(compared[chosen], compared[places]))
        chosen = where(kept, chosen, places)
    chosen, everywhere, meet = lib.xp.asarray(chosen), np.arange(flat.size), meeting(lib, a["kind"], dtype)

    def put(i: Any, made: Any) -> Any:
        return where(everywhere == lib.at(chosen, i, 0), meet(lib.at(source, i, 0), made), made)

    return lib.repeat(0, source.size, put, lib.xp.full(flat.shape, x[2])).reshape(result.shape)


ROWS: list[Opcode] = [
    Opcode("top_k", 1, _top_rule, *base.in_both(_top), "opaque",
           "the `k` largest elements along the last axis, or the smallest without `largest`, in order, the first of "
           "equal ones first; output 1 has their places as i32; NaN is above all",
           (integer("k"), flag("largest", 1), integer("result", 0)), spelled=("topk",)),
    Opcode("select_and_scatter", 3, _scatter_rule, *base.in_both(_select_and_scatter), "opaque",
           "x, source, start: in each window of x, which may be padded, the element that is kept against all later "
           "ones by `select` meets the window's element of the source by `kind`; all else is start", (
               Attribute("select", "word", tuple(COMPARE), "ge"), Attribute("kind", "word", KINDS, "add"),
               ints("size"), ints("stride"), ints("low", ()), ints("high", ()))),
]
