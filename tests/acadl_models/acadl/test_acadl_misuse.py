"""Wrong arguments of every kind: the only exception that leaves the language is GraphError."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ArchitectureGraph,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    Link,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    Semantics,
    SetAssociativeCache,
    Template,
    architecture,
    connect_dangling_edge,
    create_ag,
    generate,
)
from archloom.oracle.errors import GraphError

CLASSES: list[type[Any]] = [
    PipelineStage, ExecuteStage, InstructionFetchStage, RegisterFile, FunctionalUnit, MemoryAccessUnit,
    InstructionMemoryAccessUnit, SRAM, DRAM, SetAssociativeCache, Link,
]
ATTRIBUTES = [
    "name", "latency", "depth", "issue_buffer_size", "data_width", "registers", "to_process", "interval", "in_flight",
    "max_concurrent_requests", "read_write_ports", "port_width", "shared_port", "read_latency", "address_ranges",
    "bank_address_ranges", "t_RAS", "hit_latency", "replacement_policy", "sets", "joules_per_access", "nonsense",
    "operations", "joules_per_operation", "joules_per_byte", "leakage_watts", "area_mm2", "bandwidth", "mode", "seed",
    "cache_line_size", "miss_registers", "row_words", "t_RCD", "data",
]
JUNK: list[Any] = [
    None, True, 0, -1, 3, 1 << 70, 2.5, math.nan, math.inf, "", "x", "1 +", "rows", b"x", [], [[]], [["a"]], [(0, 4)],
    [(4, 0)], [(0, "x")], [None], (), ((),), {}, {"a": 1}, {"a": {}}, {1: 2}, {"x"}, {None}, object(), len, int,
]


def attempt(build: Any) -> None:
    """Run ``build`` as the body of an architecture; anything but GraphError fails the test."""
    try:
        assert isinstance(create_ag(generate(build)()), ArchitectureGraph)
    except GraphError as error:
        assert error.faults and all(isinstance(fault, str) and fault for fault in error.faults)


@pytest.mark.slow
@given(st.sampled_from(CLASSES), st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(JUNK), max_size=4))
def test_objects(cls: type[Any], attributes: dict[str, Any]) -> None:
    attempt(lambda: cls(**({"name": "it"} | attributes)))


def sound() -> list[Any]:
    """One object of each class."""
    return [
        PipelineStage("p"), ExecuteStage("e"), InstructionFetchStage("f"), RegisterFile("r", registers={"a": 0}),
        FunctionalUnit("u", to_process={"a"}), MemoryAccessUnit("m", to_process={"a"}),
        InstructionMemoryAccessUnit("i"), SRAM("s", address_ranges=[(0, 4)]), DRAM("d", address_ranges=[(0, 4)]),
        SetAssociativeCache("c"), Link("l"),
    ]


ENDS = st.integers(0, 10) | st.sampled_from(JUNK)
KINDS = st.sampled_from([CONTAINS, FORWARD, READ_DATA, WRITE_DATA, BACKED_BY, "CONTAINS", None])


@pytest.mark.slow
@given(st.lists(st.tuples(ENDS, ENDS, KINDS, ENDS | st.none(), st.booleans()), max_size=12))
def test_edges(edges: list[tuple[Any, Any, Any, Any, bool]]) -> None:
    def build() -> None:
        objects = sound()

        def pick(end: Any) -> Any:
            return objects[end] if type(end) is int and 0 <= end < 11 else end

        for source, target, kind, link, dangling in edges:
            if dangling:
                port = ACADLDanglingEdge(kind, source=pick(source), link=pick(link), required=True)
                connect_dangling_edge(port, pick(target))
            else:
                ACADLEdge(pick(source), pick(target), kind, link=pick(link))

    attempt(build)


@given(
    st.sampled_from(JUNK), st.sampled_from(JUNK), st.sampled_from(JUNK),
    st.dictionaries(st.sampled_from(["spad", "hbm"]), ENDS | st.lists(ENDS, max_size=3), max_size=2),
)
def test_architecture(clock: Any, parameters: Any, dims: Any, places: dict[str, Any]) -> None:
    def build() -> None:
        objects = sound()

        def pick(place: Any) -> Any:
            if isinstance(place, list):
                return [pick(p) for p in place]
            return objects[place] if type(place) is int and 0 <= place < 11 else place

        buffers = {name: pick(place) for name, place in places.items()}
        architecture("any", clock_hz=clock, parameters=parameters, dims=dims, buffers=buffers)

    attempt(build)


def test_names_of_templates() -> None:
    with pytest.raises(GraphError, match="Template: the name of a template must be a non-empty string, not 7"):
        Template(7)  # type: ignore[arg-type]


@given(st.dictionaries(
    st.sampled_from([f.name for f in fields(Semantics)]), st.sampled_from([*JUNK, "started", "in_order", "added"]),
    max_size=3,
))
def test_semantics(chosen: dict[str, Any]) -> None:
    attempt(lambda: (sound(), architecture("any", semantics=Semantics(**chosen))))
