"""Operands of workloads as arrays, and as they lie in memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mapper.spatial.attention import from_tiles, to_tiles
from mapper.spatial.machine import SIDE
from oracle.errors import MappingError

__all__ = ["check_arrays", "from_tiles", "in_tiles", "to_tiles"]

Half = NDArray[np.float16]


def check_arrays(shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Half]) -> dict[str, Half]:
    """The arrays in the order of ``shapes``; MappingError for other names, shapes or element types."""
    if set(arrays) != set(shapes):
        raise MappingError(f"expected the operands {', '.join(shapes)}, found {', '.join(arrays) or 'none'}")
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float16:
            raise MappingError(
                f"operand {name}: expected float16 of shape {shape}, found {arrays[name].dtype} of shape "
                f"{arrays[name].shape}")
    return {name: arrays[name] for name in shapes}


def in_tiles(rows: Half) -> Half:
    """``(rows, numbers)`` as ``(rows, numbers / 32, 32)``, filled up with zeros."""
    whole = np.zeros((len(rows), -(-rows.shape[1] // SIDE) * SIDE), rows.dtype)
    whole[:, :rows.shape[1]] = rows
    return whole.reshape(len(rows), -1, SIDE)
