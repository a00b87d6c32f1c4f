"""The UMA target ``amx``: GEMM of bytes on the matrix unit of an x86 core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.acadl_models.amx import MACS_PER_CYCLE, ROWS, amx
from archloom.mapper.lines import Cache
from archloom.mapper.options import GraphOptions
from archloom.mapper.reuse import ceil_div
from archloom.uma_targets.amx.emit import GROUP, LANES, MOST, depth_of, emit, workspace_bytes
from archloom.uma_targets.kit import GemmKit, Issue, KitTarget, Loop, Tiling

if TYPE_CHECKING:
    from archloom.mapper.hardware import Hardware
    from archloom.mapper.space import Columns
    from archloom.uma_targets.kit import Shape

GRAPH = GraphOptions(amx)

def _tiling(shape: "Shape", hardware: "Hardware", options: Mapping[str, Any]) -> Tiling:
    """Blocks of one or two tiles each way; all of k at once."""
    sizes = {d: [s for s in (LANES, MOST) if s == LANES or e > LANES] for d, e in (("m", shape.m), ("n", shape.n))}
    return Tiling({**sizes, "k": [shape.k]}, loops=lambda c: _loops(shape, c, hardware))


def _loops(shape: "Shape", c: "Columns", hardware: "Hardware") -> Loop:
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


AMX = GemmKit(
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


class Amx(KitTarget):
    """Intel AMX: products of tiles of bytes."""

    kit = AMX
