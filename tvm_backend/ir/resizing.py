"""Where the pixels of a resized image come from, axis by axis (kept apart from JAX).

TVM's ``image.resize2d`` knows extents alone; ONNX's ``Resize`` goes by factors, which round otherwise
(:func:`resized`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir

ROUNDINGS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5), "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "round": lambda p: np.floor(p + 0.5), "floor": np.floor, "ceil": np.ceil,
}
"""How a place becomes a pixel."""
PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
"""How TVM places pixels."""


def places(mode: str, old: int, new: int, length: float, factor: float, dtype: type = np.float64) -> np.ndarray:
    """Where ``new`` pixels lie among the ``old`` ones: ``1 / factor`` old ones apart, of ``length`` that there would
    be without rounding; computed in ``dtype``."""
    i, factor = np.arange(new, dtype=dtype), dtype(factor)
    if mode == "align_corners":
        return i * (old - 1) / (length - 1) if length > 1 else np.zeros_like(i)
    if mode == "asymmetric":
        return i / factor
    if mode == "pytorch_half_pixel" and length <= 1:
        return np.zeros_like(i)
    middles = (i + 0.5) / factor
    if mode == "half_pixel_symmetric":
        return (old / 2) * (1 - new / length) + middles - 0.5
    return middles - 0.5


def known(call: ir.Call) -> bool:
    """Whether the method of an ``image.resize2d``, and how it places pixels, are among those here."""
    method, place = ir.attr(call, "method"), ir.attr(call, "coordinate_transformation_mode")
    rounding = ir.attr(call, "rounding_method")
    return method in ("nearest_neighbor", "linear") and place in PLACES and (
        method == "linear" or not rounding or rounding in ROUNDINGS)


def nearest(call: ir.Call, old: int, new: int) -> np.ndarray:
    """For each of ``new`` pixels the index of the one of ``old`` that it equals."""
    index = ROUNDINGS[ir.attr(call, "rounding_method") or "round"](_place(call, old, new))
    return np.clip(index, 0, old - 1).astype(np.int32)


def neighbours(call: ir.Call, old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """For each of ``new`` pixels the two of ``old`` that it lies between, and their shares, [2, new] each.

    In float32, as onnxruntime has them: which way a tie is rounded, where the result is quantized, hangs on the last
    bit. Behind the last pixel both are the same.
    """
    place = np.clip(_place(call, old, new), 0, old - 1)
    low = place.astype(np.int32)
    both = np.stack([low, np.minimum(low + 1, old - 1)])
    shares = np.abs(place - both[::-1].astype(np.float32))
    return both, np.where(both[0] == both[1], np.float32(0.5), shares)


def _place(call: ir.Call, old: int, new: int) -> np.ndarray:
    return places(ir.attr(call, "coordinate_transformation_mode"), old, new, new, new / old, np.float32)


def resized(old: int, new: int, factor: float, attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Places in an axis of ``old`` pixels and their weights, [taps, new] each, where it is scaled by ``factor``."""
    mode = attributes.get("mode", "nearest")
    at = places(attributes.get("coordinate_transformation_mode", "half_pixel"), old, new, factor * old, factor)
    if mode == "nearest":
        index = ROUNDINGS[attributes.get("nearest_mode", "round_prefer_floor")](at)
        return np.clip(index, 0, old - 1).astype(np.int64)[None], np.ones((1, new))
    narrower = min(factor, 1.0) if attributes.get("antialias", 0) else 1.0
    reach = (1.0 if mode == "linear" else 2.0) / narrower
    first = np.floor(at - reach).astype(np.int64) + 1
    index = first + np.arange(int(np.ceil(2 * reach)))[:, None]
    weights = _kernel((index - at) * narrower, mode, float(attributes.get("cubic_coeff_a", -0.75)))
    if attributes.get("exclude_outside", 0):
        weights = np.where((index < 0) | (index >= old), 0.0, weights)
    weights = weights / weights.sum(0)
    return np.clip(index, 0, old - 1), weights


def _kernel(distance: np.ndarray, mode: str, a: float) -> np.ndarray:
    """Weights by distance: a triangle, or Keys' cubic convolution with coefficient ``a``."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(0.0, 1 - d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d < 1, near, np.where(d < 2, far, 0.0))
