"""The UMA target ``tpu_v1``: products of quantized networks in blocks of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.acadl_models.tpu_v1 import isa_parameters, tpu_v1
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div, divided
from archloom.uma_targets.tpu_v1.emit import emit, panels_of

GRAPH = kit.GraphOptions(tpu_v1)


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of rows: the more, the less often the weights come; two blocks of sums, or one."""
    dim, acc, buffer = options["dim"], hardware.memory("accumulator").rows, hardware.memory("unified_buffer").rows
    room = max(1, min(acc, buffer // panels_of(shape.k, dim)))
    blocks = sorted({*divided(shape.m, 1, room, limit=3), *divided(shape.m, 1, max(1, room // 2), limit=3)})
    return Tiling(
        {"m": blocks, "n": [dim], "k": [dim]},
        demand={"unified_buffer": lambda c: c["m"] * panels_of(shape.k, dim)}, room={"unified_buffer": buffer},
        loops=lambda c: _loops(shape, c, dim, acc, hardware.memory("fifo").rows), help="a larger unified_buffer_kib",
    )


def _loops(shape: kit.Shape, c: kit.Columns, dim: int, acc_rows: int, fifo: int) -> Loop:
    """Blocks of rows from the host; columns of weight tiles through the FIFO; columns take turns in the accumulators
    where two fit, and blocks in the Unified Buffer. Sizes are those of mean tiles.
    """
    blocks, deep, wide = (np.asarray(ceil_div(e, t)) for e, t in ((shape.m, c["m"]), (shape.k, dim), (shape.n, dim)))
    rows, depth, columns = shape.m / blocks, shape.k / deep, shape.n / wide
    host = Issue("read_host_memory", deep, depth * shape.item, rows)
    product = Issue("matrix_multiply", values={"rows": rows, "take": 1}, beats=2 * rows)
    write = Issue("write_host_memory", 1, columns * shape.out_item, rows)
    step = Loop(deep, (product,), first=(Issue("read_weights_strided", 1, columns * shape.item, depth),), slots=fifo)
    column = Loop(wide, (step,), last=(Issue("activate", values={"rows": rows}, beats=2 * rows),),
                  slots=np.where(2 * c["m"] <= acc_rows, 2, 1))
    written = Loop(1, (column, replace(write, times=wide)))
    return Loop(1, (Loop(blocks, (written,), first=(host,), slots=2),), alone=(write,))


TPU_V1 = kit.GemmKit(
    name="tpu_v1",
    description="256 x 256 weight-stationary int8 array with a Unified Buffer and a weight FIFO (Jouppi et al.)",
    options=GRAPH.options(),
    isa="tpu_v1",
    graph=GRAPH.graph,
    isa_parameters=isa_parameters,
    emit=emit,
    tiling=_tiling,
)


class TpuV1(kit.KitTarget):
    """TPU v1: a weight-stationary array behind a weight FIFO."""

    kit = TPU_V1
