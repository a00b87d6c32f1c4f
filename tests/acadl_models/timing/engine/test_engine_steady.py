"""Skipping: what recurs is skipped, what must not be skipped is stepped, and the results are the same."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    MemoryAccessUnit,
    PipelineStage,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.engine import remembered
from archloom.acadl_models.timing.engine import run as running
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Buffer, ResolvedLoop, ResolvedNode, ResolvedStream
from archloom.tvm_backend.targets.choice import choose
from tests.support.acadl_models.simulators import agreed
from tests.support.acadl_models.timing_builders import COLS, after, front, instr, stream, window
from tests.support.examples import examples, slow

ROWS = 1 << 14


def machine(*, banks: int = 1, depth: int = 4, slow: str | int = 3, last_bank: int = 2) -> ArchitectureGraph:
    """A load unit that writes and a compute unit that reads ``mem``, each behind a queue."""

    @generate
    def two_units() -> None:
        fetch = front(width=2, buffer=12)
        size = ROWS // banks
        memory = [
            SRAM(
                f"mem{k}", data_width=8 * COLS, max_concurrent_requests=2, read_write_ports=9,
                read_latency=last_bank if k == banks - 1 else 2, write_latency=2,
                address_ranges=[(k * size, (k + 1) * size)],
            )
            for k in range(banks)
        ]  # fmt: skip
        for name, latency in (("load", slow), ("compute", 5)):
            queue = PipelineStage(f"{name}_queue", depth=depth)
            ACADLEdge(fetch, queue, FORWARD)
            unit = MemoryAccessUnit(name, to_process={name}, latency=latency, interval=2, in_flight=3)
            after(queue, unit, name=f"{name}_stage")
            for bank in memory:
                ACADLEdge(bank, unit, READ_DATA)
                ACADLEdge(unit, bank, WRITE_DATA)
        architecture(buffers={"mem": memory})

    return create_ag(two_units())


def loop(var: str, extent: int, *body: ResolvedNode) -> ResolvedLoop:
    return ResolvedLoop(var, extent, body)


def long_stream(*body: ResolvedNode) -> ResolvedStream:
    return dataclasses.replace(stream(*body), buffers=(Buffer("mem", (ROWS, COLS), "i8"),))


def pair(write: Affine | int, read: Affine | int, **attributes: Affine | int) -> tuple[ResolvedNode, ...]:
    """An instruction that loads a row and one that reads a row."""
    return (
        instr("load", writes=(window("mem", write),), attributes=attributes),
        instr("compute", reads=(window("mem", read),), attributes=attributes),
    )


i, j, k = (Affine.variable(v) for v in "ijk")


def test_a_steady_loop_is_skipped() -> None:
    found = agreed(machine(), long_stream(loop("i", 1500, *pair(i % 2, (i + 1) % 2))))
    assert found.stepped_instructions < 400


def test_windows_that_move_together_are_skipped() -> None:
    found = agreed(machine(), long_stream(loop("i", 1500, *pair(i * 2, i * 2))))
    assert found.stepped_instructions < 400


def test_windows_that_never_meet_are_skipped_although_they_part() -> None:
    found = agreed(machine(), long_stream(loop("i", 1500, *pair(i, ROWS - 1 - i))))
    assert found.stepped_instructions < 400


@pytest.mark.parametrize("row", [300, 599, slow(3), slow(590)])
def test_nothing_is_skipped_over_a_meeting_to_come(row: int) -> None:
    """Each iteration writes the next row; a fixed row is read: they meet once, and the reader must wait then."""
    graph = machine(slow=40)
    found = agreed(graph, long_stream(loop("i", 600, *pair(i, row))))
    parted = agreed(graph, long_stream(loop("i", 600, *pair(i, 2000))))
    assert found.unit("compute").dependency_stall_cycles > parted.unit("compute").dependency_stall_cycles == 0
    assert parted.stepped_instructions < 400


def test_windows_that_catch_up_are_stepped() -> None:
    agreed(machine(), long_stream(loop("i", 900, *pair(i * 2, i + 450))))


@pytest.mark.parametrize("last_bank", [2, 9])
def test_an_access_that_walks_through_banks_is_not_skipped_over_their_border(last_bank: int) -> None:
    """The last bank is slower: an engine that skipped into it with the pace of the first would be too fast."""
    step = ROWS // 1024
    graph = machine(banks=4, last_bank=last_bank)
    agreed(graph, long_stream(loop("i", 1024, *pair(0, i * step))))


def test_a_latency_that_never_repeats_is_stepped() -> None:
    found = agreed(machine(slow="1 + a // 8"), long_stream(loop("i", 300, *pair(i, i + 4000, a=i))))
    assert found.skipped_share == 0


def test_a_latency_that_repeats_is_skipped_by_whole_periods() -> None:
    found = agreed(machine(slow="1 + a"), long_stream(loop("i", 1500, *pair(i, i + 4000, a=i % 7))))
    assert found.skipped_share > 0.5


def test_only_the_end_of_a_nest_differs_from_its_middle() -> None:
    inner = loop("k", 6, *pair(k + (j % 2) * 8, k + ((j + 1) % 2) * 8))
    nest = loop("i", 5, loop("j", 7, inner, *pair(100, 200)), *pair(1, 0))
    found = agreed(machine(), long_stream(nest, *pair(0, 1)))
    assert found.instructions == 5 * (7 * (12 + 2) + 2) + 2


def test_transitions_recur_although_the_loops_around_do_not() -> None:
    """Three iterations are too few for a period; the bodies are the same everywhere all the same."""
    body = [pair(16 + 2 * n, 17 + 2 * n) for n in range(30)]
    flat = [node for p in body for node in p]
    nest = loop("i", 3, loop("j", 3, loop("k", 3, *flat)))
    found = agreed(machine(), long_stream(nest))
    assert found.instructions == 27 * 60
    assert found.stepped_instructions < found.instructions / 2


def test_snapshots_of_inner_loops_do_not_displace_those_of_outer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue before the slower unit fills during each inner loop, whose passes differ; its activations are alike."""
    monkeypatch.setattr(remembered, "SNAPSHOT_WORDS", 1)  # room for four snapshots
    inner = loop("j", 40, *pair(j % 2, (j + 1) % 2))
    found = agreed(machine(depth=64), long_stream(loop("i", 30, inner, *pair(7, 7))))
    assert found.stepped_instructions < found.instructions / 3


@given(st.integers(0, 200), st.integers(1, 40))
@examples(10, 200)
def test_a_run_that_is_heard_is_the_same(ahead: int, every: int) -> None:
    """It stops between any two cycles, and goes on."""
    graph, program = machine(), long_stream(loop("i", 3, loop("j", 60, *pair(j + i * ahead, j)), *pair(i, 7)))
    heard: list[tuple[int, int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "HEARD_EVERY", every)
        found = simulate(graph, program, heard=lambda *far: heard.append(far))
    assert found == simulate(graph, program)
    assert heard == sorted(heard) and {total for _, _, total in heard} == {found.instructions}
    assert len(heard) <= found.stepped_instructions


def test_what_hears_of_a_run_may_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def hear(stepped: int, finished: int, total: int) -> None:
        raise GraphError("two_units", [f"{stepped} instructions were stepped through, {finished} of {total} finished"])

    monkeypatch.setattr(running, "HEARD_EVERY", 5)
    with pytest.raises(GraphError, match=r"[5-9] instructions were stepped through, \d of 3000 finished"):
        simulate(machine(), long_stream(loop("i", 1500, *pair(i % 2, i % 2))), heard=hear)


def test_a_billion_instructions_take_the_memory_and_time_of_a_thousand() -> None:
    body = pair(k % 2 + 2 * (j % 2), (k + 1) % 2 + 2 * (j % 2))
    s = long_stream(loop("i", 1000, loop("j", 1000, loop("k", 500, *body))))
    found = simulate(machine(), s)
    assert found.instructions == 1_000_000_000
    assert found.stepped_instructions < 20_000
    fewer = simulate(machine(), long_stream(loop("i", 10, loop("j", 1000, loop("k", 500, *body)))))
    more = simulate(machine(), long_stream(loop("i", 11, loop("j", 1000, loop("k", 500, *body)))))
    assert found.cycles == fewer.cycles + 990 * (more.cycles - fewer.cycles)


@pytest.mark.slow
def test_more_in_flight_than_the_first_pool_holds() -> None:
    found = agreed(machine(depth=700, slow=60), long_stream(loop("i", 900, *pair(i, i))))
    assert found.instructions == 1800


def test_states_are_compared_again_behind_what_was_recalled() -> None:
    """Of loops whose every second iteration was recalled, none of the others was compared where many are in flight."""
    machine = choose("plasticine", {})[0].backend.accelerator.configure({})
    work = gemm(512, 512, 8000, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")
    mapping, _ = machine.space(work).first()
    found = simulate(machine.graph, resolve(machine.emit(work, mapping), machine.isa))
    inner = next(loop for loop in found.loops if loop.path == ("kt",))
    assert inner.iterations == 60 and inner.stepped_iterations < 12


def test_a_deadlock_says_what_everything_waits_for() -> None:
    """The older instruction cannot enter the only unit while the younger one waits there for it."""

    @generate
    def crossing() -> None:
        fetch = front(width=1, buffer=8)
        slow = PipelineStage("slow", latency=9)
        ACADLEdge(fetch, slow, FORWARD)
        memory = SRAM("mem", data_width=8 * COLS, read_write_ports=9, address_ranges=[(0, ROWS)])
        unit = MemoryAccessUnit("unit", to_process={"load", "compute"})
        stage = after(slow, unit)
        ACADLEdge(fetch, stage, FORWARD)
        ACADLEdge(memory, unit, READ_DATA)
        ACADLEdge(unit, memory, WRITE_DATA)
        architecture(buffers={"mem": memory})

    graph = create_ag(crossing())
    s = long_stream(loop("i", 3, *pair(0, 0)))
    errors = []
    for run in (simulate, simulate_reference):
        try:
            errors.append(run(graph, s))
        except GraphError as error:
            errors.append(error.faults)
    assert errors[0] == errors[1]


@examples(4, 125)
@given(st.data())
def test_gemmini_streams(data: st.DataObject) -> None:
    """Random and tiled Gemmini streams on Gemmini's graph."""
    from archloom.acadl_models.gemmini import gemmini
    from archloom.oracle.resolve import resolve
    from archloom.oracle.taidl import load
    from tests.support.accelerators.gemmini_random import gemmini_streams

    s = data.draw(gemmini_streams(dims=(4, 8)))
    resolved = resolve(s, load("gemmini", **dict(s.parameters)))
    graph = gemmini(dim=dict(s.parameters)["dim"])
    stepped = simulate(graph, resolved, skip=False)
    assert simulate(graph, resolved) == stepped
    if s.count() < 150:
        assert simulate_reference(graph, resolved) == stepped
