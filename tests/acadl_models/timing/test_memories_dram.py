"""DRAM banks against a transcription of their state machine, and hand-worked timings of banks and links."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given

from archloom.acadl_models.timing.memories.channels import Channels
from archloom.acadl_models.timing.memories.dram import Banks
from benchmarks.timing.dram_state import Dram
from tests.support.examples import examples, randoms


def random_runs(r: Random, space: int) -> list[tuple[int, int]]:
    """Ascending ranges of words that do not touch."""
    cuts = sorted(r.sample(range(space), 2 * r.randint(1, 4)))
    return [(a, b) for a, b in zip(cuts[::2], cuts[1::2])]


@examples(20, 1000)
@given(randoms)
def test_banks_equal_the_transcription(r: Random) -> None:
    space = r.choice((40, 200))
    cuts = sorted({0, space, *(r.randrange(1, space) for _ in range(r.randint(0, 4)))})
    shape = list(itertools.pairwise(cuts)), r.choice((1, 3, 8, 50))
    times = r.randint(0, 6), r.randint(0, 6), r.choice((0, 5, 30))
    port = r.choice((1, 2, 4))
    slow, banks = Dram(*shape, *times, port), Banks("dram", *shape, *times, port)
    now = 0
    for _ in range(r.choice((5, 60))):
        runs, latency = random_runs(r, space), r.randint(1, 9)
        words = [w for a, b in runs for w in range(a, b)]
        assert banks.access(runs, latency, now) == slow.access(words, latency, now)
        now += r.choice((0, 0, 1, 7, 40))
    assert (banks.hits, banks.misses, banks.conflicts) == (slow.hits, slow.misses, slow.conflicts)


def dram(**options: int) -> Banks:
    values = {"rcd": 5, "rp": 4, "ras": 20, "port_width": 4} | options
    return Banks("dram", [(0, 64), (64, 128)], 16, **values)


def test_a_closed_bank_a_hit_and_a_conflict() -> None:
    banks = dram()
    assert banks.access([(0, 8)], 3, 10) == 10 + 5 + 3 + 2 - 1  # activate at 10, column at 15, two beats
    assert banks.access([(8, 12)], 3, 16) == 17 + 3  # the bank is free at 17
    assert banks.access([(16, 20)], 3, 18) == 30 + 4 + 5 + 3  # t_RAS ends at 30, precharge, activate
    assert (banks.hits, banks.misses, banks.conflicts) == (1, 1, 1)


def test_a_request_over_rows_and_banks_opens_one_after_the_other() -> None:
    # rows 3 of bank 0 (words 60..63) and 0 of bank 1 (64..67): columns at 5 and, activated at 6, at 11
    assert dram().access([(60, 68)], 1, 0) == 11 + 1
    # two rows of one bank: the second waits for t_RAS
    assert dram().access([(12, 20)], 1, 0) == 20 + 4 + 5 + 1


@pytest.mark.parametrize(("window", "expected"), [(False, [(3, 6), (3, 4), (7, 8)]), (True, [(3, 6), (7, 8), (9, 10)])])
def test_channels_of_a_link(window: bool, expected: list[tuple[int, int]]) -> None:
    link = Channels("link", bandwidth=4, latency=0, window=window)
    assert [link.send(16, True, 3), link.send(8, False, 3), link.send(8, True, 3)] == expected


def test_the_latency_of_a_link_does_not_take_its_channel() -> None:
    link = Channels("link", bandwidth=4, latency=10)
    assert [link.send(5, True, 0), link.send(4, True, 0)] == [(0, 11), (2, 12)]
