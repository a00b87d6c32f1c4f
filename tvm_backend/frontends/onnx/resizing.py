"""Which pixels of an axis make a resized one, and with what weights, as ONNX's ``Resize`` defines it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.ir.resizing import ROUNDINGS, places


def resized(old: int, new: int, factor: float, attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Places in an axis of ``old`` pixels and their weights, [taps, new] each, where it is scaled by ``factor``."""
    mode = attributes.get("mode", "nearest")
    at = places(attributes.get("coordinate_transformation_mode", "half_pixel"), old, new, factor * old, 1, factor)
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
