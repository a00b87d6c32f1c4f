"""The sizes of a convolution, as an emission that walks over its image needs them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from archloom.mapper.spans import Span, spans
from archloom.mapper.workload import Workload
from archloom.tvm_backend.ir.match import QuantizedOp

Pair = tuple[int, int]


@dataclass(frozen=True)
class Convolution:
    """Lines, pixels and channels of image and result, both NHWC; ``corner``: lines and pixels beyond the edge before
    the image. Kernels are ``[kh, kw, c, o]``, those of several ``groups`` ``[groups, kh, kw, c, o]`` of the channels of
    one."""

    size: tuple[int, ...]
    out: tuple[int, ...]
    taps: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    corner: Pair = (0, 0)
    groups: int = 1

    @staticmethod
    def of(w: Workload) -> "Convolution":
        """That of a workload."""
        taps = w.extent("kh"), w.extent("kw")
        return Convolution(w.inputs[0].shape[1:], w.output.shape[1:], taps, w.stride, w.dilation, w.padding[:2],
                           w.groups)

    @staticmethod
    def of_match(op: QuantizedOp) -> "Convolution":
        """That of a match, whose operands are NCHW and OIHW."""
        (_, c, high, wide), (o, _, kh, kw) = op.operands[0].shape, op.operands[1].shape
        return Convolution((high, wide, c), (*op.shape[2:], o), (kh, kw), tuple(op.attrs["strides"]),
                           tuple(op.attrs["dilation"]), op.attrs["padding"][:2], op.attrs["groups"])

    @staticmethod
    def of_product(m: int, n: int, k: int, pixels: int) -> "Convolution":
        """That of a product whose rows are pixels, in lines of up to so many."""
        wide = math.gcd(m, pixels)
        return Convolution((m // wide, wide, k), (m // wide, wide, n), (1, 1))

    @property
    def depthwise(self) -> bool:
        """Whether each channel has a kernel and a result of its own."""
        return self.groups > 1 and self.groups == self.size[2] == self.out[2]

    @property
    def wide(self) -> int:
        """Pixels of a line of the image with what is beyond its edges."""
        return max(self.corner[1] + self.size[1],
                   (self.out[1] - 1) * self.stride[1] + (self.taps[1] - 1) * self.dilation[1] + 1)

    def area(self, lines: int) -> int:
        """Pixels of the image, and beyond its edges, under so many lines of results."""
        return ((lines - 1) * self.stride[0] + (self.taps[0] - 1) * self.dilation[0] + 1) * self.wide

    def spans(self, lines: int) -> tuple[Span, ...]:
        """The result in strips of so many lines."""
        reach = (self.taps[0] - 1) * self.dilation[0] + 1
        return spans(self.out[0], lines, self.stride[0], reach, self.corner[0], self.size[0])
