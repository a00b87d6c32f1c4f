"""Units that prefetch: the table of the page, what holds in any run, and both simulators agree, with skipping and
without."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest
from hypothesis import given

from archloom.acadl_models.acadl import (
    BACKED_BY,
    DRAM,
    READ_DATA,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    MemoryAccessUnit,
    RegisterFile,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult
from archloom.acadl_models.timing.engine.window import log_window
from archloom.acadl_models.timing.reference import log_reference
from archloom.acadl_models.timing.tracks import tracks
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedInstr, ResolvedLoop
from tests.acadl_models.timing.test_timing_semantics import in_the_page
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.reordering import exchanged, random_reordering, reordered
from tests.support.acadl_models.simulators import InstanceLog, check_equal, simulate_logged
from tests.support.acadl_models.timing_builders import after, front, hbm, instr, stream
from tests.support.examples import examples, randoms

LINE = 16


def machine(slots: int = 8, *, waits: bool = False, registers: int | None = None) -> ArchitectureGraph:
    """A unit that loads and one that prefetches (or waits, too) lines of 16 bytes, 20 cycles away, into a cache."""

    @generate
    def two_units() -> None:
        fetch = front(width=2)
        memory = DRAM("memory", data_width=8, max_concurrent_requests=slots, address_ranges=[(0, 1 << 16)])
        cache = SetAssociativeCache(
            "cache", data_width=8, cache_line_size=LINE, miss_latency=20, hit_latency=2, sets=4, ways=2, port_width=4,
            max_concurrent_requests=slots, miss_registers=registers, read_write_ports=2)
        ACADLEdge(cache, memory, BACKED_BY)
        load = MemoryAccessUnit("load_unit", to_process={"load"}, latency=1)
        ahead = MemoryAccessUnit("ahead_unit", to_process={"ahead"}, latency=1, prefetches=not waits)
        after(fetch, load, name="load_stage")
        after(fetch, ahead, name="ahead_stage")
        for unit in (load, ahead):
            ACADLEdge(cache, unit, READ_DATA)
        architecture(buffers={"hbm": memory})

    return create_ag(two_units())


def ahead(address: Affine | int) -> ResolvedInstr:
    return instr("ahead", reads=(hbm(address, 1),))


def load(address: Affine | int) -> ResolvedInstr:
    return instr("load", reads=(hbm(address, 4),))


def logged(graph: ArchitectureGraph, *body: ResolvedInstr) -> tuple[TimingResult, list[InstanceLog]]:
    log: list[InstanceLog] = []
    result = simulate_logged(graph, stream(*body), log)
    assert check_equal(graph, stream(*body)) == result
    return result, sorted(log, key=lambda entry: entry.number)


# --- the table of docs/timing_semantics.md -----------------------------------------------------------------------
def test_prefetching() -> None:
    rows: list[list[object]] = []
    for name, options in (("waits", {"waits": True}), ("prefetches", {}), ("prefetches, one slot", {"slots": 1})):
        result, log = logged(machine(**options), ahead(0), ahead(LINE), load(0))  # type: ignore[arg-type]
        rows.append([name, *(f"{e.started}-{e.finished}" for e in log), result.cycles])
    assert [row[1:] for row in rows][:2] == [["1-24", "24-47", "2-24", 47], ["1-2", "2-3", "2-24", 24]]
    in_the_page(rows)


def test_an_entry_of_the_reorder_buffer_is_free_at_once() -> None:
    body = *(ahead(k * LINE) for k in range(4)), load(0)
    alone, waiting = (logged(reordered(machine(waits=waits), 2), *body)[0] for waits in (False, True))
    assert alone.cycles < 40 < waiting.cycles


def test_the_run_ends_when_lines_have_come() -> None:
    result, log = logged(machine(), ahead(0))
    assert (log[0].finished, result.cycles) == (2, 23)


def test_it_waits_for_nothing_and_nothing_waits_for_it() -> None:
    @generate
    def storing() -> None:
        fetch = front(width=2)
        memory = DRAM("memory", data_width=8, read_latency=30, write_latency=9, address_ranges=[(0, 1 << 16)],
                      max_concurrent_requests=4, read_write_ports=2)
        store = MemoryAccessUnit("store_unit", to_process={"store"}, latency=1)
        unit = MemoryAccessUnit("ahead_unit", to_process={"ahead"}, latency=1, prefetches=True)
        after(fetch, store, name="store_stage")
        after(fetch, unit, name="ahead_stage")
        ACADLEdge(memory, unit, READ_DATA)
        ACADLEdge(store, memory, WRITE_DATA)
        architecture(buffers={"hbm": memory})

    store = instr("store", writes=(hbm(0, 4),))
    _, log = logged(create_ag(storing()), store, ahead(0), store)
    assert [(e.started, e.finished) for e in log] == [(1, 14), (1, 2), (14, 27)]


# --- properties --------------------------------------------------------------------------------------------------
def prefetching(r: Random, graph: ArchitectureGraph) -> ArchitectureGraph:
    """The graph with units that prefetch in place of some: they keep what they read alone."""
    units = [u for u in graph.functional_units if isinstance(u, MemoryAccessUnit) and u.name != "unit00"]
    chosen = {u.name for u in units if r.random() < 0.6}
    changed = [dataclasses.replace(u, prefetches=True, first_latency=None, resets=False,
                                   latency=0 if r.random() < 0.3 else u.latency) for u in units if u.name in chosen]
    found = exchanged(graph, *changed)
    kept = tuple(e for e in found.edges if not (e.kind is WRITE_DATA and e.source.name in chosen))
    return dataclasses.replace(found, edges=kept)


@examples(20, 4000)
@given(randoms)
def test_the_engine_equals_the_step_by_step_simulator(r: Random) -> None:
    semantics = SEMANTICS if r.random() < 0.5 else ()
    memories = {"storages_of": lambda r: random_memories(r, 24)} if r.random() < 0.7 else {}
    graph = prefetching(r, random_graph(r, semantics=semantics, **memories))
    if r.random() < 0.5:
        graph = random_reordering(r, graph)
    check_equal(graph, random_stream(r, graph, r.choice((30, 200, 900)), 24))


@examples(8, 500)
@given(randoms)
def test_a_window_is_the_part_of_the_whole_log(r: Random) -> None:
    graph = prefetching(r, random_graph(r, storages_of=lambda r: random_memories(r, 24)))
    text = random_stream(r, graph, 100, 24)
    try:
        log = log_reference(graph, text)
    except GraphError:
        return
    begin = r.randrange(max(1, log.end))
    window = log_window(graph, text, begin, r.choice((1, 7, 60)))
    assert tracks(log, begin, window.end) == tracks(window)


@pytest.mark.parametrize("entries", [None, 4])
def test_steady_loops_are_skipped(entries: int | None) -> None:
    graph = machine() if entries is None else reordered(machine(), entries)
    i = Affine.variable("i")
    body = ahead((i + 4) * (4 * LINE)), load(i * (4 * LINE)), load(i * (4 * LINE) + 4)
    found = check_equal(graph, stream(ResolvedLoop("i", 900, body)))
    assert isinstance(found, TimingResult) and found.stepped_instructions < 900


# --- what is refused ---------------------------------------------------------------------------------------------
def test_what_has_no_meaning_is_refused() -> None:
    def made(**options: object) -> None:
        unit = MemoryAccessUnit("unit", to_process={"x"}, **options)  # type: ignore[arg-type]
        after(front(), unit)
        memory, file = DRAM("memory", address_ranges=[(0, 64)]), RegisterFile("file", registers={"r": 0})
        ACADLEdge(memory, unit, READ_DATA)
        ACADLEdge(unit, file, WRITE_DATA)

    with pytest.raises(GraphError, match=r"unit .* prefetches, and has WRITE_DATA edges to file .*: it has no result"):
        generate(made)(prefetches=True)
    with pytest.raises(GraphError, match=r"prefetches must be True or False, not 1"):
        generate(made)(prefetches=1)
    with pytest.raises(GraphError, match=r"prefetches has no meaning with first_latency"):
        generate(made)(prefetches=True, first_latency=1)
