"""What the objects of an architecture graph did during a layer: the parts of a report's layers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from archloom.acadl_models.timing.result import PortTiming, TimingResult


@dataclass(frozen=True)
class UnitUse:
    """What a unit of the architecture graph did during a layer; the cycles add up to those of the layer."""

    instructions: int
    busy_cycles: int
    dependency_stall_cycles: int
    storage_stall_cycles: int
    idle_cycles: int
    starved_cycles: int = 0

    @property
    def stall_cycles(self) -> int:
        """Cycles in which it waits for operands or memories."""
        return self.dependency_stall_cycles + self.storage_stall_cycles


@dataclass(frozen=True)
class StageUse:
    """What a stage did; a stall is a cycle in which nothing downstream has room. The cycles add up to the layer's."""

    instructions: int
    busy_cycles: int
    stall_cycles: int
    idle_cycles: int


@dataclass(frozen=True)
class PortUse:
    """One direction of a storage or a link; ``peak_share``: part of the layer's cycles at the peak."""

    bytes: int
    mean_bytes_per_cycle: float
    peak_bytes_per_cycle: int
    peak_share: float


@dataclass(frozen=True)
class StorageUse:
    """Traffic of a storage; ``queue_cycles``: cycles that its requests waited for a slot, added up."""

    read: PortUse
    write: PortUse
    queue_cycles: int


@dataclass(frozen=True)
class LinkUse:
    """Traffic of a link; ``wait_cycles``: cycles that requests waited for a channel, added up."""

    read: PortUse
    write: PortUse
    wait_cycles: int


@dataclass(frozen=True)
class LoopUse:
    """What a loop of the instruction stream adds to the cycles of the layer, loops inside of it included."""

    name: str
    executions: int
    iterations: int
    stepped_iterations: int
    cycles: int


USES = ("units", "stages", "storages", "links", "loops", "energy")
"""The fields of a layer that hold objects of this module, and its energy."""

T = TypeVar("T", UnitUse, StageUse, LoopUse)


def uses_of(timing: "TimingResult") -> dict[str, Any]:
    """The fields of a layer that hold objects of this module, but for its energy: units that took instructions, stages
    that instructions entered, storages that served requests, links that carried anything, and all loops, in the order
    of the stream's text."""
    return {
        "units": {u.name: _use(UnitUse, u) for u in timing.units if u.instructions},
        "stages": {s.name: _use(StageUse, s) for s in timing.stages if s.instructions},
        "storages": {s.name: StorageUse(_port(s.read, timing.cycles), _port(s.write, timing.cycles), s.queue_cycles)
                     for s in timing.storages if s.read_requests + s.write_requests},
        "links": {link.name: LinkUse(_port(link.read, timing.cycles), _port(link.write, timing.cycles),
                                     link.wait_cycles)
                  for link in timing.links if link.read.bytes + link.write.bytes},
        "loops": tuple(_use(LoopUse, loop) for loop in timing.loops),
    }


def _use(kind: type[T], timing: object) -> T:
    """The fields of ``kind``, which those of ``timing`` have the names of."""
    return kind(*[getattr(timing, f.name) for f in fields(kind)])


def _port(port: "PortTiming", cycles: int) -> PortUse:
    return PortUse(port.bytes, port.mean_bytes_per_cycle(cycles), port.peak_bytes_per_cycle, port.peak_share(cycles))
