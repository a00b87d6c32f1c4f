"""How the tensors of regions lie in memory: a class for each layout, which packs tensors and unpacks them.

Accelerators of one core take them as the network has them, or images with their channels last, or int64 as words.
Meshes of cores take matrices of float16 in tiles of 32 x 32 that lie one after the other, filled up with zeros; what is
a matrix of a tensor depends on the layout.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from archloom.oracle.errors import InputError

if TYPE_CHECKING:
    from archloom.mapper.spatial.products.convolution import Convolution

SIDE = 32
DTYPE = "float16"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout(ABC):
    """A layout; equal ones have equal bytes. Arrays are NumPy's or JAX's."""

    name: ClassVar[str]
    in_tiles: ClassVar[bool] = True
    packing: ClassVar[str] = "to_tiles"
    """The host's operator that packs a tensor, as reports name it."""
    unpacking: ClassVar[str] = "from_tiles"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sizes of the layout itself, from which and its name :func:`layout_of` makes it."""
        return ()

    @abstractmethod
    def stored_shape(self, shape: Shape) -> Shape:
        """The shape in memory of a tensor of ``shape``."""

    @abstractmethod
    def pack(self, x: Any) -> Any:
        """A tensor as it lies in memory."""

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        """The tensor of ``shape`` that lies in memory so."""
        raise InputError(f"tensors in the layout {self.name!r} are read by accelerators only")

    def repack(self, stored: Any, shape: Shape, wanted: "Layout", wanted_shape: Shape) -> Any:
        """Tiles of a tensor of ``shape`` as ``wanted`` has the same numbers."""
        return wanted.pack(self.unpack(stored, shape, DTYPE).reshape(wanted_shape))

    def ragged(self, shape: Shape) -> frozenset[str]:
        """Whether the last tiles have ``rows`` or ``columns`` that are none of the tensor's."""
        return frozenset()

    def is_same(self, shape: Shape, other: "Layout", other_shape: Shape) -> bool:
        """Whether the bytes of a tensor of ``shape`` are those of the same numbers as ``other`` has them."""
        return (self, shape) == (other, other_shape)


class RowMajor(Layout):
    """As the network has it."""

    name = "row-major"
    in_tiles = False

    def stored_shape(self, shape: Shape) -> Shape:
        return shape

    def pack(self, x: Any) -> Any:
        return x

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        return stored


class Words(Layout):
    """Whole numbers of 64 bits as two words each, the low one first: the same bytes."""

    name = "words"
    in_tiles = False

    def stored_shape(self, shape: Shape) -> Shape:
        return *shape, 2

    def pack(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return np.ascontiguousarray(x).view(np.int32).reshape(*x.shape, 2)
        return _cast(x, np.int32)

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        if isinstance(stored, np.ndarray):
            return np.ascontiguousarray(stored).view(dtype).reshape(shape)
        return _cast(stored.reshape(*shape, 2), np.dtype(dtype))


def _cast(x: Any, dtype: Any) -> Any:
    """The bytes of an array of JAX in another type."""
    import jax

    with jax.enable_x64(True):
        return jax.lax.bitcast_convert_type(x, dtype)


class ChannelsLast(Layout):
    """Images NCHW as NHWC."""

    name = "nhwc"
    in_tiles = False

    def stored_shape(self, shape: Shape) -> Shape:
        n, c, h, w = shape
        return n, h, w, c

    def pack(self, x: Any) -> Any:
        return x.transpose(0, 2, 3, 1)

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        return stored.transpose(0, 3, 1, 2)


class Matrices(Layout):
    """Matrices in tiles: one after the other, each tile by tile along its rows of tiles."""

    axes: ClassVar[tuple[int, ...] | None] = None
    """The order in which matrices have a tensor's axes, where that is another than the tensor's."""
    batched: ClassVar[bool] = False
    """Whether the last two of these axes are a matrix, and not all of them."""

    def ordered(self, shape: Shape) -> Shape:
        """The shape of a tensor with its axes in the order in which matrices have them."""
        return shape if self.axes is None else tuple(shape[i] for i in self.axes)

    def matrices(self, shape: Shape) -> tuple[int, int, int]:
        """How many matrices a tensor of ``shape`` is, and the rows and columns of each."""
        *lead, columns = self.ordered(shape)
        return (math.prod(lead[:-1]), lead[-1], columns) if self.batched else (1, math.prod(lead), columns)

    def stored_shape(self, shape: Shape) -> Shape:
        count, rows, columns = self.matrices(shape)
        return count, -(-rows // SIDE), -(-columns // SIDE), SIDE, SIDE

    def pack(self, x: Any) -> Any:
        count, rows, columns = self.matrices(x.shape)
        _, high, wide, _, _ = self.stored_shape(x.shape)
        x = (x if self.axes is None else x.transpose(self.axes)).reshape(count, rows, columns).astype(DTYPE)
        x = _padded(x, ((0, 0), (0, high * SIDE - rows), (0, wide * SIDE - columns)))
        return x.reshape(count, high, SIDE, wide, SIDE).transpose(0, 1, 3, 2, 4)

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        count, rows, columns = self.matrices(shape)
        _, high, wide, _, _ = stored.shape
        x = stored.transpose(0, 1, 3, 2, 4).reshape(count, high * SIDE, wide * SIDE)[:, :rows, :columns]
        x = x.reshape(self.ordered(shape))
        return (x if self.axes is None else x.transpose(tuple(map(self.axes.index, range(x.ndim))))).astype(dtype)

    def ragged(self, shape: Shape) -> frozenset[str]:
        _, rows, columns = self.matrices(shape)
        return frozenset(name for name, extent in (("rows", rows), ("columns", columns)) if extent % SIDE)

    def is_same(self, shape: Shape, other: Layout, other_shape: Shape) -> bool:
        if not isinstance(other, Matrices):
            return False
        one, another = self.matrices(shape), other.matrices(other_shape)
        if self.axes is None and other.axes is None:  # rows of whole tiles are those of one matrix, too
            whole = not (one[1] % SIDE or another[1] % SIDE) and one[0] * one[1] == another[0] * another[1]
            return one == another or (whole and one[2] == another[2])
        return one == another and self == other


class OneMatrix(Matrices):
    """One matrix, whose rows are all axes but the last."""

    name = "tiles"


class MatrixBatch(Matrices):
    """A batch of matrices, of the last two axes."""

    name, batched = "tile-batch", True


class HeadMatrices(Matrices):
    """Of [batch, length, heads, depth] for each head a matrix [length, depth]."""

    name, batched, axes = "tile-heads", True, (0, 2, 1, 3)


class PixelMatrix(Matrices):
    """Of images NCHW one matrix, whose rows are pixels and whose columns channels."""

    name, axes = "tile-pixels", (0, 2, 3, 1)


@dataclass(frozen=True)
class _OfConvolution(Layout):
    """Images as a convolution has them; of the convolution without what is fused to it."""

    packing, unpacking = "to_windows", "from_places"
    convolution: "Convolution"

    @property
    def numbers(self) -> tuple[int, ...]:
        """Batch, height, width, channels, outputs, kernel, stride, padding, dilation, groups, and the grid of the
        result if it has one."""
        c = self.convolution
        return (c.batch, c.height, c.width, c.channels, c.outputs, *c.kernel, *c.stride, *c.padding, *c.dilation,
                c.groups, *(c.grid or ()))


class Windows(_OfConvolution):
    """Of images NCHW what a convolution gathers its windows from."""

    name = "tile-windows"

    def stored_shape(self, shape: Shape) -> Shape:
        return tuple(dict(self.convolution.tensors())["A"])

    def pack(self, x: Any) -> Any:
        return self.convolution.image_tiles(x.transpose(0, 2, 3, 1).astype(DTYPE))


class Places(_OfConvolution):
    """Of the result NCHW of a convolution what it stores."""

    name = "tile-places"

    def stored_shape(self, shape: Shape) -> Shape:
        return tuple(dict(self.convolution.tensors())["C"])

    def pack(self, x: Any) -> Any:
        return self.convolution.place_tiles(x.transpose(0, 2, 3, 1).astype(DTYPE))

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        return self.convolution.unpack(stored).transpose(0, 3, 1, 2).astype(dtype)

    def is_same(self, shape: Shape, other: Layout, other_shape: Shape) -> bool:
        return isinstance(other, Places) and shape == other_shape and self._pixels() == other._pixels()

    def _pixels(self) -> tuple[int, ...]:
        """Where the pixels of the result are among what the convolution stores."""
        c = self.convolution
        return (*c.tensors()[-1][1], *c.result, c.line, c.pitch[0] // c.stride[0], c.together)


@dataclass(frozen=True)
class PixelGrid(Layout):
    """Of images NCHW pixels on a grid (:mod:`archloom.mapper.spatial.arrays`): ``rows`` rows from an image to the next,
    ``line`` pixels from a row to the next, ``lead`` tiles of 32 pixels before the first pixel and behind the last."""

    name = "tile-grid"
    packing, unpacking = "to_windows", "from_places"
    rows: int
    line: int
    lead: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """``rows``, ``line`` and ``lead``."""
        return self.rows, self.line, self.lead

    def stored_shape(self, shape: Shape) -> Shape:
        from archloom.mapper.spatial.arrays import plane

        return 1, -(-shape[1] // SIDE), plane(shape[0], self.numbers), SIDE, SIDE

    def pack(self, x: Any) -> Any:
        from archloom.mapper.spatial.arrays import on_grid

        return on_grid(x.transpose(0, 2, 3, 1).astype(DTYPE), self.numbers)[None]

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        from archloom.mapper.spatial.arrays import off_grid

        n, c, h, w = shape
        images = off_grid(stored.reshape(stored.shape[-4:]), self.numbers, (n, h, w, c))
        return images.transpose(0, 3, 1, 2).astype(dtype)


class TileRow(Layout):
    """Of a tensor of so many columns, or one number for each channel, rows of 32 numbers one after the other."""

    name = "tile-row"

    def stored_shape(self, shape: Shape) -> Shape:
        return 1, -(-math.prod(shape) // SIDE), SIDE

    def pack(self, x: Any) -> Any:
        stored = self.stored_shape(x.shape)
        return _padded(x.reshape(-1).astype(DTYPE), ((0, stored[1] * SIDE - x.size),)).reshape(stored)

    def unpack(self, stored: Any, shape: Shape, dtype: str) -> Any:
        return stored.reshape(-1)[:math.prod(shape)].reshape(shape).astype(dtype)


ROW_MAJOR, WORDS, NHWC = RowMajor(), Words(), ChannelsLast()
TILES, BATCH, HEADS, PIXELS, ROW = OneMatrix(), MatrixBatch(), HeadMatrices(), PixelMatrix(), TileRow()

_WITHOUT_NUMBERS: dict[str, Layout] = {
    layout.name: layout for layout in (ROW_MAJOR, WORDS, NHWC, TILES, BATCH, HEADS, PIXELS, ROW)}


@lru_cache(maxsize=1024)
def layout_of(name: str, numbers: tuple[int, ...] = ()) -> Layout:
    """The layout of this name and of these :attr:`Layout.numbers`; InputError for an unknown name."""
    if name in _WITHOUT_NUMBERS:
        return _WITHOUT_NUMBERS[name]
    if name == PixelGrid.name:
        return PixelGrid(*numbers)
    for kind in (Windows, Places):
        if name == kind.name:
            from archloom.mapper.spatial.products.convolution import Convolution

            n, h, w, c, o, kh, kw, sy, sx, top, left, bottom, right, dy, dx, groups, *grid = numbers
            on = (grid[0], grid[1], grid[2]) if grid else None
            return kind(Convolution(
                n, h, w, c, o, (kh, kw), (sy, sx), (top, left, bottom, right), (dy, dx), groups, grid=on))
    known = ", ".join((*_WITHOUT_NUMBERS, PixelGrid.name, Windows.name, Places.name))
    raise InputError(f"expected a layout ({known}), found {name!r}")


def packed(x: Any, layout: Layout) -> Any:
    """:meth:`Layout.pack`; tiles of an array on the device are made by one program."""
    return _at_once(layout, "pack", x)


def unpacked(stored: Any, layout: Layout, shape: Shape, dtype: str) -> Any:
    """:meth:`Layout.unpack`; of tiles on the device by one program."""
    return _at_once(layout, "unpack", stored, shape, dtype)


def repacked(
    stored: Any, layout: Layout, shape: Shape, wanted: Layout, wanted_shape: Shape, zeros: bool = False
) -> Any:
    """Tiles of a tensor as tiles of the same numbers under another shape or layout; ``zeros``: with zeros beyond the
    edges of its matrices, whatever was there."""
    if layout.is_same(shape, wanted, wanted_shape) and not zeros:
        return stored
    return _at_once(layout, "repack", stored, shape, wanted, wanted_shape)


def _at_once(layout: Layout, method: str, x: Any, *how: Any) -> Any:
    """What a method of the layout makes of ``x``, of tiles on the device as one program."""
    if layout.in_tiles and not isinstance(x, np.ndarray):
        return _program(layout, method, *how)(x)
    return getattr(layout, method)(x, *how)


@lru_cache(maxsize=4096)
def _program(layout: Layout, method: str, *how: Any) -> Any:
    import jax

    return jax.jit(lambda x: getattr(layout, method)(x, *how))


def _padded(x: Any, more: tuple[tuple[int, int], ...]) -> Any:
    """``x`` with so many zeros before and behind along each axis."""
    if not any(after for _, after in more):
        return x
    if isinstance(x, np.ndarray):
        return np.pad(x, more)
    import jax

    return jax.numpy.pad(x, more)
