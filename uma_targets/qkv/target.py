"""The UMA target ``qkv``: float32 products, with bias and ReLU, and attention as one operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.acadl_models.qkv import qkv
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div, divided
from archloom.uma_targets.qkv.attention import ATTENTION, moved
from archloom.uma_targets.qkv.emit import FLOWS, emit, operand_tiles

GRAPH = kit.GraphOptions(qkv)


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of rows, with all of their part of A in the operands, or with two tiles of it in turn."""
    dim, deep = options["dim"], int(ceil_div(shape.k, options["dim"]))
    operands, sums = hardware.memory("operands").rows, hardware.memory("sums").rows

    return Tiling(
        {"m": divided(shape.m, dim, sums // dim * dim), "n": [dim], "k": [dim]}, dataflows=FLOWS,
        demand={"operand_rows": lambda c: operand_tiles(c["m"] // dim, deep, c["dataflow"] == 0) * dim},
        room={"operand_rows": operands},
        loops=lambda c: _loops(shape, c, dim, deep, sums), help="more operand_rows or sum_rows",
    )


def _loops(shape: kit.Shape, c: kit.Columns, dim: int, deep: int, sum_rows: int) -> Loop:
    """Blocks of rows, columns of tiles, steps of k; a tile of A is loaded for its block or for each column.

    Tiles of B take turns, and so do those of A that are streamed; so do sums of a column where two blocks fit. Sizes
    are those of mean tiles.
    """
    tall, wide, resident = int(ceil_div(shape.m, dim)), int(ceil_div(shape.n, dim)), c["dataflow"] == 0
    blocks = np.asarray(ceil_div(shape.m, c["m"]))
    block, rows, depth, columns = tall / blocks, shape.m / tall, shape.k / deep, shape.n / wide

    a, b, gemm = moved("load", 1, rows, depth), moved("load", 1, depth, columns), Issue("gemm", beats=2 * dim)
    store = moved("store", block, rows, columns)
    streamed = replace(a, times=np.where(resident, 0, 1))
    step = Loop(deep, (Loop(block, (gemm,), first=(streamed,), slots=2),), first=(b,), slots=2)
    column = Loop(wide, (step,), first=(moved("load_sums", block * shape.bias, rows, columns),), last=(store,),
                  slots=np.where(2 * c["m"] <= sum_rows, 2, 1))
    tiles = Loop(blocks, (column,), first=(replace(a, times=np.where(resident, block * deep, 0)),), slots=1)
    return Loop(1, (tiles,), alone=(gemm, store))


QKV = kit.GemmKit(
    name="qkv",
    description="a small float32 attention accelerator for tutorials: load, gemm, softmax, store",
    options=GRAPH.options(),
    isa="qkv",
    graph=GRAPH.graph,
    emit=emit,
    tiling=_tiling,
    numbers="float32",
    attention=ATTENTION,
)


class Qkv(kit.KitTarget):
    """QKV: load, gemm, softmax, store on float32."""

    kit = QKV
