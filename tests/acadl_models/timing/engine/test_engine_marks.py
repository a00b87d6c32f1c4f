"""Marks of stages in machines of one word and of many are a set of numbers that is walked in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import H
from archloom.acadl_models.timing.engine.phases.agenda import first_mark, mark, next_mark, unmark
from archloom.acadl_models.timing.engine.state import M


@pytest.mark.parametrize("stages", [64, 300, 5000, 9000])
@given(data=st.data())
def test_marks_are_a_set_in_order(stages: int, data: st.DataObject) -> None:
    words = -(-stages // 64)
    t, m = [0] * H.SIZE, [0] * (M.SIZE + words + -(-words // 64))
    t[H.STAGES], m[M.WIDE], m[M.MARKS], m[M.SUMMARY] = stages, int(stages > 64), M.SIZE, M.SIZE + words
    numbers = st.one_of(st.integers(0, stages - 1), st.sampled_from([0, stages // 2, stages - 1]))
    expected: set[int] = set()
    for number, marked in data.draw(st.lists(st.tuples(numbers, st.booleans()), max_size=12)):
        (mark if marked else unmark)(m, number)
        (expected.add if marked else expected.discard)(number)
        found, at = [], first_mark(t, m)
        while at != NONE:
            found.append(at)
            at = next_mark(t, m, at)
        assert found == sorted(expected)
        assert bool(m[M.MARKED]) == bool(expected)
