"""Miss-status registers and slots of refills: what they change, and what no number of them may change."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    BACKED_BY,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    MemoryAccessUnit,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.oracle.resolved import ResolvedInstr
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.simulators import agreed, outcome
from tests.support.acadl_models.timing_builders import after, front, hbm, instr, stream
from tests.support.examples import examples, randoms

LINE = 16
SIZE = 1 << 12

Read = tuple[int, int]
"""A line, and cycles before it is wanted."""


def machine(reads: Sequence[Read], *, registers: int | None, slots: int, sets: int) -> ArchitectureGraph:
    """A unit for each read, which waits and then reads; a cache with a slot for each before a memory with ``slots``."""

    @generate
    def build() -> None:
        source = front(width=2 * len(reads), buffer=4 * len(reads))
        memory = SRAM("memory", address_ranges=[(0, SIZE)], max_concurrent_requests=slots)
        cache = SetAssociativeCache(
            "cache", sets=sets, cache_line_size=LINE, miss_latency=8, port_width=LINE, miss_registers=registers,
            max_concurrent_requests=len(reads), read_write_ports=len(reads),
        )  # fmt: skip
        ACADLEdge(cache, memory, BACKED_BY)
        for k, (_, before) in enumerate(reads):
            unit = MemoryAccessUnit(
                f"u{k}", to_process={f"wait{k}", f"read{k}"}, latency={f"wait{k}": before + 1, f"read{k}": 1})
            after(source, unit, name=f"ex{k}")
            ACADLEdge(cache, unit, READ_DATA)
            ACADLEdge(unit, cache, WRITE_DATA)
        architecture("misses", buffers={"hbm": memory})

    return create_ag(build())


def program(reads: Sequence[Read]) -> tuple[ResolvedInstr, ...]:
    waits = [instr(f"wait{k}") for k in range(len(reads))]
    return (*waits, *(instr(f"read{k}", reads=(hbm(line * LINE, 4),)) for k, (line, _) in enumerate(reads)))


def both(reads: Sequence[Read], **options: int | None) -> TimingResult:
    """What both simulators find."""
    graph = machine(reads, **options)  # type: ignore[arg-type]
    work = stream(*program(reads), hbm_bytes=SIZE)
    return agreed(graph, work)


reads = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), min_size=1, max_size=8)


@examples(15, 400)
@given(reads, st.integers(1, 4), st.integers(1, 4))
def test_where_nothing_is_driven_out_each_line_is_one_miss_and_more_never_make_it_slower(
    wanted: list[Read], registers: int, slots: int
) -> None:
    """As many misses as distinct lines, whenever they are wanted; more registers, or more slots, end no run later."""
    lines = len({line for line, _ in wanted})
    found = {}
    for r, s in ((registers, slots), (registers + 1, slots), (registers, slots + 1), (None, slots)):
        found[r, s] = result = both(wanted, registers=r, slots=s, sets=8)
        cache = result.cache("cache")
        assert (cache.misses, cache.hits, cache.evictions) == (lines, len(wanted) - lines, 0)
        assert cache.bytes_from_backing == lines * LINE
    assert all(result.cycles <= found[registers, slots].cycles for result in found.values())


def test_more_registers_may_be_slower() -> None:
    """Lines 0 and 1 share a set. With one register line 1 comes after the second look at line 0, else before it."""
    wanted = [(0, 0), (1, 1), (0, 12)]
    one, two = (both(wanted, registers=n, slots=2, sets=1) for n in (1, 2))
    assert (one.cache("cache").misses, two.cache("cache").misses) == (2, 3)
    assert one.cycles < two.cycles


def loaded(cache: SetAssociativeCache, result: TimingResult) -> int:
    """Misses of a cache that load their line."""
    found = result.cache(cache.name)
    return found.read_misses + (found.write_misses if cache.write_allocate else 0)


@examples(10, 1000)
@given(randoms)
def test_misses_are_refills(r: Random) -> None:
    """On random graphs: each miss that loads a line moves one line, whatever waits for it."""
    graph = random_graph(r, semantics=SEMANTICS, storages_of=random_memories)
    result = outcome(simulate, graph, random_stream(r, graph, 200))
    if isinstance(result, TimingResult):
        for cache in graph.caches:
            assert isinstance(cache, SetAssociativeCache)
            assert result.cache(cache.name).bytes_from_backing == loaded(cache, result) * cache.cache_line_size
