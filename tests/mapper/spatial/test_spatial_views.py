"""Views of graphs that nobody foresaw: a view, or an error that names the object to blame."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    Link,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.acadl.rules import check
from archloom.acadl_models.gemmini import gemmini
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.parts import Fetch, QueuedUnit
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.hardware import Hardware
from archloom.mapper.spatial.machines.df import Cores, Memories
from archloom.mapper.spatial.machines.df_text import read
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.machines.view import described
from archloom.oracle import taidl
from archloom.oracle.errors import ArchloomError, TargetError
from archloom.oracle.taidl.isa import Isa
from tests.support.examples import examples


@dataclass(frozen=True)
class Odd:
    """Cores that add numbers of their own memories, at the indices ``cores``; each has a way to all of ``memories``.

    ``cut``: cores without a way to memory. ``widths``: bandwidths of the ways, in turn. ``kinds``: names of the cores,
    in turn; ``cycles``: of their units, in turn. ``rows``: words of each core's own memory.
    """

    cores: tuple[tuple[int, ...], ...] = ((0,), (1,))
    memories: tuple[tuple[str, int], ...] = (("memory", 64),)
    channels: int = 1
    cut: frozenset[int] = frozenset()
    widths: Sequence[int] = (4,)
    kinds: Sequence[str] = ("core",)
    cycles: Sequence[int] = (1,)
    rows: int = 64

    def graph(self) -> ArchitectureGraph:
        return create_ag(self._built())

    @generate
    def _built(self) -> None:
        memories, first = [], 0
        for name, words in self.memories:
            memories.append(DRAM(
                name, address_ranges=[(first, first + words)], read_write_ports=99, shared_port=True, port_width=8,
                channels=self.channels, channel_words=4 if self.channels > 1 else 0))
            first += words
        fetch = Fetch("fetch", 4)
        mine = []
        for number, index in enumerate(self.cores):
            name = self.kinds[number % len(self.kinds)] + "".join(f"[{i}]" for i in index)
            own = SRAM(f"{name}.mine", address_ranges=[(number * self.rows, (number + 1) * self.rows)],
                       read_write_ports=9)
            alu = QueuedUnit(f"{name}.alu", fetch, {"add"}, depth=1, latency=self.cycles[number % len(self.cycles)],
                             interval=None, in_flight=1)
            ACADLEdge(own, alu.unit, READ_DATA)
            ACADLEdge(alu.unit, own, WRITE_DATA)
            if number not in self.cut:
                mover = QueuedUnit(f"{name}.mover", fetch, {"load"}, depth=1, latency=1, interval=1, in_flight=1)
                way = Link(f"{name}.way", self.widths[number % len(self.widths)])
                for memory in memories:
                    ACADLEdge(memory, mover.unit, READ_DATA, link=way)
                ACADLEdge(mover.unit, own, WRITE_DATA)
            mine.append(own)
        architecture("odd", clock_hz=1e9, buffers={"mine": mine} | ({"hbm": memories} if memories else {}))


ISA = """isa odd;
[mine] (4096) (i8);
[load](to, count) {
    %A:{count}xi8 <- $hbm[0 + {count : 1}];
    %A -> $mine[to + {count : 1}];
}
[add](a) {
    %A:8xi8 <- $mine[a + {8 : 1}];
    %B:8xi8 = add(%A, %A);
    %B -> $mine[a + {8 : 1}];
}
"""


@pytest.fixture(scope="module")
def isa(tmp_path_factory: pytest.TempPathFactory) -> Isa:
    path: Path = tmp_path_factory.mktemp("odd") / "odd.taidl"
    path.write_text(ISA)
    return taidl.load(path)


LINE = ((0,), (1,))
SQUARE = tuple(itertools.product(range(2), range(2)))
CUBE = tuple(itertools.product(range(2), range(3), range(2)))
TWO = (("memory[0]", 64), ("memory[1]", 64))


@pytest.mark.parametrize("odd", [
    Odd(), Odd(cores=((),)), Odd(cores=CUBE), Odd(memories=TWO), Odd(channels=4), Odd(memories=TWO, channels=2),
    Odd(cores=SQUARE, channels=3), Odd(cores=((),), channels=5), Odd(memories=(("fast", 64), ("slow", 32))),
    Odd(cores=((0,), (0,), (1,), (1,)), kinds=("big", "small"), cycles=(1, 3)),
    Odd(cores=((0,), (0,)), kinds=("big", "small"), widths=(4, 8)),
], ids=str)
def test_odd_graphs_have_views_of_all_that_they_have(odd: Odd, isa: Isa) -> None:
    graph = odd.graph()
    view = described(graph, isa)
    text = str(view)
    assert read(text) == view and str(read(text)) == text
    cores = [made for made in view.items if isinstance(made, Cores)]
    assert sum(len(list(itertools.product(*map(range, view.extents(c.name))))) for c in cores) == len(odd.cores)
    held = sum(m.size * len(list(itertools.product(*map(range, view.extents(m.name)))))
               for m in view.items if isinstance(m, Memories) and m.name.startswith("hbm"))
    assert graph.bytes_of("hbm") - held < max(1, odd.channels) * len(odd.memories)


@pytest.mark.parametrize(("odd", "blame"), [
    (Odd(cut=frozenset({1})), r"core\[1\] has no way to hbm, which core\[0\] has"),
    (Odd(cores=SQUARE, cut=frozenset({2})), r"core\[1\]\[0\] has no way to hbm, which core\[0\]\[0\] has"),
    (Odd(cores=SQUARE[:3]), r"of 4 units core\[0\]\[0\].alu.unit, ... only 3 are there; core\[1\]\[1\].alu.unit is"),
    (Odd(cores=((0,), (2,))), r"only 2 are there; core\[1\].alu.unit is missing"),
    (Odd(widths=(4, 8)), r"core\[1\].way carries 8 bytes a cycle, others of its kind 4"),
    (Odd(cycles=(1, 2)), r"core\[1\].alu.unit differs from core\[0\].alu.unit"),
    (Odd(memories=(("memory[0]", 64), ("memory[1]", 32))), r"the memories of memory\[0\] differ in size"),
    (Odd(memories=(("memory[0]", 64), ("memory[2]", 64))), r"memories like memory\[0\] leave \(1,\) of 3 out"),
])
def test_graphs_without_a_view_name_the_object_to_blame(odd: Odd, blame: str, isa: Isa) -> None:
    with pytest.raises(TargetError, match="graph 'odd' has no view: .*" + blame):
        described(odd.graph(), isa)


@examples(10, 125)
@given(
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5).map(sorted).map(tuple),
    st.sampled_from([(("memory", 64),), TWO, (("fast", 64), ("slow", 32))]), st.integers(1, 5),
    st.sets(st.integers(0, 4), max_size=1).map(frozenset), st.sampled_from([(4,), (4, 8)]),
    st.sampled_from([("core",), ("big", "small")]), st.sampled_from([(1,), (1, 2)]),
)
def test_any_graph_has_a_view_or_a_reason(isa: Isa, cores, memories, channels, cut, widths, kinds, cycles) -> None:  # type: ignore[no-untyped-def]
    """What is written is read back; what cannot be written is told with the graph and an object of it."""
    odd = Odd(cores, memories, channels, cut, widths, kinds, cycles)
    if len(cores) == 1:  # memory that nobody reaches is a fault of the graph
        odd = replace(odd, cut=frozenset())
    graph = odd.graph()
    try:
        text = str(described(graph, isa))
    except TargetError as error:
        assert "graph 'odd' has no view: " in str(error)
        assert any(name in str(error) for name in (*graph.objects, "core[", "big[", "small[", "ways over"))
        return
    assert str(read(text)) == text


BASES = [
    wormhole(rows=2, columns=2), mesh(3, 1, torus=False, semaphores=3, name="wormhole"),
    triple_ring(columns=2, name="wormhole"), gemmini(),
]


@pytest.mark.slow
@examples(8, 100)
@given(st.integers(0, len(BASES) - 1), st.randoms(use_true_random=False))
def test_damaged_graphs_have_a_view_or_a_reason(number: int, random: Random) -> None:
    """Edges, buffers and dimensions are taken out and figures changed of graphs of targets; what is still a graph by
    the rules is described, or refused by an error that names the graph or one of its objects."""
    graph = BASES[number]
    damaged = damage(graph, random)
    if check(list(damaged.objects.values()), damaged.edges):
        return
    for ask in (described, Machine.of, Hardware.from_graph):
        try:
            ask(damaged)
        except ArchloomError as error:
            assert graph.name in str(error) or any(part in str(error) for part in graph.objects)


def damage(graph: ArchitectureGraph, random: Random) -> ArchitectureGraph:
    match random.randrange(4):
        case 0:
            gone = {random.randrange(len(graph.edges)) for _ in range(random.choice((1, 1, 3, 20)))}
            return replace(graph, edges=tuple(e for k, e in enumerate(graph.edges) if k not in gone))
        case 1:
            gone_buffer = random.choice(sorted(graph.buffers))
            return replace(graph, buffers={k: v for k, v in graph.buffers.items() if k != gone_buffer})
        case 2:
            dims = {k: random.choice((v, 1, 2, 3, 7)) for k, v in graph.dims.items() if random.random() < 0.7}
            return replace(graph, dims=dims)
        case _:
            part = random.choice(list(graph.objects.values()))
            figures = [k for k, v in vars(part).items() if isinstance(v, int) and not isinstance(v, bool)]
            other = copy(part)
            if figures:
                object.__setattr__(other, random.choice(figures), random.choice((1, 2, 7, 10**12)))
            edges = [copy(edge) for edge in graph.edges]
            for edge, end in itertools.product(edges, ("source", "target", "link")):
                if getattr(edge, end) is part:
                    object.__setattr__(edge, end, other)
            return replace(graph, objects={**graph.objects, part.name: other}, edges=tuple(edges))
