"""Operands of workloads as arrays, and as they lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.machines.machine import SIDE
from archloom.oracle.errors import MappingError

Half = NDArray[np.float16]


def check_arrays(shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Half]) -> dict[str, Half]:
    """The arrays in the order of ``shapes``; MappingError for other names, shapes or element types."""
    if set(arrays) != set(shapes):
        raise MappingError(f"expected the operands {', '.join(shapes)}, found {', '.join(arrays) or 'none'}")
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float16:
            raise MappingError(
                f"operand {name}: expected float16 of shape {shape}, found {arrays[name].dtype} of shape "
                f"{arrays[name].shape}")
    return {name: arrays[name] for name in shapes}


def in_tiles(rows: Half) -> Half:
    """``(rows, numbers)`` as ``(rows, numbers / 32, 32)``, filled up with zeros."""
    whole = np.zeros((len(rows), -(-rows.shape[1] // SIDE) * SIDE), rows.dtype)
    whole[:, :rows.shape[1]] = rows
    return whole.reshape(len(rows), -1, SIDE)


def padded(x: Any, more: tuple[tuple[int, int], ...]) -> Any:
    """``x`` (of NumPy or JAX) with so many zeros before and behind along each axis."""
    if not any(before or after for before, after in more):
        return x
    if isinstance(x, np.ndarray):
        return np.pad(x, more)
    import jax.numpy as jnp

    return jnp.pad(x, more)


def lengthened(x: Any, axis: int, extent: int) -> Any:
    """``x`` (of NumPy or JAX) cut to an extent along an axis, or filled up with zeros."""
    held = x.shape[axis]
    if held >= extent:
        return x[(slice(None),) * axis + (slice(extent),)]
    return padded(x, tuple((0, extent - held if a == axis else 0) for a in range(x.ndim)))


def to_tiles(tensor: Any) -> Any:
    """``(problems, rows, columns)``, of NumPy or JAX, as ``(problems, rows / 32, columns / 32, 32, 32)`` and zeros."""
    problems, rows, columns = tensor.shape
    high, wide = -(-rows // SIDE), -(-columns // SIDE)
    whole = padded(tensor, ((0, 0), (0, high * SIDE - rows), (0, wide * SIDE - columns)))
    tiles = whole.reshape(problems, high, SIDE, wide, SIDE).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(tiles) if isinstance(tiles, np.ndarray) else tiles


def packed(given: Mapping[str, Half]) -> dict[str, Half]:
    """Matrices and rows as they lie in memory, each as one problem."""
    return {name: to_tiles(a[None]) if a.ndim == 2 else in_tiles(a[None]) for name, a in given.items()}


def from_tiles(tiles: Any, shape: tuple[int, int]) -> Any:
    """What :func:`to_tiles` was given, cut to ``shape``."""
    problems, high, wide, _, _ = tiles.shape
    whole = tiles.transpose(0, 1, 3, 2, 4).reshape(problems, high * SIDE, wide * SIDE)
    return whole[:, :shape[0], :shape[1]]


Grid = tuple[int, int, int]
"""How convolutions hand each other images: ``(rows, line, lead)``, with ``line`` pixels from a row of an image to the
next and ``rows`` rows from an image to the next, of which the image's own come first; ``lead`` tiles of 32 pixels lie
before the first pixel and as many behind the last. Between images and rows there are zeros, so that a filter finds them
where it leaves the image. Tiles of channels lie one after the other: ``(channels / 32, tiles of pixels, 32, 32)``."""


def plane(batch: int, grid: Grid) -> int:
    """Tiles of 32 pixels of each tile of channels."""
    rows, line, lead = grid
    return 2 * lead + -(-batch * rows * line // SIDE)


def on_grid(x: Any, grid: Grid) -> Any:
    """Images ``(batch, height, width, channels)``, of NumPy or JAX, on a grid."""
    (rows, line, lead), (batch, height, width, channels) = grid, x.shape
    blocks = -(-channels // SIDE)
    whole = padded(x, ((0, 0), (0, rows - height), (0, line - width), (0, blocks * SIDE - channels)))
    pixels = whole.reshape(batch * rows * line, blocks * SIDE)
    pixels = lengthened(padded(pixels, ((lead * SIDE, 0), (0, 0))), 0, plane(batch, grid) * SIDE)
    return pixels.reshape(-1, SIDE, blocks, SIDE).transpose(2, 0, 1, 3)


def off_grid(tiles: Any, grid: Grid, shape: tuple[int, int, int, int]) -> Any:
    """The images ``(batch, height, width, channels)`` of :func:`on_grid`."""
    (rows, line, lead), (batch, height, width, channels) = grid, shape
    pixels = tiles.transpose(1, 2, 0, 3).reshape(-1, len(tiles) * SIDE)
    images = pixels[lead * SIDE:][:batch * rows * line].reshape(batch, rows, line, -1)
    return images[:, :height, :width, :channels]
