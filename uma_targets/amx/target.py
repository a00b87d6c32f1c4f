"""The UMA target ``amx``: GEMM of bytes on the matrix unit of an x86 core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.acadl_models.amx import MACS_PER_CYCLE, ROWS, amx
from archloom.mapper.lines import Cache
from archloom.uma_targets import kit
from archloom.uma_targets.amx.emit import GROUP, LANES, MOST, depth_of, emit, workspace_bytes
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div

GRAPH = kit.GraphOptions(amx)



def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of one or two tiles each way; all of k at once."""
    sizes = {d: [s for s in (LANES, MOST) if s == LANES or e > LANES] for d, e in (("m", shape.m), ("n", shape.n))}
    return Tiling({**sizes, "k": [shape.k]}, loops=lambda c: _loops(shape, c, hardware))


def _loops(shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware) -> Loop:
    """Blocks of C; for each tile of k loads of rows and columns and their products; then rows of each tile, a few at a
    time. There is one set of tiles for operands and one of registers for rows; all lines come from the first cache.
    """
    tall, wide = (np.asarray(ceil_div(e, c[d])) for e, d in ((shape.m, "m"), (shape.n, "n")))
    rows, columns = ceil_div(shape.m, ROWS) / tall, ceil_div(shape.n, LANES) / wide  # tiles of a mean block
    near = (cache.hit_cycles if (cache := Cache.of(hardware)) else 0)
    tiles, group = rows * columns, shape.m / tall / rows / ceil_div(min(shape.m, ROWS), GROUP)
    step = Loop(depth_of(shape.k)[0], (Issue("tdpbssd", tiles),), first=(
        Issue("tileloadd", rows + columns, beats=near + ROWS),), slots=1)
    finish = Loop(ceil_div(min(shape.m, ROWS), GROUP) * tiles, tuple(Issue(name, group) for name in (
        "vcvtdq2ps", "vmulps", "vmaxps", "vminps", "vcvtps2dq")), first=(Issue("vmovups_load", group, beats=near),),
        last=(Issue("vpmovsdb_m", group, beats=near),), slots=1)
    return Loop(tall * wide, (step, Issue("tilestored", tiles, beats=near + ROWS), finish))


AMX = kit.GemmKit(
    name="amx",
    description="an x86 core's matrix unit with tiles of 16 x 64 bytes and AVX-512 around it (Intel AMX)",
    options=GRAPH.options(),
    isa="amx",
    graph=GRAPH.graph,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: MACS_PER_CYCLE,
    workspace_bytes=workspace_bytes,
)


class Amx(kit.KitTarget):
    """Intel AMX: products of tiles of bytes."""

    kit = AMX
