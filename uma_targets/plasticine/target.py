"""The UMA target ``plasticine``: products of float32 networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from acadl_models.plasticine import RANGES, isa_parameters, plasticine
from mapper.mapping import Mapping as TileMapping
from mapper.options import GraphOptions
from mapper.reuse import ceil_div
from uma_targets.eyeriss.spans import grouped
from uma_targets.kit import Gemm as KitGemm
from uma_targets.kit import GemmKit, Issue, KitTarget, Loop, Nodes, Shape, Tiling
from uma_targets.plasticine.emit import Gemm
from uma_targets.plasticine.plan import WORD_BYTES, Column, Machine, demand, sizes, tiling_of, tilings

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

    return Tiling(
        {"m": found.m, "n": [n * machine.lanes for n in found.n], "k": found.k},
        demand={"pmu": lambda c: demand(machine, *block(c))}, room={"pmu": machine.vectors},
        loops=lambda c: _loops(shape, block(c), machine),
        help="a larger pmu_kib",
    )


def _loops(shape: Shape, block: tuple[Column, Column, Column], machine: Machine) -> Loop:
    """Tiles of all pairs of units; while a step of k is folded, the next blocks are loaded.

    A pattern reads a vector of scalars and a block of B, and reads and writes its sums over the port of its PMU.
    """
    m, n, k = block
    down, across, sums = tilings(shape.m, shape.n, block, machine)
    (tall, rows_each), (wide, vectors_each) = grouped(shape.m, m, down), grouped(machine.groups(shape.n), n, across)
    # of a mean tile: the last ones are smaller
    high, filled, broad = shape.m / (tall * down), shape.n / (wide * n * machine.lanes), n * machine.lanes * WORD_BYTES
    steps, mean_m, mean_n = ceil_div(shape.k, k), rows_each / tall, vectors_each / wide
    pairs, deep = down * across, shape.k / steps
    words = mean_n * deep + ceil_div(k, machine.lanes) + 2 * mean_n + 2
    scalars, vectors = high * ceil_div(k, machine.lanes), mean_n * deep
    rows = Issue("load", down, deep * WORD_BYTES, high, words={"pmu": 0}, beats=scalars)
    columns = Issue("load", filled, broad, deep, words={"pmu": 0}, beats=vectors)
    # the port of a PMU also takes what is loaded, once for all patterns of a step
    fold = Issue("fold_product", pairs * mean_m, words={"pmu": words + (scalars + vectors) / mean_m}, units=pairs,
                 values={"k": deep, "n": mean_n}, beats=words)
    store = Issue("store", down * filled, broad, high, beats=high * mean_n)
    bias = replace(columns, times=filled * shape.bias, pieces=high, moves=broad)
    # the first blocks of a tile lie where those of the third step did, too
    others, first = (Loop(times, (fold,), first=(rows, columns), slots=slots) for times, slots in (
        (steps - 1, 2), (1, np.where(steps % 2 == 1, 1, 2))))
    tiles = Loop(tall * wide, (first, others), first=(bias,), last=(store,), slots=sums)
    return Loop(1, (tiles,), alone=(replace(fold, times=1), replace(store, times=1)))


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
