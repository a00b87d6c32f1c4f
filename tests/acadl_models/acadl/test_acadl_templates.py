"""Templates, dangling edges, @generate and create_ag: the systolic array of section 4.2, and what can go wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    CONTAINS,
    DRAM,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLDanglingEdge,
    ACADLEdge,
    ArchitectureGraph,
    EdgeKind,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    Template,
    architecture,
    connect_dangling_edge,
    create_ag,
    generate,
)
from archloom.oracle.errors import GraphError


class Element(Template):
    """A processing element: registers, stage and unit, with ports to its neighbours."""

    def __init__(self, name: str) -> None:
        self.stage = ExecuteStage("stage")
        self.unit = FunctionalUnit("fu", to_process={"mac"})
        self.registers = RegisterFile("rf", registers={"a": 0, "b": 0, "acc": 0})
        ACADLEdge(self.stage, self.unit, CONTAINS)
        ACADLEdge(self.registers, self.unit, READ_DATA)
        ACADLEdge(self.unit, self.registers, WRITE_DATA)
        self.issue = ACADLDanglingEdge(FORWARD, target=self.stage)
        self.right = ACADLDanglingEdge(WRITE_DATA, source=self.unit)
        self.down = ACADLDanglingEdge(WRITE_DATA, source=self.unit)
        self.entry = ACADLDanglingEdge(WRITE_DATA, target=self.registers)


class LoadUnit(Template):
    def __init__(self, name: str) -> None:
        self.stage = ExecuteStage("stage")
        self.unit = MemoryAccessUnit("mau", to_process={"load"})
        ACADLEdge(self.stage, self.unit, CONTAINS)
        self.issue = ACADLDanglingEdge(FORWARD, target=self.stage)
        self.memory = ACADLDanglingEdge(READ_DATA, target=self.unit)
        self.out = ACADLDanglingEdge(WRITE_DATA, source=self.unit)


class Array(Template):
    """A grid of elements: templates nest."""

    def __init__(self, name: str, rows: int, columns: int) -> None:
        self.grid = [[Element(f"pe[{r}][{c}]") for c in range(columns)] for r in range(rows)]
        for r, row in enumerate(self.grid):
            for c, element in enumerate(row):
                if c + 1 < columns:
                    connect_dangling_edge(element.right, row[c + 1].entry)
                if r + 1 < rows:
                    connect_dangling_edge(element.down, self.grid[r + 1][c].entry)


class Fetch(Template):
    def __init__(self, name: str) -> None:
        self.stage = InstructionFetchStage("stage", issue_buffer_size=8)
        unit = InstructionMemoryAccessUnit("imau")
        memory = SRAM("imem", address_ranges=[(0, 1024)])
        ACADLEdge(self.stage, unit, CONTAINS)
        ACADLEdge(memory, unit, READ_DATA)


@generate
def systolic(rows: int, columns: int) -> None:
    fetch = Fetch("fetch")
    memory = DRAM("dram", read_write_ports=rows, address_ranges=[(0, 4096)])
    array = Array("array", rows, columns)
    for r in range(rows):
        load = LoadUnit(f"load[{r}]")
        connect_dangling_edge(fetch.stage, load.issue)
        connect_dangling_edge(load.memory, memory)
        connect_dangling_edge(load.out, array.grid[r][0].entry)
        for element in array.grid[r]:
            connect_dangling_edge(element.issue, fetch.stage)
    architecture("systolic", buffers={"hbm": memory})


@given(st.integers(1, 4), st.integers(1, 4))
def test_any_grid(rows: int, columns: int) -> None:
    graph = create_ag(systolic(rows, columns))
    assert len(graph.objects) == 4 + 2 * rows + 3 * rows * columns
    neighbours = rows * (columns - 1) + (rows - 1) * columns
    kinds = {kind: sum(e.kind is kind for e in graph.edges) for kind in EdgeKind}
    assert kinds[WRITE_DATA] == rows * columns + neighbours + rows
    assert kinds[FORWARD] == rows + rows * columns


def test_names_are_paths_and_dangling_edges_left_open_create_nothing() -> None:
    graph = create_ag(systolic(2, 2))
    assert "array.pe[1][0].rf" in graph.objects
    corner = graph["array.pe[1][1].fu"]
    assert [s.name for s in graph.writes(corner)] == ["array.pe[1][1].rf"]
    assert {u.name for u in graph.writers(graph["array.pe[1][1].rf"])} == {
        "array.pe[1][1].fu", "array.pe[0][1].fu", "array.pe[1][0].fu"
    }


def test_create_ag_takes_the_last_generated() -> None:
    systolic(1, 2)
    first = create_ag()
    assert "array.pe[0][1].fu" in first.objects
    systolic(1, 1)
    assert isinstance(create_ag(), ArchitectureGraph) and "array.pe[0][1].fu" not in create_ag().objects


def test_fingerprint_tells_graphs_apart() -> None:
    assert create_ag(systolic(2, 2)).fingerprint == create_ag(systolic(2, 2)).fingerprint
    assert create_ag(systolic(2, 2)).fingerprint != create_ag(systolic(2, 1)).fingerprint


def test_connecting_what_does_not_connect() -> None:
    stage, other = PipelineStage("a"), PipelineStage("b")
    out, into = ACADLDanglingEdge(FORWARD, source=stage), ACADLDanglingEdge(FORWARD, target=other)
    edge = connect_dangling_edge(into, out)
    assert edge is not None and edge.source is stage and edge.target is other
    edge = connect_dangling_edge(other, out)
    assert edge is not None and (edge.source, edge.target) == (stage, other)
    with pytest.raises(GraphError, match=r"cannot connect dangling FORWARD edge a .* -> \? with .*: both are sources"):
        connect_dangling_edge(out, ACADLDanglingEdge(FORWARD, source=other))
    with pytest.raises(GraphError, match="their kinds differ"):
        connect_dangling_edge(out, ACADLDanglingEdge(CONTAINS, source=ExecuteStage("c")))
    with pytest.raises(GraphError, match="takes two dangling edges, or one and an ACADL object, not a .* and b"):
        connect_dangling_edge(stage, other)
    with pytest.raises(GraphError, match="not .* and 7"):
        connect_dangling_edge(out, 7)
    with pytest.raises(GraphError, match="forbidden FORWARD edge a .* -> m .SRAM"):
        connect_dangling_edge(out, SRAM("m", address_ranges=[(0, 1)]))
    with pytest.raises(GraphError, match="expected one ACADL object as source or target, found source .* and target"):
        ACADLDanglingEdge(FORWARD, source=stage, target=other)
    with pytest.raises(GraphError, match="expected one ACADL object as source or target"):
        ACADLDanglingEdge(FORWARD)


def test_faults_of_connections_are_collected() -> None:
    @generate
    def broken() -> None:
        fetch = Fetch("fetch")
        one, two = Element("one"), Element("two")
        connect_dangling_edge(one.issue, fetch.stage)
        connect_dangling_edge(two.issue, fetch.stage)
        connect_dangling_edge(one.right, two.down)
        connect_dangling_edge(one.issue, two.entry)

    with pytest.raises(GraphError) as raised:
        broken()
    assert [f.split(":")[-1] for f in raised.value.faults] == [" both are sources", " their kinds differ"]


def test_an_exception_of_the_function_passes_and_leaves_no_graph_under_construction() -> None:
    @generate
    def failing() -> None:
        Template("t")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        failing()
    assert PipelineStage("free").name == "free"
    with pytest.raises(GraphError, match=r"architecture\(\) belongs inside"):
        architecture("x")
