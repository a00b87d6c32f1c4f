"""What windows span: positions, runs of words and footprints."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Window, WindowDim
from archloom.oracle.windows import contiguous, footprint, linear, positions, sums


def windows(rank: int, offsets: st.SearchStrategy[Affine]) -> st.SearchStrategy[Window]:
    """Windows with up to three dims, strides of either sign."""
    dims = st.lists(
        st.builds(WindowDim, st.integers(0, rank - 1), st.integers(1, 4), st.integers(-5, 9)), max_size=3
    ).map(tuple)
    return st.builds(Window, st.just("b"), st.tuples(*[offsets] * rank), dims)


def brute(window: Window, values: dict[str, int]) -> set[tuple[int, ...]]:
    """The elements by enumeration."""
    base = [o.evaluate(values) for o in window.offsets]
    found = set()
    for index in itertools.product(*(range(d.extent) for d in window.dims)):
        at = list(base)
        for i, d in zip(index, window.dims, strict=True):
            at[d.axis] += i * d.stride
        found.add(tuple(at))
    return found


_moving = st.builds(lambda a, b, c: Affine.of("i") * a + Affine.of("j") % 3 * b + c, *[st.integers(-9, 9)] * 3)


@given(windows(2, _moving), st.integers(0, 5), st.integers(0, 5))
def test_footprints_contain_the_elements(a: Window, i: int, j: int) -> None:
    box = footprint(a, {"i": (0, 5), "j": (0, 5)})
    for element in brute(a, {"i": i, "j": j}):
        assert all(low <= x <= high for x, (low, high) in zip(element, box, strict=True))


@given(windows(2, _moving), st.integers(0, 5), st.integers(0, 5), st.integers(1, 2))
def test_positions_are_those_of_the_elements(a: Window, i: int, j: int, axes: int) -> None:
    shape, values = (7, 5), {"i": i, "j": j}
    expected = {sum(x * math.prod(shape[k + 1:axes]) for k, x in enumerate(e[:axes])) for e in brute(a, values)}
    first = linear(a.offsets[:axes], shape[:axes]).evaluate(values)
    assert (positions(a.dims, shape, axes) + first).tolist() == sorted(expected)


@pytest.mark.parametrize(
    ("progressions", "expected"),
    [
        ((), ((0, 1),)),
        (((16, 1),), ((0, 16),)),
        (((4, 100), (16, 1)), ((0, 16), (100, 16), (200, 16), (300, 16))),
        (((4, 16), (16, 1)), ((0, 64),)),
        (((4, 0), (8, 1)), ((0, 8),)),
        (((3, -2),), ((-4, 1), (-2, 1), (0, 1))),
    ],
)
def test_runs_of_sums(progressions: tuple[tuple[int, int], ...], expected: tuple[tuple[int, int], ...]) -> None:
    assert contiguous(sums(progressions)) == expected
