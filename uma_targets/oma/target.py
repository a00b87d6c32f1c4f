"""The UMA target ``oma``: tiled GEMM with tile sizes and execution order to choose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from acadl_models.oma import POLICIES, RANGES, oma
from mapper.options import GraphOptions, Option
from mapper.reuse import ceil_div
from uma_targets.kit import GemmKit, KitTarget, Tiling, divided, tile_loads
from uma_targets.oma.emit import emit, workspace_bytes

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper.hardware import Hardware
    from mapper.space import Columns
    from uma_targets.kit import Shape

GRAPH = GraphOptions(oma, RANGES)
ORDERS = tuple(itertools.permutations("mnk"))
MAPPING = ("tile_m", "tile_n", "tile_k", "order")
"""Options that are no structure."""


def _tile(d: str) -> Option:
    return Option(f"tile_{d}", int, None, f"tile of {d}; by default the fastest of a few", 1, 1 << 24)

OPTIONS = (
    GRAPH.size("registers", "registers of 32 bits"),
    _tile("m"), _tile("n"), _tile("k"),
    Option("order", str, "auto", "loops over tiles, outermost first", choices=(
        "auto", *("".join(o) for o in ORDERS))),
    Option("cache", bool, GRAPH.default("cache"), "a data cache in front of the data memory"),
    GRAPH.size("cache_sets", "sets of the data cache"),
    GRAPH.size("cache_ways", "lines in a set"),
    GRAPH.size("cache_line_bytes", "line of the data cache", "bytes"),
    Option("replacement", str, GRAPH.default("replacement"), "which line of a set is given up",
           choices=tuple(POLICIES)),
    GRAPH.size("hit_cycles", "a hit in the data cache", "cycles"),
    GRAPH.size("miss_cycles", "what a miss costs more than a hit", "cycles"),
    GRAPH.size("memory_cycles", "the data memory without a cache", "cycles"),
    GRAPH.size("mac_cycles", "a multiply-accumulate", "cycles"),
    GRAPH.size("memory_mib", "data memory", "MiB"),
    GRAPH.clock("clock of the accelerator"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    return oma(**GRAPH.arguments(options, besides=MAPPING))


def _tiling(shape: "Shape", hardware: "Hardware", options: Mapping[str, Any]) -> Tiling:
    """Any tiles; without a cache nothing is reused and only the number of passes over k matters."""
    sizes = {}
    for d, extent in (("m", shape.m), ("n", shape.n), ("k", shape.k)):
        given = options[f"tile_{d}"]
        sizes[d] = [min(given, extent)] if given else divided(extent) if options["cache"] else [extent]
    orders = ORDERS if options["order"] == "auto" else (tuple(options["order"]),)
    return Tiling(sizes, orders, cycles=lambda s, c: _cycles(s, c, options, orders))


def _cycles(
    shape: "Shape", c: "Columns", options: Mapping[str, Any], orders: tuple[tuple[str, ...], ...]
) -> np.ndarray:
    """Instructions one after the other, and misses: of an operand's tile whenever another one is asked for.

    Within a tile, each row of A meets all of B's tile, column by column. A tile that stays in the cache misses once;
    one of which a column of lines stays, once for each row of A; any other for each element.
    """
    near = options["hit_cycles"] if options["cache"] else options["memory_cycles"]
    counts = {d: np.asarray(ceil_div(e, c[d])) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))}
    passes = 2 * shape.m * shape.n * counts["k"]
    steps = shape.m * shape.n * shape.k * (2 * near + options["mac_cycles"]) + passes * near
    if not options["cache"]:
        return np.asarray(shape.batch * steps, float)
    line = options["cache_line_bytes"]
    row, wide = ceil_div(c["k"], line) + 1, np.asarray(ceil_div(c["n"], line))
    deep = np.asarray(ceil_div(c["k"], max(1, line // shape.n)))
    sums = np.where(counts["k"] > 1, ceil_div(4 * c["n"], line) + 1, 0)
    whole = deep * wide + row + sums <= _room(shape.n, wide, options)
    strip = deep <= _room(shape.n, np.ones_like(wide), options)
    lines = {
        "mk": c["m"] * row,
        "kn": np.where(whole, deep * wide, c["m"] * np.where(strip, deep * wide, c["n"] * c["k"])),
        "mn": c["m"] * sums,
    }
    # only what stays is still there when the next tile asks for it
    both = lines["mk"] + deep * wide <= options["cache_sets"] * options["cache_ways"]
    stays = {"mk": both, "kn": whole, "mn": both & (lines["mk"] + deep * wide + lines["mn"] <= _room(
        4 * shape.n, np.asarray(ceil_div(4 * c["n"], line)), options))}
    visits = counts["m"] * counts["n"] * counts["k"]
    by_order = [c["order"] == i for i in range(len(orders))]
    once = {index: np.select(by_order, [tile_loads(o, index, counts) for o in orders]) for index in lines}
    misses = sum(lines[index] * np.where(stays[index], once[index], visits) for index in lines)
    return np.asarray(shape.batch * (steps + misses * options["miss_cycles"]), float)


def _room(stride_bytes: int, wide: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """Lines that stay of rows ``wide`` lines long that lie ``stride_bytes`` apart.

    Those of the sets on which they fall, less a quarter, since other data fall on them as well.
    """
    sets, line = options["cache_sets"], options["cache_line_bytes"]
    shared = math.gcd(stride_bytes // line, sets) if stride_bytes % line == 0 else 1
    found: np.ndarray = np.minimum(sets, sets // shared * np.minimum(wide, shared)) * options["cache_ways"] * 0.75
    return found


OMA = GemmKit(
    name="oma",
    description="one multiply-accumulate at a time behind a data cache: scalar, int8 (ACADL paper)",
    options=OPTIONS,
    isa="oma",
    graph=_graph,
    isa_parameters=lambda graph: graph.parameters,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: 1,
    workspace_bytes=workspace_bytes,
)


class Oma(KitTarget):
    """OMA: one multiply-accumulate at a time behind a data cache."""

    kit = OMA
