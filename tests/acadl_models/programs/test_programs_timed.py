"""Programs timed: both simulators agree, and executing instructions when they are timed gives what a run gives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import assume, given

from archloom.acadl_models.acadl import (
    CONTAINS,
    FORWARD,
    ACADLEdge,
    ArchitectureGraph,
    ExecuteStage,
    FunctionalUnit,
    Instruction,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    Memory,
    RegisterFile,
    create_ag,
    generate,
)
from archloom.acadl_models.parts import connect
from archloom.acadl_models.programs import Run, simulate
from archloom.acadl_models.programs.execution import Machine, Step
from archloom.acadl_models.programs.places import view
from archloom.acadl_models.programs.timed import resolved
from archloom.acadl_models.systolic_array import systolic_array
from archloom.acadl_models.timing import log
from archloom.acadl_models.timing.log import Event
from archloom.acadl_models.timing.reference import log_reference
from examples.acadl_programs import move, multiply, pe
from tests.support.acadl_models.program_strategies import graphs, interpret, program, random_ops, wide
from tests.support.examples import examples, randoms

PAGE = Path(__file__).parents[3] / "docs" / "timing_semantics.md"
WORDS = [k * 37 % 256 for k in range(512)]
DATA = {"dmem0": dict(enumerate(WORDS))}
MOST = 60


@examples(25, 2000)
@given(randoms)
def test_instructions_executed_when_they_are_timed_leave_what_a_run_leaves(r: Random) -> None:
    ops = random_ops(r, jumps=r.random() < 0.5, most=20)
    assume(interpret(ops, WORDS, MOST) is not None)
    graph = wide(r)
    machine = Machine(graph, program(ops), {}, DATA)
    steps = list(machine.walk(MOST))
    events = log_reference(view(graph), resolved(graph, steps)).events
    found = replayed(Machine(graph, program(ops), {}, DATA), steps, events)
    assert (found.registers["rf0"], found.data) == (machine.registers["rf0"], machine.data)


def replayed(machine: Machine, steps: list[Step], events: tuple[Event, ...]) -> Run:
    """Each instruction reads what is there when it starts, and writes when it has finished."""
    held: dict[int, list[Any]] = {}
    for event in events:
        if event.step == log.STARTED:
            step = steps[event.number]
            machine.registers["pc0"]["pc"] = step.loaded.number
            held[event.number] = [machine.registers[r.file][r.name] for r in step.loaded.reads]
            held[event.number] += [machine.data[memory][address] for memory, address in step.reads]
        elif event.step == log.FINISHED:
            step, read = steps[event.number], held.pop(event.number)
            results = step.loaded.instruction.execute(*read)
            places = [*step.loaded.writes, *step.writes]
            for place, value in zip(places, results if len(places) > 1 else [results]):
                if isinstance(place, tuple):
                    machine.data[place[0]][place[1]] = value
                else:
                    machine.registers[place.file][place.name] = value
    assert not held
    return machine.run()


@examples(15, 2000)
@given(randoms)
def test_both_simulators_agree_on_programs_without_jumps(r: Random) -> None:
    if r.random() < 0.5:
        graph, made, data = graphs(r), program(random_ops(r, jumps=False)) * r.choice((1, 9)), DATA
    else:
        rows, columns = r.randint(1, 3), r.randint(1, 3)
        graph, made, data = systolic_array(rows, columns, level="scalar"), list(of_array(r, rows, columns)), {}
    steps = sum(1 for _ in Machine(graph, made, {}, data).walk(1000))
    stepped = simulate(graph, made, data=data, simulator="reference")
    found = simulate(graph, made, data=data)
    assert (found.timing, found.simulator, found.why, found.run) == (stepped.timing, "engine", "", stepped.run)
    assert found.timing.instructions == found.run.steps == steps


def of_array(r: Random, rows: int, columns: int) -> Iterator[Instruction]:
    """Instructions of a systolic array in any order, some of them over and over."""
    choices = [move("load_west", "memory.left", r.randrange(9), pe(i, 0, "west")) for i in range(rows)]
    choices += [move("load_north", "memory.top", r.randrange(9), pe(0, j, "north")) for j in range(columns)]
    choices += [multiply(rows, columns, i, j) for i, j in product(range(rows), range(columns))]
    for i, j in product(range(rows), range(columns)):
        choices.append(Instruction("store_own", [pe(i, j, "own")], write_addresses=[("memory.out", r.randrange(4))],
                                   function=lambda own: own))
    some = r.choices(choices, k=r.randint(1, 12))
    for _ in range(r.choice((1, 8))):
        yield from some


def jumping() -> ArchitectureGraph:
    @generate
    def machine() -> None:
        fetch = InstructionFetchStage("ifs", issue_buffer_size=4)
        unit = InstructionMemoryAccessUnit("imau", to_process={"beq"}, latency={"*": 0, "beq": 1})
        memory = Memory("imem", data_width=32, port_width=2, read_latency=2, address_ranges=[(0, 64)])
        counter, file = RegisterFile("pcrf", registers={"pc": 0}), RegisterFile("rf", registers={"r0": 0, "r1": 0})
        stage, alu = ExecuteStage("ex"), FunctionalUnit("fu", to_process={"mov"})
        ACADLEdge(fetch, unit, CONTAINS)
        ACADLEdge(fetch, stage, FORWARD)
        ACADLEdge(stage, alu, CONTAINS)
        connect(unit, [memory, counter, file], [counter])
        connect(alu, [file], [file])

    return create_ag(machine())


def test_the_fetch_stage_waits_for_a_jump() -> None:
    graph = jumping()
    mov = [Instruction("mov", write_registers=[f"r{k}"], function=lambda: 0) for k in range(2)]
    beq = Instruction("beq", ["r0"], ["pc"], function=lambda r0: 3 if r0 == 0 else 2)
    made = [mov[0], beq, mov[0], mov[1]]
    found = simulate(graph, made)
    assert (found.run.steps, found.simulator, found.cycles) == (3, "reference", 7)
    assert "'beq' writes the program counter" in found.why
    fetches = found.timing.storage("imem")
    assert (fetches.read_requests, fetches.words_read, fetches.read.peak_cycles) == (2, 3, 1)
    events = log_reference(view(graph), resolved(graph, Machine(graph, made, {}, {}).walk(9))).events
    times = {(e.number, e.step): e.time for e in events}
    for k, name in enumerate(("`mov r0`", "`beq`", "`mov r1`")):
        row = [times[k, step] for step in (log.FETCHED, log.STARTED, log.FINISHED)]
        assert f"| {name} | {row[0]} | {row[1]}-{row[2]} |" in PAGE.read_text(encoding="utf-8")
