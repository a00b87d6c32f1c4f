"""The fast engine equals the step-by-step simulator on random graphs and streams, with and without skipping."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from archloom.acadl_models.timing import TimingResult
from archloom.acadl_models.timing.engine import IMPLEMENTED
from tests.support.acadl_models.engine_strategies import random_graph, random_stream
from tests.support.acadl_models.simulators import check_equal, check_skipping

MOST = (30, 200, 900)
"""Instances of a random stream: short ones find transients, long ones steady states."""


def check(seed: int, *, spread: bool = False) -> TimingResult | str:
    r = Random(seed)
    graph = random_graph(r, semantics=sorted(IMPLEMENTED) if spread else (), spread=spread)
    stream = random_stream(r, graph, r.choice(MOST))
    return check_equal(graph, stream)


@settings(max_examples=160, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**40))
@example(148)
@example(1395)
def test_the_engine_equals_the_step_by_step_simulator(seed: int) -> None:
    check(seed)


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**40))
def test_with_other_semantics_and_units_that_reach_parts_of_buffers(seed: int) -> None:
    check(seed, spread=True)


def test_random_streams_are_skipped_stepped_and_deadlock() -> None:
    """The property above is not empty: all three kinds of outcome occur among its cases."""
    found = [check(seed) for seed in range(90)]
    results = [r for r in found if isinstance(r, TimingResult)]
    assert len(results) > 45
    assert sum(r.skipped_share > 0.2 for r in results) >= 5
    assert any(isinstance(r, str) and r.startswith("deadlock") for r in found)


@pytest.mark.slow
@settings(max_examples=6000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**60))
def test_the_engine_equals_the_step_by_step_simulator_at_length(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**60))
def test_skipping_equals_stepping_on_long_streams(seed: int) -> None:
    r = Random(seed)
    graph = random_graph(r)
    stream = random_stream(r, graph, 60_000)
    assume(isinstance(check_skipping(graph, stream), TimingResult))
