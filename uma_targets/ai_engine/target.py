"""The UMA target ``ai_engine``: matrix products of int8 networks on all cores, with 16-bit multiplications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.acadl_models.ai_engine import PRODUCTS_PER_CYCLE, ai_engine
from archloom.uma_targets import kit
from archloom.uma_targets.ai_engine.emit import emit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div, divided

GRAPH = kit.GraphOptions(ai_engine)



def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    tile, cores = options["tile"], options["rows"] * options["columns"]
    ways = _ways(cores)
    sizes = {d: divided(e, most=tile) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))}
    def loops(c: kit.Columns) -> Loop:
        """Rounds of tiles on all cores; for each step of k two streams and a product; operands and sums take turns."""
        m, n, k = (c[d] for d in "mnk")
        tall, wide = (np.asarray(ceil_div(e, t)) for e, t in ((shape.m, m), (shape.n, n)))
        rows, columns = ways[c["dataflow"], 0], ways[c["dataflow"], 1]
        rounds = ceil_div(tall, rows) * ceil_div(wide, columns)
        many = tall * wide / rounds
        deep = np.asarray(ceil_div(shape.k, k))
        depth = shape.k / deep
        read = Issue("read_a", many, depth * shape.item, m, units=many)
        mmul = Issue("mmul", many, units=many, values={"m": m, "n": n, "k": depth})
        write = Issue("write_c", many, n * shape.out_item, m, units=many)
        bias = replace(read, mnemonic="read_bias", moves=4 * n, pieces=1)
        step = Loop(deep, (mmul,), first=(read, replace(read, mnemonic="read_b", moves=n * shape.item, pieces=depth)),
                    slots=2)
        tiles = Loop(rounds, (step,), first=(bias,) if shape.bias else (), last=(write,), slots=2)
        return Loop(1, (tiles,), alone=tuple(replace(i, times=1) for i in (mmul, write)))

    return Tiling(sizes, dataflows=tuple(f"{rows}x{columns}" for rows, columns in ways), loops=loops)


def _ways(cores: int) -> np.ndarray:
    """Rows and columns as which the cores may be taken: all that leave none over."""
    return np.array([(rows, cores // rows) for rows in range(1, cores + 1) if cores % rows == 0])


AI_ENGINE = kit.GemmKit(
    name="ai_engine",
    description="Versal AI Engine cores joined by 32-bit streams: FIR filters, and int8 GEMM with 16-bit products",
    options=GRAPH.options(),
    isa="ai_engine",
    graph=GRAPH.graph,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: PRODUCTS_PER_CYCLE * graph.parameters["cores"],
    patience=5,
)


class AiEngine(kit.KitTarget):
    """Versal AI Engine cores joined by streams."""

    kit = AI_ENGINE
