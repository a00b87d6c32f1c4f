"""What importers share, TVM's and that of plain expressions: names, bounds, weights that are not read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
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
    limits, bounds = ml_dtypes.finfo(dtype), []
    for position, (key, default) in enumerate((("min", limits.min), ("max", limits.max)), start=1):
        given = inputs[position] if len(inputs) > position else None
        number = attrs.get(key, default) if given is None else number_of(given)
        if number is None or (given is not None and not math.isfinite(number)):
            return None
        bounds.append(float(number))
    return bounds


PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
"""ONNX's ways of padding by Relax's names."""


@dataclass(frozen=True)
class Padding:
    """What ``Pad`` does along each axis: numbers left out at its two ends, then numbers added there, as ``nn.pad`` has
    them (``attrs``: mode and value)."""

    left_out: tuple[tuple[int, int], ...]
    added: tuple[tuple[int, int], ...]
    attrs: Mapping[str, Any]

    @property
    def widths(self) -> tuple[int, ...]:
        """As ``nn.pad`` takes them: before and after, axis by axis."""
        return tuple(width for pair in self.added for width in pair)

    def slices(self, shape: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
        """Axes, begins, ends and steps of what is kept of a tensor; None where all of it is."""
        cut = [axis for axis, pair in enumerate(self.left_out) if any(pair)]
        return (tuple(cut), tuple(self.left_out[axis][0] for axis in cut),
                tuple(shape[axis] - self.left_out[axis][1] for axis in cut), (1,) * len(cut)) if cut else None


def padding(
    inputs: Sequence[Any], attrs: Mapping[str, Any], rank: int, numbers: Callable[[Any], np.ndarray | None]
) -> Padding | None:
    """``Pad`` of a tensor of ``rank`` axes, whose numbers are inputs or, before operator set 11, attributes; None where
    they are computed, or are none that a double holds."""
    given = [inputs[i] if len(inputs) > i else None for i in range(1, 4)]
    defaults = (attrs.get("pads"), attrs.get("value", 0.0), range(rank))
    pads, value, axes = (None if found is None else np.asarray(found).reshape(-1) for found in (
        default if name is None else numbers(name) for name, default in zip(given, defaults, strict=True)))
    mode = attrs.get("mode", b"constant")
    if pads is None or value is None or axes is None or len(pads) != 2 * len(axes) or len(value) != 1:
        return None
    if float(value[0]) != value[0]:
        return None
    widths = [(0, 0)] * rank
    for i, axis in enumerate(axes.tolist()):
        widths[axis] = (int(pads[i]), int(pads[i + len(axes)]))
    left_out, added = (tuple((max(sign * low, 0), max(sign * high, 0)) for low, high in widths) for sign in (-1, 1))
    name = mode.decode() if isinstance(mode, bytes) else mode
    return Padding(left_out, added, {"pad_mode": PAD_MODES[name], "pad_value": float(value[0])})


def blank(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """What stands for a weight that is not read: one zero seen in its shape."""
    return np.broadcast_to(np.zeros((), dtype), tuple(shape))


def is_blank(array: np.ndarray) -> bool:
    """Whether ``array`` stands for a weight that was not read: one zero seen in a shape."""
    return array.size > 1 and not any(array.strides)
