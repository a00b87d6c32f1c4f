"""Fit of graphs whose units reach parts of buffers, and of caches before memories."""

from __future__ import annotations

import pytest

from archloom.acadl_models.acadl import (
    BACKED_BY,
    DRAM,
    READ_DATA,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    FunctionalUnit,
    MemoryAccessUnit,
    RegisterFile,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.fit import misfits
from archloom.oracle import taidl
from archloom.oracle.taidl.isa import Isa
from tests.support.acadl_models.timing_builders import after, front

ISA = """
isa lanes;
param lanes = 8 in 1..64;
[r] (lanes) (1 x i8);
[load](addr, lane) {
    %x:1x1xi8 <- $hbm[addr + {1 : 1, 1 : 1}];
    %x -> $r[lane + {1 : 1}, 0:1];
}
[twice](lane) {
    %x:1x1xi8 <- $r[lane + {1 : 1}, 0:1];
    %y:1x1xi8 = add(%x, %x);
    %y -> $r[lane + {1 : 1}, 0:1];
}
"""


def isa() -> Isa:
    return taidl.instantiate(taidl.parse(ISA), {"lanes": 8})


def lanes(
    *, writes: bool = True, hit: int | str = 1, operations: int | str = 1, files: int = 8
) -> ArchitectureGraph:
    """A cached loader that reaches all lanes, and a unit for each lane that reaches its own."""

    @generate
    def machine() -> None:
        issue = front()
        memory = DRAM("dram", read_latency="never", write_latency="never", address_ranges=[(0, 1024)])
        cache = SetAssociativeCache("l1", hit_latency=hit, sets=4, ways=2, cache_line_size=8)
        ACADLEdge(cache, memory, BACKED_BY)
        loader = MemoryAccessUnit("loader", to_process={"load"})
        after(issue, loader, name="load")
        ACADLEdge(cache, loader, READ_DATA)
        registers = []
        for k in range(files):
            registers.append(RegisterFile(f"r[{k}]", data_width=8, registers={"r": 0}))
            unit = FunctionalUnit(f"unit[{k}]", to_process={"twice"}, operations=operations)
            after(issue, unit, name=f"stage[{k}]")
            ACADLEdge(registers[k], unit, READ_DATA)
            ACADLEdge(loader, registers[k], WRITE_DATA)
            if writes:
                ACADLEdge(unit, registers[k], WRITE_DATA)
        architecture("lanes", parameters={"lanes": 8}, buffers={"hbm": memory, "r": registers})

    machine()
    return create_ag()


def test_units_that_reach_parts_of_a_buffer_fit_and_the_memory_behind_a_cache_is_not_asked() -> None:
    assert misfits(lanes(), isa()) == []


def test_units_that_reach_nothing_are_listed_briefly() -> None:
    found = misfits(lanes(writes=False), isa())
    assert len(found) == 5
    assert found[0] == (
        "unit[0] (FunctionalUnit) processes 'twice' but lacks the edges "
        "WRITE_DATA unit[0] -> r[0] (buffer 'r'), WRITE_DATA unit[0] -> r[1] (buffer 'r'), "
        "WRITE_DATA unit[0] -> r[2] (buffer 'r'), WRITE_DATA unit[0] -> r[3] (buffer 'r'), "
        "or one to the other 4 places of it"
    )
    assert found[-1] == "4 more units process 'twice' and lack edges"


def test_a_buffer_larger_than_its_files() -> None:
    assert "buffer 'r' (8x1 i8) takes 8 bytes, but r[0], r[1], r[2], r[3] and 2 more holds 6" in misfits(
        lanes(files=6), isa()
    )


def test_a_cache_may_name_attributes_of_what_it_serves() -> None:
    assert misfits(lanes(hit="lane + 1"), isa()) == []


@pytest.mark.parametrize(("graph", "message"), [
    (lanes(hit="rows"), "l1 (SetAssociativeCache): hit_latency 'rows' names rows, unknown for 'load'"),
    (lanes(operations="rows"), "unit[0] (FunctionalUnit): operations 'rows' names rows, unknown for 'twice'"),
])
def test_unknown_names(graph: ArchitectureGraph, message: str) -> None:
    found = misfits(graph, isa())
    assert any(fault.startswith(message) for fault in found), found
