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
    """Fetches instructions into an issue buffer of ``issue_buffer_size`` and issues any of them in a cycle.

    ``reorder_entries`` (*added*): entries of a reorder buffer, which an instruction has from its decoding until it
    commits; None: instructions need none. ``decode_width`` and ``commit_width`` (*added*): how many are decoded and
    commit in a cycle, in program order; None: any number.
    """

    _WIDTHS: ClassVar[tuple[str, ...]] = ("decode_width", "commit_width")

    issue_buffer_size: int = 1
    reorder_entries: int | None = None
    decode_width: int | None = None
    commit_width: int | None = None

    def faults(self) -> list[str]:
        stated = [a for a in ("reorder_entries", *self._WIDTHS) if getattr(self, a) is not None]
        faults = [f for a in ("issue_buffer_size", *stated) for f in count(self, a)]
        if self.reorder_entries is None:
            faults += [f"{a} is that of a reorder buffer: state reorder_entries" for a in self._WIDTHS if a in stated]
        return super().faults() + faults
