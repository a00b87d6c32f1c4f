"""Which edges there may be, what caches need, and that all faults come at once, with their paths through templates."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from archloom.acadl_models.acadl import (
    BACKED_BY,
    CONTAINS,
    DRAM,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLDanglingEdge,
    ACADLEdge,
    ACADLObject,
    EdgeKind,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    Link,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    SetAssociativeCache,
    Template,
    architecture,
    connect_dangling_edge,
    generate,
)
from archloom.acadl_models.acadl import building as building_module
from archloom.acadl_models.acadl.building import Builder
from archloom.oracle.errors import GraphError
from tests.support.acadl_models.acadl_builders import build

Change = Callable[[SimpleNamespace], Any]


def _cache(m: SimpleNamespace, width: int = 32, line: int = 16) -> SetAssociativeCache:
    cache = SetAssociativeCache("l1", data_width=width, cache_line_size=line)
    ACADLEdge(cache, m.mau, READ_DATA)
    return cache


@pytest.mark.parametrize(("change", "message"), [
    (lambda m: ACADLEdge(_cache(m, width=4, line=1), SRAM("s", data_width=4, address_ranges=[(0, 4)]), BACKED_BY),
     r"data_width 4 is no whole number of bytes"),
    (lambda m: ACADLEdge(_cache(m, line=6), m.mem, BACKED_BY), r"cache_line_size 6 bytes is no whole number of its w"),
])
def test_lines_of_caches(change: Change, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        build(change)


ALLOWED: dict[EdgeKind, set[tuple[str, str]]] = {
    CONTAINS: {("ex", "fu"), ("ex", "mau"), ("ifs", "imau")},
    FORWARD: {(a, b) for a in ("ifs", "stage", "ex") for b in ("stage", "ex")},
    READ_DATA: {("rf", "fu"), ("rf", "mau"), ("rf", "imau"),
                *((s, u) for s in ("sram", "dram", "cache") for u in ("mau", "imau"))},
    WRITE_DATA: {("fu", "rf"), ("mau", "rf"), ("imau", "rf"), *(("mau", s) for s in ("sram", "dram", "cache"))},
    BACKED_BY: {("cache", "sram"), ("cache", "dram"), ("cache", "other")},
}
"""The edges of the class diagram, written out; ``other`` is a second cache."""


def test_exactly_the_edges_of_the_class_diagram_are_allowed() -> None:
    made: dict[str, ACADLObject] = {
        "ifs": InstructionFetchStage("ifs"), "stage": PipelineStage("stage"), "ex": ExecuteStage("ex"),
        "imau": InstructionMemoryAccessUnit("imau"), "fu": FunctionalUnit("fu"), "mau": MemoryAccessUnit("mau"),
        "rf": RegisterFile("rf"), "sram": SRAM("sram"), "dram": DRAM("dram"), "cache": SetAssociativeCache("cache"),
        "link": Link("link"),
    }
    for kind in EdgeKind:
        found = set()
        for a, b in itertools.product(made, made):
            builder = Builder("edge")
            with building_module.collecting(builder):
                ACADLEdge(made[a], made[b], kind)
            assert bool(builder.edges) != bool(builder.faults)
            if builder.edges:
                found.add((a, b))
        assert found == {pair for pair in ALLOWED[kind] if "other" not in pair}, kind


class Cell(Template):
    def __init__(self, name: str, latency: object) -> None:
        self.stage = ExecuteStage("stage", latency=latency)  # type: ignore[arg-type]
        self.unit = FunctionalUnit("unit", to_process={"mac"}, rows=3)  # type: ignore[call-arg]
        ACADLEdge(self.unit, self.stage, CONTAINS)
        self.out = ACADLDanglingEdge(WRITE_DATA, source=self.unit)


def test_all_faults_come_at_once_with_their_paths_through_templates() -> None:
    class Row(Template):
        def __init__(self, name: str) -> None:
            self.cells = [Cell(f"cell[{k}]", latency) for k, latency in enumerate((1, "n +"))]
            connect_dangling_edge(self.cells[0].out, self.cells[1].out)

    def change(m: SimpleNamespace) -> None:
        row = Row("row[7]")
        connect_dangling_edge(row.cells[0].out, ACADLDanglingEdge(READ_DATA, source=m.rf))
        connect_dangling_edge(m.rf, m.fu)
        PipelineStage("decode")
        architecture("many", clock_hz=-1, buffers={"b": row.cells[0].stage})

    with pytest.raises(GraphError) as raised:
        build(change)
    faults = raised.value.faults
    assert str(raised.value).startswith(f"architecture graph 'many' has {len(faults)} faults:\n  - ")
    for message in (
        r"^row\[7\]\.cell\[0\]\.unit: FunctionalUnit: got an unexpected keyword argument 'rows' \(attributes: name,",
        r"^row\[7\]\.cell\[1\]\.unit: FunctionalUnit: got an unexpected",
        r"^forbidden CONTAINS edge row\[7\]\.cell\[0\]\.unit .* -> row\[7\]\.cell\[0\]\.stage",
        r"^cannot connect dangling WRITE_DATA edge row\[7\]\.cell\[0\]\.unit .* with .*cell\[1\].*: both are sources",
        r"^cannot connect dangling WRITE_DATA .* with dangling READ_DATA edge rf .* -> \?: their kinds differ",
        r"^connect_dangling_edge takes two dangling edges, or one and an ACADL object, not rf .* and fu",
        r"^clock_hz must be a positive number, not -1",
        r"^row\[7\]\.cell\[1\]\.stage \(ExecuteStage\): latency: bad latency 'n \+'",
        r"^row\[7\]\.cell\[0\]\.unit .* is contained in no stage",
        r"^row\[7\]\.cell\[0\]\.stage .* cannot be reached",
        r"duplicate name 'decode'", r"^decode .* leads to no",
        r"^buffer 'b' must lie in a RegisterFile, SRAM or DRAM of the graph, not in row\[7\]\.cell\[0\]\.stage",
    ):
        assert sum(bool(re.search(message, fault)) for fault in faults) == 1, (message, faults)


def test_a_function_that_stops_after_faults_reports_them_first() -> None:
    @generate
    def broken() -> None:
        stage = PipelineStage("stage", latency=0)
        stage.missing  # type: ignore[attr-defined]  # noqa: B018

    with pytest.raises(AttributeError):
        broken()  # no fault was noted before: the error is the function's own

    @generate
    def twice_broken() -> None:
        unit = FunctionalUnit("unit", size=3)  # type: ignore[call-arg]
        unit.missing  # type: ignore[attr-defined]  # noqa: B018

    with pytest.raises(GraphError) as raised:
        twice_broken()
    assert "unexpected keyword argument 'size'" in raised.value.faults[0]
    assert raised.value.faults[-1].startswith("then twice_broken() stopped: AttributeError: ")


def test_open_ends_that_are_not_required_create_nothing() -> None:
    def change(m: SimpleNamespace) -> None:
        ACADLDanglingEdge(READ_DATA, target=m.fu)
        port = ACADLDanglingEdge(READ_DATA, target=m.fu, required=True)
        m.other = RegisterFile("other", registers={"a": 0})
        connect_dangling_edge(port, m.other)

    assert len(build(change).edges) == len(build(lambda m: None).edges) + 1


def test_a_broken_object_from_elsewhere_is_named() -> None:
    foreign = SRAM("far", port_width="4", address_ranges=[(0, 4)])  # type: ignore[arg-type]

    def change(m: SimpleNamespace) -> None:
        builder = building_module.active()
        assert builder is not None
        builder.edges[:] = [e for e in builder.edges if e.source is not m.imem]
        builder.objects.remove(m.imem)
        ACADLEdge(foreign, m.imau, READ_DATA)

    with pytest.raises(GraphError) as raised:
        build(change)
    assert raised.value.faults == [
        "READ_DATA edge far (SRAM) -> imau (InstructionMemoryAccessUnit): far (SRAM) was not made inside this "
        "@generate function"
    ]
