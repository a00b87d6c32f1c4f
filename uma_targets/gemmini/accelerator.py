"""Gemmini as an accelerator of the compiler: options, graph, ISA, mapping space and emission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from archloom.acadl_models.gemmini import RANGES, gemmini, isa_parameters
from archloom.mapper.accelerator import Accelerator, Emitter
from archloom.mapper.options import GraphOptions, Option
from archloom.uma_targets.gemmini.emit import GemminiEmitter

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph

GRAPH = GraphOptions(gemmini, RANGES)

OPTIONS = (
    GRAPH.size("dim", "rows and columns of the array"),
    Option("dataflow", str, "auto", "what stays in the array: weights (ws), sums (os), or the faster for each operator",
           choices=("auto", "ws", "os")),
    GRAPH.size("scratchpad_kib", "scratchpad; by default 256, more where dim needs it", "KiB"),
    GRAPH.size("accumulator_kib", "accumulator; by default 64, more where dim needs it", "KiB"),
    GRAPH.size("scratchpad_banks", "banks of the scratchpad"),
    GRAPH.size("accumulator_banks", "banks of the accumulator"),
    Option("scratchpad_single_ported", bool, GRAPH.default("scratchpad_single_ported"),
           "loads, reads and writes of a scratchpad bank share one port"),
    GRAPH.size("dma_bus_bits", "width of the bus to memory, a multiple of 8", "bits"),
    GRAPH.size("dma_max_bytes", "longest piece of memory that one row of a transfer takes", "bytes"),
    GRAPH.size("max_in_flight", "memory requests under way at a time"),
    GRAPH.size("ld_queue", "queue of the load controller"),
    GRAPH.size("st_queue", "queue of the store controller"),
    GRAPH.size("ex_queue", "queue of the execute controller"),
    GRAPH.size("rs_ld", "loads in the reservation station"),
    GRAPH.size("rs_st", "stores in the reservation station"),
    GRAPH.size("rs_ex", "preloads and computations in the reservation station"),
    GRAPH.size("dram_latency_cycles", "from request to first data", "cycles"),
    GRAPH.clock("clock of the accelerator"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    return gemmini(**GRAPH.arguments(options, besides=("dataflow",)))


def _isa_parameters(graph: "ArchitectureGraph") -> Mapping[str, int]:
    return isa_parameters(graph)


def _emitter(parameters: Mapping[str, int]) -> Emitter:
    return GemminiEmitter(tuple(parameters.items()))


def _space(*args: Any) -> Any:
    from archloom.uma_targets.gemmini.space import space

    return space(*args)


GEMMINI = Accelerator(
    "gemmini", "systolic array for int8 with scratchpad, accumulator and DMA (ucb-bar/gemmini)", OPTIONS, "gemmini",
    _graph, _isa_parameters, _emitter, _space,
)
