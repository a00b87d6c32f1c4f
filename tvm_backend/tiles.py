"""Tensors as a mesh of cores keeps them: matrices of float16 in tiles of 32 x 32 that lie one after the other.

What is a matrix of a tensor depends on the layout:

``tiles``        one matrix, whose rows are all axes but the last
``tile-batch``   a batch of matrices, of the last two axes
``tile-heads``   of [batch, length, heads, depth] for each head a matrix [length, depth]
``tile-pixels``  of images NCHW one matrix, whose rows are pixels and whose columns channels

Edges are filled up with zeros.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from oracle.errors import InputError

SIDE = 32
DTYPE = "float16"
LAYOUTS = ("tiles", "tile-batch", "tile-heads", "tile-pixels")

Shape = tuple[int, ...]


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


def tiled_shape(shape: Shape, layout: str) -> Shape:
    """The shape of the tiles of a tensor."""
    count, rows, columns = matrices(shape, layout)
    return count, -(-rows // SIDE), -(-columns // SIDE), SIDE, SIDE


def to_tiles(x: Any, layout: str) -> Any:
    """A tensor (of NumPy or JAX) as tiles."""
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


def from_tiles(tiles: Any, shape: Shape, layout: str, dtype: str) -> Any:
    """The tensor of ``shape`` whose tiles are given."""
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


def tiled(x: Any, layout: str) -> Any:
    """:func:`to_tiles`, of an array on the device as one program."""
    return to_tiles(x, layout) if isinstance(x, np.ndarray) else _program_to(layout)(x)


def untiled(tiles: Any, shape: Shape, layout: str, dtype: str) -> Any:
    """:func:`from_tiles`, of an array on the device as one program."""
    if isinstance(tiles, np.ndarray):
        return from_tiles(tiles, shape, layout, dtype)
    return _program_from(shape, layout, dtype)(tiles)


def retiled(tiles: Any, held: tuple[Shape, str], wanted: tuple[Shape, str]) -> Any:
    """Tiles of a tensor under a shape in a layout as tiles of the same tensor under another shape or layout."""
    if matrices(*held) == matrices(*wanted) and _same_order(held[1], wanted[1]):
        return tiles
    if isinstance(tiles, np.ndarray):
        return _retiled(tiles, held, wanted)
    return _program_between(held, wanted)(tiles)


def _same_order(one: str, other: str) -> bool:
    plain = ("tiles", "tile-batch")
    return one == other or (one in plain and other in plain)


def _retiled(tiles: Any, held: tuple[Shape, str], wanted: tuple[Shape, str]) -> Any:
    return to_tiles(from_tiles(tiles, *held, DTYPE).reshape(wanted[0]), wanted[1])


def _module(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return np
    import jax

    return jax.numpy


@lru_cache(maxsize=64)
def _program_to(layout: str) -> Any:
    import jax

    return jax.jit(lambda x: to_tiles(x, layout))


@lru_cache(maxsize=1024)
def _program_from(shape: Shape, layout: str, dtype: str) -> Any:
    import jax

    return jax.jit(lambda x: from_tiles(x, shape, layout, dtype))


@lru_cache(maxsize=1024)
def _program_between(held: tuple[Shape, str], wanted: tuple[Shape, str]) -> Any:
    import jax

    return jax.jit(lambda x: _retiled(x, held, wanted))
