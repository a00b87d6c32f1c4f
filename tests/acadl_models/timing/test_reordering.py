"""Reorder buffers and renamed registers: the tables of the page, what holds in any run, and both simulators agree."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest
from hypothesis import given

from archloom.acadl_models.acadl import (
    READ_DATA,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    FunctionalUnit,
    RegisterFile,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.timing.engine.window import log_window
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.program import AccessPlan
from archloom.acadl_models.timing.reference import log_reference, simulate_reference
from archloom.acadl_models.timing.tracks import tracks
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import Buffer, ResolvedLoop, ResolvedNode, ResolvedStream
from tests.acadl_models.timing.test_timing_semantics import in_the_page
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.reordering import random_reordering, renamed, reordered
from tests.support.acadl_models.simulators import InstanceLog, agreed, check_equal, outcome, simulate_logged
from tests.support.acadl_models.timing_builders import COLS, after, front, instr, stream, window
from tests.support.examples import examples, randoms

REGISTERS = 8


def machine(registers: int = REGISTERS) -> ArchitectureGraph:
    """Units that load (5 cycles), use (2), add up in (6) and set (1) registers, an instruction a cycle each."""

    @generate
    def four_units() -> None:
        fetch = front(width=4, buffer=16)
        file = RegisterFile("file", data_width=8 * COLS, registers={f"r{k}": 0 for k in range(registers)})
        for name, latency in (("load", 5), ("use", 2), ("sum", 6), ("set", 1)):
            unit = FunctionalUnit(name, to_process={name}, latency=latency, interval=1, in_flight=latency)
            after(fetch, unit, name=f"{name}_stage")
            ACADLEdge(file, unit, READ_DATA)
            ACADLEdge(unit, file, WRITE_DATA)
        architecture(buffers={"regs": file})

    return create_ag(four_units())


def program(*body: ResolvedNode, registers: int = REGISTERS) -> ResolvedStream:
    return dataclasses.replace(stream(*body), buffers=(Buffer("regs", (registers, COLS), "i8"),))


def logged(graph: ArchitectureGraph, text: ResolvedStream) -> tuple[TimingResult, list[InstanceLog]]:
    """The run, which both simulators find, by instructions."""
    log: list[InstanceLog] = []
    result = simulate_logged(graph, text, log)
    assert simulate(graph, text) == simulate(graph, text, skip=False) == result
    return result, sorted(log, key=lambda entry: entry.number)


def load(row: Affine | int, **more: int) -> ResolvedNode:
    return instr("load", writes=(window("regs", row, **more),))


def use(row: Affine | int, **more: int) -> ResolvedNode:
    return instr("use", reads=(window("regs", row, **more),))


# --- the tables of docs/timing_semantics.md ----------------------------------------------------------------------
def test_reorder_buffers() -> None:
    @generate
    def two_units() -> None:
        fetch = front(width=3, buffer=3)
        after(fetch, FunctionalUnit("slow_unit", to_process={"slow"}, latency=4), name="slow_stage")
        after(fetch, FunctionalUnit("quick_unit", to_process={"quick"}, latency=1), name="quick_stage")
        architecture()

    plain = create_ag(two_units())
    rows: list[list[object]] = []
    for entries, *widths in ((None, None, None), (3, None, None), (3, 1, None), (3, None, 1), (2, None, None)):
        graph = plain if entries is None else reordered(plain, entries, *widths)
        result, log = logged(graph, program(instr("slow"), instr("quick"), instr("quick")))
        stated = [entries or "none", *(width or "any" for width in widths)]
        rows.append([*stated, *(f"{e.started}-{e.finished}" for e in log), result.cycles])
    assert rows[0][3:] == rows[1][3:] == ["1-5", "1-2", "2-3", 5]
    assert [row[3:] for row in rows[2:]] == [
        ["1-5", "2-3", "3-4", 5], ["1-5", "1-2", "2-3", 7], ["1-5", "1-2", "5-6", 6]]
    in_the_page(rows)


def test_renaming() -> None:
    rows: list[list[object]] = []
    for more in (0, 1, 2):
        graph = reordered(machine(registers=1), 8)
        _, log = logged(renamed(graph, more) if more else graph, program(load(0), use(0), load(0), use(0), registers=1))
        rows.append([f"{1 + more} of 1" if more else "none", *(f"{e.started}-{e.finished}" for e in log)])
    assert [row[1:] for row in rows] == [
        ["1-6", "6-8", "8-13", "13-15"], ["1-6", "6-8", "6-11", "11-13"], ["1-6", "6-8", "2-7", "7-9"]]
    in_the_page(rows)


# --- what is waited for ------------------------------------------------------------------------------------------
def starts(*body: ResolvedNode) -> list[int]:
    """When instructions start, with registers enough."""
    return [e.started for e in logged(renamed(reordered(machine(), 64), 32), program(*body))[1]]


def test_what_is_overwritten_is_not_waited_for() -> None:
    set_ = instr("set", writes=(window("regs", 0),))
    assert starts(load(0), set_, use(0)) == [1, 1, 2]


def test_what_is_written_in_part_is_merged() -> None:
    part = instr("set", writes=(window("regs", 0, cols=2),))
    assert starts(load(0), part, use(0, col=2, cols=2)) == [1, 6, 7]
    two_halves = instr("set", writes=(window("regs", 0, cols=2), window("regs", 0, col=2, cols=2)))
    assert starts(load(0), two_halves) == [1, 6]  # each of them is a part


def test_what_has_accumulated_is_waited_for() -> None:
    sums = instr("sum", accumulates=(window("regs", 0),))
    assert starts(load(0), sums, sums, use(0)) == [1, 6, 7, 13]
    assert starts(load(0), sums, load(0), sums, use(0)) == [1, 6, 2, 7, 13]


def test_groups_of_registers_are_waited_for_one_by_one() -> None:
    set_ = instr("set", writes=(window("regs", 0, 2),))
    assert starts(load(0, rows=4), set_, use(0, rows=2), use(1, rows=2)) == [1, 1, 2, 6]


@examples(12, 2000)
@given(randoms)
def test_nothing_is_read_before_it_is_written(r: Random) -> None:
    """Element by element: whoever reads one starts when the last instruction before that wrote it is finished."""
    graph = random_reordering(r, random_graph(r, spread=r.random() < 0.5))
    text = random_stream(r, graph, 60)
    log: list[InstanceLog] = []
    if isinstance(outcome(simulate_logged, graph, text, log), str):
        return
    finished: dict[int, int] = {}
    ready: dict[tuple[str, int], int] = {}
    bound = bind(graph, text)
    for e in sorted(log, key=lambda entry: entry.number):
        static, values = bound.names.find(e.number)
        plans = [plan for plan in static.plans if plan.place.renamed]
        finished[e.number] = e.finished
        for element in elements(plans, values, "read"):
            assert ready.get(element, 0) <= e.started
        ready.update(dict.fromkeys(elements(plans, values, "write"), e.finished))


def elements(plans: list[AccessPlan], values: object, kind: str) -> list[tuple[str, int]]:
    return [
        (plan.buffer.name, int(number))
        for plan in plans if plan.access.kind == kind
        for number in plan.elements + plan.element_offset.evaluate(values)  # type: ignore[arg-type]
    ]


# --- both simulators ---------------------------------------------------------------------------------------------
MOST = (30, 200, 900)


@examples(20, 6000)
@given(randoms)
def test_the_engine_equals_the_step_by_step_simulator(r: Random) -> None:
    semantics = SEMANTICS if r.random() < 0.5 else ()
    graph = random_reordering(r, random_graph(r, semantics=semantics, spread=r.random() < 0.3))
    check_equal(graph, random_stream(r, graph, r.choice(MOST)))


@examples(6, 2000)
@given(randoms)
def test_with_caches_banks_and_links(r: Random) -> None:
    graph = random_reordering(r, random_graph(r, semantics=SEMANTICS, storages_of=lambda r: random_memories(r, 24)))
    check_equal(graph, random_stream(r, graph, r.choice(MOST), 24))


@examples(12, 2000)
@given(randoms)
def test_a_large_reorder_buffer_changes_nothing(r: Random) -> None:
    graph = random_graph(r, semantics=SEMANTICS)
    text = random_stream(r, graph, r.choice(MOST))
    found = outcome(simulate, graph, text)
    if isinstance(found, TimingResult):  # a deadlock counts what is left, and what has not committed is
        assert outcome(simulate, reordered(graph, 1000), text) == found


@examples(8, 1000)
@given(randoms)
def test_a_window_is_the_part_of_the_whole_log(r: Random) -> None:
    graph = random_reordering(r, random_graph(r))
    text = random_stream(r, graph, 200)
    try:
        log = log_reference(graph, text)
    except GraphError:
        return
    begin = r.randrange(log.end)
    seen = log_window(graph, text, begin, r.choice((1, 7, 60)))
    assert tracks(seen) == tracks(log, begin, seen.end)


def test_random_streams_are_skipped_stepped_and_deadlock() -> None:
    """The properties are not empty."""
    found = []
    for seed in range(200):
        r = Random(seed)
        graph = random_reordering(r, random_graph(r))
        found.append(outcome(simulate, graph, random_stream(r, graph, r.choice(MOST))))
    results = [each for each in found if isinstance(each, TimingResult)]
    assert len(results) > 30
    assert sum(each.skipped_share > 0.04 for each in results) >= 3
    assert any(isinstance(each, str) and each.startswith("deadlock") for each in found)


# --- loops -------------------------------------------------------------------------------------------------------
i = Affine.variable("i")


@pytest.mark.parametrize("row", [0, i % 3, i % 3 * 2])
def test_steady_loops_are_skipped(row: Affine | int) -> None:
    body = load(row), use(row), instr("sum", reads=(window("regs", row),), accumulates=(window("regs", 7),))
    text = program(ResolvedLoop("i", 3000, body))
    graph = renamed(reordered(machine(), 24, 3, 3), 4)
    assert simulate(graph, text) == simulate(graph, text, skip=False)
    assert simulate(graph, text).stepped_instructions < 400


def test_registers_that_walk_are_stepped() -> None:
    """Every iteration names other registers: none is as one before."""
    large = 1 << 10
    text = program(ResolvedLoop("i", large, (load(i), use(large - 1 - i))), registers=large)
    graph = renamed(reordered(machine(registers=large), 24), 4)
    assert agreed(graph, text).stepped_instructions == 2 * large


# --- what is refused ---------------------------------------------------------------------------------------------
def test_more_registers_than_there_can_be() -> None:
    graph = renamed(reordered(machine(), 24), 2)
    message = (
        r"deadlock in cycle 2: 2 of 2 instructions are left"
        r"(.|\n)*instruction 0 load waits for 3 physical registers of file \(RegisterFile\), in ifs"
        r"(.|\n)*instruction 1 load waits for instruction 0 load to be decoded, in ifs"
    )
    for run in (simulate, simulate_reference):
        with pytest.raises(GraphError, match=message):
            run(graph, program(load(0, rows=3), load(0)))


def test_a_place_in_a_register_that_depends_on_loops() -> None:
    graph = renamed(reordered(machine(), 24), 2)
    text = program(ResolvedLoop("i", 2, (instr("use", reads=(window("regs", 0, col=i * 2, cols=2),)),)))
    with pytest.raises(GraphError, match="use reads 'regs' from .* on: the place in a renamed register must"):
        simulate(graph, text)


def test_a_buffer_with_more_registers_than_the_file() -> None:
    graph = renamed(reordered(machine(registers=4), 24), 2)
    with pytest.raises(GraphError, match="load writes buffer 'regs', of 8 registers, more than file has"):
        simulate(graph, program(load(0)))
