"""Machines of one or two units, small enough that their cycles can be worked out by hand, and their logged runs."""

from __future__ import annotations

from typing import Any

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
from archloom.acadl_models.timing import TimingResult
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import ResolvedLoop, ResolvedNode, ResolvedStream
from tests.support.acadl_models.simulators import InstanceLog, simulate_logged
from tests.support.acadl_models.timing_builders import COLS, ROWS, after, front

I = Affine.variable("i")


def loop(count: int, *body: ResolvedNode) -> ResolvedLoop:
    return ResolvedLoop("i", count, body)


def run(graph: ArchitectureGraph, program: ResolvedStream) -> tuple[TimingResult, list[InstanceLog]]:
    """Simulate, and check what holds for every run."""
    log: list[InstanceLog] = []
    result = simulate_logged(graph, program, log)
    for unit in result.units:
        assert unit.cycles == result.cycles and unit.idle_cycles >= 0 and unit.starved_cycles >= 0
    for stage in result.stages:
        assert stage.stall_cycles + stage.busy_cycles + stage.idle_cycles == result.cycles
    assert len(log) == result.instructions == sum(u.instructions for u in result.units)
    assert max((entry.finished for entry in log), default=0) == result.cycles
    return result, sorted(log, key=lambda entry: entry.number)


def finished(log: list[InstanceLog]) -> list[int]:
    return [entry.finished for entry in log]


def alu(*, width: int = 1, buffer: int = 16, stages: int = 0, depth: int = 1, **unit: Any) -> ArchitectureGraph:
    """A fetch stage, ``stages`` pipeline stages, and one unit for ``op``."""

    @generate
    def build() -> None:
        last: PipelineStage = front(width=width, buffer=buffer)
        for number in range(stages):
            stage = PipelineStage(f"p{number}", depth=depth)
            ACADLEdge(last, stage, FORWARD)
            last = stage
        after(last, FunctionalUnit("fu", to_process={"op"}, **unit))

    return create_ag(build())


def mover(*, latency: int | str = 0, in_flight: int = 8, banks: int = 1, **storage: Any) -> ArchitectureGraph:
    """One access unit for ``op`` that reads and writes ``mem`` (in ``banks`` banks)."""

    @generate
    def build() -> None:
        unit = MemoryAccessUnit("mau", to_process={"op"}, latency=latency, interval=1, in_flight=in_flight)
        after(front(), unit)
        each = ROWS // banks
        memories = [
            SRAM(f"mem{b}", data_width=8 * COLS, address_ranges=[(b * each, (b + 1) * each)], **storage)
            for b in range(banks)
        ]
        for memory in memories:
            ACADLEdge(memory, unit, READ_DATA)
            ACADLEdge(unit, memory, WRITE_DATA)
        architecture("mover", buffers={"mem": memories})

    return create_ag(build())
