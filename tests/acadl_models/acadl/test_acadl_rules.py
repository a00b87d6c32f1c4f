"""Every validity rule: one broken graph each, with its message."""

from __future__ import annotations

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
    DataStorage,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    Link,
    Logic,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    Semantics,
    SetAssociativeCache,
    architecture,
    connect_dangling_edge,
    create_ag,
    generate,
)
from archloom.acadl_models.acadl.rules import RULES
from archloom.oracle.errors import GraphError
from tests.support.acadl_models.acadl_builders import build


def test_the_machine_is_valid() -> None:
    graph = build(lambda m: architecture("tiny", clock_hz=2e9, parameters={"n": 3}, buffers={"mem": m.mem}))
    assert graph.name == "tiny" and graph.clock_hz == 2e9
    assert [s.name for s in graph.stages] == ["ifs", "decode", "ex"]
    assert [u.name for u in graph.functional_units] == ["fu", "mau"]
    assert graph.stage_of(graph["fu"]) is graph["ex"]
    assert {u.name for u in graph.readers(graph["rf"])} == {"fu", "mau"}
    assert graph.writes(graph["mau"]) == [graph["rf"], graph["mem"]]
    assert graph.bytes_of("mem") == 64 * 4


def _stage(name: str, m: SimpleNamespace) -> ExecuteStage:
    """A stage that is reachable and has work."""
    stage = ExecuteStage(name)
    ACADLEdge(m.ifs, stage, FORWARD)
    ACADLEdge(stage, FunctionalUnit(f"{name}.fu", to_process={"add"}), CONTAINS)
    return stage


FOREIGN = Link("far")
"""Made outside of the graph that is checked."""

FAULTS: list[tuple[str, Callable[[SimpleNamespace], Any], str]] = [
    ("duplicate name", lambda m: _stage("decode", m),
     r"duplicate name 'decode': 2 objects carry it \(PipelineStage, ExecuteStage\)"),
    ("forbidden edge", lambda m: ACADLEdge(m.fu, m.mem, WRITE_DATA),
     r"forbidden WRITE_DATA edge fu \(FunctionalUnit\) -> mem \(SRAM\): WRITE_DATA edges run from a FunctionalUnit "
     r"to a RegisterFile, or from a MemoryAccessUnit to a DataStorage"),
    ("reversed edge", lambda m: ACADLEdge(m.mau, m.mem, READ_DATA),
     r"forbidden READ_DATA edge mau .* -> mem .*; turn it round"),
    ("contains a stage", lambda m: ACADLEdge(m.ex, m.decode, CONTAINS), r"forbidden CONTAINS edge ex .* -> decode"),
    ("contains in a plain stage", lambda m: ACADLEdge(m.decode, m.fu, CONTAINS), r"forbidden CONTAINS edge decode"),
    ("fetch stage with a functional unit", lambda m: ACADLEdge(m.ifs, m.fu, CONTAINS), r"forbidden CONTAINS edge ifs"),
    ("fetch unit in an execute stage", lambda m: ACADLEdge(m.ex, m.imau, CONTAINS), r"forbidden CONTAINS edge ex"),
    ("forward to a fetch stage", lambda m: ACADLEdge(m.ex, m.ifs, FORWARD),
     r"forbidden FORWARD edge ex .* -> ifs .*: FORWARD edges run from a PipelineStage to another"),
    ("forward to a unit", lambda m: ACADLEdge(m.decode, m.fu, FORWARD), r"forbidden FORWARD edge decode"),
    ("fetch unit writes", lambda m: ACADLEdge(m.imau, m.imem, WRITE_DATA), r"forbidden WRITE_DATA edge imau"),
    ("backed by without cache", lambda m: ACADLEdge(m.mem, m.imem, BACKED_BY), r"forbidden BACKED_BY edge mem"),
    ("edge to a string", lambda m: ACADLEdge(m.ex, "fu", CONTAINS), r"the target must be an ACADL object, not 'fu'"),
    ("unknown kind", lambda m: ACADLEdge(m.ex, m.fu, "contains"),
     r"the kind must be one of CONTAINS, FORWARD, READ_DATA, WRITE_DATA, BACKED_BY, not 'contains'"),
    ("edge twice", lambda m: ACADLEdge(m.ifs, m.decode, FORWARD), r"FORWARD edge ifs .* -> decode .* is stated twice"),
    ("unit in no stage", lambda m: FunctionalUnit("lost", to_process={"add"}),
     r"lost \(FunctionalUnit\) is contained in no stage: add a CONTAINS edge from an ExecuteStage to it"),
    ("fetch unit in no stage", lambda m: ACADLEdge(m.imem, InstructionMemoryAccessUnit("lost"), READ_DATA),
     r"lost .* is contained in no stage: add a CONTAINS edge from an InstructionFetchStage"),
    ("unit in two stages", lambda m: ACADLEdge(_stage("ex2", m), m.fu, CONTAINS),
     r"fu .* is contained in ex \(ExecuteStage\), ex2 \(ExecuteStage\): a unit belongs to exactly one stage"),
    ("two fetch units", lambda m: _second_imau(m), r"ifs .* contains imau .*, imau2 .*: expected exactly one"),
    ("two instruction memories", lambda m: ACADLEdge(m.mem, m.imau, READ_DATA),
     r"imau .* reads imem \(SRAM\), mem \(SRAM\): expected exactly one instruction memory"),
    ("no instruction memory", lambda m: _second_front(m), r"imau2 .* reads nothing: expected exactly one"),
    ("issue buffer too small", lambda m: ACADLEdge(_memory("imem2", 4), _second_front(m), READ_DATA),
     r"ifs2 .*: issue_buffer_size 2 is below the port_width 4 of imem2 \(SRAM\): no fetch would ever find room"),
    ("too many ports", lambda m: _second_mau(m),
     r"mem \(SRAM\): 2 memory access units are attached \(mau .*, mau2 .*\) but read_write_ports is 1"),
    ("cycle", lambda m: ACADLEdge(m.ex, m.decode, FORWARD), r"FORWARD edges form a cycle: decode -> ex -> decode"),
    ("loop to itself", lambda m: ACADLEdge(m.decode, m.decode, FORWARD), r"form a cycle: decode -> decode"),
    ("unreachable stage", lambda m: ACADLEdge(PipelineStage("island"), m.ex, FORWARD),
     r"island \(PipelineStage\) cannot be reached from a fetch stage over FORWARD edges"),
    ("dead end", lambda m: ACADLEdge(m.decode, PipelineStage("end"), FORWARD),
     r"end \(PipelineStage\) leads to no functional unit"),
    ("storage without users", lambda m: SRAM("alone", address_ranges=[(0, 4)]), r"alone .* is connected to no"),
    ("registers without users", lambda m: RegisterFile("alone", registers={"r": 0}), r"alone .* is connected to no"),
    ("renaming without a reorder buffer", lambda m: ACADLEdge(_renamed(3), m.fu, READ_DATA),
     r"renamed .*: physical_registers are freed when instructions commit, but ifs .* state reorder_entries"),
    ("some registers renamed", lambda m: architecture("x", buffers={"regs": [m.rf, _renamed(3)]}),
     r"buffer 'regs': physical_registers must be alike in all that hold it, but rf and renamed differ"),
    ("renamed with a scoreboard", lambda m: RegisterFile(
        "r", registers={"a": 0}, physical_registers=2, write_after_read="started"),
     r"r .*: write_after_read has no meaning with physical_registers: a write waits for no read"),
    ("access unit without storage", lambda m: ACADLEdge(m.ex, MemoryAccessUnit("idle", to_process={"x"}), CONTAINS),
     r"idle .* reads and writes no DataStorage"),
    ("prefetches and writes", lambda m: m.mau._set("prefetches", True),
     r"mau .* prefetches, and has WRITE_DATA edges to rf .*, mem .*: it has no result"),
    ("compressed results", lambda m: m.mem._set("stored_share", 0.5),
     r"mem \(SRAM\): stored_share 0\.5: its roles must be of constants \('weights', 'tables'\), not \(\)"),
    ("bursts of parts of words", lambda m: m.mem._set("burst_bytes", 6),
     r"mem \(SRAM\): burst_bytes 6 are no whole words of 32 bits"),
    ("cache without backing", lambda m: ACADLEdge(SetAssociativeCache("l1"), m.mau, READ_DATA),
     r"l1 .* is backed by nothing: expected exactly one BACKED_BY edge"),
    ("cache cycle", lambda m: _cache_cycle(m), r"BACKED_BY edges form a cycle: l1 -> l2 -> l1"),
    ("words of a cache", lambda m: ACADLEdge(_cache(m, 16), m.mem, BACKED_BY),
     r"data_width is 16, but mem \(SRAM\)"),
    ("two ways to a memory", lambda m: ACADLEdge(_cache(m), m.mem, BACKED_BY),
     r"mau .* has READ_DATA edges to l1 .* and to mem \(SRAM\) behind it"),
    ("link without edges", lambda m: Link("bus"), r"bus \(Link\) carries no edge"),
    ("open port", lambda m: ACADLDanglingEdge(READ_DATA, target=m.fu, required=True),
     r"dangling READ_DATA edge \? -> fu \(FunctionalUnit\) was never connected, and is required"),
    ("stage without a cycle", lambda m: ACADLEdge(m.decode, PipelineStage("late", latency=0), FORWARD),
     r"^late \(PipelineStage\): latency must be at least 1"),
    ("buffer in no storage", lambda m: architecture("x", buffers={"mem": m.fu}),
     r"buffer 'mem' must lie in a RegisterFile, SRAM or DRAM of the graph, not in fu \(FunctionalUnit\)"),
    ("buffer with a gap", lambda m: architecture("x", buffers={"mem": [(m.mem, 0, 8), (m.imem, 9, 12)]}),
     r"buffer 'mem': rows 0\.\.8 in mem and 9\.\.12 in imem leave a gap"),
    ("buffer banks overlap", lambda m: architecture("x", buffers={"mem": [(m.mem, 0, 8), (m.imem, 7, 12)]}),
     r"rows 0\.\.8 in mem and 7\.\.12 in imem overlap"),
    ("buffer does not start at 0", lambda m: architecture("x", buffers={"mem": [(m.mem, 4, 8)]}),
     r"buffer 'mem': its first row in mem is 4, expected 0"),
    ("buffer rows", lambda m: architecture("x", buffers={"mem": [(m.mem, 4, 2)]}),
     r"rows in mem must be \(start, stop\)"),
    ("clock", lambda m: architecture("x", clock_hz=0), r"clock_hz must be a positive number, not 0"),
    ("parameter", lambda m: architecture("x", parameters={"dim": 3.5}),
     r"parameters\['dim'\] must be an integer, not 3\.5"),
    ("link to registers", lambda m: ACADLEdge(m.rf, m.mau, READ_DATA, link=Link("bus")),
     r"READ_DATA edge rf .* -> mau .*: only READ_DATA and WRITE_DATA edges of data storages run over a link"),
    ("link of a fetch", lambda m: ACADLEdge(m.imem, m.imau, READ_DATA, link=Link("bus")), r"a fetch takes its lat"),
    ("link that is none", lambda m: ACADLEdge(m.mem, m.mau, READ_DATA, link="bus"), r"link must be a Link, not 'bus'"),
    ("foreign link", lambda m: ACADLEdge(m.imem, m.mau, READ_DATA, link=FOREIGN), r"far \(Link\) was not made inside"),
    ("link bandwidth", lambda m: Link("bus", bandwidth=0), r"bus \(Link\): bandwidth must be an integer of at least 1"),
    ("link latency", lambda m: Link("bus", latency=-1), r"latency must be an integer of at least 0, not -1"),
    ("link mode", lambda m: Link("bus", mode="both"), r"mode must be one of 'streaming', 'window', not 'both'"),
    ("link energy", lambda m: Link("bus", joules_per_byte=-1.0), r"joules_per_byte must be a number of at least 0"),
    ("two links", lambda m: connect_dangling_edge(
        ACADLDanglingEdge(READ_DATA, source=m.mem, link=Link("a")),
        ACADLDanglingEdge(READ_DATA, target=m.mau, link=Link("b"))), r"they name different links"),
    ("semantics word", lambda m: architecture("x", semantics=Semantics(issue="random")),
     r"semantics: issue must be one of 'out_of_order', 'in_order', not 'random'"),
    ("semantics number", lambda m: architecture("x", semantics=Semantics(fetches_in_flight=0)),
     r"semantics: fetches_in_flight must be an integer of at least 1, not 0"),
    ("semantics type", lambda m: architecture("x", semantics="paper"), r"semantics must be a Semantics, not 'paper'"),
    ("files of two widths", lambda m: architecture("x", buffers={"r": [m.rf, RegisterFile("w", 8, {"a": 0})]}),
     r"buffer 'r': its register files differ in data_width \(rf: 32 bits, w: 8 bits\)"),
    ("hazard word", lambda m: m.rf._set("write_after_read", "never"),
     r"rf .*: write_after_read must be one of 'finished', 'started', 'ignored', not 'never'"),
    ("hazard flag", lambda m: m.mem._set("forwards_sums", 1), r"mem .*: forwards_sums must be True or False, not 1"),
    ("hazards of a spread buffer", lambda m: architecture("x", buffers={"r": [
        m.rf, RegisterFile("w", 32, {"a": 0}, write_after_read="started")]}),
     r"buffer 'r': write_after_read must be alike in all that hold it, but rf and w differ"),
    ("file twice", lambda m: architecture("x", buffers={"r": [m.rf, m.rf]}), r"a register file appears twice"),
    ("file beside memory", lambda m: architecture("x", buffers={"r": [m.rf, m.mem]}),
     r"the register file rf cannot hold rows beside other banks"),
    ("energy table", lambda m: m.fu._set("joules_per_operation", {"sub": 1.0}),
     r"fu .*: joules_per_operation names sub, not in to_process"),
    ("operations", lambda m: m.fu._set("operations", "n +"), r"fu .*: operations: bad latency 'n \+'"),
    ("area", lambda m: m.fu._set("area_mm2", float("nan")), r"fu .*: area_mm2 must be a number of at least 0"),
    ("stage energy", lambda m: m.ex._set("joules_per_operation", "1"), r"joules_per_operation must be a number"),
    ("cache seed", lambda m: SetAssociativeCache("c", seed=-1), r"seed must be an integer of at least 0, not -1"),
    ("row words", lambda m: DRAM("d", address_ranges=[(0, 8)], t_RCD=3), r"d \(DRAM\): .* state row_words"),
    ("bank ranges", lambda m: DRAM("d", address_ranges=[(0, 8)], bank_address_ranges=[(0, 4)]),
     r"bank_address_ranges hold the words \[\(0, 4\)\], expected those of address_ranges, \[\(0, 8\)\]"),
]


def _second_imau(m: SimpleNamespace) -> None:
    unit = InstructionMemoryAccessUnit("imau2")
    ACADLEdge(m.ifs, unit, CONTAINS)
    ACADLEdge(_memory("imem2", 2), unit, READ_DATA)


def _memory(name: str, width: int) -> SRAM:
    return SRAM(name, port_width=width, address_ranges=[(0, 64)])


def _second_front(m: SimpleNamespace) -> InstructionMemoryAccessUnit:
    stage, unit = InstructionFetchStage("ifs2", issue_buffer_size=2), InstructionMemoryAccessUnit("imau2")
    ACADLEdge(stage, unit, CONTAINS)
    ACADLEdge(stage, m.decode, FORWARD)
    return unit


def _cache(m: SimpleNamespace, width: int = 32) -> SetAssociativeCache:
    cache = SetAssociativeCache("l1", data_width=width, cache_line_size=16)
    ACADLEdge(cache, m.mau, READ_DATA)
    return cache


def _second_mau(m: SimpleNamespace) -> None:
    unit = MemoryAccessUnit("mau2", to_process={"store"})
    ACADLEdge(m.ex, unit, CONTAINS)
    ACADLEdge(unit, m.mem, WRITE_DATA)


def _renamed(physical: int) -> RegisterFile:
    return RegisterFile("renamed", registers={"a": 0, "b": 0}, physical_registers=physical)


def _cache_cycle(m: SimpleNamespace) -> None:
    first, second = SetAssociativeCache("l1"), SetAssociativeCache("l2")
    ACADLEdge(first, m.mau, READ_DATA)
    ACADLEdge(first, second, BACKED_BY)
    ACADLEdge(second, first, BACKED_BY)


BROKEN_BY = {
    "attributes": "stage without a cycle", "unique_names": "duplicate name", "edges_inside": "edge twice",
    "contained_once": "unit in two stages", "one_instruction_memory": "two instruction memories",
    "fetch_fits": "issue buffer too small", "acyclic": "cycle", "reachable": "unreachable stage",
    "leads_somewhere": "dead end", "ports_connected": "open port", "ports": "too many ports",
    "connected_storages": "storage without users", "renamed": "renaming without a reorder buffer",
    "storage_access": "access unit without storage", "prefetched": "prefetches and writes",
    "bursts": "bursts of parts of words",
    "compressed": "compressed results",
    "caches_backed": "cache without backing", "cache_words": "words of a cache", "one_way": "two ways to a memory",
    "links_inside": "link without edges",
}
"""A graph for every rule of the checker; that there is a fetch stage at all has a test of its own."""


def test_every_rule_has_a_graph_that_breaks_it() -> None:
    assert {rule.__name__ for rule in RULES} == {*BROKEN_BY, "has_fetch"}
    assert set(BROKEN_BY.values()) <= {name for name, _, _ in FAULTS}


@pytest.mark.parametrize(("change", "message"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_fault(change: Callable[[SimpleNamespace], Any], message: str) -> None:
    with pytest.raises(GraphError) as raised:
        build(change)
    assert any(re.search(message, fault) for fault in raised.value.faults), raised.value.faults


ATTRIBUTES: list[tuple[type[ACADLObject], dict[str, Any], str]] = [
    (PipelineStage, {"latency": 0}, r"latency must be at least 1, not 0"),
    (PipelineStage, {"latency": "rows +"}, r"latency: bad latency 'rows \+', column 7: expected a value"),
    (PipelineStage, {"latency": "2 - 2"}, r"latency must be at least 1, not '2 - 2'"),
    (PipelineStage, {"latency": 1.5}, r"an integer or an expression in a string, not 1.5"),
    (PipelineStage, {"depth": 0}, r"depth must be an integer of at least 1, not 0"),
    (ExecuteStage, {"depth": 2}, r"depth must be 1, not 2: only a PipelineStage is a queue"),
    (InstructionFetchStage, {"issue_buffer_size": "8"}, r"issue_buffer_size must be an integer of at least 1, not '8'"),
    (RegisterFile, {"data_width": 0, "registers": {"a": 0}}, r"data_width must be an integer of at least 1, not 0"),
    (InstructionFetchStage, {"reorder_entries": 0}, r"reorder_entries must be an integer of at least 1, not 0"),
    (InstructionFetchStage, {"commit_width": 2}, r"commit_width is that of a reorder buffer: state reorder_entries"),
    (RegisterFile, {"registers": {"a": 0}, "physical_registers": 1}, r"physical_registers must .* at least 2, not 1"),
    (RegisterFile, {"registers": {}}, r"registers must map at least one register name"),
    (FunctionalUnit, {"to_process": "add"}, r"to_process must be a set of mnemonics, not 'add'"),
    (FunctionalUnit, {"to_process": set()}, r"to_process is empty"),
    (FunctionalUnit, {"to_process": {"a"}, "latency": -1}, r"latency must be at least 0, not -1"),
    (FunctionalUnit, {"to_process": {"a"}, "interval": 0}, r"interval must be at least 1, not 0"),
    (FunctionalUnit, {"to_process": {"a"}, "in_flight": 4}, r"in_flight is 4 but there is no interval"),
    (FunctionalUnit, {"to_process": {"a"}, "latency": {"b": 1}}, r"latency names b, not in to_process"),
    (FunctionalUnit, {"to_process": {"a", "b"}, "latency": {"b": 1}}, r"latency has no entry for a \(nor for '\*'\)"),
    (FunctionalUnit, {"to_process": {"a"}, "latency": {"a": "1 +"}}, r"latency\[a\]: bad latency '1 \+'"),
    (InstructionMemoryAccessUnit, {"latency": {"a": 1}}, r"latency must be one for all fetches"),
    (SRAM, {"address_ranges": []}, r"address_ranges is empty"),
    (SRAM, {"address_ranges": [(4, 4)]}, r"address_ranges must be a list of \(start, stop\) with 0 <= start < stop"),
    (SRAM, {"address_ranges": [(0, 8), (4, 12)]}, r"address_ranges: \(0, 8\) and \(4, 12\) overlap"),
    (SRAM, {"address_ranges": [(0, 8)], "shared_port": 1}, r"shared_port must be True or False, not 1"),
    (SRAM, {"address_ranges": [(0, 8)], "max_concurrent_requests": 0}, r"max_concurrent_requests must be an integer"),
    (DRAM, {"address_ranges": [(0, 8)], "t_RCD": -1}, r"t_RCD must be an integer of at least 0, not -1"),
    (SetAssociativeCache, {"ways": 0}, r"ways must be an integer of at least 1, not 0"),
    (SetAssociativeCache, {"write_back": "yes"}, r"write_back must be True or False, not 'yes'"),
    (SetAssociativeCache, {"replacement_policy": "lru"}, r"replacement_policy must be one of ReplacementPolicy\.LRU"),
    (SetAssociativeCache, {"line_requests": 1}, r"line_requests must be True or False, not 1"),
    (SetAssociativeCache, {"miss_registers": 0}, r"miss_registers must be an integer of at least 1, not 0"),
    (SRAM, {"address_ranges": [(0, 8)], "joules_per_access": "1pJ"}, r"joules_per_access must be a number"),
    (FunctionalUnit, {"to_process": {"a"}, "component": Logic({"multiply i8": 4, "mul i8": 4})},
     r"component: units must be named as 'multiply i8' or 'add i32', not 'mul i8'"),
    (FunctionalUnit, {"to_process": {"a"}, "component": Logic({"add int8": 4})}, r"component: units .* not 'add int8'"),
]


@pytest.mark.parametrize(("cls", "attributes", "message"), ATTRIBUTES)
def test_attribute(cls: type[ACADLObject], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as raised:
        build(lambda m: cls("it", **attributes))
    pattern = rf"^it \({cls.__name__}\): .*{message}"
    assert any(re.search(pattern, fault) for fault in raised.value.faults), str(raised.value)


def test_unknown_attribute_names_the_object_and_lists_the_valid_ones() -> None:
    message = r"it: SRAM: got an unexpected keyword argument 'size' \(attributes: name, .*data_width"
    with pytest.raises(GraphError, match=message):
        build(lambda m: SRAM("it", size=4))  # type: ignore[call-arg]
    with pytest.raises(GraphError, match=r"'read_latencey'; did you mean 'read_latency'\? \(attributes: name,"):
        build(lambda m: SRAM("it", read_latencey=4))  # type: ignore[call-arg]
    with pytest.raises(GraphError, match=r"\?: PipelineStage: missing a required argument: 'name'"):
        build(lambda m: PipelineStage())  # type: ignore[call-arg]


def test_virtual_classes() -> None:
    with pytest.raises(GraphError, match=r"it: DataStorage is virtual; use one of its subclasses"):
        DataStorage("it")


def test_names_that_are_no_strings() -> None:
    with pytest.raises(GraphError, match=r"name must be a non-empty string, not 3"):
        build(lambda m: PipelineStage(3))  # type: ignore[arg-type]


def test_empty_graph_and_no_fetch_stage() -> None:
    @generate
    def nothing() -> None:
        return None

    with pytest.raises(GraphError, match="the graph has no objects"):
        nothing()

    @generate
    def headless() -> None:
        ACADLEdge(ExecuteStage("ex"), FunctionalUnit("fu", to_process={"a"}), CONTAINS)

    with pytest.raises(GraphError, match="the graph has no InstructionFetchStage"):
        headless()


def test_architecture_outside_of_generate() -> None:
    with pytest.raises(GraphError, match=r"architecture\(\) belongs inside a function decorated with @generate"):
        architecture("x")


def test_create_ag_takes_what_generate_returns() -> None:
    with pytest.raises(GraphError, match=r"create_ag\(\): expected what a @generate function returns, not 3"):
        create_ag(3)  # type: ignore[arg-type]
