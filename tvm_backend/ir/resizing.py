"""Where the pixels of an image come from that TVM's ``image.resize2d`` makes, axis by axis (kept apart from JAX).

TVM knows extents alone, and multiplies before it divides; ONNX's ``Resize`` goes by factors
(:mod:`archloom.tvm_backend.frontends.onnx.resizing`), which round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.frontends.onnx.resizing import ROUNDINGS
from archloom.tvm_backend.ir import expressions as ir

_PLACES: Mapping[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "half_pixel": lambda i, old, new: (i + 0.5) * old / new - 0.5,
    "pytorch_half_pixel": lambda i, old, new: (i + 0.5) * old / new - 0.5 if new > 1 else np.zeros_like(i),
    "align_corners": lambda i, old, new: i * (old - 1) / max(new - 1, 1),
    "asymmetric": lambda i, old, new: i * old / new,
}
_ROUNDINGS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {**ROUNDINGS, "round": ROUNDINGS["round_prefer_ceil"]}


def known(call: Any) -> bool:
    """Whether the method of an ``image.resize2d``, and how it places pixels, are among those here."""
    method, place = ir.attr(call, "method"), ir.attr(call, "coordinate_transformation_mode")
    rounding = ir.attr(call, "rounding_method")
    return method in ("nearest_neighbor", "linear") and place in _PLACES and (
        method == "linear" or not rounding or rounding in _ROUNDINGS)


def nearest(call: Any, old: int, new: int) -> np.ndarray:
    """For each of ``new`` pixels the index of the one of ``old`` that it equals."""
    index = _ROUNDINGS[ir.attr(call, "rounding_method") or "round"](_place(call, old, new))
    return np.clip(index, 0, old - 1).astype(np.int32)


def neighbours(call: Any, old: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each of ``new`` pixels the two of ``old`` that it lies between, and the share of the second."""
    place = np.clip(_place(call, old, new), 0, old - 1)
    low = np.floor(place).astype(np.int32)
    return low, np.minimum(low + 1, old - 1), (place - low).astype(np.float32)


def _place(call: Any, old: int, new: int) -> np.ndarray:
    return _PLACES[ir.attr(call, "coordinate_transformation_mode")](np.arange(new, dtype=np.float64), old, new)
