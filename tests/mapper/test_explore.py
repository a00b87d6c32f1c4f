"""The trials that every search shares."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from archloom.mapper.explore import MOST_REFUSED, Trial, explore, fewest_cycles, least
from archloom.mapper.explore import ranked as worth
from archloom.oracle.errors import MappingError, StreamError
from archloom.oracle.stream import Stream


@dataclass(frozen=True)
class Timing:
    """As much of a timing as trials look at."""

    cycles: int


def attempt(plan: int, estimate: float) -> Trial[int]:
    """Plan ``n`` takes ``n`` cycles; multiples of 5 cannot be written, those of 7 cannot be resolved."""
    if plan % 5 == 0:
        raise MappingError(f"{plan} does not fit")
    if plan % 7 == 0:
        raise StreamError(f"{plan} is too long")
    return Trial(plan, estimate, cast(Any, Timing(plan)))


def ranked(*plans: int) -> Iterator[tuple[int, float]]:
    return ((plan, float(plan)) for plan in plans)


def test_the_first_possible_ones_are_tried_in_their_order() -> None:
    heard: list[Trial[int]] = []
    trials = explore(ranked(10, 9, 14, 3, 4, 6), attempt, top_k=3, heard=heard.append)
    assert [t.plan for t in trials] == [9, 3, 4]
    assert heard == list(trials)
    assert min(trials, key=fewest_cycles).plan == 3


def test_what_was_refused_is_not_kept() -> None:
    """Streams of refused candidates may be long: fifty of them took ten gigabytes once."""
    streams: list[weakref.ref[Stream]] = []

    def refusing(plan: int, estimate: float) -> Trial[int]:
        stream = Stream("none", (), (), (), 0, ())
        streams.append(weakref.ref(stream))
        assert sum(each() is not None for each in streams) <= 2
        return attempt(plan, estimate)

    explore(ranked(*range(5, 50, 5), 3), refusing, top_k=1)
    assert len(streams) == 10


def test_more_than_the_first_are_tried_as_long_as_it_is_asked_for() -> None:
    asked = []

    def further(tried: int, over: float) -> bool:
        asked.append((tried, over))
        return over <= 1.5

    trials = explore(ranked(2, 3, 4, 1), attempt, top_k=1, further=further)
    assert [t.plan for t in trials] == [2, 3] and asked == [(1, 1.5), (2, 2.0)]


def test_what_is_beaten_counts_as_tried_and_is_not_simulated() -> None:
    trials = explore(ranked(2, 3, 4, 1), attempt, top_k=3, variants=lambda plan: [2, 4, 6], beaten={3, 6}.__contains__)
    assert [t.plan for t in trials] == [2, 4]
    assert [t.plan for t in explore(ranked(3, 2), attempt, top_k=2, beaten=lambda plan: True)] == [3], "a first plan"


def test_variants_are_those_of_the_best_by_the_score_and_tried_once() -> None:
    asked = []

    def variants(plan: int) -> list[int]:
        asked.append(plan)
        return [plan, 8, 35, 1]

    trials = explore(ranked(9, 3), attempt, top_k=2, variants=variants, score=lambda t: -t.cycles)
    assert asked == [9]
    assert [(t.plan, t.estimated_cycles) for t in trials] == [(9, 9.0), (3, 3.0), (8, 9.0), (1, 9.0)]


def test_enough_ends_the_search_but_not_before_there_is_a_plan() -> None:
    trials = explore(ranked(10, 9, 3), attempt, top_k=5, variants=lambda plan: [1], enough=lambda: True)
    assert [t.plan for t in trials] == [9]


def test_where_nothing_is_possible_the_first_reason_is_given() -> None:
    with pytest.raises(StreamError, match="14 is too long"):
        explore(ranked(14, 10), attempt, top_k=2)
    with pytest.raises(MappingError, match="5 does not fit"):
        explore(((5 * i, 0.0) for i in range(1, 10 * MOST_REFUSED)), attempt, top_k=1)
    assert explore(ranked(), attempt, top_k=1) == ()


def test_the_lowest_estimates_come_in_order_and_the_first_of_equals_first() -> None:
    estimated = np.array([3.0, 1, 2, 1, 3, 0.5])
    assert least(estimated).tolist() == [5, 1, 3, 2, 0, 4]
    assert [least(estimated, n).tolist() for n in (1, 2, 6, 9)] == [
        [5], [5, 1], [5, 1, 3, 2, 0, 4], [5, 1, 3, 2, 0, 4]]


def test_of_the_same_one_is_tried_and_of_those_alike_few() -> None:
    numbers = np.arange(12)
    assert [i for i, _ in worth(numbers, lambda i: i, same=lambda _, plan: plan // 3)] == [0, 3, 6, 9]
    found = worth(numbers, lambda i: i, family=lambda _, plan: None if plan > 8 else plan % 2, most=2)
    assert [i for i, _ in found] == [0, 1, 2, 3, 9, 10, 11]
