"""What importers share, TVM's and that of plain expressions: names, bounds, weights that are not read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

NAMED_OPERATORS = frozenset({"nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "matmul"})
"""Operators that take the name of the ONNX node of which they are part."""


WEIGHT_ELEMENTS = 1 << 14
"""A tensor of more numbers than these is a weight, which no estimate reads."""


def rename(name: str) -> str:
    """A node's name as a variable's name."""
    return name.strip("/").replace("/", ".").replace("::", ".") or "node"


def clip_bounds(
    inputs: Sequence[Any], attrs: Mapping[str, Any], dtype: str, number_of: Callable[[Any], float | None]
) -> list[float] | None:
    """Both bounds of ``Clip``, those of the type where they are left out; None where they are computed or infinite."""
    limits, bounds = np.finfo(dtype), []
    for position, (key, default) in enumerate((("min", limits.min), ("max", limits.max)), start=1):
        given = inputs[position] if len(inputs) > position else None
        number = attrs.get(key, default) if given is None else number_of(given)
        if number is None or (given is not None and not math.isfinite(number)):
            return None
        bounds.append(float(number))
    return bounds


def blank(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """What stands for a weight that is not read: one zero seen in its shape."""
    return np.broadcast_to(np.zeros((), dtype), tuple(shape))


def is_blank(array: np.ndarray) -> bool:
    """Whether ``array`` stands for a weight that was not read: one zero seen in a shape."""
    return array.size > 1 and not any(array.strides)
