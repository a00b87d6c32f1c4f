"""No run goes round for ever: whatever could let instructions move without getting on is refused and named.

An instruction would have to return to a stage (forward edges in a circle), a step to take no time again and again (a
latency of 0), a line to be looked for in a cache behind itself, or the program never to end (a loop of step 0).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archloom.acadl_models.acadl import (
    BACKED_BY,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    MemoryAccessUnit,
    PipelineStage,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError, StreamError
from archloom.oracle.resolved import ResolvedLoop, ResolvedStream
from archloom.oracle.stream import Loop
from tests.support.acadl_models.simulators import agreed
from tests.support.acadl_models.timing_builders import COLS, ROWS, after, front, instr, stream, window

LENGTH = 40
"""Iterations: enough that the fast engine has skipped some before a latency becomes 0 in the last one."""


def machine(
    *,
    stages: int = 1,
    back: tuple[int, int] | None = None,
    held: int | str = 1,
    latency: int | str = 1,
    interval: int | str | None = None,
    read_latency: int | str = 1,
    caches: int = 0,
) -> ArchitectureGraph:
    """A row of stages before a unit that reads a memory; ``back``: one more edge, from a stage to an earlier one."""

    @generate
    def row_of_stages() -> None:
        row = [PipelineStage(f"stage{k}", latency=held if k == 0 else 1) for k in range(stages)]
        for before, behind in zip([front(), *row], row):
            ACADLEdge(before, behind, FORWARD)
        if back is not None:
            ACADLEdge(row[back[0]], row[back[1]], FORWARD)
        unit = MemoryAccessUnit("unit", to_process={"op"}, latency=latency, interval=interval)
        after(row[-1], unit)
        memory = SRAM("mem", data_width=8 * COLS, read_latency=read_latency, address_ranges=[(0, ROWS)])
        ACADLEdge(unit, memory, WRITE_DATA)
        behind_itself = [SetAssociativeCache(f"l{k}") for k in range(caches)]
        ACADLEdge(behind_itself[0] if behind_itself else memory, unit, READ_DATA)
        for cache, next_one in zip(behind_itself, behind_itself[1:] + behind_itself[:1]):
            ACADLEdge(cache, next_one, BACKED_BY)
        architecture("rounds", buffers={"mem": memory})

    return create_ag(row_of_stages())


def countdown() -> ResolvedStream:
    """A loop whose attribute ``left`` is 0 in the last iteration."""
    body = instr("op", reads=(window("mem", 0),), attributes={"left": Affine.of("i") * -1 + (LENGTH - 1)})
    return stream(ResolvedLoop("i", LENGTH, (body,)))


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: machine(stages=1, back=(0, 0)), "FORWARD edges form a cycle: stage0 -> stage0"),
        (lambda: machine(stages=2, back=(1, 0)), "FORWARD edges form a cycle: stage0 -> stage1 -> stage0"),
        (lambda: machine(stages=4, back=(2, 1)), "FORWARD edges form a cycle: stage1 -> stage2 -> stage1"),
        (lambda: machine(caches=1), "BACKED_BY edge l0"),
        (lambda: machine(caches=2), "BACKED_BY edges form a cycle: l0 -> l1 -> l0"),
        (lambda: machine(held=0), "latency must be at least 1, not 0"),
        (lambda: machine(interval=0), "interval must be at least 1, not 0"),
        (lambda: machine(read_latency=0), "read_latency must be at least 1, not 0"),
    ],
)
def test_a_graph_with_a_circle_or_without_time_is_refused(build: Callable[[], ArchitectureGraph], named: str) -> None:
    with pytest.raises(GraphError) as raised:
        build()
    assert any(named in fault for fault in raised.value.faults), raised.value.faults


@pytest.mark.parametrize(
    ("graph", "named"),
    [
        (lambda: machine(held="left"), r"stage0 \(PipelineStage\): latency 'left' is 0 for 'op'"),
        (lambda: machine(interval="left"), r"unit \(MemoryAccessUnit\): interval 'left' is 0 for 'op'"),
        (lambda: machine(read_latency="left"), r"mem \(SRAM\): read_latency 'left' is 0 for 'op'"),
    ],
)
@pytest.mark.parametrize("run", [simulate, simulate_reference])
def test_a_step_that_comes_to_take_no_time_is_named(
    graph: Callable[[], ArchitectureGraph], named: str, run: Callable[[ArchitectureGraph, ResolvedStream], object]
) -> None:
    with pytest.raises(GraphError, match=named + "; it must be at least 1"):
        run(graph(), countdown())


def test_a_unit_of_no_latency_ends_with_its_requests() -> None:
    found = agreed(machine(latency="left - left"), countdown())
    assert found.instructions == LENGTH and found.cycles > LENGTH


def test_a_loop_that_would_never_end_is_no_loop() -> None:
    with pytest.raises(StreamError, match=r"loop i: step must not be 0 \(for i in 0\.\.8\)"):
        Loop("i", 0, 8, 0, ())
