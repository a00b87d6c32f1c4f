"""Windows of images gathered by the host, so that a convolution is a product of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank
from archloom.tvm_backend.ir.rewriter import Rewriter
from archloom.tvm_backend.ir.windows import Windows


class Gathering(Rewriter):
    """A rewriter that can put the windows of an image into rows, and results of their products back in place."""

    def gathered(self, x: Any, form: Windows, zero: int = 0) -> Any:
        """[n, c, h, w] → [n · groups, places, c / groups · taps]; beyond the image everything is ``zero``."""
        n, c, *_ = ir.shape_of(x)
        top, left, bottom, right = form.padding
        if any(form.padding):
            given: dict[str, Any] = {"pad_value": float(zero)} if zero else {}
            x = self.emit("nn.pad", x, pad_width=[0, 0, 0, 0, top, bottom, left, right], **given)
        image = ir.shape_of(x)[2:]
        index = form.index(*image)
        (taps, places), groups = index.shape, form.groups
        if not form.is_whole:
            pixels = self.emit("reshape", x, (n, c, math.prod(image)))
            x = self.emit("take", pixels, ir.constant_like(index.reshape(-1), x), axis=2, mode="clip")
        rows = self.emit("reshape", x, (n * groups, c // groups * taps, places))
        return self.emit("permute_dims", rows, axes=[0, 2, 1])

    def in_place(self, sums: Any, shape: tuple[int, ...]) -> Any:
        """[n · groups, places, o / groups] as the image [n, o, ...] of a ``shape``."""
        channels_first = self.emit("permute_dims", sums, axes=[0, 2, 1])
        return self.emit("reshape", channels_first, shape)


def matrices(weights: np.ndarray, groups: int, n: int) -> np.ndarray:
    """OIHW → [c / groups · taps, o], or for several groups those of each, for each of n images."""
    if is_blank(weights):
        o, taps = len(weights) // groups, weights[0].size
        return np.broadcast_to(weights.flat[0], (taps, o) if groups == 1 else (n * groups, taps, o))
    matrix = weights.reshape(groups, weights.shape[0] // groups, -1).transpose(0, 2, 1)
    return np.ascontiguousarray(matrix[0] if groups == 1 else np.tile(matrix, (n, 1, 1)))


def merged(weights: np.ndarray, groups: int, count: int) -> np.ndarray:
    """OIHW of ``groups`` groups, of which so many neighbours become one whose kernel has theirs as blocks on its
    diagonal, and zeros elsewhere: [o, c / groups · count, kh, kw] of groups / count groups."""
    if count == 1:
        return weights
    o, c, *kernel = weights.shape
    shape = (o, count * c, *kernel)
    if is_blank(weights):
        return np.broadcast_to(weights.flat[0], shape)
    parts = weights.reshape(groups // count, count, o // groups, c, *kernel)
    made = np.zeros((groups // count, count, o // groups, count, c, *kernel), weights.dtype)
    for i in range(count):
        made[:, i, :, i] = parts[:, i]
    return made.reshape(shape)
