"""Links, semantics, energy figures, spread register files: declared and found again in the graph."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from archloom.acadl_models.acadl import (
    BACKED_BY,
    CONTAINS,
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
