"""What Eyeriss computes: a convolution as strides over HBM, of which a GEMM is the case of 1 x 1 filters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from oracle.affine import Affine

VALUE_BYTES = 2
"""16-bit fixed point."""


@dataclass(frozen=True)
class Strides:
    """HBM address of the first element, and bytes from one to the next along each dimension.

    ``ifmap`` and ``ofmap``: image, row, column, channel; ``filters``: output channel, input channel, row, column.
    """

    base: Affine
    steps: tuple[int, int, int, int]

    def at(self, *indices: Affine | int) -> Affine:
        """Address of the element with these indices; missing ones are 0."""
        address = self.base
        for index, step in zip(indices, self.steps):
            address = address + Affine.of(index) * step
        return address


@dataclass(frozen=True)
class Shape:
    """``n`` images of ``c`` x ``h`` x ``w``, ``m`` filters of ``r`` x ``s``, ``e`` x ``f`` results of each.

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

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return self.n * self.m * self.c * self.r * self.s * self.e * self.f

    def reach(self, outputs: int, taps: int) -> int:
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
    relu: bool = field(default=False)

    def moved(self, ifmap: Affine | int, filters: Affine | int, ofmap: Affine | int) -> "Problem":
        """The same with the tensors' addresses moved."""
        return replace(
            self, ifmap=replace(self.ifmap, base=self.ifmap.base + ifmap),
            filters=replace(self.filters, base=self.filters.base + filters),
            ofmap=replace(self.ofmap, base=self.ofmap.base + ofmap),
        )


def conv_shape(
    n: int, c: int, h: int, w: int, m: int, r: int, s: int, stride: int = 1, padding: tuple[int, int, int, int] = (0,) * 4,
) -> Shape:
    """The shape of a convolution; ``padding`` is top, left, bottom, right."""
    top, left, bottom, right = padding
    e = (h + top + bottom - r) // stride + 1
    f = (w + left + right - s) // stride + 1
    return Shape(n, c, h, w, m, r, s, e, f, stride, top, left)


def gemm_rows(a: int, b: int, c: int, rows: int, width: int, n: int, k: int, row: int = 0) -> Problem:
    """``rows * width`` rows of ``A[m, k] . B[k, n] = C[m, n]`` from ``row`` on, as an image of 1 x 1 filters.

    ``a``, ``b`` and ``c`` are the matrices' addresses.
    """
    size = VALUE_BYTES
    shape = Shape(1, k, rows, width, n, 1, 1, rows, width)
    ifmap = Strides(Affine(a + row * k * size), (0, width * k * size, k * size, size))
    filters = Strides(Affine(b), (size, n * size, 0, 0))
    ofmap = Strides(Affine(c + row * n * size), (0, width * n * size, n * size, size))
    return Problem(shape, ifmap, filters, ofmap)
