"""Fronts beside comparing each with each, hypervolumes beside counting cells."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.tvm_backend.search.front import Front
from tests.support.examples import examples

points = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.tuples(*[st.integers(0, 4)] * size), min_size=1, max_size=12))


def below(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b)) and a != b


@pytest.mark.slow
@examples(200, 5000)
@given(points)
def test_it_has_what_no_other_dominates(given_points: list[tuple[int, ...]]) -> None:
    front = Front(len(given_points[0]))
    for i, point in enumerate(given_points):
        assert front.add(i, point) == (not any(below(other, point) for other in given_points[:i]))
    expected = [i for i, p in enumerate(given_points) if not any(below(other, p) for other in given_points)]
    assert sorted(map(int, front.names)) == expected
    assert [tuple(p) for p in front.points] == [given_points[i] for i in front.names]
    for point in product(range(5), repeat=len(given_points[0])):
        assert front.dominates(point) == any(below(other, point) for other in given_points)


@pytest.mark.slow
@examples(200, 5000)
@given(points, st.lists(st.integers(0, 12), max_size=3))
def test_many_points_together_are_as_one_by_one(given_points: list[tuple[int, ...]], cuts: list[int]) -> None:
    alone, together = Front(len(given_points[0])), Front(len(given_points[0]))
    for i, point in enumerate(given_points):
        alone.add(i, point)
    edges = sorted([0, *(min(cut, len(given_points)) for cut in cuts), len(given_points)])
    for first, last in pairwise(edges):
        together.extend(range(first, last), given_points[first:last])
    assert sorted(map(int, alone.names)) == sorted(map(int, together.names))
    assert [tuple(p) for p in together.points] == [given_points[int(i)] for i in together.names]
    assert (alone.worst == together.worst).all()


@pytest.mark.slow
@examples(200, 5000)
@given(points)
def test_the_hypervolume_is_the_share_of_cells(given_points: list[tuple[int, ...]]) -> None:
    front = Front(len(given_points[0]))
    for i, point in enumerate(given_points):
        front.add(i, point)
    best = [given_points[i] for i in front.names]
    low, high = ([f(axis) for axis in zip(*side)] for f, side in ((min, best), (max, given_points)))
    cells = list(product(*(range(a, max(b, a + 1)) for a, b in zip(low, high))))
    covered = sum(any(all(p <= c for p, c in zip(point, cell)) for point in best) for cell in cells)
    assert front.hypervolume() == pytest.approx(covered / len(cells))
