"""Routing by instance: the unrolled program has the stream's instances, each with the units that reach its rows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    BACKED_BY,
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    Bank,
    FunctionalUnit,
    MemoryAccessUnit,
    RegisterFile,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import binding
from archloom.acadl_models.timing.binding import Binder
from archloom.acadl_models.timing.instances import Rows, banks_touched
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.program import Program, StaticLoop, StaticNode
from archloom.acadl_models.timing.unrolling import classes
from archloom.oracle.accesses import accesses
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream
from tests.support.acadl_models.timing_builders import after, front, instr, stream, window
from tests.support.examples import examples, randoms

UNITS = 4


def spread_graph(r: Random) -> ArchitectureGraph:
    """Banks of ``mem`` and register files of ``regs``; each unit reaches some of them."""

    @generate
    def machine() -> None:
        issue = front()
        banks = r.choice((1, 2, 3, 4))
        bounds = [(64 * b // banks, 64 * (b + 1) // banks) for b in range(banks)]
        mem = [
            SRAM(f"mem{b}", data_width=32, read_write_ports=99, address_ranges=[rows]) for b, rows in enumerate(bounds)
        ]
        files = [
            RegisterFile(f"regs{f}", data_width=32, registers={f"r{k}": 0 for k in range(count)})
            for f, count in enumerate(r.choice(((1, 1, 1, 1), (2, 2), (4,), (1, 3))))
        ]
        units = [MemoryAccessUnit(f"unit{u}", to_process=r.choice(({"a"}, {"a", "b"}))) for u in range(UNITS)]
        after(issue, *units[:2], name="first")
        for unit in units[2:]:
            after(issue, unit, name=f"of_{unit.name}")
        for unit in units:
            everything = unit is units[-1] and r.random() < 0.6
            for place in (*mem, *files):
                for source, target, kind in ((place, unit, READ_DATA), (unit, place, WRITE_DATA)):
                    if everything or place is mem[0] or r.random() < 0.5:
                        ACADLEdge(source, target, kind)
        architecture("spread", buffers={"mem": mem, "regs": files})

    machine()
    return create_ag()


def random_body(r: Random, around: tuple[str, ...] = ()) -> tuple[ResolvedNode, ...]:
    found: list[ResolvedNode] = []
    for k in range(r.randint(1, 2)):
        if len(around) < 3 and r.random() < 0.7:
            var = f"v{'_'.join(around)}{k}"
            extent = r.choice((1, 2, 3, 4, 6))
            found.append(ResolvedLoop(var, extent, random_body(r, (*around, var))))
        else:
            found.append(instr(
                r.choice("ab"), reads=(_window(r, around),) * r.randint(0, 1), writes=(_window(r, around),),
                attributes={"x": _index(r, around)},
            ))
    return tuple(found)


def _window(r: Random, around: tuple[str, ...]):  # type: ignore[no-untyped-def]
    if r.random() < 0.5:
        return window("regs", _index(r, around) % 4)
    return window("mem", _index(r, around) * r.choice((1, 5, 16)) % 60, r.choice((1, 1, 2, 4)))


def _index(r: Random, around: tuple[str, ...]) -> Affine:
    total = Affine(r.randrange(4))
    for var in around:
        total = total + Affine.variable(var) * r.choice((0, 0, 1, 1, 2))
    return total


def enumerated(
    body: tuple[ResolvedNode, ...], values: dict[str, int]
) -> Iterator[tuple[ResolvedInstr, dict[str, int]]]:
    for node in body:
        if isinstance(node, ResolvedInstr):
            yield node, values
        else:
            for value in node.values:
                yield from enumerated(node.body, {**values, node.var: value})


def expected_takers(graph: ArchitectureGraph, node: ResolvedInstr, values: Mapping[str, int]) -> dict[str, str]:
    """By stage the first unit with an edge to every bank and file that the instance touches: row by row."""
    needs = set()
    for access in accesses(node):
        row = access.window.offsets[0].evaluate(values)
        for k in range(access.window.dims[0].extent):
            at = row + k * access.window.dims[0].stride
            banks = graph.buffers[access.window.buffer]
            needs |= {(b.storage, access.kind) for b in banks if b.stop is None or b.start <= at < b.stop}
    found: dict[str, str] = {}
    for stage in graph.stages:
        for unit in graph.units(stage):
            reads = {s.name for s in graph.reads(unit)}
            writes = {s.name for s in graph.writes(unit)}
            fits = all(name in (reads if kind == "read" else writes) for name, kind in needs)
            if node.mnemonic in unit.to_process and fits:
                found.setdefault(stage.name, unit.name)
    return found


def _check(graph: ArchitectureGraph, resolved: ResolvedStream, program: Program) -> None:
    wanted = list(enumerated(resolved.body, {}))
    found = list(program.instances())
    assert len(found) == len(wanted) == program.count
    for (static, values), (node, at) in zip(found, wanted):
        assert {k: values[k] for k in at} == at
        assert static.node.mnemonic == node.mnemonic
        assert {s: u.name for s, u in static.takers.items()} == expected_takers(graph, node, at)
        assert static.environment({}, values) == {name: e.evaluate(at) for name, e in node.attributes}
        for plan, access in zip(static.plans, accesses(node), strict=True):
            assert plan.access.kind == access.kind and plan.access.window.dims == access.window.dims
            here = [o.evaluate(values) for o in plan.access.window.offsets]
            assert here == [o.evaluate(at) for o in access.window.offsets]


def _variables(body: tuple[StaticNode, ...]) -> list[str]:
    return [v for n in body if isinstance(n, StaticLoop) for v in (n.var, *_variables(n.body))]


@examples(50, 1250)
@given(st.randoms(use_true_random=False))
def test_instances_and_their_units(r: Random) -> None:
    try:
        graph = spread_graph(r)
    except GraphError:
        assume(False)
    resolved = stream(*random_body(r))
    complete = all(expected_takers(graph, n, v) for n, v in enumerated(resolved.body, {}))
    if not complete:
        with pytest.raises(GraphError, match="no unit processes"):
            bind(graph, resolved)
        return
    program = bind(graph, resolved)
    _check(graph, resolved, program)
    names = _variables(program.body)
    assert len(names) == len(set(names))


def _lanes(count: int, *, width: int = 1) -> ArchitectureGraph:
    """``count`` units in a stage each, with a register file of ``width`` rows of the buffer ``regs``."""
    return _uneven([width] * count)


def _uneven(widths: Sequence[int]) -> ArchitectureGraph:
    """A unit in a stage for each of ``widths``, with a register file of so many rows of the buffer ``regs``."""

    @generate
    def lanes() -> None:
        issue = front(width=4)
        files = []
        for k, width in enumerate(widths):
            registers = {f"r{i}": 0 for i in range(width)}
            files.append(RegisterFile(f"file{k}", data_width=32, registers=registers))
            unit = FunctionalUnit(f"unit{k}", to_process={"op"})
            after(issue, unit, name=f"stage{k}")
            ACADLEdge(files[k], unit, READ_DATA)
            ACADLEdge(unit, files[k], WRITE_DATA)
        architecture("lanes", buffers={"regs": files})

    lanes()
    return create_ag()


def _nest(row: Affine, *extents: tuple[str, int]) -> ResolvedStream:
    node: ResolvedNode = instr("op", writes=(window("regs", row),))
    for var, extent in reversed(extents):
        node = ResolvedLoop(var, extent, (node,))
    return stream(node)


@examples(60, 3000)
@given(randoms)
def test_nests_that_are_alike_go_where_each_of_their_instances_goes(r: Random) -> None:
    """Alike but for the names of loops, their order, and which of them is where in the expression."""
    extents = [r.randint(2, 3) for _ in range(2)] + [2]
    coefficients = [r.choice((0, 1, 2)) for _ in extents]
    nests: list[ResolvedNode] = []
    for k in range(r.randint(2, 4)):
        names = [f"{name}{k}" for name in "abc"]
        row = Affine(r.choice((0, 0, 1)))
        for var, coefficient in zip(r.sample(names, 3), r.sample(coefficients, 3)):
            term = Affine.variable(var)
            row += (term if r.random() < 0.7 else (term + 1) % 2) * coefficient
        nests += _nest(row, *r.sample(list(zip(names, r.sample(extents, 3))), 3)).body
    resolved, graph = stream(*nests), _uneven([r.randint(1, 3) for _ in range(12)])
    _check(graph, resolved, bind(graph, resolved))


T, I = Affine.variable("t"), Affine.variable("i")


def _shape(body: tuple[StaticNode, ...]) -> list[object]:
    return [[len(n.values), *_shape(n.body)] if isinstance(n, StaticLoop) else "op" for n in body]


def test_space_is_unrolled_and_time_stays_a_loop() -> None:
    program = bind(_lanes(4), _nest(I, ("t", 1000), ("i", 4)))
    assert _shape(program.body) == [[1000, "op", "op", "op", "op"]]
    assert [set(s.takers) for s in program.instructions] == [{f"stage{k}"} for k in range(4)]


def test_neighbours_that_go_the_same_way_stay_a_loop() -> None:
    program = bind(_lanes(3, width=4), _nest(I, ("i", 12)))
    assert _shape(program.body) == [[4, "op"], [4, "op"], [4, "op"]]


def test_a_pattern_that_repeats_becomes_a_loop_over_its_repetitions() -> None:
    program = bind(_lanes(2), _nest(I % 2, ("i", 100_000)))
    assert _shape(program.body) == [[50_000, "op", "op"]]
    values = [v["i"] for _, v in program.instances()]
    assert values == list(range(100_000))


def test_instances_that_no_unit_takes_are_named() -> None:
    @generate
    def machine() -> None:
        issue = front()
        files = [RegisterFile(f"file{k}", data_width=32, registers={"r": 0}) for k in range(2)]
        units = [FunctionalUnit(f"unit{k}", to_process={"op"}) for k in range(2)]
        for unit, file in zip(units, files):
            after(issue, unit, name=f"stage_{unit.name}")
            ACADLEdge(file, unit, READ_DATA)
        ACADLEdge(units[0], files[0], WRITE_DATA)
        architecture("odd", buffers={"regs": files})

    machine()
    message = r"no unit processes 'op' where i=1: .*unit1 \(FunctionalUnit\) has no edge WRITE_DATA unit1 -> file1"
    read_write = ResolvedLoop("i", 2, (instr("op", reads=(window("regs", I),), writes=(window("regs", I),)),))
    with pytest.raises(GraphError, match=message):
        bind(create_ag(), stream(read_write))


def test_too_many_instructions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "MOST_INSTRUCTIONS", 500)
    row = (I * 7 + T * 3) % 31 % 2  # no short period along either loop
    with pytest.raises(GraphError, match=r"more than 500 instructions after loops were taken apart"):
        bind(_lanes(2), _nest(row, ("t", 97), ("i", 97)))


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(GraphError, match=r"the unit that takes 'op' depends on 25000000 combinations of loop values"):
        bind(_lanes(2), _nest((T + I) % 2, ("t", 5000), ("i", 5000)))


def _cached(*, two: bool = False) -> ArchitectureGraph:
    @generate
    def machine() -> None:
        memory = DRAM("dram", data_width=32, read_write_ports=2, address_ranges=[(0, 64)])
        unit = MemoryAccessUnit("mau", to_process={"op"})
        after(front(), unit)
        for name in ("l1", "l1b") if two else ("l1",):
            cache = SetAssociativeCache(name, data_width=32, port_width=2, sets=2, ways=2, cache_line_size=16)
            ACADLEdge(cache, memory, BACKED_BY)
            ACADLEdge(cache, unit, READ_DATA)
            ACADLEdge(unit, cache, WRITE_DATA)
        architecture("cached", buffers={"mem": memory})

    machine()
    return create_ag()


def _bound(graph: ArchitectureGraph) -> Binder:
    binder = Binder(graph, stream(instr("op", reads=(window("mem", 4, 6),), writes=(window("mem", 0),))))
    binder.bound()
    return binder


def test_a_cache_serves_what_lies_behind_it() -> None:
    read, write = _bound(_cached()).instructions[0].plans
    assert [b.storage for b in read.place.banks] == [b.storage for b in write.place.banks] == ["l1"]
    assert read.place.paths == (("l1", "dram"),) and read.place.port_widths == (2,)
    assert [(q.storage, q.words, q.beats, q.bytes, q.runs) for q in read.requests({})] == [("l1", 6, 3, 24, ((4, 6),))]


def test_two_ways_to_a_memory_are_refused() -> None:
    assert _bound(_cached(two=True)).listed()[0] == (
        "op reads buffer 'mem' in dram, which it would reach over l1 (from mau) and over l1b (from mau): "
        "only one way is allowed"
    )


def test_what_is_derived_from_a_graph_goes_with_it() -> None:
    graph = _lanes(2)
    bind(graph, _nest(I, ("i", 2)))
    watched = weakref.ref(graph)
    del graph
    _lanes(1)  # the last generated graph is kept for create_ag()
    gc.collect()
    assert watched() is None


@examples(24, 300)
@given(st.integers(1, 9), st.lists(st.integers(1, 3), max_size=3), st.randoms())
def test_iterations_are_of_one_class_where_all_tables_are_equal(
    extent: int, widths: list[int], random: Random
) -> None:
    tables = [np.array([[random.randrange(2) for _ in range(width)] for _ in range(extent)]) for width in widths]
    code = classes(extent, tables)
    for a in range(extent):
        for b in range(extent):
            equal = all((table[a] == table[b]).all() for table in tables)
            assert (code[a] == code[b]) == equal
    many = np.repeat(code, 100)  # too many for one by one
    assert len(np.unique(np.stack((many, classes(len(many), [many])), axis=1), axis=0)) == len(set(code.tolist()))


@examples(100, 5000)
@given(randoms)
def test_banks_are_those_of_each_instance(r: Random) -> None:
    """The table of the loops that decide has, for every instance, the banks in which its words lie."""
    cell = r.choice((1, 2, 8, 12))
    starts = [0, *sorted(r.sample(range(1, 9), r.randint(1, 4)))]
    banks = tuple(Bank(f"bank{k}", cell * a, None) for k, a in enumerate(starts))
    loops = {v: ResolvedLoop(v, r.randint(1, 4), ()) for v in "ijk"}
    first = Affine(r.randint(0, 5))
    for v in loops:
        term = Affine.variable(v)
        first += (term if r.random() < 0.7 else term % 2) * r.choice((0, 1, 2, cell, 2 * cell))
    words = np.array(sorted(r.sample(range(3 * cell + 2), r.randint(1, 4))))
    place = Rows(first, words, banks, tuple(cell * a for a in starts))
    names, choice, sets = banks_touched(instr("work"), place, loops, {v: (0, x.extent - 1) for v, x in loops.items()})
    for index in np.ndindex(*[x.extent for x in loops.values()]):
        values = dict(zip(loops, map(int, index)))
        found = sets[int(choice[tuple(values[v] for v in names)])]
        numbers = np.searchsorted(place.starts, words + first.evaluate(values), side="right") - 1
        assert found == {banks[k].storage for k in numbers.tolist()}
