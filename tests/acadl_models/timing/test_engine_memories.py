"""The fast engine equals the step-by-step simulator on random graphs with caches, DRAM banks and links."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archloom.acadl_models.timing import TimingResult
from archloom.acadl_models.timing.engine import IMPLEMENTED
from tests.support.acadl_models.engine_strategies import random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.simulators import check_equal

MOST = (30, 200, 900)
SEMANTICS = tuple(sorted(IMPLEMENTED))


def check(seed: int) -> TimingResult | str:
    r = Random(seed)
    rows = r.choice((24, 24, 60))
    semantics = SEMANTICS if r.random() < 0.5 else ()
    graph = random_graph(r, semantics=semantics, storages_of=lambda r: random_memories(r, rows))
    stream = random_stream(r, graph, r.choice(MOST), rows)
    return check_equal(graph, stream)


@settings(max_examples=70, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**40))
def test_the_engine_equals_the_step_by_step_simulator(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=4000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**60))
def test_the_engine_equals_the_step_by_step_simulator_at_length(seed: int) -> None:
    check(seed)
