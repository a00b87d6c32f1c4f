"""Units that stream: the table of docs/timing_semantics.md, what splitting may win, and what is refused."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from archloom.acadl_models.acadl import (
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    Link,
    MemoryAccessUnit,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedInstr, ResolvedLoop
from tests.acadl_models.timing.test_timing_semantics import in_the_page
from tests.support.acadl_models.simulators import InstanceLog, check_equal, simulate_logged
from tests.support.acadl_models.timing_builders import COLS, ROWS, after, front, instr, stream, window
from tests.support.examples import examples, randoms


def mover(
    *, slots: int = 1, bandwidth: int | None = None, width: int = 1, latencies: tuple[int, int] = (3, 1),
    **unit: object,
) -> ArchitectureGraph:
    """A unit between two memories of four bytes in a word."""
    @generate
    def build() -> None:
        move = MemoryAccessUnit("mover", to_process={"move"}, **unit)  # type: ignore[arg-type]
        after(front(width=2), move)
        words = {"data_width": 8 * COLS, "max_concurrent_requests": slots, "port_width": width,
                 "shared_port": slots > 1}
        source = SRAM("source", read_latency=latencies[0], address_ranges=[(0, ROWS)], **words)  # type: ignore[arg-type]
        drain = SRAM("drain", write_latency=latencies[1], address_ranges=[(0, ROWS)], **words)  # type: ignore[arg-type]
        over = None if bandwidth is None else Link("link", bandwidth=bandwidth)
        ACADLEdge(source, move, READ_DATA, over)
        ACADLEdge(move, drain, WRITE_DATA)
        architecture("mover", buffers={"mem": source, "acc": drain})

    build()
    return create_ag()


def move(row: int, rows: int, operands: int = 1) -> ResolvedInstr:
    """Rows of so many operands, one behind the other, become rows of a result."""
    reads = tuple(window("mem", k * (ROWS // operands) + row, rows) for k in range(operands))
    return instr("move", reads=reads, writes=(window("acc", row, rows),), attributes={"rows": rows})


def run(graph: ArchitectureGraph, *instructions: ResolvedInstr) -> list[InstanceLog]:
    program = stream(*instructions)
    check_equal(graph, program)
    log: list[InstanceLog] = []
    simulate_logged(graph, program, log)
    return sorted(log, key=lambda entry: entry.number)


def test_the_table_of_the_page() -> None:
    rows = []
    ports = '1, `interval="rows"`, `in_flight` 2, one port each'
    for shown, more in (("none", {}), ("1", {"first_latency": 1}),
                        (ports, {"first_latency": 1, "interval": "rows", "in_flight": 2, "slots": 2})):
        graph = mover(latency="1 + rows", **more)  # type: ignore[arg-type]
        whole, halves = run(graph, move(0, 8)), run(graph, move(0, 4), move(4, 4))
        rows.append([shown, *(f"{e.started}-{e.finished}" for e in (*whole, *halves))])
    in_the_page(rows)


@pytest.mark.parametrize(("operands", "cycles"), [(1, 22), (2, 37)])
def test_operands_on_one_port_alternate(operands: int, cycles: int) -> None:
    """Two operands take as long on the port as they are long together, and no pass over one of them more."""
    graph = mover(latency="2 + rows", first_latency=2, slots=2)
    (found,) = run(graph, move(0, 16, operands))
    assert found.finished - found.started == cycles


def test_a_loop_of_streams_is_skipped() -> None:
    graph = mover(latency="1 + rows", first_latency=1, interval="rows", in_flight=3, slots=2)
    found = check_equal(graph, stream(ResolvedLoop("i", 3000, (move(0, 8), move(8, 24)))))
    assert isinstance(found, TimingResult) and found.skipped_share > 0.9


@examples(25, 3000)
@given(randoms)
def test_splitting_wins_no_more_than_the_first_latency(r: Random) -> None:
    first, each, operands = r.randint(0, 6), r.randint(1, 5), r.randint(1, 3)
    rate = f"cdiv(rows, {r.randint(1, 4)})" if r.random() < 0.5 else f"{each} * rows"
    pipelined = {"interval": rate, "in_flight": r.randint(1, 4)} if r.random() < 0.7 else {}
    graph = mover(
        latency=f"{first} + {rate}", first_latency=first, slots=r.choice((1, 4, 8)), width=r.choice((1, 2, 4)),
        bandwidth=r.choice((None, 1, 3, 8)), latencies=(r.randint(1, 9), r.randint(1, 9)), **pipelined)
    rows = r.randint(2, ROWS // operands)
    cut = r.randint(1, rows - 1)
    (whole,) = run(graph, move(0, rows, operands))
    *_, last = run(graph, move(0, cut, operands), move(cut, rows - cut, operands))
    assert whole.finished <= last.finished + first


def test_a_first_latency_below_zero_is_refused() -> None:
    graph = mover(latency=3, first_latency="rows - 9")
    with pytest.raises(GraphError, match=r"first_latency 'rows - 9' is -5 for 'move'; it must be at least 0"):
        run(graph, move(0, 4))
    assert isinstance(check_equal(graph, stream(move(0, 4))), str)
