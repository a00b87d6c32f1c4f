"""Tensors as a mesh of cores keeps them: matrices of float16 in tiles of 32 x 32 that lie one after the other.

What is a matrix of a tensor depends on the layout:

``tiles``        one matrix, whose rows are all axes but the last
``tile-batch``   a batch of matrices, of the last two axes
``tile-heads``   of [batch, length, heads, depth] for each head a matrix [length, depth]
``tile-pixels``  of images NCHW one matrix, whose rows are pixels and whose columns channels
``tile-windows`` of images NCHW what a convolution gathers its windows from, as its ``form`` demands
``tile-places``  of the result NCHW of a convolution what it stores
``tile-grid``    of images NCHW pixels on a grid, which is the ``form`` (:mod:`archloom.mapper.spatial.grid`)
``tile-row``     of a tensor of so many columns, or one number for each channel, rows of 32 numbers one after the other

Edges are filled up with zeros. A ``form`` has all sizes of a convolution (:mod:`archloom.mapper.spatial.convolution`):
batch, height, width, channels, outputs, kernel, stride, padding, dilation, groups, and the grid of its result if it has
one.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.oracle.errors import InputError

if TYPE_CHECKING:
    from archloom.mapper.spatial.convolution import Convolution

SIDE = 32
DTYPE = "float16"
GRID = "tile-grid"
IMAGES = ("tile-windows", "tile-places", GRID)
ROW = "tile-row"
PLAIN = ("tiles", "tile-batch")
"""Layouts that keep the order of a tensor's numbers within its matrices."""
LAYOUTS = ("tiles", "tile-batch", "tile-heads", "tile-pixels", ROW, *IMAGES)

Shape = tuple[int, ...]
Held = tuple[Shape, str, tuple[int, ...]]
"""Shape and layout of a tensor, and the form of the convolution that it belongs to (or nothing)."""


def matrices(shape: Shape, layout: str) -> tuple[int, int, int]:
    """How many matrices a tensor of ``shape`` is, and the rows and columns of each."""
    if layout == "tiles":
        return 1, math.prod(shape[:-1]), shape[-1]
    if layout == "tile-batch":
        return math.prod(shape[:-2]), shape[-2], shape[-1]
    if layout == "tile-heads":
        batch, length, heads, depth = shape
        return batch * heads, length, depth
    if layout == "tile-pixels":
        n, c, h, w = shape
        return 1, n * h * w, c
    raise InputError(f"expected a layout in tiles ({', '.join(LAYOUTS)}), found {layout!r}")


@lru_cache(maxsize=1024)
def convolution_of(form: tuple[int, ...]) -> "Convolution":
    """The convolution of a form, without what is fused to it."""
    from archloom.mapper.spatial.convolution import Convolution

    n, h, w, c, o, kh, kw, sy, sx, top, left, bottom, right, dy, dx, groups, *grid = form
    on = (grid[0], grid[1], grid[2]) if grid else None
    return Convolution(n, h, w, c, o, (kh, kw), (sy, sx), (top, left, bottom, right), (dy, dx), groups, grid=on)


def tiled_shape(shape: Shape, layout: str, form: tuple[int, ...] = ()) -> Shape:
    """The shape of the tiles of a tensor."""
    if layout == GRID:
        from archloom.mapper.spatial.grid import plane

        rows, line, lead = form
        return 1, -(-shape[1] // SIDE), plane(shape[0], (rows, line, lead)), SIDE, SIDE
    if layout in IMAGES:
        tensors = dict(convolution_of(form).tensors())
        return tensors["A" if layout == "tile-windows" else "C"]
    if layout == ROW:
        return 1, -(-math.prod(shape) // SIDE), SIDE
    count, rows, columns = matrices(shape, layout)
    return count, -(-rows // SIDE), -(-columns // SIDE), SIDE, SIDE


def to_tiles(x: Any, layout: str, form: tuple[int, ...] = ()) -> Any:
    """A tensor (of NumPy or JAX) as tiles."""
    if layout == GRID:
        from archloom.mapper.spatial.grid import on_grid

        rows, line, lead = form
        return on_grid(x.transpose(0, 2, 3, 1).astype(DTYPE), (rows, line, lead))[None]
    if layout == "tile-windows":
        return convolution_of(form).image_tiles(x.transpose(0, 2, 3, 1).astype(DTYPE))
    if layout == "tile-places":
        return convolution_of(form).place_tiles(x.transpose(0, 2, 3, 1).astype(DTYPE))
    if layout == ROW:
        _, wide, _ = tiled_shape(x.shape, layout)
        row = x.reshape(-1).astype(DTYPE)
        return _module(x).pad(row, (0, wide * SIDE - row.shape[0])).reshape(1, wide, SIDE)
    count, rows, columns = matrices(x.shape, layout)
    _, high, wide, _, _ = tiled_shape(x.shape, layout)
    if layout == "tile-heads":
        x = x.transpose(0, 2, 1, 3)
    elif layout == "tile-pixels":
        x = x.transpose(0, 2, 3, 1)
    x = x.reshape(count, rows, columns).astype(DTYPE)
    more = ((0, 0), (0, high * SIDE - rows), (0, wide * SIDE - columns))
    if any(after for _, after in more):
        x = _module(x).pad(x, more)
    return x.reshape(count, high, SIDE, wide, SIDE).transpose(0, 1, 3, 2, 4)


def from_tiles(tiles: Any, shape: Shape, layout: str, dtype: str, form: tuple[int, ...] = ()) -> Any:
    """The tensor of ``shape`` whose tiles are given."""
    if layout == GRID:
        from archloom.mapper.spatial.grid import off_grid

        (rows, line, lead), (n, c, h, w) = form, shape
        images = off_grid(tiles.reshape(tiles.shape[-4:]), (rows, line, lead), (n, h, w, c))
        return images.transpose(0, 3, 1, 2).astype(dtype)
    if layout == "tile-places":
        return convolution_of(form).unpack(tiles).transpose(0, 3, 1, 2).astype(dtype)
    if layout == ROW:
        return tiles.reshape(-1)[:math.prod(shape)].reshape(shape).astype(dtype)
    count, rows, columns = matrices(shape, layout)
    _, high, wide, _, _ = tiles.shape
    x = tiles.transpose(0, 1, 3, 2, 4).reshape(count, high * SIDE, wide * SIDE)[:, :rows, :columns]
    if layout == "tile-heads":
        batch, length, heads, depth = shape
        x = x.reshape(batch, heads, length, depth).transpose(0, 2, 1, 3)
    elif layout == "tile-pixels":
        n, c, h, w = shape
        x = x.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    return x.reshape(shape).astype(dtype)


def tiled(x: Any, layout: str, form: tuple[int, ...] = ()) -> Any:
    """:func:`to_tiles`, of an array on the device as one program."""
    return to_tiles(x, layout, form) if isinstance(x, np.ndarray) else _program_to(layout, form)(x)


def untiled(tiles: Any, shape: Shape, layout: str, dtype: str, form: tuple[int, ...] = ()) -> Any:
    """:func:`from_tiles`, of an array on the device as one program."""
    if isinstance(tiles, np.ndarray):
        return from_tiles(tiles, shape, layout, dtype, form)
    return _program_from(shape, layout, dtype, form)(tiles)


def lies_alike(held: Held, wanted: Held) -> bool:
    """Whether the tiles of both are the same bytes."""
    if held[1] == wanted[1] == "tile-places":
        return held[0] == wanted[0] and _places(held[2]) == _places(wanted[2])
    if ROW in (held[1], wanted[1]) or held[1] in IMAGES or wanted[1] in IMAGES:
        return held == wanted
    one, other = matrices(*held[:2]), matrices(*wanted[:2])
    if held[1] in PLAIN and wanted[1] in PLAIN:  # rows of whole tiles are those of one matrix, too
        whole = not (one[1] % SIDE or other[1] % SIDE) and one[0] * one[1] == other[0] * other[1]
        return one == other or (whole and one[2] == other[2])
    return one == other and held[1] == wanted[1]


@lru_cache(maxsize=1024)
def _places(form: tuple[int, ...]) -> tuple[int, ...]:
    """Where the pixels of the result are among what the convolution of a form stores."""
    made = convolution_of(form)
    return (*made.tensors()[-1][1], *made.result, made.line, made.pitch[0] // made.stride[0], made.together)


def edges(held: Held) -> frozenset[str]:
    """Whether the last tiles have ``rows`` or ``columns`` that are none of the tensor's."""
    if held[1] in IMAGES or held[1] == ROW:
        return frozenset()
    _, rows, columns = matrices(*held[:2])
    return frozenset(name for name, extent in (("rows", rows), ("columns", columns)) if extent % SIDE)


def retiled(tiles: Any, held: Held, wanted: Held, anew: bool = False) -> Any:
    """Tiles of a tensor under a shape in a layout as tiles of the same tensor under another shape or layout; ``anew``:
    with zeros beyond the edges, whatever was there."""
    if lies_alike(held, wanted) and not anew:
        return tiles
    if isinstance(tiles, np.ndarray):
        return _retiled(tiles, held, wanted)
    return _program_between(held, wanted)(tiles)


def _retiled(tiles: Any, held: Held, wanted: Held) -> Any:
    return to_tiles(from_tiles(tiles, *held[:2], DTYPE, held[2]).reshape(wanted[0]), *wanted[1:])


def _module(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return np
    import jax

    return jax.numpy


@lru_cache(maxsize=1024)
def _program_to(layout: str, form: tuple[int, ...]) -> Any:
    import jax

    return jax.jit(lambda x: to_tiles(x, layout, form))


@lru_cache(maxsize=1024)
def _program_from(shape: Shape, layout: str, dtype: str, form: tuple[int, ...]) -> Any:
    import jax

    return jax.jit(lambda x: from_tiles(x, shape, layout, dtype, form))


@lru_cache(maxsize=1024)
def _program_between(held: Held, wanted: Held) -> Any:
    import jax

    return jax.jit(lambda x: _retiled(x, held, wanted))
