"""The UMA target ``qkv``: float32 products, with bias and ReLU, and attention as one operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from acadl_models.qkv import RANGES, qkv
from mapper.options import GraphOptions
from mapper.reuse import ceil_div
from uma_targets.kit import GemmKit, KitTarget, Tiling, divided
from uma_targets.qkv.attention import ATTENTION
from uma_targets.qkv.emit import FLOWS, emit, operand_tiles

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper.hardware import Hardware
    from mapper.space import Columns
    from uma_targets.kit import Shape

GRAPH = GraphOptions(qkv, RANGES)

OPTIONS = (
    GRAPH.size("dim", "rows and columns of the array and of a tile"),
    GRAPH.size("operand_rows", "rows of dim numbers that products read"),
    GRAPH.size("sum_rows", "rows of dim sums"),
    GRAPH.size("bus_bytes", "width of the bus to the DRAM", "bytes"),
    GRAPH.size("dram_cycles", "from request to first data", "cycles"),
    GRAPH.size("exp_cycles", "pipeline of the softmax unit", "cycles"),
    GRAPH.size("in_flight", "instructions of a unit under way"),
    GRAPH.size("queue", "instructions that wait before each unit"),
    GRAPH.size("issue_entries", "instructions that wait for issue"),
    GRAPH.size("dram_gib", "DRAM", "GiB"),
    GRAPH.clock("clock of the accelerator"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    return qkv(**GRAPH.arguments(options))


def _tiling(shape: "Shape", hardware: "Hardware", options: Mapping[str, Any]) -> Tiling:
    """Blocks of rows, with all of their part of A in the operands, or with two tiles of it in turn."""
    dim, deep = options["dim"], int(ceil_div(shape.k, options["dim"]))
    operands, sums = hardware.memory("operands").rows, hardware.memory("sums").rows

    def need(c: "Columns") -> np.ndarray:
        block = c["m"] // dim
        return np.where(c["dataflow"] == 0, operand_tiles(1, deep, True) + (block - 1) * deep,
                        operand_tiles(1, deep, False)) * dim

    return Tiling(
        {"m": divided(shape.m, dim, sums // dim * dim), "n": [dim], "k": [dim]}, dataflows=FLOWS,
        demand={"operand_rows": need}, room={"operand_rows": operands},
        cycles=lambda s, c: _cycles(s, c, options), help="more operand_rows or sum_rows",
    )


def _cycles(shape: "Shape", c: "Columns", options: Mapping[str, Any]) -> np.ndarray:
    """The array against the loads; a tile takes a cycle for a row or for a beat of the bus."""
    dim = options["dim"]
    move = dim * max(1, 4 * dim / options["bus_bytes"])
    block, blocks = c["m"] // dim, ceil_div(shape.m, c["m"])
    columns, deep = ceil_div(shape.n, dim), ceil_div(shape.k, dim)
    products = blocks * columns * deep * block * dim
    loads_a = np.where(c["dataflow"] == 0, blocks * block * deep, blocks * block * deep * columns)
    loads = (loads_a + blocks * columns * deep) * move
    result: np.ndarray = shape.batch * (np.maximum(products, loads) + blocks * columns * 4 * dim)
    return result


QKV = GemmKit(
    name="qkv",
    description="a small float32 attention accelerator for tutorials: load, gemm, softmax, store",
    options=OPTIONS,
    isa="qkv",
    graph=_graph,
    isa_parameters=lambda graph: graph.parameters,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: graph.parameters["dim"] ** 2,
    numbers="float32",
    attention=ATTENTION,
)


class Qkv(KitTarget):
    """QKV: load, gemm, softmax, store on float32."""

    kit = QKV
