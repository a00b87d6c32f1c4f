"""Each rule of the checker is broken by a graph of its own; a rule without such a graph fails here."""

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
from archloom.acadl_models.acadl.rules import RULES
from archloom.acadl_models.acadl.sketch import Sketch
from archloom.oracle.errors import GraphError
from tests.support.acadl_models.acadl_builders import build, machine

Change = Callable[[SimpleNamespace], Any]


def _cache(m: SimpleNamespace, name: str = "l1", width: int = 32, line: int = 16) -> SetAssociativeCache:
    cache = SetAssociativeCache(name, data_width=width, cache_line_size=line)
    ACADLEdge(cache, m.mau, READ_DATA)
    return cache


def _second_unit(m: SimpleNamespace) -> None:
    unit = MemoryAccessUnit("mau2", to_process={"store"})
    ACADLEdge(m.ex, unit, CONTAINS)
    ACADLEdge(unit, m.mem, WRITE_DATA)


def _only_storages(m: SimpleNamespace) -> None:
    """Forget everything but the memory."""
    builder = building_module.active()
    assert builder is not None
    builder.objects[:], builder.edges[:] = [m.mem], []


BREAKS: dict[str, tuple[Change, str]] = {
    "attributes": (lambda m: m.decode._set("latency", 0), r"^decode \(PipelineStage\): latency must be at least 1"),
    "unique_names": (lambda m: PipelineStage("ex"), r"^duplicate name 'ex': 2 objects"),
    "edges_inside": (lambda m: ACADLEdge(m.ifs, m.decode, FORWARD), r"is stated twice"),
    "has_fetch": (_only_storages, r"the graph has no InstructionFetchStage"),
    "contained_once": (lambda m: FunctionalUnit("lost", to_process={"a"}), r"lost .* is contained in no stage"),
    "one_instruction_memory": (lambda m: ACADLEdge(m.mem, m.imau, READ_DATA), r"expected exactly one instruction mem"),
    "fetch_fits": (lambda m: m.imem._set("port_width", 3), r"issue_buffer_size 2 is below the port_width 3"),
    "acyclic": (lambda m: ACADLEdge(m.ex, m.decode, FORWARD), r"FORWARD edges form a cycle: decode -> ex -> decode"),
    "reachable": (lambda m: ACADLEdge(PipelineStage("island"), m.ex, FORWARD), r"island .* cannot be reached"),
    "leads_somewhere": (lambda m: ACADLEdge(m.ex, PipelineStage("end"), FORWARD), r"end .* leads to no functional"),
    "ports_connected": (lambda m: ACADLDanglingEdge(READ_DATA, target=m.fu, required=True),
                        r"dangling READ_DATA edge \? -> fu \(FunctionalUnit\) was never connected, and is required"),
    "ports": (_second_unit, r"mem \(SRAM\): 2 memory access units are attached"),
    "connected_storages": (lambda m: SRAM("alone", address_ranges=[(0, 4)]), r"alone .* is connected to no"),
    "storage_access": (lambda m: ACADLEdge(m.ex, MemoryAccessUnit("idle", to_process={"a"}), CONTAINS),
                       r"idle .* reads and writes no DataStorage"),
    "caches_backed": (lambda m: _cache(m), r"l1 .* is backed by nothing"),
    "cache_words": (lambda m: ACADLEdge(_cache(m, width=16), m.mem, BACKED_BY), r"data_width is 16, but mem \(SRAM\)"),
    "one_way": (lambda m: ACADLEdge(_cache(m), m.mem, BACKED_BY),
                r"mau .* has READ_DATA edges to l1 .* and to mem \(SRAM\) behind it"),
    "links_inside": (lambda m: Link("bus"), r"bus \(Link\) carries no edge"),
}


def test_every_rule_has_a_graph_that_breaks_it() -> None:
    assert [rule.__name__ for rule in RULES if rule.__name__ not in BREAKS] == []
    assert [name for name in BREAKS if name not in {rule.__name__ for rule in RULES}] == []


def _sketch(change: Change) -> Sketch:
    builder = Builder("sketch")
    with building_module.collecting(builder):
        change(machine())
    return Sketch(builder.objects, builder.edges, list(builder.open_ports.values()))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Callable[[Sketch], Any]) -> None:
    change, message = BREAKS[rule.__name__]
    assert not list(rule(_sketch(lambda m: None))), "the machine itself keeps the rule"
    found = list(rule(_sketch(change)))
    assert len(found) == 1 and re.search(message, found[0]), found
    with pytest.raises(GraphError) as raised:
        build(change)
    assert found[0] in raised.value.faults


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
        architecture("many", clock_hz=-1, buffers={"b": row.cells[0].stage})

    with pytest.raises(GraphError) as raised:
        build(change)
    faults = raised.value.faults
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
