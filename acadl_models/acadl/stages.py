"""Stages (section 3): what holds, forwards and fetches instructions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from archloom.acadl_models.acadl.base import ACADLObject, count, latency
from archloom.acadl_models.acadl.latency import Expression, Latency, parse


@dataclass(frozen=True, eq=False)
class PipelineStage(ACADLObject):
    """Holds an instruction for ``latency`` cycles and forwards it; ``depth`` (*added*): how many it holds.

    ``joules_per_operation`` (*added*): energy of each instruction that enters.
    """

    virtual: ClassVar[bool] = False
    physical: ClassVar[tuple[str, ...]] = ("joules_per_operation", *ACADLObject.physical)

    latency: Latency = 1
    depth: int = 1
    joules_per_operation: float | None = field(default=None, kw_only=True)

    def faults(self) -> list[str]:
        return super().faults() + latency("latency", self.latency, 1) + count(self, "depth")

    def latencies(self) -> dict[str, Expression]:
        return {"latency": parse(self.latency)}


@dataclass(frozen=True, eq=False)
class ExecuteStage(PipelineStage):
    """A stage that contains functional units and hands them the instructions that they process."""

    def faults(self) -> list[str]:
        extra = [] if self.depth == 1 else [f"depth must be 1, not {self.depth!r}: only a PipelineStage is a queue"]
        return super().faults() + extra


@dataclass(frozen=True, eq=False)
class InstructionFetchStage(ExecuteStage):
    """Fetches instructions into an issue buffer of ``issue_buffer_size`` and issues any of them in a cycle."""

    issue_buffer_size: int = 1

    def faults(self) -> list[str]:
        return super().faults() + count(self, "issue_buffer_size")
