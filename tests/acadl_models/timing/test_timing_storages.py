"""The step-by-step simulator on a unit between two storages: slots, ports, beats, banks, with the sums beside them."""

from __future__ import annotations

from typing import Any

import pytest

from archloom.acadl_models.acadl import (
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    MemoryAccessUnit,
    architecture,
    create_ag,
    generate,
)
from tests.support.acadl_models.simulators import InstanceLog
from tests.support.acadl_models.small_machines import I, finished, loop, mover, run
from tests.support.acadl_models.timing_builders import COLS, ROWS, after, front, hbm, instr, stream, window


def test_slots_and_fifo() -> None:
    graph = mover(max_concurrent_requests=2, read_latency=4)
    result, log = run(graph, stream(loop(4, instr("op", reads=(window("mem", I),)))))
    # slots: 1..5, 2..6; the third waits from 3 to 5, and the unit with it; the fourth starts at 5 and waits to 6
    assert finished(log) == [5, 6, 9, 10]
    assert [entry.started for entry in log] == [1, 2, 3, 5]
    memory = result.storage("mem0")
    assert (memory.queue_cycles, memory.read_requests, memory.bytes_read, memory.busy_beats) == (2 + 1, 4, 16, 4)
    assert result.unit("mau").storage_stall_cycles == 1


def test_without_interval_waiting_requests_are_storage_stalls() -> None:
    @generate
    def build() -> None:
        issue = front(width=2)
        memory = SRAM("mem", data_width=8 * COLS, read_write_ports=2, read_latency=6, address_ranges=[(0, ROWS)])
        for name in "ab":
            unit = MemoryAccessUnit(name, to_process={name}, latency=0)
            after(issue, unit, name=f"ex_{name}")
            ACADLEdge(memory, unit, READ_DATA)
        architecture("two", buffers={"mem": memory})

    body = (instr("a", reads=(window("mem", 0),)), instr("b", reads=(window("mem", 1),)))
    result, log = run(create_ag(build()), stream(*body))
    assert finished(log) == [7, 13]  # one slot: 1..7, 7..13
    assert (result.unit("b").storage_stall_cycles, result.unit("b").busy_cycles) == (6, 6)


@pytest.mark.parametrize(("shared", "expected"), [(False, [14, 15, 16, 17]), (True, [14, 18, 22, 26])])
def test_a_shared_port_moves_one_beat_a_cycle(shared: bool, expected: list[int]) -> None:
    graph = mover(max_concurrent_requests=4, read_latency=10, shared_port=shared)
    _, log = run(graph, stream(loop(4, instr("op", reads=(window("mem", 4 * I, 4),)))))
    # four beats each: 1 + 10 + 3 = 14; on a shared port every next one ends four later
    assert finished(log) == expected


@pytest.mark.parametrize(
    ("access", "beats"),
    [
        (window("mem", 0, 4), 2), (window("mem", 0, 5), 3), (window("mem", 0, 4, stride=2), 4),
        (window("mem", 3, 4, cols=1), 2), (window("mem", 0, 1), 1),
    ],
)
def test_contiguous_runs_take_whole_beats(access: Any, beats: int) -> None:
    result, _ = run(mover(port_width=2, read_latency=5), stream(instr("op", reads=(access,))))
    assert result.cycles == 1 + 5 + beats - 1
    assert result.storage("mem0").busy_beats == beats


def test_an_access_across_banks_makes_a_request_to_each() -> None:
    result, _ = run(mover(banks=2, read_latency=3), stream(instr("op", reads=(window("mem", 30, 5),))))
    assert [result.storage(f"mem{b}").bytes_read for b in range(2)] == [2 * COLS, 3 * COLS]
    assert result.cycles == 1 + 3 + 2


def test_latencies_of_storages_know_words_and_bytes() -> None:
    graph = mover(read_latency="words + 100 * bytes + k", write_latency="2")
    assert run(graph, stream(instr("op", reads=(window("mem", 0, 2),), attributes={"k": 5})))[0].cycles == 1 + 807 + 1


def test_read_process_write() -> None:
    graph = mover(latency=3, read_latency=2, write_latency=4)
    _, log = run(graph, stream(instr("op", reads=(window("mem", 0, 2),), writes=(window("mem", 8, 3),))))
    # read 1..1+2+1 = 4, process 4..7, write 7..7+4+2 = 13
    assert log == [InstanceLog(0, "op", {}, "mau", 1, 1, 1, 4, 7, 13)]


def test_writing_alone_with_latency_zero_starts_at_once() -> None:
    body = (instr("op", writes=(window("mem", 0),)), instr("op", accumulates=(window("mem", 1),)))
    _, log = run(mover(write_latency=1), stream(*body))
    assert finished(log) == [2, 3]


def test_load_and_compute_through_memories() -> None:
    @generate
    def build() -> None:
        issue = front()
        dram = DRAM("dram", port_width=16, read_latency=10, shared_port=True, address_ranges=[(0, 1 << 16)])
        sram = SRAM("sram", data_width=8 * COLS, read_write_ports=2, address_ranges=[(0, ROWS)])
        sums = SRAM("sums", data_width=8 * COLS, address_ranges=[(0, ROWS)])
        load = MemoryAccessUnit("load", to_process={"load"}, latency=2)
        compute = MemoryAccessUnit("compute", to_process={"compute"}, latency=3)
        for stage, unit, source, target in (("ld", load, dram, sram), ("ex", compute, sram, sums)):
            after(issue, unit, name=stage)
            ACADLEdge(source, unit, READ_DATA)
            ACADLEdge(unit, target, WRITE_DATA)
        architecture("chain", buffers={"hbm": dram, "mem": sram, "acc": sums})

    load = instr("load", reads=(hbm(0, 16, 4, 64),), writes=(window("mem", 0, 4),))
    compute = instr("compute", reads=(window("mem", 0, 4),), accumulates=(window("acc", 0, 4),))
    result, log = run(create_ag(build()), stream(load, compute))
    # load: 4 pieces of 16 bytes, 1 + 10 + 3 = 14, to 16, write to 20; compute: read to 24, to 27, write to 31
    assert [(e.processing, e.written, e.finished) for e in log] == [(14, 16, 20), (24, 27, 31)]
    assert result.storage("dram").bytes_read == 64 and result.storage("sums").bytes_written == 16
    assert result.unit("compute").dependency_stall_cycles == 18


