"""Cycles of a stream on a mesh of cores: all cores are simulated, each with its own units, on the timing engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archloom.mapper.spatial.placing import ISA

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.acadl_models.timing.result import TimingResult
    from archloom.oracle.stream import Stream
    from archloom.oracle.taidl.isa import Isa


def isa_of(graph: "ArchitectureGraph") -> "Isa":
    """The ISA of a mesh, with the graph's sizes."""
    from archloom.acadl_models.wormhole import isa_parameters
    from archloom.oracle import taidl

    return taidl.load(ISA, **isa_parameters(graph))


def simulated(stream: "Stream", graph: "ArchitectureGraph") -> "TimingResult":
    """The timing of ``stream``; GraphError for a stream that the graph cannot process or that deadlocks, StreamError
    for one in which a core holds more than its memories do."""
    from archloom.acadl_models.timing import simulate
    from archloom.mapper.spatial.capacity import check_capacity
    from archloom.oracle.resolve import resolve

    resolved = resolve(stream, isa_of(graph))
    check_capacity(resolved, graph)
    return simulate(graph, resolved)
