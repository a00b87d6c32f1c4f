"""Caches that are asked line by line: lines that are missing are on their way at the same time."""

from __future__ import annotations

import dataclasses
from random import Random

from hypothesis import given

from archloom.acadl_models.acadl import (
    BACKED_BY,
    READ_DATA,
    SRAM,
    ACADLEdge,
    ArchitectureGraph,
    MemoryAccessUnit,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import ResolvedLoop
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.reordering import exchanged, random_reordering
from tests.support.acadl_models.simulators import agreed, check_equal, in_the_page, outcome
from tests.support.acadl_models.timing_builders import after, front, hbm, instr, stream
from tests.support.examples import examples, randoms

LINE = 16


def machine(line_requests: bool, slots: int, registers: int | None) -> ArchitectureGraph:
    """A unit of one cycle behind a cache that has room for all."""

    @generate
    def build() -> None:
        memory = SRAM("memory", address_ranges=[(0, 1 << 16)], max_concurrent_requests=slots)
        cache = SetAssociativeCache(
            "cache", sets=4, ways=2, cache_line_size=LINE, miss_latency=8, port_width=LINE, miss_registers=registers,
            max_concurrent_requests=slots, line_requests=line_requests)
        ACADLEdge(cache, memory, BACKED_BY)
        unit = MemoryAccessUnit("unit", to_process={"read"}, latency=1)
        after(front(), unit)
        ACADLEdge(cache, unit, READ_DATA)
        architecture(buffers={"hbm": memory})

    return create_ag(build())


def cycles(*options: object) -> int:
    """Of a read of four lines that are not there, until its last word has come."""
    graph = machine(*options)  # type: ignore[arg-type]
    work = stream(instr("read", reads=(hbm(0, 4, rows=4, stride=LINE),)))
    return agreed(graph, work).cycles - 2  # fetched in one, processed in another


def test_lines_at_once() -> None:
    in_the_page([
        ["one", 4, "any number", cycles(False, 4, None)],
        ["one for each line", 4, "any number", cycles(True, 4, None)],
        ["one for each line", 2, "any number", cycles(True, 2, None)],
        ["one for each line", 4, 1, cycles(True, 4, 1)],
    ])


def by_lines(graph: ArchitectureGraph) -> ArchitectureGraph:
    return exchanged(graph, *[dataclasses.replace(cache, line_requests=True) for cache in graph.caches])


@examples(10, 3000)
@given(randoms)
def test_the_engine_equals_the_step_by_step_simulator(r: Random) -> None:
    semantics = SEMANTICS if r.random() < 0.5 else ()
    graph = by_lines(random_graph(r, semantics=semantics, storages_of=lambda r: random_memories(r, 24)))
    if r.random() < 0.3:
        graph = random_reordering(r, graph)
    check_equal(graph, random_stream(r, graph, r.choice((30, 200, 900)), 24))


@examples(8, 1000)
@given(randoms)
def test_as_many_words_and_look_ups(r: Random) -> None:
    graph = random_graph(r, storages_of=lambda r: random_memories(r, 24))
    text = random_stream(r, graph, 200, 24)
    one, each = outcome(simulate, graph, text), outcome(simulate, by_lines(graph), text)
    if isinstance(one, TimingResult) and isinstance(each, TimingResult):
        for a, b in zip(one.storages, each.storages, strict=True):
            assert (a.words_read, a.words_written) == (b.words_read, b.words_written)
            assert a.read_requests <= b.read_requests and a.write_requests <= b.write_requests
        behind = {graph.backing(cache).name for cache in graph.caches}
        for a, b in zip(one.caches, each.caches, strict=True):
            if a.name not in behind:
                assert a.read_hits + a.read_misses == b.read_hits + b.read_misses
                assert a.write_hits + a.write_misses == b.write_hits + b.write_misses


def test_steady_loops_are_skipped() -> None:
    walk = instr("read", reads=(hbm(Affine.variable("i") * (4 * LINE), 40, rows=1),))
    work = stream(ResolvedLoop("i", 900, (walk,)))
    graph = machine(True, 8, 4)
    assert agreed(graph, work).stepped_instructions < 300
