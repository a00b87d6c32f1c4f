"""Random streams over grids of cores: whatever is rewritten before raising, the results are the interpreter's."""

from __future__ import annotations

from random import Random

import pytest

from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.xla import strategies
from archloom.oracle.xla.notation.limits import Limits
from archloom.oracle.xla.raising.relays import without_relays
from tests.support.oracle.random_programs.checks import Tally
from tests.support.oracle.random_programs.cores import Grid, check

SHARDS, EACH = 10, 300


def test_programs() -> None:
    tally = Tally()
    for number in range(1, 400, 114):
        check(number, tally)
    assert tally.raised


def test_a_guard_inside_of_another_has_an_axis_of_its_own() -> None:
    """One core's tile, of which two words are read: both guards had their first axis by one name, and the rows of the
    outer one were taken for the only row of the inner one."""
    tally = Tally()
    check(1403, tally)
    assert tally.raised


def test_relays_are_drawn() -> None:
    """Of many kernels the line of copies is found in some, and in others there is none, though copies are."""
    changed = 0
    for number in range(30):
        grid = Grid(Random(f"cores {number}"))
        resolved = resolve(grid.stream("x"), grid.isa)
        changed += without_relays(resolved) is not resolved
    assert 10 < changed < 30


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_many_programs(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tally, strips = Tally(), 0
    in_strips = strategies.in_strips

    def counted(stream: ResolvedStream, buffer: str, limits: Limits) -> ResolvedStream:
        nonlocal strips
        found = in_strips(stream, buffer, limits)
        strips += found is not stream
        return found

    monkeypatch.setattr(strategies, "in_strips", counted)
    for number in range(shard * EACH, (shard + 1) * EACH):
        check(number, tally)
    assert tally.raised > EACH // 4 and strips > EACH // 20, (tally.raised, strips)
