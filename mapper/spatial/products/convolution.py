"""Convolutions over meshes of cores, as products whose left operand is gathered from the image: no matrix of windows.

**How an image lies in memory.** Rows of pixels follow one another, each with so many zeros at its end that a window
which leaves the image on one side finds zeros there, which serve as the other side's for the next row, too; images of
a batch follow one another in the same way. Of every pixel 32 channels lie together (64 bytes). Then the pixel that a
place of the filter needs lies at a constant distance from the place of the result, and 32 pixels of the result in a row
need 32 pixels in a row of the image: one tile of the left operand, wherever in the filter. Between rows and images some
sums are made that belong to no pixel of the result. With a stride the image is dealt out to *phases* first (every
second row and column), each of which lies so; where all phases have 32 channels at most together, they are taken as
channels.

**What is summed up**: phases, places of the filter in each, channels. A step of the reduction takes some channels at
one place, all channels at a row of places, or at all of them (:meth:`Convolution.depths`); where blocks of the result
are too few for all cores, channels are dealt out to several of them.

Groups are products of their own; groups of few channels share a tile, with zeros in the filter between them. So a
depth-wise convolution takes a product of tiles for each place and 32 channels, about as long as the vector unit would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.arrays import (
    Grid,
    check_arrays,
    from_tiles,
    in_tiles,
    lengthened,
    off_grid,
    on_grid,
    padded,
    plane,
    to_tiles,
)
from archloom.mapper.spatial.epilogue import NOTHING, Epilogue
from archloom.mapper.spatial.machines.machine import SIDE
from archloom.mapper.spatial.plan import TileGemm
from archloom.mapper.spatial.products.parts import Contraction
from archloom.mapper.spatial.space import Column
from archloom.oracle.errors import MappingError

PIXEL = 2 * SIDE
"""Bytes of 32 channels of a pixel."""

Half = NDArray[np.float16]


@dataclass(frozen=True)
class Places:
    """Places of the filter in a phase of the image: ``ys x xs``, the first ``shift`` pixels from the result's place,
    the next ones ``dy`` rows and ``dx`` pixels further."""

    phase: int
    ys: int
    xs: int
    shift: int
    dy: int
    dx: int


MOST_PLACES = 1024
"""Places of a filter, a free choice: programs state each by itself, and 32 x 32 take 16 s to plan."""


@dataclass(frozen=True, order=True)
class Convolution(Contraction):
    """``batch`` images of ``height x width`` pixels and ``channels``, by ``kernel`` (rows, columns) to ``outputs``.

    ``stride`` and ``dilation``: rows, columns; ``padding``: top, left, bottom, right. Operands, all fp16: ``X`` of the
    shape ``(batch, height, width, channels)``, ``W`` of ``(*kernel, channels / groups, outputs)``, ``bias`` of
    ``(outputs,)`` and ``residual`` of the result's shape, ``(batch, rows, columns, outputs)``.
    """

    batch: int
    height: int
    width: int
    channels: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    epilogue: Epilogue = NOTHING
    grid: Grid | None = None
    """on which the result and the residual lie, and without a stride the image (:data:`mapper.spatial.arrays.Grid`)"""

    def __post_init__(self) -> None:
        sizes = (self.batch, self.height, self.width, self.channels, self.outputs, self.groups, *self.kernel,
                 *self.stride, *self.dilation)
        if min(sizes) < 1 or min(self.padding) < 0:
            raise MappingError(f"{self}: every extent must be at least 1, and paddings at least 0")
        if self.channels % self.groups or self.outputs % self.groups:
            raise MappingError(
                f"{self.channels} channels and {self.outputs} outputs cannot be dealt out to {self.groups} groups")
        if min(self._span(0), self._span(1)) < 0:
            top, left, bottom, right = self.padding
            raise MappingError(
                f"a filter of {self.kernel[0]} x {self.kernel[1]} with dilation {self.dilation[0]} x "
                f"{self.dilation[1]} is larger than the padded image of {self.height + top + bottom} x "
                f"{self.width + left + right}")
        if (places := self.kernel[0] * self.kernel[1]) > MOST_PLACES:
            raise MappingError(f"a filter of {self.kernel[0]} x {self.kernel[1]} has {places} places, each of which "
                               f"programs state by itself: expected at most {MOST_PLACES}")
        if self.grid is not None:
            self._check_grid(self.grid)

    def _check_grid(self, grid: Grid) -> None:
        """MappingError that says what does not lie on the grid."""
        _, line, lead = grid
        (top, left, _, _), least = self.padding, self._least_pitch
        if any(extent * step < needed for extent, step, needed in zip(grid, self.stride, least)):
            raise MappingError(f"a grid of {grid[0]} x {line} is too small for {self}: expected at least "
                               f"{-(-least[0] // self.stride[0])} x {-(-least[1] // self.stride[1])}")
        inside = self.channels // self.groups * self.together
        for what, number, width in (("channels", self.channels, inside), ("outputs", self.outputs, self._outputs)):
            if self.problems > 1 and (width % SIDE or self.problems * width // SIDE != -(-number // SIDE)):
                raise MappingError(f"{number} {what} of {self.groups} groups do not fill tiles: no grid has them")
        if self.image_on_grid and (top * line + left > lead * SIDE or self._reach > plane(self.batch, grid)):
            raise MappingError(f"{lead} tiles before and behind the images are too few for the padding of {self}")

    @property
    def image_on_grid(self) -> bool:
        """Whether the image lies on the grid, too."""
        return self.grid is not None and self.stride == (1, 1)

    def _span(self, axis: int) -> int:
        """By how much the padded image is longer than the filter."""
        extent = (self.height, self.width)[axis] + self.padding[axis] + self.padding[axis + 2]
        return extent - ((self.kernel[axis] - 1) * self.dilation[axis] + 1)

    @cached_property
    def result(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        rows, columns = (self._span(axis) // self.stride[axis] + 1 for axis in (0, 1))
        return rows, columns

    @property
    def macs(self) -> int:
        places = self.kernel[0] * self.kernel[1] * self.channels // self.groups
        return self.batch * self.result[0] * self.result[1] * self.outputs * places

    # --- how the image lies --------------------------------------------------------------------------------------
    @property
    def pitch(self) -> tuple[int, int]:
        """Rows from an image to the next, and pixels from a row to the next."""
        if self.grid is None:
            return self._least_pitch
        return self.grid[0] * self.stride[0], self.grid[1] * self.stride[1]

    @cached_property
    def _least_pitch(self) -> tuple[int, int]:
        found = []
        for axis, extent in ((0, self.height), (1, self.width)):
            stride, before = self.stride[axis], self.padding[axis]
            last = (self.result[axis] - 1) * stride + (self.kernel[axis] - 1) * self.dilation[axis]
            after = max(0, last + 1 - before - extent)
            least = max(extent + max(before, after), self.result[axis] * stride)
            found.append(-(-least // stride) * stride)
        return found[0], found[1]

    @property
    def line(self) -> int:
        """Pixels of a row of a phase."""
        return self.pitch[1] // self.stride[1]

    @cached_property
    def pixels(self) -> int:
        """Places of the result, those that belong to no pixel included."""
        rows = (self.batch - 1) * (self.pitch[0] // self.stride[0]) + self.result[0] - 1
        return rows * self.line + self.result[1]

    @property
    def together(self) -> int:
        """Groups that share tiles."""
        return min(self.groups, max(1, SIDE // (self.channels // self.groups)))

    @cached_property
    def folded(self) -> bool:
        """Whether the phases are taken as channels."""
        phases = self.stride[0] * self.stride[1]
        return phases > 1 and self.groups == 1 and self.channels * phases <= SIDE

    @cached_property
    def phases(self) -> tuple[Places, ...]:
        """The places of the filter, phase by phase."""
        (sy, ny), (sx, nx) = (self._shifts(axis) for axis in (0, 1))
        if self.grid is not None and self.image_on_grid:
            before = self.grid[2] * SIDE - self.padding[0] * self.line - self.padding[1]
            return (Places(0, len(sy[0]), len(sx[0]), before, ny, nx),)
        if self.folded:
            return (Places(0, max(max(v) for v in sy.values()) + 1, max(max(v) for v in sx.values()) + 1, 0, 1, 1),)
        return tuple(
            Places(i * len(sx) + j, len(ys), len(xs), ys[0] * self.line + xs[0], ny, nx)
            for i, ys in enumerate(sy.values()) for j, xs in enumerate(sx.values()))

    def _shifts(self, axis: int) -> tuple[dict[int, list[int]], int]:
        """Along an axis for each phase that is used the shifts of its places, and how far they are apart."""
        found: dict[int, list[int]] = {}
        for i in range(self.kernel[axis]):
            shift, phase = divmod(i * self.dilation[axis], self.stride[axis])
            found.setdefault(phase, []).append(shift)
        apart = {b - a for shifts in found.values() for a, b in pairwise(shifts)}
        return found, apart.pop() if apart else 0

    @property
    def blocks(self) -> int:
        """Tiles of channels of a phase."""
        inside = self.channels // self.groups * self.together
        return -(-inside * (self.stride[0] * self.stride[1] if self.folded else 1) // SIDE)

    @cached_property
    def plane(self) -> int:
        """Tiles of 32 pixels of a phase: all that any place of the filter needs."""
        if self.grid is not None and self.image_on_grid:
            return plane(self.batch, self.grid)
        return self._reach

    @property
    def _reach(self) -> int:
        far = max(p.shift + (p.ys - 1) * p.dy * self.line + (p.xs - 1) * p.dx for p in self.phases)
        return -(-(self.gemm.m * SIDE + far) // SIDE)

    @property
    def stored(self) -> tuple[int, ...]:
        if self.grid is None:
            return super().stored
        return self.problems, self.gemm.n, plane(self.batch, self.grid), SIDE, SIDE

    # --- as products ---------------------------------------------------------------------------------------------
    @property
    def problems(self) -> int:
        return -(-self.groups // self.together)

    @property
    def biases(self) -> int:
        return self.problems

    @cached_property
    def gemm(self) -> TileGemm:
        outputs = self.outputs // self.groups * self.together
        places = sum(p.ys * p.xs for p in self.phases)
        return TileGemm(-(-self.pixels // SIDE), -(-outputs // SIDE), places * self.blocks)

    @property
    def grain(self) -> int:
        """Channels are dealt out to cores, each at all places of the filter."""
        return self.gemm.k // self.blocks

    def depths(self, depth: int) -> tuple[int, ...]:
        blocks = depth // self.grain
        row, whole = max(p.xs for p in self.phases), max(p.ys * p.xs for p in self.phases)
        some = {1 << i for i in range(blocks.bit_length())}
        return tuple(sorted(some | {blocks, row * blocks, whole * blocks}))

    def loaded(self, bm: Column, bk: Column, depth: Column) -> NDArray[np.float64]:
        """The share of tiles that has to be loaded for a step: pixels of several windows are loaded once."""
        pixels, blocks, places, loaded = bm * SIDE, depth // self.grain, 0, np.zeros(len(bm))
        for p in self.phases:
            row = pixels + np.minimum(p.dx, pixels) * (p.xs - 1)
            whole = row + np.minimum(p.dy * self.line, row) * (p.ys - 1)
            loaded += _by_depth(p, bk, blocks, (whole, p.ys * row, p.ys * p.xs * pixels))
            places += p.ys * p.xs
        return loaded / (pixels * places)

    def steps(self, bk: Column, depth: Column, own: Column) -> Column:
        """Steps do not reach from phase to phase, and shallow ones not from place to place."""
        blocks, mine = depth // self.grain, own // self.grain
        any_of, each = np.minimum(mine, 1), -(-mine // bk)
        return sum(
            (_by_depth(p, bk, blocks, (any_of, any_of * p.ys, each * p.ys * p.xs)) for p in self.phases), 0 * bk)

    @property
    def blank(self) -> int:
        if self.grid is None:
            return 0
        problems, columns, tiles = self.stored[:3]
        return problems * columns * (tiles - self.gemm.m)

    def inputs(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        gemm = self.gemm
        phases = max(p.phase for p in self.phases) + 1
        return (("A", (self.problems, phases, self.blocks, self.plane, SIDE, SIDE)),
                ("B", (self.problems, gemm.k, gemm.n, SIDE, SIDE)))

    # --- arrays --------------------------------------------------------------------------------------------------
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the operands as arrays."""
        found: dict[str, tuple[int, ...]] = {
            "X": (self.batch, self.height, self.width, self.channels),
            "W": (*self.kernel, self.channels // self.groups, self.outputs)}
        if self.epilogue.bias:
            found["bias"] = (self.outputs,)
        if self.epilogue.residual:
            found["residual"] = (self.batch, *self.result, self.outputs)
        return found

    def pack(self, arrays: Mapping[str, Half]) -> dict[str, Half]:
        """The operands as they lie in memory; MappingError for other names or shapes than :meth:`shapes`."""
        given = check_arrays(self.shapes(), arrays)
        found = {"A": self.image_tiles(given["X"]), "B": self.filter_tiles(given["W"])}
        if "bias" in given:
            found["bias"] = self.bias_rows(given["bias"])
        if "residual" in given:
            found["residual"] = self.place_tiles(given["residual"])
        return found

    def place_tiles(self, y: Any) -> Any:
        """A tensor of the result's shape (of NumPy or JAX) as it lies in memory."""
        if self.grid is not None:
            return on_grid(y, self.grid).reshape(self.stored)
        rows, columns = self.result
        high, line = self.pitch[0] // self.stride[0], self.line
        more = self._outputs * self.problems - self.outputs
        whole = padded(y, ((0, 0), (0, high - rows), (0, line - columns), (0, more)))
        whole = lengthened(whole.reshape(self.batch * high * line, -1), 0, self.gemm.m * SIDE)
        return to_tiles(whole.reshape(len(whole), self.problems, self._outputs).transpose(1, 0, 2))

    def image_tiles(self, x: Any) -> Any:
        """X (of NumPy or JAX) as it lies in memory."""
        if self.grid is not None and self.image_on_grid:
            return on_grid(x, self.grid).reshape(self.inputs()[0][1])
        (high, wide), (sy, sx), inside = self.pitch, self.stride, self.channels // self.groups * self.together
        top, left, _, _ = self.padding
        whole = padded(x, ((0, 0), (top, high - top - self.height), (left, wide - left - self.width),
                           (0, self.problems * inside - self.channels)))
        cut = whole.reshape(self.batch * high // sy, sy, wide // sx, sx, self.problems, inside)
        if self.folded:
            phases = cut.transpose(4, 0, 2, 1, 3, 5).reshape(1, 1, -1, sy * sx * inside)
        else:
            used = [np.array(list(self._shifts(axis)[0])) for axis in (0, 1)]
            dealt = cut[:, used[0]][:, :, :, used[1]].transpose(4, 1, 3, 0, 2, 5)
            phases = dealt.reshape(self.problems, len(used[0]) * len(used[1]), -1, inside)
        shape = self.inputs()[0][1]
        found = lengthened(lengthened(phases, 2, self.plane * SIDE), 3, self.blocks * SIDE)
        by_block = found.reshape(*shape[:2], self.plane * SIDE, self.blocks, SIDE).transpose(0, 1, 3, 2, 4)
        return by_block.reshape(shape)

    def filter_tiles(self, w: Half) -> Half:
        """W as it lies in memory: tiles of ``(problems, reduction, outputs of a problem)``."""
        inside, own = self.channels // self.groups, self.outputs // self.groups
        groups = self.problems * self.together
        by_group = np.zeros((*self.kernel, inside, groups, own), np.float16)
        by_group[..., :self.groups, :] = w.reshape(*self.kernel, inside, self.groups, own)
        width = self.blocks * SIDE
        found = np.zeros((self.problems, self.gemm.k * SIDE // width, width, self.together, own), np.float16)
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                place, channel = self._place_of(i, j)
                for t in range(self.together):
                    at = channel + t * inside
                    # groups of a problem: numbers t, t + together, ... of all
                    found[:, place, at:at + inside, t] = by_group[i, j, :, t::self.together].transpose(1, 0, 2)
        return to_tiles(found.reshape(self.problems, -1, self.together * own))

    def bias_rows(self, bias: Half) -> Half:
        """The bias as it lies in memory."""
        return in_tiles(lengthened(bias, 0, self.problems * self._outputs).reshape(self.problems, self._outputs))

    def unpack(self, result: Any) -> Any:
        """The result ``(batch, rows, columns, outputs)`` from its tiles (of NumPy or JAX)."""
        if self.grid is not None:
            tiles = result.reshape(-1, *result.shape[-3:])
            return off_grid(tiles, self.grid, (self.batch, *self.result, self.outputs))
        high = self.pitch[0] // self.stride[0]
        places = from_tiles(result, (self.gemm.m * SIDE, self._outputs)).transpose(1, 0, 2)
        whole = lengthened(places.reshape(len(places), -1), 0, self.batch * high * self.line)
        images = whole.reshape(self.batch, high, self.line, -1)
        return images[:, :self.result[0], :self.result[1], :self.outputs]

    @property
    def _outputs(self) -> int:
        """Of a problem."""
        return self.outputs // self.groups * self.together

    def _place_of(self, i: int, j: int) -> tuple[int, int]:
        """The number of a place of the filter in the reduction, and its first channel in the tiles of that place."""
        (y, py), (x, px) = (divmod(v * d, s) for v, d, s in zip((i, j), self.dilation, self.stride))
        if self.folded:
            return y * self.phases[0].xs + x, (py * self.stride[1] + px) * self.channels
        (sy, _), (sx, _) = (self._shifts(axis) for axis in (0, 1))
        phase = list(sy).index(py) * len(sx) + list(sx).index(px)
        before = sum(p.ys * p.xs for p in self.phases[:phase])
        return before + sy[py].index(y) * len(sx[px]) + sx[px].index(x), 0


def _by_depth(
    p: Places, bk: Column, blocks: Column, each: "tuple[Column | int, Column | int, Column | int]"
) -> Column:
    """One of three numbers, by whether a step takes all places of a phase, a row of them or a part of one."""
    whole, row, part = each
    return np.where(bk >= p.ys * p.xs * blocks, whole, np.where(bk >= p.xs * blocks, row, part))
