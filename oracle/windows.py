"""What windows span: sums of progressions along the axes of a buffer, exactly and as ranges.

A progression (extent, stride) is ``stride * index`` for index in ``0 .. extent-1``. Along one axis, a window at an
offset touches the offset plus one term of each progression that walks the axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.resolved import Window, WindowDim


def reach(progressions: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The least and the greatest sum of progressions."""
    low = high = 0
    for extent, stride in progressions:
        last = stride * (extent - 1)
        if last < 0:
            low += last
        else:
            high += last
    return low, high


def sums(progressions: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """The distinct sums of progressions, increasing."""
    total = np.zeros(1, np.int64)
    for extent, stride in progressions:
        total = np.unique(np.add.outer(total, np.arange(extent, dtype=np.int64) * stride))
    return total


def contiguous(values: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """The maximal runs (first, count) of consecutive integers in increasing ``values``, of which there is one."""
    breaks = np.flatnonzero(np.diff(values) != 1) + 1
    edges = np.concatenate(([0], breaks, [len(values)]))
    return tuple(zip(values[edges[:-1]].tolist(), np.diff(edges).tolist()))


def span(window: Window, axis: int) -> tuple[int, int]:
    """The least and the greatest distance from the window's offset along an axis (inclusive)."""
    return window.spans[axis]


def footprint(window: Window, bounds: Bounds) -> tuple[tuple[int, int], ...]:
    """For each axis of the buffer the least and greatest index touched while the loop variables run (inclusive).

    Never too narrow; exact where offsets have no ``//`` and ``%``.
    """
    box: list[tuple[int, int]] = []
    for axis, offset in enumerate(window.offsets):
        low, high = offset.range(bounds)
        below, above = span(window, axis)
        box.append((low + below, high + above))
    return tuple(box)


def linear(indices: tuple[Affine, ...], shape: tuple[int, ...]) -> Affine:
    """Row-major position of the element at ``indices``."""
    total, scale = Affine(0), 1
    for index, extent in zip(reversed(indices), reversed(shape)):
        total = total + index * scale
        scale *= extent
    return total


@lru_cache(maxsize=4096)
def positions(dims: tuple[WindowDim, ...], shape: tuple[int, ...], axes: int) -> NDArray[np.int64]:
    """Distinct row-major positions over the first ``axes`` axes that a window walks from its offset on, increasing.

    Of the words of a buffer there are fewer than of its elements: a word is made up of the axes from ``axes`` on.
    """
    scales = [math.prod(shape[axis + 1:axes]) for axis in range(axes)]
    found = sums((d.extent, d.stride * scales[d.axis]) for d in dims if d.axis < axes)
    found.setflags(write=False)
    return found
