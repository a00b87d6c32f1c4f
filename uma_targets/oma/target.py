"""The UMA target ``oma``: tiled GEMM with tile sizes and execution order to choose."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from archloom.acadl_models.oma import oma
from archloom.mapper.lines import Cache, misses
from archloom.mapper.options import GraphOptions, Option
from archloom.mapper.reuse import ceil_div
from archloom.uma_targets.kit import GemmKit, Issue, KitTarget, Loop, Tiling, divided
from archloom.uma_targets.oma.emit import emit, workspace_bytes

if TYPE_CHECKING:
    from archloom.mapper.hardware import Hardware
    from archloom.mapper.space import Columns
    from archloom.uma_targets.kit import Shape

GRAPH = GraphOptions(oma)
ORDERS = tuple(itertools.permutations("mnk"))


def _tiling(shape: "Shape", hardware: "Hardware", options: Mapping[str, Any]) -> Tiling:
    """Any tiles; without a cache nothing is reused and only the number of passes over k matters."""
    sizes = {}
    for d, extent in (("m", shape.m), ("n", shape.n), ("k", shape.k)):
        given = options[f"tile_{d}"]
        sizes[d] = [min(given, extent)] if given else divided(extent) if options["cache"] else [extent]
    orders = ORDERS if options["order"] == "auto" else (tuple(options["order"]),)
    return Tiling(sizes, orders, loops=lambda c: _loops(shape, c, hardware, orders))


def _loops(shape: "Shape", c: "Columns", hardware: "Hardware", orders: tuple[tuple[str, ...], ...]) -> Loop:
    """Elements of C in passes over tiles of k: two loads and a product after the other, and what misses the cache."""
    cache = Cache.of(hardware)
    near = cache.hit_cycles if cache else hardware.memory("hbm").read_latency_cycles
    missing = misses(shape, c, cache, orders) * cache.miss_cycles if cache else 0
    products = Loop(shape.k, (), alone=(Issue("mac"),), waits=2 * near)
    sums = Loop(shape.m * shape.n, (products,), waits=2 * ceil_div(shape.k, c["k"]) * near)
    return Loop(1, (sums,), waits=missing)


OMA = GemmKit(
    name="oma",
    description="one multiply-accumulate at a time behind a data cache: scalar, int8 (ACADL paper)",
    options=GRAPH.options({"registers": [
        *(Option(f"tile_{d}", int, None, f"tile of {d}; by default the fastest of a few", 1, 1 << 24) for d in "mnk"),
        Option("order", str, "auto", "loops over tiles, outermost first",
               choices=("auto", *("".join(o) for o in ORDERS))),
    ]}),
    isa="oma",
    graph=GRAPH.graph,
    isa_parameters=lambda graph: graph.parameters,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: 1,
    workspace_bytes=workspace_bytes,
)


class Oma(KitTarget):
    """OMA: one multiply-accumulate at a time behind a data cache."""

    kit = OMA
