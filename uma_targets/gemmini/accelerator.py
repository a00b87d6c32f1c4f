"""Gemmini as an accelerator of the compiler: options, graph, ISA, mapping space and emission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mapper.accelerator import Accelerator, Emitter
from mapper.options import Option
from uma_targets.gemmini.emit import GemminiEmitter

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph

OPTIONS = (
    Option("dim", int, 16, "rows and columns of the array", 4, 256),
    Option("dataflow", str, "auto", "what stays in the array: weights (ws), sums (os), or the faster for each operator",
           choices=("auto", "ws", "os")),
    Option("scratchpad_kib", int, None, "scratchpad; by default 256, more where dim needs it", 1, 1 << 20, unit="KiB"),
    Option("accumulator_kib", int, None, "accumulator; by default 64, more where dim needs it", 1, 1 << 20, unit="KiB"),
    Option("scratchpad_banks", int, 4, "banks of the scratchpad", 1, 64),
    Option("accumulator_banks", int, 2, "banks of the accumulator", 1, 64),
    Option("scratchpad_single_ported", bool, False, "loads, reads and writes of a scratchpad bank share one port"),
    Option("dma_bus_bits", int, 128, "width of the bus to memory, a multiple of 8", 8, 65536, unit="bits"),
    Option("dma_max_bytes", int, 64, "longest piece of memory that one row of a transfer takes", 1, 4096, unit="bytes"),
    Option("max_in_flight", int, 16, "memory requests under way at a time", 1, 1024),
    Option("ld_queue", int, 8, "queue of the load controller", 1, 1024),
    Option("st_queue", int, 2, "queue of the store controller", 1, 1024),
    Option("ex_queue", int, 8, "queue of the execute controller", 1, 1024),
    Option("rs_ld", int, 8, "loads in the reservation station", 1, 1024),
    Option("rs_st", int, 4, "stores in the reservation station", 1, 1024),
    Option("rs_ex", int, 16, "preloads and computations in the reservation station", 2, 1024),
    Option("dram_latency_cycles", int, 100, "from request to first data", 1, 1_000_000, unit="cycles"),
    Option("clock_mhz", float, 1000.0, "clock of the accelerator", 0.001, 1e6, unit="MHz"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    from acadl_models.gemmini import gemmini

    structure = {k: v for k, v in options.items() if k not in ("dataflow", "clock_mhz")}
    return gemmini(clock_hz=options["clock_mhz"] * 1e6, **structure)


def _isa_parameters(graph: "ArchitectureGraph") -> Mapping[str, int]:
    from acadl_models.gemmini import isa_parameters

    return isa_parameters(graph)


def _emitter(parameters: Mapping[str, int]) -> Emitter:
    return GemminiEmitter(tuple(parameters.items()))


def _space(*args: Any) -> Any:
    from uma_targets.gemmini.space import space

    return space(*args)


GEMMINI = Accelerator(
    "gemmini", "systolic array for int8 with scratchpad, accumulator and DMA (ucb-bar/gemmini)", OPTIONS, "gemmini",
    _graph, _isa_parameters, _emitter, _space,
)
