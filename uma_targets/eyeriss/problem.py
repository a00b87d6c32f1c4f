"""What Eyeriss computes: a convolution as strides over HBM, of which a GEMM is the case of 1 x 1 filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.affine import Affine
from archloom.uma_targets.kit.gemm import Gemm

Count = TypeVar("Count", int, NDArray[np.int64])

VALUE_BYTES = 2
"""16-bit fixed point."""


@dataclass(frozen=True)
class Output:
    """How sums leave: as they are (``scale_bits`` None), or times the float32 of these bits as saturated bytes."""

    relu: bool = False
    scale_bits: int | None = None


@dataclass(frozen=True)
class Strides:
    """HBM address of the first element, and bytes from one to the next along each dimension.

    ``ifmap`` and ``ofmap``: image, row, column, channel of all groups; ``filters``: output channel, input channel, row,
    column, and where there are several groups the group.
    """

    base: Affine
    steps: tuple[int, ...]

    def at(self, *indices: Affine | int) -> Affine:
        """Address of the element with these indices; missing ones are 0."""
        address = self.base
        for index, step in zip(indices, self.steps):
            address = address + Affine.of(index) * step
        return address


@dataclass(frozen=True)
class Shape:
    """``n`` images of ``c`` x ``h`` x ``w``, ``m`` filters of ``r`` x ``s``, ``e`` x ``f`` results of each; ``c`` and
    ``m`` are those of each of the ``groups``.

    ``stride`` is the same along rows and columns; ``top`` and ``left`` are zero padding before the image.
    """

    n: int
    c: int
    h: int
    w: int
    m: int
    r: int
    s: int
    e: int
    f: int
    stride: int = 1
    top: int = 0
    left: int = 0
    groups: int = 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return self.groups * self.n * self.m * self.c * self.r * self.s * self.e * self.f

    def reach(self, outputs: Count, taps: int) -> Count:
        """Inputs that ``outputs`` neighbours with ``taps`` weights read."""
        return (outputs - 1) * self.stride + taps


@dataclass(frozen=True)
class Problem:
    """A shape and where its tensors lie; ``bias``: HBM address of one value for each filter."""

    shape: Shape
    ifmap: Strides
    filters: Strides
    ofmap: Strides
    bias: Affine | None = None
    output: Output = Output()
    item: int = VALUE_BYTES
    """bytes of an ifmap value and of a weight: 2, or 1 for bytes that are widened when they are loaded"""


def conv_shape(
    n: int, c: int, h: int, w: int, m: int, r: int, s: int, stride: int = 1,
    padding: tuple[int, int, int, int] = (0, 0, 0, 0), groups: int = 1,
) -> Shape:
    """The shape of a convolution; ``padding`` is top, left, bottom, right."""
    top, left, bottom, right = padding
    e = (h + top + bottom - r) // stride + 1
    f = (w + left + right - s) // stride + 1
    return Shape(n, c, h, w, m, r, s, e, f, stride, top, left, groups)


def image(gemm: Gemm, first: int, rows: int, width: int, output: Output) -> Problem:
    """``rows * width`` rows of a product from ``first`` on, as an image of ``rows`` x ``width`` pixels under 1 x 1
    filters."""
    (row, column, out), item = gemm.strides, gemm.item
    return Problem(
        image_shape(rows, width, gemm.n, gemm.k), Strides(gemm.a + first * row, (0, width * row, row, item)),
        Strides(gemm.b, (item, column, 0, 0)), Strides(gemm.c + first * out, (0, width * out, out, gemm.out_item)),
        gemm.bias, output, item)


def image_shape(rows: int, width: int, n: int, k: int) -> Shape:
    """``rows * width`` rows of a product as an image."""
    return Shape(1, k, rows, width, n, 1, 1, rows, width)
