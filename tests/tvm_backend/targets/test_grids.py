"""On which grids convolutions of a region agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from archloom.tvm_backend.targets.backend import Gridded
from archloom.tvm_backend.targets.grids import Piece, agreed, common


@dataclass(frozen=True)
class Form:
    """What of a lowered match decides about grids."""

    layout: str
    gridded: Gridded | None = None
    relaid: Any = None
    beyond: tuple[str, ...] = ()
    layouts: Any = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "layouts", dict(self.layouts))


def convolution(
    result: str, source: str, *, kernel: int = 3, stride: int = 1, side: int = 8, residual: str = ""
) -> Piece:
    plain, pad = kernel == 1, kernel // 2
    gridded = Gridded(lambda grid: None, (-(-(side + pad) // stride),) * 2,  # type: ignore[arg-type, return-value]
                      ((pad, pad), (pad, pad)) if stride == 1 else ((0, 0), (0, 0)), stride == 1, plain and stride == 1)
    layout = "tile-pixels" if plain and stride == 1 else "tile-places"
    form = Form(layout, gridded, layouts=() if plain and stride == 1 else (("A", "tile-windows"),))
    return Piece(result, {"A": source, **({"residual": residual} if residual else {})}, form)  # type: ignore[arg-type]


def pool(result: str, source: str) -> Piece:
    return Piece(result, {"X": source}, Form("tile-pixels"))  # type: ignore[arg-type]


def test_a_residual_block_has_one_grid_that_suits_its_filter() -> None:
    pieces = [convolution("a", "x", kernel=1), convolution("b", "a"),
              convolution("c", "b", kernel=1, residual="x"), convolution("d", "c", stride=2), pool("e", "d")]
    assert agreed(pieces) == dict.fromkeys("abc", (9, 9, 1))


def test_a_convolution_with_a_stride_stores_on_the_next_ones_grid() -> None:
    pieces = [convolution("a", "x", stride=2), convolution("b", "a", side=4), convolution("c", "b", kernel=5, side=4)]
    assert agreed(pieces) == dict.fromkeys("abc", (6, 6, 1))


@pytest.mark.parametrize("pieces", [
    [convolution("a", "x", kernel=1), convolution("b", "a", kernel=1)],
    [convolution("a", "x")],
    [convolution("a", "x", kernel=1), pool("b", "a"), convolution("c", "b"), pool("d", "c")],
    [convolution("a", "x", kernel=1), convolution("b", "a"), pool("c", "a")],
])
def test_no_grid_where_as_much_would_be_laid_out_anew(pieces: list[Piece]) -> None:
    assert agreed(pieces) == {}


def test_element_wise_operators_in_between_keep_the_grid_if_they_keep_zeros() -> None:
    def between(beyond: tuple[str, ...]) -> list[Piece]:
        form = Form("tiles", relaid=lambda shape: None, beyond=beyond)
        return [convolution("a", "x"), Piece("b", {"X": "a"}, form), convolution("c", "b")]  # type: ignore[arg-type]

    assert agreed(between(("rows",))) == dict.fromkeys("ac", (9, 9, 1))
    assert agreed(between(("rows", "columns"))) == {}


def test_the_lead_grows_with_the_filter() -> None:
    wide = convolution("a", "x", kernel=9, side=30).lowered.gridded
    assert wide is not None and common([wide]) == (34, 34, 5)
