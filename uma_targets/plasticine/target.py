"""The UMA target ``plasticine``: products of float32 networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from acadl_models.plasticine import RANGES, isa_parameters, plasticine
from mapper.mapping import Mapping as TileMapping
from mapper.options import GraphOptions
from uma_targets.kit import Gemm as KitGemm
from uma_targets.kit import GemmKit, KitTarget, Nodes, Shape, Tiling
from uma_targets.plasticine.emit import Gemm
from uma_targets.plasticine.plan import Machine, demand, expected_cycles, sizes, tiling_of

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper.hardware import Hardware
    from mapper.space import Columns

GRAPH = GraphOptions(plasticine, RANGES)

OPTIONS = (
    GRAPH.size("rows", "rows of units"),
    GRAPH.size("cols", "columns of units, an even number: half are PCUs, half PMUs"),
    GRAPH.size("lanes", "lanes of a PCU, words of a vector"),
    GRAPH.size("stages", "stages of a PCU"),
    GRAPH.size("pmu_kib", "scratchpad of a PMU", "KiB"),
    GRAPH.size("generators", "address generators, each with a load and a store queue"),
    GRAPH.size("dram_bytes_per_cycle", "bandwidth of all channels of DRAM", "bytes"),
    GRAPH.size("dram_latency_cycles", "from request to first data", "cycles"),
    GRAPH.size("hop_cycles", "from a PMU to a PCU beside it", "cycles"),
    GRAPH.size("lookahead", "patterns that may be handed out at a time"),
    GRAPH.clock("clock of the accelerator"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    return plasticine(**GRAPH.arguments(options))


def emit(gemm: KitGemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; the mapping's tile is the block of one pair of units."""
    machine = Machine.of(parameters)
    block = mapping.size("m"), machine.groups(mapping.size("n")), mapping.size("k")
    tiling = tiling_of(gemm.m, gemm.n, block, machine)
    return Gemm(
        gemm.m, gemm.n, gemm.k, gemm.a, gemm.b, gemm.c, tiling, machine, bias=gemm.bias, relu=gemm.relu
    ).nodes()


def _tiling(shape: Shape, hardware: "Hardware", options: Mapping[str, Any]) -> Tiling:
    """Blocks that fit into a PMU, ranked by compute against DRAM."""
    machine = Machine.of(isa_parameters(_graph(options)))
    found = sizes(shape.m, shape.n, shape.k, machine)

    def block(c: "Columns") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return c["m"], -(-c["n"] // machine.lanes), c["k"]

    def cycles(shape: Shape, c: "Columns") -> np.ndarray:
        each = expected_cycles(shape.m, shape.n, shape.k, block(c), machine, options["dram_bytes_per_cycle"])
        return np.asarray(shape.batch * each)

    return Tiling(
        {"m": found.m, "n": [n * machine.lanes for n in found.n], "k": found.k},
        demand={"pmu": lambda c: demand(machine, *block(c))}, room={"pmu": machine.vectors}, cycles=cycles,
        help="a larger pmu_kib",
    )


def _peak(graph: "ArchitectureGraph") -> int:
    """A vector of products a cycle in every PCU: what the port of its PMU feeds."""
    return graph.parameters["units"] * graph.parameters["lanes"]


PLASTICINE = GemmKit(
    name="plasticine",
    description="checkerboard of SIMD pipelines and scratchpads for parallel patterns, float32 (Plasticine)",
    options=OPTIONS,
    isa="plasticine",
    graph=_graph,
    isa_parameters=isa_parameters,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=_peak,
    numbers="float32",
)


class Plasticine(KitTarget):
    """Plasticine: pattern compute and memory units in a checkerboard."""

    kit = PLASTICINE
