"""Tensors in tiles: there and back, from one layout to another, on the host and on the device."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archloom.oracle.errors import InputError
from archloom.tvm_backend.targets.tiles import (
    IMAGES,
    LAYOUTS,
    from_tiles,
    matrices,
    retiled,
    tiled,
    tiled_shape,
    to_tiles,
    untiled,
)

SHAPES = {"tiles": (2, 33, 40), "tile-batch": (2, 3, 33, 5), "tile-heads": (2, 7, 3, 34), "tile-pixels": (2, 35, 3, 5),
          "tile-row": (1, 35, 1)}


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-99, 99, shape).astype(np.float32)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in IMAGES])
def test_there_and_back(layout: str) -> None:
    x = numbers(*SHAPES[layout])
    tiles = to_tiles(x, layout)
    assert tiles.shape == tiled_shape(x.shape, layout) and tiles.dtype == np.float16
    np.testing.assert_array_equal(from_tiles(tiles, x.shape, layout, "float32"), x)
    on_device = tiled(jnp.asarray(x), layout)
    np.testing.assert_array_equal(np.asarray(on_device), tiles)
    np.testing.assert_array_equal(np.asarray(untiled(on_device, x.shape, layout, "float32")), x)


def test_a_tile_has_32_rows_of_32_numbers_and_edges_are_zero() -> None:
    x = numbers(40, 70)
    tiles = to_tiles(x, "tiles")
    np.testing.assert_array_equal(tiles[0, 0, 1], x[:32, 32:64])
    assert not tiles[0, 1, :, 8:].any() and not tiles[0, :, 2, :, 6:].any()
    with pytest.raises(InputError, match="expected a layout in tiles"):
        matrices((1, 2), "nhwc")


def test_a_convolution_reads_and_stores_images_in_its_form() -> None:
    form = (2, 9, 7, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    x, places = numbers(2, 5, 9, 7), numbers(*tiled_shape((2, 6, 9, 7), "tile-places", form)).astype(np.float16)
    windows = tiled(jnp.asarray(x), "tile-windows", form)
    assert windows.shape == tiled_shape(x.shape, "tile-windows", form) and windows.astype(np.float64).sum() == x.sum()
    y = untiled(places, (2, 6, 9, 7), "tile-places", "float32", form)
    assert y.shape == (2, 6, 9, 7)
    pixels = retiled(places, ((2, 6, 9, 7), "tile-places", form), ((2, 6, 9, 7), "tile-pixels", ()))
    np.testing.assert_array_equal(pixels, to_tiles(y, "tile-pixels"))


def test_images_on_a_grid_have_zeros_around_their_pixels() -> None:
    x, grid = numbers(2, 40, 5, 4), (6, 7, 1)
    tiles = to_tiles(x, "tile-grid", grid)
    assert tiles.shape == tiled_shape(x.shape, "tile-grid", grid) == (1, 2, 5, 32, 32)
    pixels = tiles[0, 1].reshape(-1, 32)
    np.testing.assert_array_equal(pixels[32 + (6 + 3) * 7 + 2, :8], x[1, 32:, 3, 2])
    np.testing.assert_array_equal(from_tiles(tiles, x.shape, "tile-grid", "float32", grid), x)
    np.testing.assert_array_equal(np.asarray(tiled(jnp.asarray(x), "tile-grid", grid)), tiles)
    retiled_there = retiled(tiles, (x.shape, "tile-grid", grid), (x.shape, "tile-pixels", ()))
    np.testing.assert_array_equal(retiled_there, to_tiles(x, "tile-pixels"))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(("tiles", "tile-batch", "tile-heads")), st.sampled_from(("tiles", "tile-batch", "tile-heads")),
       *[st.integers(1, 3)] * 2, st.sampled_from((1, 31, 32, 64)), st.sampled_from((5, 32)))
def test_from_one_layout_to_another(held: str, wanted: str, batch: int, heads: int, length: int, depth: int) -> None:
    x = numbers(batch, length, heads, depth)
    shape = (batch, length, heads * depth)
    again = retiled(to_tiles(x.reshape(shape) if held != "tile-heads" else x, held),
                    (shape if held != "tile-heads" else x.shape, held, ()),
                    (shape if wanted != "tile-heads" else x.shape, wanted, ()))
    np.testing.assert_array_equal(again, to_tiles(x.reshape(shape) if wanted != "tile-heads" else x, wanted).reshape(
        again.shape))
