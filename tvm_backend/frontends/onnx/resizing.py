"""Which pixels of an axis make a resized one, and with what weights, as ONNX's ``Resize`` defines it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ROUNDINGS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5), "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}
"""How a place becomes a pixel."""


def resized(old: int, new: int, factor: float, attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Places in an axis of ``old`` pixels and their weights, [taps, new] each, where it is scaled by ``factor``."""
    mode = attributes.get("mode", "nearest")
    at = _places(old, new, factor, attributes.get("coordinate_transformation_mode", "half_pixel"))
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


def _places(old: int, new: int, factor: float, mode: str) -> np.ndarray:
    """Where new pixels lie among the old ones."""
    i, length = np.arange(new, dtype=np.float64), factor * old
    if mode == "align_corners":
        return i * (old - 1) / (length - 1) if length > 1 else np.zeros_like(i)
    if mode == "asymmetric":
        return i / factor
    if mode == "pytorch_half_pixel" and length <= 1:
        return np.zeros_like(i)
    if mode == "half_pixel_symmetric":
        return (old / 2) * (1 - new / length) + (i + 0.5) / factor - 0.5
    return (i + 0.5) / factor - 0.5


def _kernel(distance: np.ndarray, mode: str, a: float) -> np.ndarray:
    """Weights by distance: a triangle, or Keys' cubic convolution with coefficient ``a``."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(0.0, 1 - d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d < 1, near, np.where(d < 2, far, 0.0))
