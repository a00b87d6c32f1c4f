"""The UMA target ``mte``: networks of float32, float16, bfloat16, and quantized ones on a vector core with tiles in
its registers, or with vectors alone.

:mod:`.emit` has the instructions of products, the kit's vector code those of all else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph, RegisterFile
from archloom.acadl_models.mte import PORT_BYTES, macs_per_cycle, mte
from archloom.mapper.costs.lines import Cache
from archloom.mapper.nests import HALVES
from archloom.mapper.packing import Place
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div
from archloom.uma_targets.kit.vectors import RiscvV, VectorKit
from archloom.uma_targets.mte.emit import BITS, TYPES, Machine, emit, refuse_without_tiles

GRAPH = kit.GraphOptions(mte)

DEPTHS = (256, 1024)
"""Blocks of K to choose from, beside all of it: a free choice."""

HELD = (1, 2, 4, 8)
"""Tiles of B that are loaded one after the other, to choose from: a free choice."""


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of C that fit into registers beside tiles of A and B; all of K at once or in blocks."""
    machine, types = Machine(**GRAPH.graph(options).parameters), TYPES[shape.item]
    refuse_without_tiles(machine, types)
    columns = machine.columns(types)

    def multiples(extent: int, tile: int) -> list[int]:
        return [tile * count for count in range(1, min(machine.registers, -(-extent // tile)) + 1)]

    return Tiling(
        {"m": multiples(shape.m, machine.rows), "n": multiples(shape.n, columns),
         "k": [shape.k, *(k for k in DEPTHS if k < shape.k)]},
        demand={"registers": lambda c: machine.used(c["m"] // machine.rows, c["n"] // columns, c["B"], types)},
        room={"registers": machine.registers}, buffers={"B": HELD},
        loops=lambda c: _loops(shape, c, machine, hardware), help="more registers")


def _loops(shape: kit.Shape, c: kit.Columns, machine: Machine, hardware: kit.Hardware) -> Loop:
    """Blocks of K, of C in them; groups of tiles of B, and products with them, each of which waits for the one before
    it into the same tile. Sizes are those of whole tiles."""
    types = TYPES[shape.item]
    columns, deep = machine.columns(types), machine.deep(types)
    tall, wide, held = c["m"] // machine.rows, c["n"] // columns, c["B"]
    blocks = ceil_div(shape.m, c["m"]) * ceil_div(shape.n, c["n"])
    values = {"tm": machine.rows, "tn": columns, "tk": deep, "sewi": types.bits, "sewo": BITS,
              "vl": columns, "sew": BITS}
    near, of_a, of_b = _waits(shape, c, hardware)

    def issue(name: str, times: Any, beats: Any = 0) -> Issue:
        return Issue(name, times, values=values, beats=beats)

    tiles = machine.rows > 1
    product, a, b, load, store = (
        (types.product, "tla", "tlbt" if types.mixed else "tlb", "tlc", "tsc") if tiles else
        (*(("vmacc_vx", "lb", "vle8_v") if types.mixed else ("vfmacc_vf", "flw", "vle32_v")), "vle32_v", "vse32_v"))
    lines = machine.rows if tiles else machine.vlen // (8 * PORT_BYTES)
    wider = (issue("vsext_vf4", held),) if types.mixed and not tiles else ()
    loads = (issue(a, tall * held / wide, of_a + lines * tiles), issue(b, held, of_b + lines), *wider)
    group = Loop(ceil_div(c["k"], deep) * wide / held, (issue(product, tall * held),), first=loads, slots=2,
                 rings=(((issue(product, 1),), 1),))
    again = (c["k"] < shape.k) | bool(shape.bias)
    added = (issue(load, tall * wide, near + lines),) if shape.residual else ()
    block = Loop(blocks, (group,), first=(issue(load, tall * wide * again, near + lines),),
                 last=(*added, issue(store, tall * wide, near + lines)), slots=1)
    return Loop(ceil_div(shape.k, c["k"]), (block,))


def _waits(shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware) -> tuple[int, Any, Any]:
    """Cycles until a line is there: of the cache, and in the mean of A and of B. Columns of B for a block come from
    memory once for all blocks of rows where they leave half of the cache to others, all of A once for all columns where
    there is room for both."""
    cache = Cache.of(hardware)
    if cache is None:
        return 0, 0, 0
    room = cache.lines * cache.line_bytes
    b, a = c["k"] * c["n"] * shape.item, c["k"] * shape.m * shape.item
    far_b = np.where(2 * b <= room, 1 / ceil_div(shape.m, c["m"]), 1)
    far_a = np.where(a + b <= room, 1 / ceil_div(shape.n, c["n"]), 1)
    return cache.hit_cycles, cache.hit_cycles + far_a * cache.miss_cycles, cache.hit_cycles + far_b * cache.miss_cycles


def _unit(parameters: Mapping[str, int]) -> RiscvV:
    return RiscvV(parameters["vlen"], parameters["registers"])


def _free(graph: ArchitectureGraph) -> int:
    """Physical registers beyond those with names: one instruction writes no more."""
    file = graph.objects[graph.buffers["v"][0].storage]
    assert isinstance(file, RegisterFile) and file.physical_registers is not None
    return file.physical_registers - graph.parameters["registers"]


def _layouts(work: Workload, sizes: Mapping[str, Any]) -> Mapping[str, Place]:
    """A constant B of bytes lies column by column where there are tiles."""
    mixed = TYPES[work.inputs[1].item_bytes].mixed and sizes["rlen"] < sizes["vlen"]
    return {"B": (Affine.variable("n"), Affine.variable("k"))} if mixed else {}


class Mte(kit.KitTarget):
    """Products of float32 by tiles, or by vectors."""

    kit = kit.GemmKit(
        name="mte", isa="mte", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="a vector core whose registers hold tiles of matrices, and those it is compared with (MTE)",
        macs_per_cycle=macs_per_cycle,
        rates={"int8": BITS // 8, **dict.fromkeys(HALVES, BITS // 16)}, numbers="float32",
        residual=True, sums_of_bytes=True, halves=lambda options: Machine(**GRAPH.graph(options).parameters).rows > 1,
        layouts=_layouts, vectors=VectorKit(_unit, _free))
