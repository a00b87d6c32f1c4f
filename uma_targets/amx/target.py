"""The UMA target ``amx``: GEMM of bytes on the matrix unit of an x86 core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from acadl_models.amx import MACS_PER_CYCLE, RANGES, ROWS, amx, isa_parameters
from mapper.options import GraphOptions
from mapper.reuse import ceil_div
from uma_targets.amx.emit import LANES, MOST, depth_of, emit, workspace_bytes
from uma_targets.kit import GemmKit, KitTarget, Tiling

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper.hardware import Hardware
    from mapper.space import Columns
    from uma_targets.kit import Shape

GRAPH = GraphOptions(amx, RANGES)

OPTIONS = (
    GRAPH.size("product_cycles", "from one product of tiles to the next", "cycles"),
    GRAPH.size("product_latency", "from a product's operands to its sums", "cycles"),
    GRAPH.size("load_ports", "loads of 64 bytes a cycle"),
    GRAPH.size("vector_ports", "ports of 512 bits"),
    GRAPH.size("l1_kib", "first cache", "KiB"),
    GRAPH.size("l1_ways", "lines of a set of the first cache"),
    GRAPH.size("l1_cycles", "look-up in the first cache", "cycles"),
    GRAPH.size("l2_kib", "second cache", "KiB"),
    GRAPH.size("l2_ways", "lines of a set of the second cache"),
    GRAPH.size("l2_cycles", "look-up in the second cache", "cycles"),
    GRAPH.size("memory_cycles", "from request to data of the memory behind the caches", "cycles"),
    GRAPH.size("misses", "lines on their way to the caches at a time"),
    GRAPH.size("fetch_width", "instructions fetched at a time"),
    GRAPH.size("issue_entries", "instructions that wait for issue"),
    GRAPH.size("queue", "instructions that wait before the ports"),
    GRAPH.size("memory_gib", "memory", "GiB"),
    GRAPH.clock("clock of the core"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    return amx(**GRAPH.arguments(options))


def _tiling(shape: "Shape", hardware: "Hardware", options: Mapping[str, Any]) -> Tiling:
    """Blocks of one or two tiles each way; all of k at once."""
    sizes = {d: [s for s in (LANES, MOST) if s == LANES or e > LANES] for d, e in (("m", shape.m), ("n", shape.n))}
    tiles, _ = depth_of(shape.k)

    def cycles(s: "Shape", c: "Columns") -> np.ndarray:
        rows, columns = ceil_div(c["m"], ROWS), ceil_div(c["n"], LANES)
        loads = (rows + columns) * ROWS / options["load_ports"]
        step = np.maximum(rows * columns * options["product_cycles"], loads)
        blocks = ceil_div(s.m, c["m"]) * ceil_div(s.n, c["n"])
        total: np.ndarray = s.batch * blocks * (tiles * step + options["product_latency"])
        return total

    return Tiling({**sizes, "k": [shape.k]}, cycles=cycles)


AMX = GemmKit(
    name="amx",
    description="an x86 core's matrix unit with tiles of 16 x 64 bytes and AVX-512 around it (Intel AMX)",
    options=OPTIONS,
    isa="amx",
    graph=_graph,
    isa_parameters=isa_parameters,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: MACS_PER_CYCLE,
    workspace_bytes=workspace_bytes,
)


class Amx(KitTarget):
    """Intel AMX: products of tiles of bytes."""

    kit = AMX
