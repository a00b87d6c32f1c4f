"""The worked examples of the choices in docs/timing_semantics.md: each table there is what the simulators give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from archloom.acadl_models.acadl import (
    BACKED_BY,
    CONTAINS,
    DRAM,
    FORWARD,
    READ_DATA,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    ExecuteStage,
    FunctionalUnit,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    Semantics,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import simulate
from archloom.oracle.resolved import ResolvedInstr, ResolvedStream
from tests.support.acadl_models.simulators import InstanceLog, in_the_page, simulate_logged
from tests.support.acadl_models.timing_builders import after, front, instr, stream, window


def built(make: Callable[[], None], semantics: Semantics, **hazards: Any) -> ArchitectureGraph:
    @generate
    def example() -> None:
        make()
        regs = [RegisterFile(f"r{k}", data_width=32, registers={"r": 0}, **hazards) for k in range(2)]
        for file in regs:
            for unit in UNITS:
                ACADLEdge(file, unit, READ_DATA)
                ACADLEdge(unit, file, WRITE_DATA)
        architecture("example", buffers={"regs": regs}, semantics=semantics)

    UNITS.clear()
    example()
    return create_ag()


UNITS: list[FunctionalUnit] = []
DEFAULT = Semantics()


def unit(name: str, latency: int) -> FunctionalUnit:
    UNITS.append(FunctionalUnit(f"{name}_unit", to_process={name}, latency=latency))
    return UNITS[-1]


def run(
    make: Callable[[], None], program: ResolvedStream, semantics: Semantics = DEFAULT, **hazards: Any,
) -> list[InstanceLog]:
    graph = built(make, semantics, **hazards)
    log: list[InstanceLog] = []
    result = simulate_logged(graph, program, log)
    assert simulate(graph, program, skip=False) == simulate(graph, program) == result
    return sorted(log, key=lambda entry: entry.number)


def chain() -> None:
    issue = front(width=3)
    for name, latency in (("make", 3), ("use", 5), ("set", 1)):
        after(issue, unit(name, latency), name=f"{name}_stage")


def test_write_after_read() -> None:
    row0, row1 = window("regs", 0), window("regs", 1)
    program = stream(
        instr("make", writes=(row1,)), instr("use", reads=(row0, row1)), instr("set", writes=(row0,))
    )
    rows = []
    for choice in ("finished", "started", "ignored"):
        log = run(chain, program, write_after_read=choice)
        rows.append([f"`{choice}`", *(f"{e.started}-{e.finished}" for e in log)])
    assert rows == [["`finished`", "1-4", "4-9", "9-10"], ["`started`", "1-4", "4-9", "4-5"],
                    ["`ignored`", "1-4", "4-9", "1-2"]]
    in_the_page(rows)


def test_forwards_sums() -> None:
    def adders() -> None:
        issue = front(width=3)
        UNITS.append(FunctionalUnit("sum_unit", to_process={"sum"}, latency=4, interval=1, in_flight=4))
        after(issue, UNITS[-1], name="sum_stage")
        after(issue, unit("use", 1), name="use_stage")

    row = window("regs", 0)
    program = stream(instr("sum", accumulates=(row,)), instr("sum", accumulates=(row,)), instr("use", reads=(row,)))
    rows = []
    for choice in (True, False):
        log = run(adders, program, forwards_sums=choice)
        rows.append([f"`{choice}`", *(f"{e.started}-{e.finished}" for e in log)])
    assert rows == [["`True`", "1-5", "2-6", "6-7"], ["`False`", "1-5", "5-9", "9-10"]]
    in_the_page(rows)


def two_stages() -> None:
    issue = front(width=3)
    after(issue, unit("y", 1), name="y_stage")
    after(issue, unit("x", 3), name="x_stage")


def test_issue() -> None:
    program = stream(instr("x"), instr("x"), instr("y"))
    rows = []
    for choice in ("out_of_order", "in_order"):
        log = run(two_stages, program, Semantics(issue=choice))
        rows.append([f"`{choice}`", *(f"{e.received}-{e.finished}" for e in log)])
    assert rows == [["`out_of_order`", "1-4", "4-7", "1-2"], ["`in_order`", "1-4", "4-7", "4-5"]]
    in_the_page(rows)


def slow_fetch() -> None:
    after(front(buffer=4, fetch_latency=3), unit("x", 1))


def test_fetches_in_flight() -> None:
    program = stream(*(instr("x") for _ in range(4)))
    rows = []
    for count in (1, 2, 3):
        log = run(slow_fetch, program, Semantics(fetches_in_flight=count))
        rows.append([count, *(e.fetched for e in log), log[-1].finished])
    assert rows == [[1, 3, 6, 9, 12, 13], [2, 3, 4, 6, 7, 8], [3, 3, 4, 5, 6, 7]]
    in_the_page(rows)


def test_fetches_reserve_room() -> None:
    def narrow() -> None:
        after(front(buffer=2, fetch_latency=3), unit("x", 9))

    log = run(narrow, stream(*(instr("x") for _ in range(5))), Semantics(fetches_in_flight=4))
    # two fetches fill the issue buffer; the next starts when an instruction leaves it
    assert [e.fetched for e in log] == [3, 4, 6, 15, 24]


def slow_stage() -> None:
    issue = front()
    stage = ExecuteStage("stage", latency=2)
    ACADLEdge(issue, stage, FORWARD)
    ACADLEdge(stage, unit("x", 3), CONTAINS)


def test_stage_latency() -> None:
    program = stream(instr("x"), instr("x"))
    rows = []
    for choice in ("replaced", "added"):
        log = run(slow_stage, program, Semantics(stage_latency=choice))
        rows.append([f"`{choice}`", *(f"{e.received}-{e.finished}" for e in log)])
    assert rows == [["`replaced`", "1-4", "4-7"], ["`added`", "3-6", "8-11"]]
    in_the_page(rows)


def crossing() -> None:
    issue = front(width=2)
    older, younger = PipelineStage("older"), PipelineStage("younger")
    stage = after(younger, unit("x", 2))
    ACADLEdge(older, stage, FORWARD)
    ACADLEdge(issue, older, FORWARD)
    ACADLEdge(issue, younger, FORWARD)


def test_arbitration() -> None:
    program = stream(instr("x"), instr("x"))
    rows = []
    for choice in ("program_order", "edge_order"):
        log = run(crossing, program, Semantics(arbitration=choice))
        rows.append([f"`{choice}`", *(f"{e.received}-{e.finished}" for e in log)])
    assert rows == [["`program_order`", "2-4", "4-6"], ["`edge_order`", "4-6", "2-4"]]
    in_the_page(rows)


def test_cache_miss_end() -> None:
    @generate
    def cached(choice: str) -> None:
        memory = DRAM("memory", data_width=32, address_ranges=[(0, 64)])
        cache = SetAssociativeCache(
            "cache", data_width=32, sets=2, ways=1, cache_line_size=16, hit_latency=2, miss_latency=10
        )
        load = MemoryAccessUnit("unit", to_process={"load"}, latency=0)
        after(front(), load)
        ACADLEdge(cache, memory, BACKED_BY)
        ACADLEdge(cache, load, READ_DATA)
        architecture("cached", buffers={"mem": memory}, semantics=Semantics(cache_miss_end=choice))

    program = stream(*(instr("load", reads=(window("mem", row),)) for row in (0, 1)))
    rows = []
    for choice in ("after_hit", "after_miss"):
        graph = create_ag(cached(choice))
        log: list[InstanceLog] = []
        assert simulate_logged(graph, program, log) == simulate(graph, program)
        rows.append([f"`{choice}`", *(f"{e.started}-{e.finished}" for e in log)])
    assert rows == [["`after_hit`", "1-13", "13-15"], ["`after_miss`", "1-11", "11-13"]]
    in_the_page(rows)


@pytest.mark.parametrize("choice", ["finished", "started", "ignored"])
def test_only_a_read_before_a_write_is_concerned(choice: str) -> None:
    def one(first: ResolvedInstr, second: ResolvedInstr) -> int:
        return run(chain, stream(first, second), write_after_read=choice)[1].started

    row = window("regs", 0)
    assert one(instr("make", writes=(row,)), instr("use", reads=(row,))) == 4
    assert one(instr("make", writes=(row,)), instr("set", writes=(row,))) == 4
    assert one(instr("make", reads=(row,), writes=(row,)), instr("set", writes=(row,))) == 4
