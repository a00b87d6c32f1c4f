"""Gemmini as an accelerator of the compiler: options, graph, ISA, mapping space and emission."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from acadl_models.gemmini import RANGES, gemmini, isa_parameters
from mapper.accelerator import Accelerator, Emitter
from mapper.options import Option
from uma_targets.gemmini.emit import GemminiEmitter

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph

_DEFAULTS = {name: p.default for name, p in inspect.signature(gemmini).parameters.items()}


def _size(name: str, about: str, unit: str = "") -> Option:
    """An integer of the graph: its default and its range are the graph's own."""
    low, high = RANGES[name]
    return Option(name, int, _DEFAULTS[name], about, low, high, unit=unit)


OPTIONS = (
    _size("dim", "rows and columns of the array"),
    Option("dataflow", str, "auto", "what stays in the array: weights (ws), sums (os), or the faster for each operator",
           choices=("auto", "ws", "os")),
    _size("scratchpad_kib", "scratchpad; by default 256, more where dim needs it", "KiB"),
    _size("accumulator_kib", "accumulator; by default 64, more where dim needs it", "KiB"),
    _size("scratchpad_banks", "banks of the scratchpad"),
    _size("accumulator_banks", "banks of the accumulator"),
    Option("scratchpad_single_ported", bool, _DEFAULTS["scratchpad_single_ported"],
           "loads, reads and writes of a scratchpad bank share one port"),
    _size("dma_bus_bits", "width of the bus to memory, a multiple of 8", "bits"),
    _size("dma_max_bytes", "longest piece of memory that one row of a transfer takes", "bytes"),
    _size("max_in_flight", "memory requests under way at a time"),
    _size("ld_queue", "queue of the load controller"),
    _size("st_queue", "queue of the store controller"),
    _size("ex_queue", "queue of the execute controller"),
    _size("rs_ld", "loads in the reservation station"),
    _size("rs_st", "stores in the reservation station"),
    _size("rs_ex", "preloads and computations in the reservation station"),
    _size("dram_latency_cycles", "from request to first data", "cycles"),
    Option("clock_mhz", float, _DEFAULTS["clock_hz"] / 1e6, "clock of the accelerator", 0.001, 1e6, unit="MHz"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    structure = {k: v for k, v in options.items() if k not in ("dataflow", "clock_mhz")}
    return gemmini(clock_hz=options["clock_mhz"] * 1e6, **structure)


def _isa_parameters(graph: "ArchitectureGraph") -> Mapping[str, int]:
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
