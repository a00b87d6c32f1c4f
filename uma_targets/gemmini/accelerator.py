"""Gemmini as an accelerator of the compiler: options, graph, ISA, mapping space and emission."""

from __future__ import annotations

from archloom.acadl_models.gemmini import gemmini, isa_parameters
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.options import GraphOptions, Option
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from archloom.uma_targets.gemmini.space import space

GRAPH = GraphOptions(gemmini)


GEMMINI = Accelerator(
    "gemmini", "systolic array for int8 with scratchpad, accumulator and DMA (ucb-bar/gemmini)",
    GRAPH.options({"dim": [Option(
        "dataflow", str, "auto", "what stays in the array: weights (ws), sums (os), or the faster for each operator",
        choices=("auto", "ws", "os"))]}),
    "gemmini", GRAPH.graph, isa_parameters, lambda parameters: GemminiEmitter(tuple(parameters.items())), space,
)
