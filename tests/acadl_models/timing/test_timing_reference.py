"""The step-by-step simulator on machines so small that the cycles can be worked out by hand: the sums are beside them.

With the standard front end instruction ``k`` is in the issue buffer, and may leave it, from cycle ``k + 1`` on.
"""

from __future__ import annotations

from typing import Any

import pytest

from archloom.acadl_models.acadl import (
    CONTAINS,
    DRAM,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle.errors import GraphError, StreamError
from archloom.oracle.resolved import ResolvedLoop
from tests.support.acadl_models.small_machines import I, alu, finished, loop, mover, run
from tests.support.acadl_models.timing_builders import COLS, ROWS, after, front, hbm, instr, stream, window


def test_a_unit_takes_the_next_instruction_when_it_has_finished_the_last() -> None:
    # 1..4, 4..7, 7..10
    result, log = run(alu(latency=3), stream(loop(3, instr("op"))))
    assert finished(log) == [4, 7, 10]
    assert result.unit("fu").busy_cycles == 9 and result.unit("fu").starved_cycles == 1


def test_an_empty_stream_takes_no_time() -> None:
    result, _ = run(alu(), stream())
    assert result.cycles == 0 and result.instructions == 0


def test_a_pipeline_moves_in_lockstep() -> None:
    # instruction k: p0 at k+1, p1 at k+2, p2 at k+3, unit at k+4, finished at k+5
    result, log = run(alu(stages=3), stream(loop(5, instr("op"))))
    assert finished(log) == [5, 6, 7, 8, 9]
    assert [s.stall_cycles for s in result.stages] == [0, 0, 0, 0, 0]
    assert [s.instructions for s in result.stages] == [5, 5, 5, 5, 5]


def test_a_structural_hazard_stalls_the_stage_before() -> None:
    # unit: 2..6, 6..10, 10..14; the stage could give away its second instruction from 3 on, its third from 7 on
    result, log = run(alu(stages=1, latency=4), stream(loop(3, instr("op"))))
    assert finished(log) == [6, 10, 14]
    assert result.stage("p0").stall_cycles == 3 + 3


def test_interval_lets_instructions_overlap_up_to_in_flight() -> None:
    # starts 1, 3, 5, 7; each takes 6
    _, log = run(alu(latency=6, interval=2, in_flight=8), stream(loop(4, instr("op"))))
    assert finished(log) == [7, 9, 11, 13]
    # two at a time: starts 1, 3, then when the first and the second finish: 7, 9
    result, log = run(alu(latency=6, interval=2, in_flight=2), stream(loop(4, instr("op"))))
    assert finished(log) == [7, 9, 13, 15]
    assert result.unit("fu").busy_cycles == 8
    assert result.unit("fu").storage_stall_cycles == 2 + 2  # full in 5 and 6, and in 11 and 12


def test_latency_and_interval_per_mnemonic() -> None:
    @generate
    def build() -> None:
        unit = FunctionalUnit(
            "fu", to_process={"slow", "quick"}, in_flight=9,
            latency={"slow": "n + 1", "*": 1}, interval={"slow": 5, "*": 1},
        )
        after(front(), unit)

    body = (instr("slow", attributes={"n": 6}), instr("quick"), instr("quick"))
    # slow 1..8, and the unit is ready again at 6: quick 6..7, 7..8
    assert finished(run(create_ag(build()), stream(*body))[1]) == [8, 7, 8]


def test_names_are_attributes_before_registers_before_parameters() -> None:
    graph = alu(latency="a + 10 * b + 100 * c")
    one = instr("op", attributes={"a": 1}, registers={"a": 7, "b": 2})
    program = stream(one, parameters={"a": 8, "b": 9, "c": 3})
    assert run(graph, program)[0].cycles == 1 + 321


def test_latencies_follow_loop_variables() -> None:
    program = stream(loop(3, instr("op", attributes={"n": I * 2 + 1})))
    # 1..2, 2..5, 5..10
    assert finished(run(alu(latency="n"), program)[1]) == [2, 5, 10]


def test_issue_is_out_of_order_among_stages_and_in_order_towards_one() -> None:
    graph = two_units(latency_a=5, latency_b=1, pipelined=False)
    _, log = run(graph, stream(instr("a"), instr("a"), instr("b"), instr("b")))
    # a: 1..6, 6..11; b: 3..4, 4..5
    assert finished(log) == [6, 11, 4, 5]


def test_several_instructions_are_fetched_and_issued_in_a_cycle() -> None:
    graph = two_units(latency_a=5, latency_b=1, width=4, pipelined=False)
    _, log = run(graph, stream(instr("a"), instr("b"), instr("a"), instr("b"), instr("b")))
    # four at 1, the fifth at 2: a 1..6, 6..11; b 1..2, 2..3, 3..4
    assert finished(log) == [6, 2, 11, 3, 4]


def test_a_full_issue_buffer_stalls_the_fetch() -> None:
    # two at 1; no room for two until 4, when the second leaves: two more at 5
    result, log = run(alu(width=2, buffer=2, latency=3), stream(loop(4, instr("op"))))
    assert finished(log) == [4, 7, 10, 13]
    assert [entry.fetched for entry in log] == [1, 1, 5, 5]
    assert result.stage("ifs").stall_cycles == 3 and result.stage("ifs").instructions == 4
    memory = result.storage("imem")
    assert (memory.read_requests, memory.bytes_read, memory.busy_beats) == (2, 16, 2)


def test_the_last_fetch_needs_room_only_for_what_is_left() -> None:
    # two at 1; one is left, so one place is enough: fetched 1..2
    _, log = run(alu(width=2, buffer=2, latency=3), stream(loop(3, instr("op"))))
    assert [entry.fetched for entry in log] == [1, 1, 2]


def test_fetches_do_not_overlap() -> None:
    @generate
    def build() -> None:
        after(front(fetch_latency=3), FunctionalUnit("fu", to_process={"op"}))

    _, log = run(create_ag(build()), stream(loop(3, instr("op"))))
    assert [entry.fetched for entry in log] == [3, 6, 9]


@pytest.mark.parametrize(("depth", "b_finishes"), [(1, 9), (3, 5)])
def test_a_deeper_queue_frees_the_issue_buffer(depth: int, b_finishes: int) -> None:
    @generate
    def build() -> None:
        issue = front(buffer=1)
        queue = PipelineStage("queue", depth=depth)
        ACADLEdge(issue, queue, FORWARD)
        after(queue, FunctionalUnit("a", to_process={"a"}, latency=5), name="ex_a")
        after(issue, FunctionalUnit("b", to_process={"b"}), name="ex_b")

    _, log = run(create_ag(build()), stream(instr("a"), instr("a"), instr("a"), instr("b")))
    # a: 2..7, 7..12, 12..17. Depth 1: the third a leaves the buffer at 7, b is fetched 7..8. Depth 3: at 3, 3..4
    assert finished(log) == [7, 12, 17, b_finishes]


# --- dependences -------------------------------------------------------------------------------------------------
def two_units(
    *, latency_a: int, latency_b: int, width: int = 1, shared: bool = True, pipelined: bool = True
) -> ArchitectureGraph:
    """Units ``a`` and ``b`` in stages of their own, and registers that both (or only ``a``) reach."""
    extra: dict[str, Any] = {"interval": 1, "in_flight": 8} if pipelined else {}

    @generate
    def build() -> None:
        issue = front(width=width)
        registers = RegisterFile("rf", data_width=8, registers={f"r{i}": 0 for i in range(16)})
        for name, latency in (("a", latency_a), ("b", latency_b)):
            unit = FunctionalUnit(name, to_process={name}, latency=latency, **extra)
            after(issue, unit, name=f"ex_{name}")
            if name == "a" or shared:
                ACADLEdge(registers, unit, READ_DATA)
                ACADLEdge(unit, registers, WRITE_DATA)
        architecture("two", buffers={"regs": registers})

    return create_ag(build())


R0, R1 = window("regs", 0), window("regs", 1)


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        ({"writes": (R0,)}, {"reads": (R0,)}, True),
        ({"reads": (R0,)}, {"writes": (R0,)}, True),
        ({"writes": (R0,)}, {"writes": (R0,)}, True),
        ({"accumulates": (R0,)}, {"reads": (R0,)}, True),
        ({"writes": (R0,)}, {"accumulates": (R0,)}, True),
        ({"reads": (R0,)}, {"reads": (R0,)}, False),
        ({"accumulates": (R0,)}, {"accumulates": (R0,)}, False),
        ({"writes": (R0,)}, {"reads": (R1,)}, False),
        ({"writes": (window("regs", 0, cols=2),)}, {"reads": (window("regs", 0, col=2, cols=2),)}, False),
        ({"writes": (window("regs", 0, 2, stride=2),)}, {"reads": (window("regs", 1, 2, stride=2),)}, False),
        ({"writes": (window("regs", 0, 2, stride=2),)}, {"reads": (window("regs", 1, 2),)}, True),
    ],
)
def test_conflicts(first: dict[str, Any], second: dict[str, Any], waits: bool) -> None:
    graph = two_units(latency_a=5, latency_b=1)
    result, log = run(graph, stream(instr("a", **first), instr("b", **second)))
    # a: 1..6; b is taken at 2, and starts at 6 if it waits
    assert finished(log) == [6, 7 if waits else 3]
    assert result.unit("b").dependency_stall_cycles == (4 if waits else 0)


def test_registers_that_one_unit_alone_reaches_are_ordered_by_it() -> None:
    body = (instr("a", writes=(R0,)), instr("a", reads=(R0,)))
    assert finished(run(two_units(latency_a=5, latency_b=1, shared=False), stream(*body))[1]) == [6, 7]
    assert finished(run(two_units(latency_a=5, latency_b=1), stream(*body))[1]) == [6, 11]


def test_a_conflict_counts_while_the_earlier_instruction_is_in_the_issue_buffer() -> None:
    graph = two_units(latency_a=5, latency_b=1)
    body = (instr("a"), *[instr("a")] * 8, instr("a", writes=(R0,)), instr("b", reads=(R0,)))
    _, log = run(graph, stream(*body))
    # eight a in flight at once: the last one starts at 1 + 9 and ends 5 later; only then b, one cycle
    assert log[-2].finished == 15 and log[-1].started == 15 and log[-1].received == 11


# --- units ----------------------------------------------------------------------------------------------------------
def test_the_first_unit_that_reaches_the_buffers_takes_the_instruction() -> None:
    @generate
    def build() -> None:
        memory = SRAM("memory", data_width=8 * COLS, address_ranges=[(0, ROWS)])
        blind = FunctionalUnit("blind", to_process={"op"}, latency=50)
        seeing = MemoryAccessUnit("seeing", to_process={"op"})
        after(front(), blind, seeing)
        ACADLEdge(memory, seeing, READ_DATA)
        architecture("choice", buffers={"mem": memory})

    graph = create_ag(build())
    assert run(graph, stream(instr("op", reads=(window("mem", 0),))))[1][0].unit == "seeing"
    assert run(graph, stream(instr("op")))[1][0].unit == "blind"


def test_a_stage_that_has_no_unit_for_an_instruction_buffers_it() -> None:
    @generate
    def build() -> None:
        first = after(front(), FunctionalUnit("a", to_process={"a"}), name="first")
        second = ExecuteStage("second", latency=4)
        ACADLEdge(first, second, FORWARD)
        after(second, FunctionalUnit("b", to_process={"b"}), name="third")
        ACADLEdge(second, FunctionalUnit("c", to_process={"c"}), CONTAINS)

    # b: first at 1, second at 2 for 4 cycles, third at 6; a waits for the first stage until 2
    assert finished(run(create_ag(build()), stream(instr("b"), instr("a")))[1]) == [7, 3]


# --- errors ------------------------------------------------------------------------------------------------------
def test_a_deadlock_names_the_instructions_and_what_they_wait_for() -> None:
    @generate
    def build() -> None:
        issue = front()
        slow = PipelineStage("slow", latency=5)
        ACADLEdge(issue, slow, FORWARD)
        memory = SRAM("memory", data_width=8 * COLS, address_ranges=[(0, ROWS)])
        unit = MemoryAccessUnit("mau", to_process={"op"}, latency=3)
        stage = after(issue, unit)
        ACADLEdge(slow, stage, FORWARD)
        ACADLEdge(unit, memory, WRITE_DATA)
        architecture("overtaken", buffers={"mem": memory})

    # while the first is in the unit, the second goes the slow way; the third overtakes it and depends on it
    with pytest.raises(GraphError) as raised:
        simulate_reference(create_ag(build()), stream(instr("op"), *[instr("op", writes=(window("mem", 0),))] * 2))
    assert raised.value.faults == [
        "deadlock in cycle 7: 2 of 3 instructions are left",
        "instruction 1 op waits for room in ex (ExecuteStage), in slow (PipelineStage)",
        "instruction 2 op waits for instruction 1 op to finish, in mau (MemoryAccessUnit)",
    ]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (alu(latency="n - 2"), r"fu \(FunctionalUnit\): latency 'n - 2' is 0 for 'op'; it must be at least 1"),
        (alu(latency=1, interval="n - 2"), r"fu .*: interval 'n - 2' is 0 for 'op'; it must be at least 1"),
        (alu(latency="n // (n - 2)"), r"fu .*: latency 'n // \(n - 2\)' divides by a number that is not positive for"),
        (alu(latency="m"), r"fu .*: latency 'm' names m, unknown for 'op' \(known: n\)"),
    ],
)
def test_bad_latencies(graph: ArchitectureGraph, message: str) -> None:
    for simulator in (simulate_reference, simulate):
        with pytest.raises(GraphError, match=message):
            simulator(graph, stream(instr("op", attributes={"n": 2})))


def test_numbers_beyond_the_machine_words_of_the_engine_are_refused() -> None:
    loop = ResolvedLoop("i", 4, (instr("op", attributes={"n": "i"}),))
    with pytest.raises(GraphError, match=r"fu .*: latency .* needs numbers of more than 62 bits for 'op'"):
        simulate(alu(latency="1 + n * 999999999999 * 999999999999"), stream(loop))


def test_bad_latency_of_a_storage() -> None:
    with pytest.raises(GraphError, match=r"mem0 .*: read_latency '2 - words' is 0 for 'op'; it must be at least 1"):
        simulate_reference(mover(read_latency="2 - words"), stream(instr("op", reads=(window("mem", 0, 2),))))


def test_streams_that_the_graph_cannot_process() -> None:
    with pytest.raises(GraphError) as raised:
        simulate_reference(alu(), stream(instr("op", reads=(window("mem", 0),)), instr("mul")))
    assert raised.value.faults == [
        "op reads buffer 'mem', which lies in no storage of the graph (its buffers: none)",
        "no unit processes 'mul': it is in the to_process of none",
    ]
    graph = two_units(latency_a=1, latency_b=1, shared=False)
    with pytest.raises(GraphError, match=r"no unit processes 'b': b .* has no edge READ_DATA rf -> b"):
        simulate_reference(graph, stream(instr("b", reads=(R0,))))


def test_words_that_do_not_divide_a_buffer() -> None:
    @generate
    def build() -> None:
        unit = MemoryAccessUnit("mau", to_process={"op"})
        after(front(), unit)
        memory = SRAM("memory", data_width=24, address_ranges=[(0, ROWS)])
        ACADLEdge(memory, unit, READ_DATA)
        architecture("odd", buffers={"mem": memory})

    message = r"op reads buffer 'mem' \(64x4 i8\), which does not divide into words of memory: 24 bits"
    with pytest.raises(GraphError, match=message):
        simulate_reference(create_ag(build()), stream(instr("op", reads=(window("mem", 0),))))


def test_hbm_larger_than_the_dram() -> None:
    @generate
    def build() -> None:
        unit = MemoryAccessUnit("mau", to_process={"op"})
        after(front(), unit)
        memory = DRAM("dram", address_ranges=[(0, 1024)])
        ACADLEdge(memory, unit, READ_DATA)
        architecture("small", buffers={"hbm": memory})

    with pytest.raises(StreamError, match="needs 4096 bytes of HBM, but dram of graph 'small' holds 1024"):
        simulate_reference(create_ag(build()), stream(instr("op", reads=(hbm(0, 4),)), hbm_bytes=4096))


def test_a_graph_with_two_fetch_stages_is_refused() -> None:
    @generate
    def build() -> None:
        issue = front()
        unit = MemoryAccessUnit("mau", to_process={"op"})
        after(issue, unit)
        memory = SRAM("memory", read_write_ports=2, address_ranges=[(0, 1024)])
        ACADLEdge(memory, unit, READ_DATA)
        second = InstructionFetchStage("ifs2")
        other = InstructionMemoryAccessUnit("imau2")
        ACADLEdge(second, other, CONTAINS)
        ACADLEdge(memory, other, READ_DATA)
        after(second, FunctionalUnit("fu", to_process={"x"}), name="ex2")
        architecture("untimed", buffers={"hbm": memory})

    with pytest.raises(GraphError, match="expected one InstructionFetchStage, found ifs, ifs2"):
        simulate_reference(create_ag(build()), stream(instr("op", reads=(hbm(0, 4),)), hbm_bytes=1024))


def test_an_instruction_memory_that_also_serves_data_is_refused() -> None:
    @generate
    def build() -> None:
        stage = InstructionFetchStage("ifs", issue_buffer_size=4)
        unit, mau = InstructionMemoryAccessUnit("imau"), MemoryAccessUnit("mau", to_process={"op"})
        memory = SRAM("memory", read_write_ports=2, address_ranges=[(0, 1024)])
        ACADLEdge(stage, unit, CONTAINS)
        after(stage, mau)
        for user in (unit, mau):
            ACADLEdge(memory, user, READ_DATA)

    with pytest.raises(GraphError, match=r"memory .*: fetches that compete with data accesses \(mau .*\) are not"):
        simulate_reference(create_ag(build()), stream(instr("op")))
