"""Constants of operators as they lie in tiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from archloom.tvm_backend.targets.layouts import DTYPE, Layout


def made_in(array: np.ndarray, shape: tuple[int, ...], pack: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A constant in tiles of ``shape``; one without numbers takes no room."""
    if array.size > 1 and not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim].astype(DTYPE), shape)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(pack(array.astype(DTYPE)))


def packed(array: np.ndarray, layout: Layout) -> np.ndarray:
    """A constant in tiles; a weight without numbers, as estimates read it, takes no room here either."""
    return made_in(array, layout.stored_shape(array.shape), layout.pack)
