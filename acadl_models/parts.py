"""Templates that several accelerators are made of: how instructions come in, and the queue before a unit."""

from __future__ import annotations

from archloom.acadl_models.acadl import (
    CONTAINS,
    FORWARD,
    READ_DATA,
    SRAM,
    ACADLEdge,
    ExecuteStage,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    PipelineStage,
    Template,
)
from archloom.acadl_models.acadl.objects import UnitLatency


class Fetch(Template):
    """Fetches ``width`` instructions at a time, in ``latency`` cycles, into an issue buffer of ``entries``."""

    def __init__(self, name: str, entries: int, width: int = 1, latency: int = 1) -> None:
        self.stage = InstructionFetchStage("stage", issue_buffer_size=entries)
        self.unit = InstructionMemoryAccessUnit("unit", latency=0)
        self.memory = SRAM(
            "memory", data_width=128, port_width=width, read_latency=latency, address_ranges=[(0, 1 << 32)]
        )
        ACADLEdge(self.stage, self.unit, CONTAINS)
        ACADLEdge(self.memory, self.unit, READ_DATA)


class QueuedUnit(Template):
    """A queue of ``depth`` instructions, and a stage with one access unit."""

    def __init__(
        self, name: str, fetch: Fetch, mnemonics: set[str], *, depth: int, latency: UnitLatency,
        interval: UnitLatency | None, in_flight: int, operations: UnitLatency = 1,
        joules_per_operation: float | dict[str, float] | None = None,
    ) -> None:
        self.queue = PipelineStage("queue", latency=1, depth=depth)
        self.stage = ExecuteStage("stage", latency=1)
        self.unit = MemoryAccessUnit(
            "unit", to_process=mnemonics, latency=latency, interval=interval, in_flight=in_flight,
            operations=operations, joules_per_operation=joules_per_operation,
        )
        ACADLEdge(fetch.stage, self.queue, FORWARD)
        ACADLEdge(self.queue, self.stage, FORWARD)
        ACADLEdge(self.stage, self.unit, CONTAINS)
