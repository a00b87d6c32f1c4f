"""The worked examples of caches, DRAM banks and links in docs/timing_semantics.md are what is simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

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
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedInstr, Window, WindowDim
from tests.support.acadl_models.simulators import InstanceLog, in_the_page, simulate_logged
from tests.support.acadl_models.timing_builders import after, front, hbm, instr, stream

SIZE = 1 << 16


def graph_of(
    storages: Callable[[], tuple[DataStorage, DataStorage]], units: Sequence[str] = ("op",),
    link: Callable[[], Link] | None = None,
) -> ArchitectureGraph:
    """Units of one cycle before a storage; ``storages`` makes it and the memory that holds the buffer."""

    @generate
    def build() -> None:
        source = front(width=len(units))
        store, memory = storages()
        over = link() if link else None
        for name in units:
            unit = MemoryAccessUnit(name, to_process={name})
            after(source, unit, name=f"ex_{name}")
            ACADLEdge(store, unit, READ_DATA, link=over)
            ACADLEdge(unit, store, WRITE_DATA, link=over)
        architecture("example", buffers={"hbm": memory})

    return create_ag(build())


def run(graph: ArchitectureGraph, *body: ResolvedInstr) -> tuple[TimingResult, list[InstanceLog]]:
    log: list[InstanceLog] = []
    program = stream(*body, hbm_bytes=SIZE)
    result = simulate_logged(graph, program, log)
    assert simulate(graph, program) == result
    return result, sorted(log, key=lambda entry: entry.number)


def one_cache(slots: int = 1, **options: object) -> Callable[[], tuple[DataStorage, DataStorage]]:
    """A cache before a memory with so many slots."""

    def make() -> tuple[DataStorage, DataStorage]:
        memory = SRAM("memory", address_ranges=[(0, SIZE)], max_concurrent_requests=slots)
        values = {"sets": 2, "ways": 1, "cache_line_size": 16, "port_width": 4, "miss_latency": 8} | options
        cache = SetAssociativeCache("l1", read_write_ports=4, **values)  # type: ignore[arg-type]
        ACADLEdge(cache, memory, BACKED_BY)
        return cache, memory

    return make


def test_a_cache() -> None:
    reads = [(0, 4), (4, 8), (12, 8), (32, 4), (0, 4)]
    work = [instr("op", reads=(hbm(*r),)) for r in reads]
    work.insert(4, instr("op", writes=(hbm(36, 4),)))
    result, log = run(graph_of(one_cache()), *work)
    asked = ["read 0..3", "read 4..11", "read 12..19", "read 32..35", "write 36..39", "read 0..3"]
    outcome = ["miss", "hit", "hit, miss", "miss, 0 gives way", "hit", "miss, 2 is written back"]
    rows = []
    for what, found, e in zip(asked, outcome, log):
        begin = e.written if what.startswith("write") else e.started
        end = e.finished if what.startswith("write") else e.processing
        rows.append([what, found, f"{begin}-{end}"])
    assert rows[0][2] == "1-10" and rows[1][2] == "11-13"  # 8 + 1 cycles; one cycle and a second beat
    in_the_page(rows)
    cache = result.cache("l1")
    assert (cache.read_hits, cache.read_misses, cache.write_hits, cache.evictions, cache.write_backs) == (2, 4, 1, 2, 1)
    assert (cache.bytes_from_backing, cache.bytes_to_backing) == (64, 16)


@pytest.mark.parametrize(("registers", "slots", "last"), [(None, 2, 10), (1, 2, 18), (None, 1, 18)])
def test_a_line_on_its_way_is_waited_for(registers: int | None, slots: int, last: int) -> None:
    """The second line waits for the register or for the slot of the first, which both have from cycle 1 to 9."""
    options = {"sets": 4, "max_concurrent_requests": 4, "miss_registers": registers}
    graph = graph_of(one_cache(slots, **options), units="abcd")
    result, log = run(graph, *(instr(unit, reads=(hbm(at, 4),)) for unit, at in zip("abcd", (0, 4, 16, 20))))
    spans = [f"{e.started}-{e.processing}" for e in log]
    assert spans == ["1-10", "1-10", f"1-{last}", f"1-{last}"]
    refills = "1-9, 1-9" if last == 10 else "1-9, 9-17"
    in_the_page([["any number" if registers is None else registers, slots, *spans, refills]])
    cache = result.cache("l1")
    assert (cache.misses, cache.hits, cache.evictions, cache.bytes_from_backing) == (2, 2, 0, 32)
    assert result.storage("memory").queue_cycles == (8 if slots == 1 else 0)


def test_a_cache_behind_a_cache() -> None:
    def make() -> tuple[DataStorage, DataStorage]:
        memory = SRAM("memory", address_ranges=[(0, SIZE)])
        outer = SetAssociativeCache("l2", sets=4, ways=2, cache_line_size=32, miss_latency=20, hit_latency=4)
        inner = SetAssociativeCache("l1", sets=1, ways=1, cache_line_size=16, miss_latency=2, port_width=4)
        ACADLEdge(outer, memory, BACKED_BY)
        ACADLEdge(inner, outer, BACKED_BY)
        return inner, memory

    result, log = run(graph_of(make), *(instr("op", reads=(hbm(a, 4),)) for a in (0, 16, 4)))
    rows = [[what, f"{e.started}-{e.processing}", e.processing - e.started] for what, e in zip(
        ("misses both", "misses `l1`, hits `l2`", "misses `l1`, hits `l2`"), log)]
    assert [row[2] for row in rows] == [2 + 20 + 4 + 1, 2 + 4 + 1, 2 + 4 + 1]
    in_the_page(rows)
    assert (result.cache("l2").read_hits, result.cache("l2").read_misses) == (2, 1)


def test_the_banks_of_a_dram() -> None:
    def make() -> tuple[DataStorage, DataStorage]:
        memory = DRAM(
            "dram", address_ranges=[(0, SIZE)], bank_address_ranges=[(0, 1024), (1024, SIZE)], row_words=64,
            t_RCD=5, t_RP=4, t_RAS=20, read_latency=3, port_width=8,
        )
        return memory, memory

    asked = [(0, 16), (16, 8), (64, 8), (1024, 8), (120, 16)]
    result, log = run(graph_of(make), *(instr("op", reads=(hbm(*a),)) for a in asked))
    names = ["0..15", "16..23", "64..71", "1024..1031", "120..135"]
    outcome = ["closed", "hit", "conflict", "closed", "hit, conflict"]
    columns = [6, 11, 1 + 20 + 4 + 5, None, None]  # of the third: t_RAS, precharge, activate
    rows = []
    for what, found, column, e in zip(names, outcome, columns, log):
        rows.append([what, found, f"{e.started}-{e.processing}"])
        if column is not None:
            beats = 2 if what == "0..15" else 1
            assert e.processing == column + 3 + beats - 1
    in_the_page(rows)
    timing = result.dram("dram")
    assert (timing.row_hits, timing.row_misses, timing.row_conflicts) == (2, 2, 2)


@pytest.mark.parametrize("mode", ["streaming", "window"])
def test_a_link(mode: str) -> None:
    def make() -> tuple[DataStorage, DataStorage]:
        memory = SRAM(
            "memory", address_ranges=[(0, SIZE)], max_concurrent_requests=4, port_width=16, read_write_ports=3
        )
        return memory, memory

    graph = graph_of(make, units=("a", "b", "c"), link=lambda: Link("link", bandwidth=4, mode=mode))
    work = [instr("a", reads=(hbm(0, 16),)), instr("b", reads=(hbm(16, 8),)), instr("c", writes=(hbm(32, 8),))]
    result, log = run(graph, *work)
    ends = [log[0].processing, log[1].processing, log[2].finished]
    in_the_page([[f"`{mode}`", *ends]])
    assert result.link("link").read.bytes == 24 and result.link("link").write.bytes == 8


def test_a_buffer_that_lies_in_no_bank_is_refused() -> None:
    """Two buffers of one memory lie one behind the other: here the second has no room."""

    @generate
    def build() -> None:
        memory = DRAM("dram", address_ranges=[(0, 1024)], row_words=64, t_RCD=3)
        unit = MemoryAccessUnit("op", to_process={"op"})
        after(front(), unit)
        ACADLEdge(memory, unit, READ_DATA)
        architecture("two", buffers={"hbm": memory, "mem": [(memory, 0, 64)]})

    with pytest.raises(GraphError, match=r"buffer 'mem', of which words 1024 \.\. 1087 lie in no bank of dram"):
        simulate_reference(create_ag(build()), stream(instr("op", reads=(Window("mem", *MEM),)), hbm_bytes=1024))


MEM = (Affine(0), Affine(0)), (WindowDim(0, 1, 1), WindowDim(1, 4, 1))
