"""Tensors lie in the memories that hold their roles, apart from one another, and a memory that is full is named."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given

from archloom.acadl_models.acadl import (
    DRAM,
    READ_DATA,
    SRAM,
    ACADLEdge,
    ArchitectureGraph,
    MemoryAccessUnit,
    architecture,
    create_ag,
    generate,
)
from archloom.mapper.memory import Memory
from archloom.mapper.places import check_places, placed, rooms
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle.errors import GraphError, MappingError
from archloom.oracle.validate import tensor_bytes
from tests.support.acadl_models.timing_builders import after, front
from tests.support.examples import examples, randoms

SUMS = Epilogue(True, 1.0, False, "int32")


def graph_of(*memories: tuple[str, int, tuple[str, ...]]) -> ArchitectureGraph:
    """One memory behind the other, of so many bytes each, with roles."""
    @generate
    def build() -> None:
        unit = MemoryAccessUnit("unit", to_process={"move"})
        after(front(), unit)
        found, first = [], 0
        for number, (name, size, roles) in enumerate(memories):
            kind = DRAM if number % 2 else SRAM
            found.append(kind(name, address_ranges=[(first, first + size)], roles=roles))
            ACADLEdge(found[-1], unit, READ_DATA)
            first += size
        architecture("machine", buffers={"hbm": found})

    build()
    return create_ag()


def product(r: Random, constants: tuple[str, ...]) -> Workload:
    return replace(gemm(r.randint(1, 40), r.randint(1, 40), r.randint(1, 40), epilogue=SUMS), constants=constants)


@examples(30, 1000)
@given(randoms)
def test_each_tensor_lies_in_the_memory_of_its_role(r: Random) -> None:
    roles = [("weights", "tables"), ("activations",)]
    r.shuffle(roles)
    graph = graph_of(("first", 1 << 16, roles[0]), ("second", 1 << 16, roles[1]))
    work = placed(product(r, r.choice((("B", "bias"), ("bias",), ()))), graph)
    memory, places = Memory.of(work, r.choice((0, 100))), dict(work.places)
    stream = memory.stream("none", (), [], r.choice((0, 1000)))
    ends = {t.name: (t.address, t.address + tensor_bytes(t)) for t in memory.tensors}
    for name, (start, end) in ends.items():
        expected = rooms(graph)["weights" if name in work.constants else "activations"]
        assert places[name] == expected and expected.first <= start < end <= expected.end and end <= stream.hbm_bytes
    for one, other in combinations(ends.values(), 2):
        assert one[1] <= other[0] or other[1] <= one[0]
    check_places(work, stream)


def test_without_roles_tensors_lie_one_behind_the_other() -> None:
    work = product(Random(1), ("B",))
    assert placed(work, graph_of(("memory", 1 << 16, ()))) is work
    ends = [t.address for t in Memory.of(work).tensors]
    assert ends == sorted(ends)


def test_the_memory_that_is_full_is_named() -> None:
    graph = graph_of(("sram", 1 << 12, ("activations",)), ("flash", 64, ("weights",)))
    work = replace(gemm(4, 16, 16, epilogue=SUMS), constants=("B", "bias"))
    with pytest.raises(MappingError, match=r"need 320 bytes of HBM \(B, bias\), but flash of graph 'machine' holds 64"):
        placed(work, graph)
    with pytest.raises(MappingError, match="'B' is one of its weights, for which graph 'machine' has no memory"):
        placed(work, graph_of(("sram", 1 << 12, ("activations",))))


def test_a_stream_that_ignores_places_is_refused() -> None:
    graph = graph_of(("sram", 1 << 12, ("activations",)), ("flash", 1 << 12, ("weights",)))
    work = replace(gemm(4, 16, 16, epilogue=SUMS), constants=("B", "bias"))
    with pytest.raises(MappingError, match=r"'B' lies in bytes 128\.\.384 of HBM, but those of flash are 4096\.\.8192"):
        check_places(placed(work, graph), Memory.of(work).stream("none", (), []))


def test_a_role_that_there_is_not_is_refused() -> None:
    with pytest.raises(GraphError, match=r"roles must be a tuple of .*'activations', not \('code',\)"):
        graph_of(("memory", 64, ("code",)))
