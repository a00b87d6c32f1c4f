"""Links, semantics, energy figures, spread register files: declared, checked and found again in the graph."""

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
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLDanglingEdge,
    ACADLEdge,
    FunctionalUnit,
    Link,
    MemoryAccessUnit,
    RegisterFile,
    Semantics,
    SetAssociativeCache,
    architecture,
    connect_dangling_edge,
)
from archloom.oracle.errors import GraphError
from tests.support.acadl_models.acadl_builders import build


def _bus(m: SimpleNamespace, **figures: Any) -> Link:
    m.mem._set("read_write_ports", 2)
    mover = MemoryAccessUnit("mover", to_process={"move"})
    ACADLEdge(m.ex, mover, CONTAINS)
    link = Link("bus", bandwidth=4, **figures)
    ACADLEdge(m.mem, mover, READ_DATA, link=link)
    ACADLEdge(mover, m.mem, WRITE_DATA, link=link)
    return link


def test_link() -> None:
    graph = build(lambda m: _bus(m, mode="window", latency=2, joules_per_byte=1e-12))
    link, mem, mover = graph.links[0], graph.storages[1], graph.functional_units[-1]
    assert (link.bandwidth, link.exclusive, link.latency, link.joules_per_byte) == (4, True, 2, 1e-12)
    assert graph.link(mem, mover, READ_DATA) is graph.link(mem, mover, WRITE_DATA) is link
    assert graph.link(mem, graph.functional_units[1], READ_DATA) is None
    assert graph.fingerprint != build(lambda m: _bus(m, latency=3)).fingerprint


def test_link_of_a_dangling_edge() -> None:
    def change(m: SimpleNamespace) -> None:
        _bus(m)
        port = ACADLDanglingEdge(READ_DATA, target=m.mau, link=Link("second", bandwidth=8))
        m.imem._set("read_write_ports", 2)
        connect_dangling_edge(port, m.imem)

    graph = build(change)
    link = graph.link(graph["imem"], graph["mau"], READ_DATA)  # type: ignore[arg-type]
    assert link is not None and link.name == "second"


def test_semantics() -> None:
    chosen = Semantics(arbitration="edge_order", issue="in_order", fetches_in_flight=2)
    graph = build(lambda m: architecture("x", semantics=chosen))
    assert graph.semantics == chosen
    assert graph.semantics.changed() == {"issue": "in_order", "fetches_in_flight": 2, "arbitration": "edge_order"}
    assert build(lambda m: None).semantics == Semantics()
    assert graph.fingerprint != build(lambda m: architecture("x")).fingerprint


def test_a_buffer_spread_over_register_files() -> None:
    def change(m: SimpleNamespace) -> None:
        files = [m.rf, RegisterFile("rf2", registers={"a": 0, "b": 0, "c": 0})]
        ACADLEdge(files[1], m.fu, READ_DATA)
        architecture("x", buffers={"r": files, "s": m.rf})

    graph = build(change)
    assert [(b.storage, b.start, b.stop) for b in graph.buffers["r"]] == [("rf", 0, 2), ("rf2", 2, 5)]
    assert graph.bytes_of("r") == 20 and graph.bytes_of("s") == 8


def test_energy() -> None:
    def change(m: SimpleNamespace) -> None:
        unit = FunctionalUnit(
            "alu", to_process={"mac", "add", "nop"}, operations={"mac": "rows * 2", "*": 1},
            joules_per_operation={"mac": 2e-12, "add": 1e-12}, leakage_watts=1e-3, area_mm2=0.5,
        )
        ACADLEdge(m.ex, unit, CONTAINS)

    unit = build(change).functional_units[-1]
    assert unit.operations_of("mac").evaluate({"rows": 3}) == 6 and unit.operations_of("add").evaluate({}) == 1
    assert (unit.joules_of("mac"), unit.joules_of("add"), unit.joules_of("nop")) == (2e-12, 1e-12, None)
    assert (unit.leakage_watts, unit.area_mm2) == (1e-3, 0.5)


def test_caches_and_memories_behind_them() -> None:
    def change(m: SimpleNamespace) -> None:
        memory = SRAM("far", data_width=32, address_ranges=[(0, 64)])
        l1, l2 = (SetAssociativeCache(n, data_width=32, sets=4, ways=2, cache_line_size=16) for n in ("l1", "l2"))
        ACADLEdge(l1, m.mau, READ_DATA)
        ACADLEdge(l1, l2, BACKED_BY)
        ACADLEdge(l2, memory, BACKED_BY)

    graph = build(change)
    l1, l2 = graph.caches
    assert graph.backing(l1) is l2 and graph.path(l1) == (l1, l2, graph["far"])
    assert l1.size_bytes == 128


FAULTS: list[tuple[str, Callable[[SimpleNamespace], Any], str]] = [
    ("link without edge", lambda m: Link("bus", bandwidth=4), r"bus \(Link\) carries no edge"),
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

FOREIGN = Link("far")


@pytest.mark.parametrize(("change", "message"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_fault(change: Callable[[SimpleNamespace], Any], message: str) -> None:
    with pytest.raises(GraphError) as raised:
        build(change)
    assert any(re.search(message, fault) for fault in raised.value.faults), raised.value.faults
