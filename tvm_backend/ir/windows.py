"""Windows of convolutions, and transposed convolutions by the phases of their results.

A transposed convolution of stride s gives s × s images, one for each remainder of a result's place: each is a plain
convolution by every s-th element of the kernel. One convolution computes all of them as channels, which are then put
beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archloom.tvm_backend.ir import expressions as ir


@dataclass(frozen=True)
class Windows:
    """Kernel, strides, padding (top, left, bottom, right), dilation and groups of a convolution of images."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int

    @staticmethod
    def of(call: ir.Call) -> "Windows":
        """That of a 2-D convolution, or of a 1-D one as one of height 1."""
        ints = {name: ir.attr_ints(call, name) for name in ("strides", "padding", "dilation")}
        kernel = ir.shape_of(call.args[1])[2:]
        if len(kernel) == 1:
            before, after = ints["padding"]
            padding = (0, before, 0, after)
            kernel, strides, dilation = (1, *kernel), (1, *ints["strides"]), (1, *ints["dilation"])
        else:
            padding, strides, dilation = ints["padding"], ints["strides"], ints["dilation"]  # type: ignore[assignment]
        return Windows(kernel, strides, padding, dilation, int(ir.attr(call, "groups")))  # type: ignore[arg-type]

    @property
    def reach(self) -> tuple[int, int]:
        """Elements from the first to the last under the kernel."""
        (kh, kw), (dh, dw) = self.kernel, self.dilation
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    @property
    def is_whole(self) -> bool:
        """Whether every pixel (of the padded image) is a window of its own."""
        return self.kernel == self.strides == (1, 1)

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a product over all pixels as it is."""
        return self.is_whole and not any(self.padding) and self.groups == 1

    def index(self, height: int, width: int) -> np.ndarray:
        """[taps, places] int32: the pixel of a padded image that each element of the kernel meets at each place."""
        rows, columns = (
            (np.arange(k)[:, None] * d + np.arange((extent - reach) // s + 1) * s).astype(np.int32)
            for extent, reach, k, s, d in zip(
                (height, width), self.reach, self.kernel, self.strides, self.dilation, strict=True))
        index = rows[:, None, :, None] * np.int32(width) + columns[None, :, None, :]
        return index.reshape(math.prod(self.kernel), -1)


def overlaid(
    image: Sequence[int], block: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> np.ndarray:
    """[most, pixels] int64: the elements of moved blocks that lie on each pixel of an image of any rank.

    Elements are counted over those of a block, then over the places that it is moved to; where fewer than ``most`` lie
    on a pixel, the others are the number of all elements. ``pads``: begins of all axes, then ends.
    """
    rank = len(image)
    pixel, inside = np.zeros((), np.int64), np.ones((), np.bool_)
    for axis, (extent, k, s, d) in enumerate(zip(image, block, strides, dilations, strict=True)):
        places = (extent + pads[axis] + pads[axis + rank] - (k - 1) * d - 1) // s + 1
        along = np.arange(k)[:, None] * d + np.arange(places) * s - pads[axis]
        along = along.reshape([k if i == axis else places if i == axis + rank else 1 for i in range(2 * rank)])
        pixel, inside = pixel * extent + along, inside & (along >= 0) & (along < extent)
    elements = np.flatnonzero(inside)
    on = pixel.reshape(-1)[elements]
    order = np.argsort(on, kind="stable")
    counts = np.bincount(on, minlength=math.prod(image))
    within = np.arange(len(on)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.full((counts.max(initial=1), len(counts)), pixel.size)
    found[within, on[order]] = elements[order]
    return found


@dataclass(frozen=True)
class Phases:
    """One axis of a transposed convolution: its kernel, stride, padding before and at the end, and extra results."""

    kernel: int
    stride: int
    before: int
    end: int
    more: int

    @property
    def taps(self) -> int:
        """Elements of the kernel in the largest phase."""
        return -(-self.kernel // self.stride)

    @property
    def after(self) -> int:
        """Padding after the input, so that every result is covered."""
        return self.reach // self.stride

    @property
    def reach(self) -> int:
        """Results beyond the place of the last input."""
        return self.kernel - 1 - self.end + self.more

    @property
    def surplus(self) -> int:
        """Results at the end that are cut off."""
        return (self.after + 1) * self.stride - (self.reach + 1)


def dilated(kernel: np.ndarray, dilation: Sequence[int]) -> np.ndarray:
    """[..., kh, kw] with zeros between its elements, so that it can be moved without dilation."""
    if set(dilation) <= {1}:
        return kernel
    reach = [(k - 1) * d + 1 for k, d in zip(kernel.shape[-2:], dilation, strict=True)]
    spread = np.zeros((*kernel.shape[:-2], *reach), kernel.dtype)
    spread[..., :: dilation[0], :: dilation[1]] = kernel
    return spread


def by_phases(kernel: np.ndarray, groups: int, sh: int, sw: int) -> np.ndarray:
    """[c, o / groups, kh, kw] of a transposed convolution → [o · sh · sw, c / groups, ⌈kh / sh⌉, ⌈kw / sw⌉].

    The channels of one output lie together, phase by phase; taps are mirrored.
    """
    c, o, kh, kw = kernel.shape
    th, tw = -(-kh // sh), -(-kw // sw)
    padded = np.zeros((c, o, th * sh, tw * sw), kernel.dtype)
    padded[:, :, :kh, :kw] = kernel
    parts = padded.reshape(groups, c // groups, o, th, sh, tw, sw)[:, :, :, ::-1, :, ::-1]
    return parts.transpose(0, 2, 4, 6, 1, 3, 5).reshape(groups * o * sh * sw, c // groups, th, tw)
