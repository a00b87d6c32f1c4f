"""Cycles of a stream on a mesh of cores: all cores are simulated, each with its own units, on the timing engine."""

from __future__ import annotations

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.result import TimingResult
from archloom.acadl_models.wormhole import isa_parameters
from archloom.mapper.spatial.capacity import check_capacity
from archloom.mapper.spatial.placing import ISA
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa


def isa_of(graph: "ArchitectureGraph") -> "Isa":
    """The ISA of a mesh, with the graph's sizes."""
    return taidl.load(ISA, **isa_parameters(graph))


def simulated(stream: "Stream", graph: "ArchitectureGraph") -> "TimingResult":
    """The timing of ``stream``; GraphError for a stream that the graph cannot process or that deadlocks, StreamError
    for one in which a core holds more than its memories do."""
    resolved = resolve(stream, isa_of(graph))
    check_capacity(resolved, graph)
    return simulate(graph, resolved)
