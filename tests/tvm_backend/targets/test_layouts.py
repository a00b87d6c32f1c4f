"""Tensors in tiles: there and back, from one layout to another, on the host and on the device."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archloom.oracle.errors import InputError
from archloom.tvm_backend.targets.layouts import (
    BATCH,
    HEADS,
    PIXELS,
    ROW,
    TILES,
    Layout,
    PixelGrid,
    layout_of,
    packed,
    repacked,
    unpacked,
)

SHAPES = {TILES: (2, 33, 40), BATCH: (2, 3, 33, 5), HEADS: (2, 7, 3, 34), PIXELS: (2, 35, 3, 5), ROW: (1, 35, 1)}
CONVOLUTION = (2, 9, 7, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)
"""Batch, height, width, channels, outputs, kernel, stride, padding, dilation, groups."""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-99, 99, shape).astype(np.float32)


@pytest.mark.first_case
@pytest.mark.parametrize("layout", SHAPES, ids=lambda layout: layout.name)
def test_there_and_back(layout: Layout) -> None:
    x = numbers(*SHAPES[layout])
    tiles = layout.pack(x)
    assert tiles.shape == layout.stored_shape(x.shape) and tiles.dtype == np.float16
    np.testing.assert_array_equal(layout.unpack(tiles, x.shape, "float32"), x)
    on_device = packed(jnp.asarray(x), layout)
    np.testing.assert_array_equal(np.asarray(on_device), tiles)
    np.testing.assert_array_equal(np.asarray(unpacked(on_device, layout, x.shape, "float32")), x)


def test_a_tile_has_32_rows_of_32_numbers_and_edges_are_zero() -> None:
    x = numbers(40, 70)
    tiles = TILES.pack(x)
    np.testing.assert_array_equal(tiles[0, 0, 1], x[:32, 32:64])
    assert not tiles[0, 1, :, 8:].any() and not tiles[0, :, 2, :, 6:].any()


def test_layouts_have_names_and_numbers() -> None:
    for layout in (*SHAPES, PixelGrid(6, 7, 1), layout_of("tile-places", (*CONVOLUTION, 12, 9, 1))):
        assert layout_of(layout.name, layout.numbers) == layout
    with pytest.raises(InputError, match="expected a layout .*, found 'tile-rows'"):
        layout_of("tile-rows")


def test_a_convolution_reads_and_stores_images_in_its_form() -> None:
    windows, places = layout_of("tile-windows", CONVOLUTION), layout_of("tile-places", CONVOLUTION)
    x, stored = numbers(2, 5, 9, 7), numbers(*places.stored_shape((2, 6, 9, 7))).astype(np.float16)
    read = packed(jnp.asarray(x), windows)
    assert read.shape == windows.stored_shape(x.shape) and read.astype(np.float64).sum() == x.sum()
    y = unpacked(stored, places, (2, 6, 9, 7), "float32")
    assert y.shape == (2, 6, 9, 7)
    np.testing.assert_array_equal(repacked(stored, places, y.shape, PIXELS, y.shape), PIXELS.pack(y))
    with pytest.raises(InputError, match="'tile-windows' are read by accelerators only"):
        unpacked(np.asarray(read), windows, x.shape, "float32")


def test_images_on_a_grid_have_zeros_around_their_pixels() -> None:
    x, grid = numbers(2, 40, 5, 4), PixelGrid(6, 7, 1)
    tiles = grid.pack(x)
    assert tiles.shape == grid.stored_shape(x.shape) == (1, 2, 5, 32, 32)
    pixels = tiles[0, 1].reshape(-1, 32)
    np.testing.assert_array_equal(pixels[32 + (6 + 3) * 7 + 2, :8], x[1, 32:, 3, 2])
    np.testing.assert_array_equal(grid.unpack(tiles, x.shape, "float32"), x)
    np.testing.assert_array_equal(np.asarray(packed(jnp.asarray(x), grid)), tiles)
    np.testing.assert_array_equal(repacked(tiles, grid, x.shape, PIXELS, x.shape), PIXELS.pack(x))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from((TILES, BATCH, HEADS)), st.sampled_from((TILES, BATCH, HEADS)), *[st.integers(1, 3)] * 2,
       st.sampled_from((1, 31, 32, 64)), st.sampled_from((5, 32)))
def test_from_one_layout_to_another(
    layout: Layout, wanted: Layout, batch: int, heads: int, length: int, depth: int
) -> None:
    x = numbers(batch, length, heads, depth)
    shapes = [x.shape if kind == HEADS else (batch, length, heads * depth) for kind in (layout, wanted)]
    again = repacked(layout.pack(x.reshape(shapes[0])), layout, shapes[0], wanted, shapes[1])
    np.testing.assert_array_equal(again, wanted.pack(x.reshape(shapes[1])).reshape(again.shape))
