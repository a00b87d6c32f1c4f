"""The UMA target ``oma``: tiled GEMM with tile sizes and execution order to choose."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from archloom.acadl_models.oma import oma
from archloom.mapper.lines import Cache, misses
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div, divided
from archloom.uma_targets.oma.emit import emit, workspace_bytes

GRAPH = kit.GraphOptions(oma)
ORDERS = tuple(itertools.permutations("mnk"))


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
    cache = Cache.of(hardware)
    near = cache.hit_cycles if cache else hardware.memory("hbm").read_latency_cycles
    missing = misses(shape, c, cache, orders) * cache.miss_cycles if cache else 0
    products = Loop(shape.k, (), alone=(Issue("mac"),), waits=2 * near)
    sums = Loop(shape.m * shape.n, (products,), waits=2 * ceil_div(shape.k, c["k"]) * near)
    return Loop(1, (sums,), waits=missing)


OMA = kit.GemmKit(
    name="oma",
    description="one multiply-accumulate at a time behind a data cache: scalar, int8 (ACADL paper)",
    options=GRAPH.options({"registers": [
        *(kit.Option(f"tile_{d}", int, None, f"tile of {d}; by default the fastest of a few", 1, 1 << 24)
          for d in "mnk"),
        kit.Option("order", str, "auto", "loops over tiles, outermost first",
                   choices=("auto", *("".join(o) for o in ORDERS))),
    ]}),
    isa="oma",
    graph=GRAPH.graph,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: 1,
    workspace_bytes=workspace_bytes,
)


class Oma(kit.KitTarget):
    """OMA: one multiply-accumulate at a time behind a data cache."""

    kit = OMA
