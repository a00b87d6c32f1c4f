"""A small valid architecture that tests break in one place."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from archloom.acadl_models.acadl import (
    CONTAINS,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    create_ag,
    generate,
)


def machine() -> SimpleNamespace:
    """A valid machine with one of everything; tests break it in one place."""
    m = SimpleNamespace()
    m.ifs = InstructionFetchStage("ifs", issue_buffer_size=2)
    m.imau = InstructionMemoryAccessUnit("imau")
    m.imem = SRAM("imem", data_width=32, port_width=2, address_ranges=[(0, 1024)])
    m.decode = PipelineStage("decode")
    m.ex = ExecuteStage("ex")
    m.fu = FunctionalUnit("fu", to_process={"add"}, latency="max(1, n)")
    m.mau = MemoryAccessUnit("mau", to_process={"load"})
    m.rf = RegisterFile("rf", registers={"r0": 0, "r1": 0})
    m.mem = SRAM("mem", data_width=32, read_write_ports=1, address_ranges=[(0, 64)])
    ACADLEdge(m.ifs, m.imau, CONTAINS)
    ACADLEdge(m.imem, m.imau, READ_DATA)
    ACADLEdge(m.ifs, m.decode, FORWARD)
    ACADLEdge(m.decode, m.ex, FORWARD)
    ACADLEdge(m.ex, m.fu, CONTAINS)
    ACADLEdge(m.ex, m.mau, CONTAINS)
    for unit in (m.fu, m.mau):
        ACADLEdge(m.rf, unit, READ_DATA)
        ACADLEdge(unit, m.rf, WRITE_DATA)
    ACADLEdge(m.mem, m.mau, READ_DATA)
    ACADLEdge(m.mau, m.mem, WRITE_DATA)
    return m


def build(change: Callable[[SimpleNamespace], Any]) -> ArchitectureGraph:
    @generate
    def broken() -> None:
        change(machine())

    return create_ag(broken())
