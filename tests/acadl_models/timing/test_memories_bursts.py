"""Bursts: the table of the page, what holds in any run, and both simulators agree, with skipping and without."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given

from archloom.acadl_models.acadl import (
    BACKED_BY,
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    DataStorage,
    Link,
    MemoryAccessUnit,
    MemoryInterface,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedLoop, Window
from tests.acadl_models.timing.test_timing_semantics import in_the_page
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.reordering import exchanged, random_reordering
from tests.support.acadl_models.simulators import check_equal
from tests.support.acadl_models.timing_builders import after, front, hbm, instr, stream
from tests.support.examples import examples, randoms


def machine(burst: int = 0, link: int = 0, bandwidth: int = 4) -> ArchitectureGraph:
    """A unit that reads and writes a memory of four bytes a cycle over a link, in bursts of one or the other."""

    @generate
    def one_unit() -> None:
        unit = MemoryAccessUnit("unit", to_process={"read", "write"}, latency=0, interval=1, in_flight=4)
        memory = DRAM("memory", data_width=8, port_width=4, read_latency=3, write_latency=3, burst_bytes=burst,
                      address_ranges=[(0, 3 << 16)], max_concurrent_requests=2, shared_port=True,
                      joules_per_access=1e-12)
        way = Link("way", bandwidth=bandwidth, burst_bytes=link, joules_per_byte=1e-12)
        after(front(), unit)
        ACADLEdge(memory, unit, READ_DATA, way)
        ACADLEdge(unit, memory, WRITE_DATA, way)
        architecture(buffers={"hbm": memory})

    return create_ag(one_unit())


def moved(graph: ArchitectureGraph, *reads: Window) -> TimingResult:
    found = check_equal(graph, stream(instr("read", reads=reads)))
    assert isinstance(found, TimingResult)
    return found


# --- the table of docs/timing_semantics.md -----------------------------------------------------------------------
READS = {"0..15": hbm(0, 16), "0..3": hbm(0, 4), "14..17": hbm(14, 4), "0..1, 8..9": hbm(0, 2, 2, 8),
         "0..1, 16..17": hbm(0, 2, 2, 16)}


def test_bursts() -> None:
    rows: list[list[object]] = []
    for name, window in READS.items():
        each = [moved(machine(burst), window) for burst in (0, 16)]
        figures = [figure for r in each for figure in (r.storage("memory").words_read, f"1-{r.cycles}")]
        rows.append([name, *figures])
    assert rows[0][1:] == [16, "1-7", 16, "1-7"] and rows[2][1:] == [4, "1-4", 32, "1-11"]
    in_the_page(rows)


def test_a_link_asks_for_bursts_as_a_memory_does() -> None:
    for window in READS.values():
        assert moved(machine(link=16), window) == moved(machine(16), window)
    assert moved(machine(8, 12), hbm(0, 1)).storage("memory").words_read == 24  # whole bursts of both


# --- properties --------------------------------------------------------------------------------------------------
def in_bursts(r: Random, graph: ArchitectureGraph) -> ArchitectureGraph:
    """The graph with bursts at memories that neither caches nor rows nor channels stand before."""
    plain = {name for banks in graph.buffers.values() for name in (bank.storage for bank in banks)
             if isinstance(graph[name], MemoryInterface)}
    plain -= {graph.path(cache)[-1].name for cache in graph.caches}
    plain -= {s.name for s in graph.storages if isinstance(s, DRAM) and (s.has_bank_state or s.is_interleaved)}
    elsewhere = {e.link.name for e in graph.edges if e.link is not None
                 and any(isinstance(end, DataStorage) and end.name not in plain for end in (e.source, e.target))}
    changed = [graph[name] for name in sorted(plain)] + [link for link in graph.links if link.name not in elsewhere]
    sizes = (8, 16) if r.random() < 0.5 else (0, 4, 8, 16)
    return exchanged(graph, *[dataclasses.replace(each, burst_bytes=r.choice(sizes)) for each in changed])


@examples(20, 4000)
@given(randoms)
def test_the_engine_equals_the_step_by_step_simulator(r: Random) -> None:
    semantics = SEMANTICS if r.random() < 0.5 else ()
    memories = {"storages_of": lambda r: random_memories(r, 24)} if r.random() < 0.5 else {}
    graph = in_bursts(r, random_graph(r, semantics=semantics, **memories))
    if r.random() < 0.3:
        graph = random_reordering(r, graph)
    check_equal(graph, random_stream(r, graph, r.choice((30, 200, 900)), 24))


@examples(10, 1000)
@given(randoms)
def test_less_work_never_takes_longer(r: Random) -> None:
    """Neither a part of what is read takes more of anything, nor the same without bursts."""
    graph = machine(r.choice((0, 4, 8, 64)), r.choice((0, 16)), r.choice((1, 4, 12)))
    first, count, rows, stride = r.randrange(300), r.randint(1, 90), r.randint(1, 4), r.randint(90, 200)
    whole = moved(graph, hbm(first, count, rows, stride))
    less = r.randrange(count)
    part = moved(graph, hbm(first + less, r.randint(1, count - less), r.randint(1, rows), stride))
    plain = moved(machine(0, 0, graph.links[0].bandwidth), hbm(first, count, rows, stride))
    for other in (part, plain):
        assert other.cycles <= whole.cycles
        for name in ("words_read", "bytes_read", "busy_beats"):
            assert getattr(other.storage("memory"), name) <= getattr(whole.storage("memory"), name)


@examples(10, 1000)
@given(randoms)
def test_whole_bursts_take_what_they_take_without(r: Random) -> None:
    burst = r.choice((4, 8, 64))
    window = hbm(burst * r.randrange(9), burst * r.randint(1, 3), r.randint(1, 3), burst * r.randint(3, 9))
    assert moved(machine(burst), window) == moved(machine(), window)


@pytest.mark.parametrize("step", [8, 12, 64])
def test_steady_loops_are_skipped(step: int) -> None:
    """Where each access begins in a burst is one place (64), or one of several that come round."""
    graph = machine(16)
    work = stream(ResolvedLoop("i", 900, (instr("read", reads=(hbm(Affine.variable("i") * step, 6),)),)))
    found = check_equal(graph, work)
    assert isinstance(found, TimingResult) and found.stepped_instructions < 300


# --- what is refused ---------------------------------------------------------------------------------------------
def cached(**options: Any) -> None:
    unit = MemoryAccessUnit("unit", to_process={"read"})
    after(front(), unit)
    memory = SRAM("far", data_width=8, burst_bytes=64, address_ranges=[(0, 1 << 10)])
    cache = SetAssociativeCache("near", data_width=8, **options)
    ACADLEdge(cache, memory, BACKED_BY)
    ACADLEdge(cache, unit, READ_DATA, Link("way", burst_bytes=4))


def lone(link: int = 0, **options: Any) -> None:
    unit = MemoryAccessUnit("unit", to_process={"read"})
    after(front(), unit)
    memory = DRAM("memory", **{"data_width": 32, "address_ranges": [(0, 64)], **options})
    ACADLEdge(memory, unit, READ_DATA, Link("way", burst_bytes=link))


@pytest.mark.parametrize(("make", "fault"), [
    (lambda: lone(burst_bytes=6), r"memory \(DRAM\): burst_bytes 6 are no whole words of 32 bits"),
    (lambda: lone(link=6), r"memory \(DRAM\): burst_bytes 6 of way \(Link\) are no whole words of 32 bits"),
    (lambda: lone(burst_bytes=-1), r"memory \(DRAM\): burst_bytes must be an integer of at least 0, not -1"),
    (lambda: lone(burst_bytes=48), r"memory .*: address_ranges \[\(0, 64\)\] are no whole bursts of 48 bytes"),
    (lambda: lone(burst_bytes=8, t_RP=1, row_words=8), r"burst_bytes 8 with open rows or channels"),
    (lambda: cached(cache_line_size=64), r"near .*: burst_bytes of way \(Link\): a cache is asked for words"),
    (lambda: cached(cache_line_size=32), r"near .*: before far \(SRAM\) with bursts of 64 bytes lines must be whole"),
    (lambda: cached(cache_line_size=64, write_back=False), r"near .*: .* lines must be whole bursts, and written back"),
])
def test_what_has_no_timing_is_refused(make: Callable[[], None], fault: str) -> None:
    with pytest.raises(GraphError, match=fault):
        generate(make)()


def test_units_that_ask_for_other_bursts() -> None:
    @generate
    def two_units() -> None:
        fetch, memory = front(), SRAM("memory", read_write_ports=2, address_ranges=[(0, 1 << 16)])
        for k in range(2):
            unit = MemoryAccessUnit(f"unit{k}", to_process={"read"})
            after(fetch, unit, name=f"stage{k}")
            ACADLEdge(memory, unit, READ_DATA, Link(f"way{k}", burst_bytes=8 << k))
        architecture(buffers={"hbm": memory})

    with pytest.raises(GraphError, match=r"in bursts of 8 bytes \(from unit0\) and 16 bytes \(from unit1\): only one"):
        simulate(create_ag(two_units()), stream(instr("read", reads=(hbm(0, 4),))))
