"""On which grids convolutions of a region agree."""

from __future__ import annotations

from typing import Any

import pytest

from archloom.tvm_backend.targets.backend import Gridded, InTiles, Lowered
from archloom.tvm_backend.targets.grids import Operator, agreed, common
from archloom.tvm_backend.targets.layouts import PIXELS, TILES, Layout, PixelGrid, layout_of


def lowered(layout: Layout, **tiles: Any) -> Lowered:
    """What of a lowered match decides about grids."""
    return Lowered(None, "", (), {}, layout, tiles=InTiles(**tiles))  # type: ignore[arg-type]


def convolution(
    result: str, source: str, *, kernel: int = 3, stride: int = 1, side: int = 8, residual: str = ""
) -> Operator:
    plain, pad = kernel == 1 and stride == 1, kernel // 2
    gridded = Gridded(lambda grid: None, (-(-(side + pad) // stride),) * 2,  # type: ignore[arg-type, return-value]
                      ((pad, pad), (pad, pad)) if stride == 1 else ((0, 0), (0, 0)), stride == 1, plain)
    sizes = (1, side, side, 8, 8, kernel, kernel, stride, stride, pad, pad, pad, pad, 1, 1, 1)
    made = lowered(PIXELS, gridded=gridded) if plain else lowered(
        layout_of("tile-places", sizes), gridded=gridded, layouts={"A": layout_of("tile-windows", sizes)})
    return Operator(result, {"A": source, **({"residual": residual} if residual else {})}, made)


def pool(result: str, source: str) -> Operator:
    return Operator(result, {"X": source}, lowered(PIXELS))


def test_a_residual_block_has_one_grid_that_suits_its_filter() -> None:
    operators = [convolution("a", "x", kernel=1), convolution("b", "a"),
              convolution("c", "b", kernel=1, residual="x"), convolution("d", "c", stride=2), pool("e", "d")]
    assert agreed(operators) == dict.fromkeys("abc", PixelGrid(9, 9, 1))


def test_a_convolution_with_a_stride_stores_on_the_next_ones_grid() -> None:
    operators = [convolution("a", "x", stride=2), convolution("b", "a", side=4),
                 convolution("c", "b", kernel=5, side=4)]
    assert agreed(operators) == dict.fromkeys("abc", PixelGrid(6, 6, 1))


@pytest.mark.parametrize("operators", [
    [convolution("a", "x", kernel=1), convolution("b", "a", kernel=1)],
    [convolution("a", "x")],
    [convolution("a", "x", kernel=1), pool("b", "a"), convolution("c", "b"), pool("d", "c")],
    [convolution("a", "x", kernel=1), convolution("b", "a"), pool("c", "a")],
])
def test_no_grid_where_as_much_would_be_laid_out_anew(operators: list[Operator]) -> None:
    assert agreed(operators) == {}


def test_element_wise_operators_in_between_keep_the_grid_if_they_keep_zeros() -> None:
    def between(beyond: tuple[str, ...]) -> list[Operator]:
        sweep = lowered(TILES, any_layout=lambda shape: None, nonzero_edges=beyond)
        return [convolution("a", "x"), Operator("b", {"X": "a"}, sweep), convolution("c", "b")]

    assert agreed(between(("rows",))) == dict.fromkeys("ac", PixelGrid(9, 9, 1))
    assert agreed(between(("rows", "columns"))) == {}


def test_the_lead_grows_with_the_filter() -> None:
    wide = convolution("a", "x", kernel=9, side=30).lowered.tiles.gridded
    assert wide is not None and common([wide]) == PixelGrid(34, 34, 5)
