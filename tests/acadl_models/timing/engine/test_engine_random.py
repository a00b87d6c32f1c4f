"""The fast engine equals the step-by-step simulator on random graphs and streams, with and without skipping."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given

from archloom.acadl_models.acadl import ArchitectureGraph, FunctionalUnit, architecture, create_ag, generate
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.timing.engine.lowering import conflicts
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import ResolvedLoop, ResolvedStream
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_latency, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.simulators import check_equal, check_skipping, outcome
from tests.support.acadl_models.timing_builders import after, front, instr, stream
from tests.support.examples import examples, randoms

MOST = (30, 200, 900)
"""Instances of a random stream: short ones find transients, long ones steady states."""


def drawn(r: Random, streaming: bool = True) -> tuple[ArchitectureGraph, ResolvedStream]:
    graph = random_graph(r, streaming=streaming)
    return graph, random_stream(r, graph, r.choice(MOST))


@examples(40, 6000)
@given(randoms)
def test_the_engine_equals_the_step_by_step_simulator(r: Random) -> None:
    check_equal(*drawn(r))


def test_random_streams_are_skipped_stepped_and_deadlock() -> None:
    """The property is not empty: streams like its own are skipped, stepped, and come to a deadlock."""
    found = [outcome(simulate, *drawn(Random(seed))) for seed in range(100)]
    results = [r for r in found if isinstance(r, TimingResult)]
    assert len(results) > 50
    assert sum(r.skipped_share > 0.2 for r in results) >= 3
    assert any(isinstance(r, str) and r.startswith("deadlock") for r in found)


@pytest.mark.parametrize("seed", [148, 1395])
def test_streams_that_were_skipped_wrongly_once(seed: int) -> None:
    check_equal(*drawn(Random(seed), streaming=False))


@examples(15, 2000)
@given(randoms)
def test_with_other_semantics_and_units_that_reach_parts_of_buffers(r: Random) -> None:
    graph = random_graph(r, semantics=SEMANTICS, spread=True)
    check_equal(graph, random_stream(r, graph, r.choice(MOST)))


@examples(15, 2000)
@given(randoms)
def test_with_lists_of_accesses_for_the_parts_of_buffers(r: Random) -> None:
    """As classes of many accesses have them."""
    graph = random_graph(r, semantics=SEMANTICS, spread=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conflicts, "MANY", 1)
        patch.setattr(conflicts, "SOME_PARTS", 2)
        check_equal(graph, random_stream(r, graph, r.choice(MOST)))


@examples(20, 1000)
@given(randoms)
def test_with_latencies_of_any_form(r: Random) -> None:
    """What the ranges of attributes decide is left out of them, and no value may change by that."""
    graph = random_graph(r, latency_of=random_latency)
    check_equal(graph, random_stream(r, graph, r.choice((10, 60))))


@examples(100, 2000)
@given(randoms)
def test_attributes_with_the_same_range_and_other_values(r: Random) -> None:
    """What one instruction takes says nothing about another one whose attributes have the same range only."""
    latency = f"1 + max({r.choice(('a', 'a - rows', 'rows - a', 'a + rows'))}, 0) % {r.choice((2, 3, 4, 6))}"

    @generate
    def one_unit() -> None:
        after(front(), FunctionalUnit("unit", to_process={"work"}, latency=latency))
        architecture(parameters={"dim": 4})

    def attribute(loop: str, step: int) -> Affine:
        return r.choice((Affine.variable(loop) * step, 12 - Affine.variable(loop) * step, Affine(12)))

    def loop(name: str) -> ResolvedLoop:
        step = r.choice((1, 2, 3, 4, 6, 12))  # from 0 to 12 each
        work = instr("work", attributes={"a": attribute(name, step), "rows": attribute(name, step)})
        return ResolvedLoop(name, 12 // step + 1, (work,))

    check_equal(create_ag(one_unit()), stream(*map(loop, "ijkl"), parameters={"dim": 4}))


@examples(12, 4000)
@given(randoms)
def test_with_caches_banks_and_links(r: Random) -> None:
    rows = r.choice((24, 24, 60))
    semantics = SEMANTICS if r.random() < 0.5 else ()
    graph = random_graph(r, semantics=semantics, storages_of=lambda r: random_memories(r, rows))
    check_equal(graph, random_stream(r, graph, r.choice(MOST), rows))


@examples(3, 300)
@given(randoms)
def test_skipping_equals_stepping_on_long_streams(r: Random) -> None:
    graph = random_graph(r)
    assume(isinstance(check_skipping(graph, random_stream(r, graph, 60_000)), TimingResult))
