"""The UMA target ``oma``: tiled GEMM with tile sizes and execution order to choose.

Three loops over tiles in any order, and within a tile a product of scalars at a time. Each pass over a tile of k adds
to what the passes before it left: i32 partial sums in a workspace in memory. The first pass starts from the bias or 0,
the last one requantizes, where C is not the sums. Where k is one tile, sums stay in their register.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from archloom.acadl_models.oma import oma
from archloom.mapper.costs.lines import Cache, misses
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, divided, each, pieces, repeat

GRAPH = kit.GraphOptions(oma)
ORDERS = tuple(itertools.permutations("mnk"))

SUM, A, B = range(3)
"""Registers."""


@dataclass(frozen=True)
class _Tile:
    """First element and size of the tile at hand, by dimension, and whether it is the first and the last of k."""

    first: Mapping[str, Affine]
    size: Mapping[str, int]
    starts: bool
    ends: bool


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product."""
    if sorted(mapping.order) != ["k", "m", "n"]:
        raise MappingError(f"{mapping}: expected an order of m, n and k")
    extents = {"m": gemm.m, "n": gemm.n, "k": gemm.k}

    def loops(depth: int, at: Mapping[str, tuple[Affine, Piece]]) -> Nodes:
        if depth == len(mapping.order):
            k = at["k"][1]
            tile = _Tile({d: i * mapping.size(d) for d, (i, _) in at.items()},
                         {d: run.size for d, (_, run) in at.items()}, k.is_first, k.is_last)
            return repeat("i", tile.size["m"], lambda i: repeat("j", tile.size["n"], lambda j: _element(
                gemm, tile, tile.first["m"] + i, tile.first["n"] + j)))
        d = mapping.order[depth]
        edges = d == "k"
        runs = pieces(extents[d], mapping.size(d), peel_first=edges, peel_last=edges)
        return each(f"{d}t", runs, lambda i, run: loops(depth + 1, {**at, d: (i, run)}))

    return loops(0, {})


def workspace_bytes(m: int, n: int, k: int, mapping: kit.TileMapping) -> int:
    """Bytes of the partial sums that ``mapping`` keeps in memory."""
    return 4 * m * n if mapping.size("k") < k else 0


def _element(gemm: Gemm, tile: _Tile, i: Affine, j: Affine) -> Iterator[Node]:
    """What one element of C gets from a tile of k."""
    partial = gemm.workspace + (i * gemm.n + j) * 4
    if not tile.starts:
        yield Instr.make("load32", dram=partial, rd=SUM)
    elif gemm.bias is not None:
        yield Instr.make("load32", dram=gemm.bias_at(j), rd=SUM)
    else:
        yield Instr.make("movi", rd=SUM, value=0)
    yield from repeat("l", tile.size["k"], lambda l: [
        Instr.make("load8", dram=gemm.a_at(i, tile.first["k"] + l), rd=A),
        Instr.make("load8", dram=gemm.b_at(tile.first["k"] + l, j), rd=B),
        Instr.make("mac", rd=SUM, ra=A, rb=B)])
    if tile.ends and gemm.stores_sums:
        yield Instr.make("store32", dram=gemm.c_at(i, j), rs=SUM)
    elif tile.ends:
        yield Instr.make("requant", rd=SUM, rs=SUM, scale=gemm.scale_bits, low=gemm.lowest)
        yield Instr.make("store8", dram=gemm.c_at(i, j), rs=SUM)
    else:
        yield Instr.make("store32", dram=partial, rs=SUM)


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Any tiles; without a cache nothing is reused and only the number of passes over k matters."""
    sizes = {}
    for d, extent in (("m", shape.m), ("n", shape.n), ("k", shape.k)):
        given = options[f"tile_{d}"]
        sizes[d] = [min(given, extent)] if given else divided(extent) if options["cache"] else [extent]
    orders = ORDERS if options["order"] == "auto" else (tuple(options["order"]),)
    return Tiling(sizes, orders, loops=lambda c: _loops(shape, c, hardware, orders))


def _loops(shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware, orders: tuple[tuple[str, ...], ...]) -> Loop:
    """Elements of C in passes over tiles of k: two loads and a product after the other, and what misses the cache."""
    caches = Cache.of(hardware)
    near = caches[0].hit_cycles if caches else hardware.way("mac").memory.read_latency_cycles
    missing = misses(shape, c, caches[0], orders) * caches[0].miss_cycles if caches else 0
    products = Loop(shape.k, (), alone=(Issue("mac"),), waits=2 * near)
    sums = Loop(shape.m * shape.n, (products,), waits=2 * ceil_div(shape.k, c["k"]) * near)
    return Loop(1, (sums,), waits=missing)


class Oma(kit.KitTarget):
    """OMA: one multiply-accumulate at a time behind a data cache."""

    kit = kit.GemmKit(
        name="oma", isa="oma", graph=GRAPH.graph, emit=emit, tiling=_tiling, workspace_bytes=workspace_bytes,
        description="one multiply-accumulate at a time behind a data cache: scalar, int8 (ACADL paper)",
        options=GRAPH.options({"registers": [
            *(kit.Option(f"tile_{d}", int, None, f"tile of {d}; by default the fastest of a few", 1, 1 << 24)
              for d in "mnk"),
            kit.Option("order", str, "auto", "loops over tiles, outermost first",
                       choices=("auto", *("".join(o) for o in ORDERS)))]}),
        macs_per_cycle=lambda graph: 1, sums=True)
