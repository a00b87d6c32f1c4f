"""The log of a window equals that part of the step-by-step log, on random graphs and streams."""

from __future__ import annotations

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from archloom.acadl_models.timing.engine.window import log_window
from archloom.acadl_models.timing.log import RunLog
from archloom.acadl_models.timing.reference import log_reference
from archloom.acadl_models.timing.tracks import Tracks, tracks
from archloom.oracle.errors import GraphError
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.examples import examples, randoms

ROWS = 24


def case(r: Random, memories: bool) -> tuple[RunLog, Tracks, Tracks] | None:
    """The step-by-step log, its tracks within a window, and those of the engine's log of the window."""
    spread = r.random() < 0.4
    semantics = SEMANTICS if spread else ()
    if memories:
        graph = random_graph(r, semantics=semantics, storages_of=lambda r: random_memories(r, ROWS))
    else:
        graph = random_graph(r, semantics=semantics, spread=spread)
    program = random_stream(r, graph, r.choice((30, 200, 700)), ROWS)
    try:
        log = log_reference(graph, program)
    except GraphError:
        return None
    begin = r.choice((0, r.randrange(max(1, log.end))))
    cycles = r.choice((1, 7, 60, log.end))
    if begin >= log.end:
        return None
    window = log_window(graph, program, begin, cycles)
    assert window.end == min(begin + cycles, log.end)
    assert (window.cycles is None) == (begin + cycles <= log.end) or window.cycles == log.cycles
    return log, tracks(log, begin, window.end), tracks(window)


@examples(25, 1000)
@example(Random(50257), True)  # a transfer that is known when its window has ended
@given(randoms, st.booleans())
def test_a_window_is_the_part_of_the_whole_log(r: Random, memories: bool) -> None:
    found = case(r, memories)
    if found is not None:
        _, expected, seen = found
        assert seen == expected
