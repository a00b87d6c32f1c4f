"""Images as convolutions hand them to each other: pixels on a grid, 32 channels of each together, zeros between them.

A grid ``(rows, line, lead)`` has ``line`` pixels from a row of an image to the next and ``rows`` rows from an image to
the next, of which the image's own come first; ``lead`` tiles of 32 pixels lie before the first pixel and as many behind
the last. Between images and rows there are zeros, so that a filter finds them where it leaves the image. Tiles of
channels lie one after the other: ``(channels / 32, tiles of pixels, 32, 32)``.
"""

from __future__ import annotations

from typing import Any

from archloom.mapper.spatial.arrays import lengthened, padded
from archloom.mapper.spatial.machine import SIDE

Grid = tuple[int, int, int]


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
