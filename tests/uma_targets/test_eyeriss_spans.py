"""Strips, groups and diagonals against their definitions, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.mapper.spans import diagonals, groups, kinds, kinds_of_shares, shares, spans

SMALL = st.integers(1, 12)


@given(SMALL, SMALL, SMALL, SMALL)
def test_diagonals_give_every_pe_its_row_once(columns: int, rows: int, stride: int, spare: int) -> None:
    pitch = columns + spare - 1
    reached: dict[int, int] = {}
    for run in diagonals(columns, rows, stride, pitch):
        for y in range(run.count):
            for step in range(run.length):
                pe = run.pe + y * run.step + step * (stride * pitch - 1)
                assert pe not in reached
                reached[pe] = run.y + y
    assert reached == {i * pitch + j: j * stride + i for i in range(rows) for j in range(columns)}


@given(st.integers(1, 60), SMALL, SMALL, SMALL)
def test_groups_cover_all_once_within_their_bounds(extent: int, each: int, down: int, across: int) -> None:
    covered = []
    for group in groups(extent, each, down, across):
        assert group.each <= each and group.down <= down and group.across <= across
        covered += range(group.first, group.first + group.count * group.size)
    assert covered == list(range(extent))


@given(st.integers(1, 60), st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=4))
def test_kinds_of_groups_have_as_many_elements(extent: int, sizes: list[tuple[int, int, int]]) -> None:
    found = kinds(extent, *(np.array(column) for column in zip(*sizes)))
    assert sum(count * each * sets for count, each, sets in found) == pytest.approx(np.full(len(sizes), extent))
    for i, size in enumerate(sizes):
        made = list(groups(extent, *size))
        assert sum(count[i] for count, _, _ in found) == sum(group.count for group in made)
        assert (found[0][0][i], found[0][1][i]) == (made[0].count, made[0].each)


@given(st.integers(1, 300), SMALL, SMALL, SMALL)
def test_passes_cover_all_once_as_evenly_as_can_be(extent: int, each: int, down: int, across: int) -> None:
    covered: list[int] = []
    passes = list(shares(extent, each, down, across))
    for run in passes:
        places = [(g.top + d, g.left + a) for g in run for d in range(g.down) for a in range(g.across)]
        assert len({*places}) == len(places) and max(d for d, _ in places) < down and max(a for _, a in places) < across
        sizes = [g.each for g in run for _ in range(g.down * g.across)]
        assert max(sizes) <= each and (max(sizes) - min(sizes) <= 1) and {g.count for g in run} == {run[0].count}
        assert len(places) == down * across or max(sizes) == 1
        for i in range(run[0].count):
            for g in run:
                covered += range(i * run[0].size + g.first, i * run[0].size + g.first + g.size)
    assert covered == list(range(extent))
    assert sum(run[0].count for run in passes) == -(-extent // (each * down * across))


@given(st.integers(1, 300), st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=4))
def test_kinds_of_passes_have_as_many_elements(extent: int, sizes: list[tuple[int, int, int]]) -> None:
    each, down, across = (np.array(column) for column in zip(*sizes))
    first, other = kinds_of_shares(extent, each, down * across)
    for i, size in enumerate(sizes):
        made = [(run[0].count, max(g.each for g in run), sum(g.size for g in run)) for run in shares(extent, *size)]
        found = [(count[i], most[i], most[i] * places[i]) for count, most, places in (first, other) if count[i]]
        assert found == pytest.approx(np.array(made, float))


@given(st.integers(1, 20), SMALL, st.integers(1, 3), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))
def test_strips_read_what_their_outputs_need(
    inputs: int, size: int, stride: int, taps: int, before: int, after: int
) -> None:
    if inputs + before + after < taps:
        return
    outputs = (inputs + before + after - taps) // stride + 1
    covered = []
    for span in spans(outputs, size, stride, taps, before, inputs):
        for number in range(span.count):
            first = span.first + number * span.size
            covered += range(first, first + span.size)
            needed = range(first * stride - before, first * stride - before + (span.size - 1) * stride + taps)
            assert span.reach == len(needed)
            inside = [i for i, x in enumerate(needed) if 0 <= x < inputs]
            assert span.take == len(inside)
            if inside:
                assert span.skip == inside[0]
    assert covered == list(range(outputs))
