"""Statistics on small runs that can be counted by hand: rates of ports, loops, starved units, stages."""

from __future__ import annotations

from typing import Any

import pytest

from archloom.acadl_models.acadl import (
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    FunctionalUnit,
    MemoryAccessUnit,
    PipelineStage,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.result import PortTiming, TimingResult
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import ResolvedLoop, ResolvedNode, ResolvedStream
from tests.support.acadl_models.simulators import agreed
from tests.support.acadl_models.timing_builders import COLS, after, front, instr, stream, window

I = Affine.variable("i")


def run(graph: ArchitectureGraph, program: ResolvedStream) -> TimingResult:
    """What the simulators agree on, which JSON keeps."""
    result = agreed(graph, program)
    assert TimingResult.from_json(result.to_json()) == result
    return result


def memory(*, units: int = 1, **storage: Any) -> ArchitectureGraph:
    """Units ``load0``, ``load1``, ... that read and write ``mem``, words of 4 bytes."""

    @generate
    def build() -> None:
        fetch = front(width=units)
        mem = SRAM("mem", data_width=32, address_ranges=[(0, 64)], read_write_ports=9, **storage)
        for k in range(units):
            unit = MemoryAccessUnit(f"load{k}", to_process={f"op{k}"}, latency=1)
            ACADLEdge(mem, unit, READ_DATA)
            ACADLEdge(unit, mem, WRITE_DATA)
            after(fetch, unit, name=f"ex{k}")
        architecture(buffers={"mem": mem})

    return create_ag(build())


def loop(count: int, *body: ResolvedNode, var: str = "i") -> ResolvedLoop:
    return ResolvedLoop(var, count, body)


def test_a_request_moves_its_words_in_its_last_beats() -> None:
    # fetched at 1, 5 words of 4 bytes over a port of 2 words: 3 beats of 7, 7 and 6 bytes, in cycles 4, 5 and 6
    result = run(memory(port_width=2, read_latency=4), stream(instr("op0", reads=(window("mem", 0, 5),))))
    mem = result.storage("mem")
    assert mem.read == PortTiming(20, 3, 7, 2) and mem.write == PortTiming()
    assert mem.words_read == 5 and mem.words_written == 0
    assert mem.read.mean_bytes_per_cycle(result.cycles) == 20 / result.cycles
    assert mem.read.peak_share(result.cycles) == 2 / result.cycles


def test_requests_in_several_slots_add_up() -> None:
    # both read 4 bytes in each of 6 cycles, and start in the same cycle
    reads = [instr(f"op{k}", reads=(window("mem", 8 * k, 6),)) for k in range(2)]
    apart = run(memory(units=2, max_concurrent_requests=2), stream(*reads)).storage("mem")
    assert apart.read == PortTiming(48, 6, 8, 6)
    shared = run(memory(units=2, max_concurrent_requests=2, shared_port=True), stream(*reads)).storage("mem")
    assert shared.read == PortTiming(48, 12, 4, 12)


def test_reads_and_writes_have_rates_of_their_own() -> None:
    body = instr("op0", reads=(window("mem", 0, 2),), writes=(window("mem", 4, 3),))
    mem = run(memory(port_width=4), stream(loop(50, body))).storage("mem")
    assert mem.read == PortTiming(50 * 8, 50, 8, 50) and mem.write == PortTiming(50 * 12, 50, 12, 50)


def test_the_peak_that_comes_late_is_multiplied_out() -> None:
    small, large = instr("op0", reads=(window("mem", 0, 1),)), instr("op0", reads=(window("mem", 0, 4),))
    program = stream(loop(300, small), loop(400, large, var="j"), loop(300, small, var="k"))
    result = run(memory(port_width=4), program)
    assert result.storage("mem").read.peak_bytes_per_cycle == 16
    assert result.storage("mem").read.peak_cycles == 400
    assert simulate(memory(port_width=4), program).skipped_share > 0.9


def test_an_instruction_memory_carries_each_fetch_in_a_cycle() -> None:
    imem = run(memory(units=2), stream(loop(5, instr("op0", reads=(window("mem", 0),))))).storage("imem")
    assert imem.read == PortTiming(5 * 4, 3, 8, 2)  # two fetches of two instructions, one of one


def test_loops_divide_the_run_among_them() -> None:
    body = instr("op0", reads=(window("mem", I),))
    program = stream(
        body_once := instr("op0", writes=(window("mem", 0),)),
        loop(6, loop(4, body, var="j"), instr("op0", reads=(window("mem", 1),)), loop(0, body, var="none")),
        loop(3, body_once, var="k"),
    )
    result = run(memory(), program)
    i, j, k = result.loop("i"), result.loop("i/j"), result.loop("k")
    assert [x.path for x in result.loops] == [("i",), ("i", "j"), ("k",)] and j.name == "i/j"
    assert [(x.executions, x.iterations) for x in result.loops] == [(1, 6), (6, 24), (1, 3)]
    assert [x.source for x in result.loops] == [0, 1, 3]
    each = 3  # taken when the last one has finished, a cycle to read, a cycle of latency
    assert j.cycles == 24 * (each - 1) and i.cycles == j.cycles + 6 * (each - 1)
    assert i.cycles + k.cycles < result.cycles
    with pytest.raises(KeyError, match="'m' is none of i, i/j, k"):
        result.loop("m")


def test_iterations_that_were_stepped_are_told_from_those_multiplied_out() -> None:
    program = stream(loop(100_000, instr("op0", reads=(window("mem", 0),))))
    found = simulate(memory(), program).loop("i")
    assert found.iterations == 100_000 and 2 <= found.stepped_iterations < 50
    assert simulate(memory(), program, skip=False).loop("i").stepped_iterations == 100_000


def pipeline(stage_latency: int, unit_latency: int, fetch_latency: int = 1) -> ArchitectureGraph:
    @generate
    def build() -> None:
        stage = PipelineStage("decode", latency=stage_latency)
        ACADLEdge(front(fetch_latency=fetch_latency), stage, FORWARD)
        after(stage, FunctionalUnit("fu", to_process={"op"}, latency=unit_latency))

    return create_ag(build())


def test_a_stage_is_stalled_by_a_slow_unit_and_a_unit_starved_by_slow_fetches() -> None:
    slow_unit = run(pipeline(2, 5), stream(loop(10, instr("op"))))
    decode = slow_unit.stage("decode")
    assert decode.busy_cycles == 10 * 2 and decode.stall_cycles == 9 * 3
    assert decode.busy_cycles + decode.stall_cycles + decode.idle_cycles == slow_unit.cycles
    assert slow_unit.unit("fu").utilization == 50 / slow_unit.cycles
    slow_fetch = run(pipeline(1, 1, fetch_latency=9), stream(loop(10, instr("op"))))
    unit, fetch = slow_fetch.unit("fu"), slow_fetch.stage("ifs")
    assert unit.busy_cycles == 10 and unit.starved_cycles > 7 * 10 and unit.cycles == slow_fetch.cycles
    assert fetch.busy_cycles == 9 * 10 and fetch.stall_cycles == 0
    assert COLS == 4
