"""The UMA target ``plasticine``: products of float32 networks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from acadl_models.plasticine import RANGES, isa_parameters, plasticine
from mapper.mapping import Mapping as TileMapping
from mapper.options import Option
from uma_targets.kit import Gemm as KitGemm
from uma_targets.kit import GemmKit, KitTarget, Nodes, Shape, Tiling
from uma_targets.plasticine.emit import Gemm
from uma_targets.plasticine.plan import Machine, demand, expected_cycles, sizes, tiling_of

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper.hardware import Hardware
    from mapper.space import Columns

_DEFAULTS = {name: p.default for name, p in inspect.signature(plasticine).parameters.items()}


def _size(name: str, about: str, unit: str = "") -> Option:
    """An integer of the graph: its default and its range are the graph's own."""
    low, high = RANGES[name]
    return Option(name, int, _DEFAULTS[name], about, low, high, unit=unit)


OPTIONS = (
    _size("rows", "rows of units"),
    _size("cols", "columns of units, an even number: half are PCUs, half PMUs"),
    _size("lanes", "lanes of a PCU, words of a vector"),
    _size("stages", "stages of a PCU"),
    _size("pmu_kib", "scratchpad of a PMU", "KiB"),
    _size("generators", "address generators, each with a load and a store queue"),
    _size("dram_bytes_per_cycle", "bandwidth of all channels of DRAM", "bytes"),
    _size("dram_latency_cycles", "from request to first data", "cycles"),
    _size("hop_cycles", "from a PMU to a PCU beside it", "cycles"),
    _size("lookahead", "patterns that may be handed out at a time"),
    Option("clock_mhz", float, _DEFAULTS["clock_hz"] / 1e6, "clock of the accelerator", 0.001, 1e6, unit="MHz"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    structure = {k: v for k, v in options.items() if k != "clock_mhz"}
    return plasticine(clock_hz=options["clock_mhz"] * 1e6, **structure)


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
