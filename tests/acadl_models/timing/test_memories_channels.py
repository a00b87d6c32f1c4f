"""Channels of a DRAM: which words lie where, hand-worked times, and what is refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import DRAM
from archloom.acadl_models.timing.memories.channels import InterleavedPort, Interleaving
from tests.support.examples import examples


@examples(60, 1000)
@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 12),
       st.lists(st.tuples(st.integers(0, 199), st.integers(1, 60)), min_size=1, max_size=4))
def test_beats_are_those_of_words_counted_one_by_one(
    count: int, words: int, port: int, runs: list[tuple[int, int]]
) -> None:
    expected = [0] * count
    for first, size in runs:
        inside = Counter(address // words % count for address in range(first, first + size))
        for channel, held in inside.items():
            expected[channel] += -(-held * count // port)
    assert Interleaving(count, words, port).beats(runs) == expected


def test_the_example_of_the_page() -> None:
    port = InterleavedPort(Interleaving(2, 4, 2))
    assert [port.move([run], 3) for run in ((0, 8), (8, 4), (12, 4), (16, 4))] == [6, 10, 10, 14]


@pytest.mark.parametrize(("options", "fault"), [
    ({"channels": 2, "shared_port": True}, "channels=2 needs channel_words"),
    ({"channels": 2, "channel_words": 4}, "channels=2 are parts of a port for all requests"),
    ({"channels": 0}, "channels must be"),
    ({"channels": 2, "channel_words": 4, "shared_port": True, "row_words": 4, "t_RP": 1}, "rows in channels have no"),
])
def test_what_has_no_timing_is_refused(options: dict[str, int], fault: str) -> None:
    faults = DRAM("dram", address_ranges=[(0, 64)], **options).faults()  # type: ignore[arg-type]
    assert any(fault in found for found in faults), faults
