"""The UMA target ``gamma``: GEMM with fused activation on all complexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.acadl_models.gamma import LANES, MACS_PER_CYCLE, gamma, isa_parameters
from archloom.mapper.tiling import Demand
from archloom.uma_targets import kit
from archloom.uma_targets.gamma.emit import demand, emit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div, divided

GRAPH = kit.GraphOptions(gamma)
ORDERS = (("m", "n", "k"), ("n", "m", "k"))
MOST_BLOCKS = 4
"""Blocks of a tile along m and n that are tried."""


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Tiles of a few blocks, panels of k as long as two fit a scratchpad."""
    rows = hardware.memory("sp").rows // options["complexes"]
    sizes = {d: divided(e, LANES, MOST_BLOCKS * LANES) for d, e in (("m", shape.m), ("n", shape.n))}
    orders = ORDERS if options["spread"] == "auto" else tuple(o for o in ORDERS if o[0] == options["spread"])

    def need(name: str) -> Demand:
        by_n = np.array([o[0] == "n" for o in orders])
        return lambda c: demand(c["m"], c["n"], c["k"], by_n[c["order"]])[name]

    room = {"registers": options["registers"], "accumulators": options["accumulators"], "scratchpad": rows}
    return Tiling(
        {**sizes, "k": divided(shape.k, LANES, max(LANES, rows // 2 // LANES * LANES), limit=4)}, orders,
        demand={name: need(name) for name in room}, room=room,
        loops=lambda c: _loops(shape, c, options["complexes"], options["registers"], orders),
        help="more registers, accumulators or scratchpad_kib",
    )


def _loops(
    shape: kit.Shape, c: kit.Columns, complexes: int, registers: int, orders: tuple[tuple[str, ...], ...]
) -> Loop:
    """Tiles of all complexes at a time; in a panel of k, each loads its own blocks of 8 x 8, and the shared ones.

    Sums, panels and operands take turns, results in the registers that operands leave. Sizes are those of mean tiles.
    """
    by_n = np.array([o[0] == "n" for o in orders])[c["order"]]
    extents = {"m": shape.m, "n": shape.n, "k": shape.k}
    tiles = {d: np.asarray(ceil_div(e, c[d])) for d, e in extents.items()}
    blocks = {d: ceil_div(e, LANES) / tiles[d] for d, e in extents.items()}
    high, wide, deep = (e / ceil_div(e, LANES) for e in extents.values())
    own, shared = np.where(by_n, blocks["n"], blocks["m"]), np.where(by_n, blocks["m"], blocks["n"])
    spread, other = np.where(by_n, tiles["n"], tiles["m"]), np.where(by_n, tiles["m"], tiles["n"])
    rounds = np.asarray(ceil_div(spread, complexes))
    many, sums = spread / rounds, blocks["m"] * blocks["n"]
    leaders = np.where(np.minimum(spread, complexes) > 1, many / 2, 1)

    # of n a column of blocks at a time, of m a column of k
    panel, parts = np.where(by_n, blocks["m"] * high, blocks["k"] * deep), np.where(by_n, blocks["k"], shared)
    fetch = Issue("fetch8", leaders * parts, np.where(by_n, deep, wide) * shape.item, panel, units=leaders,
                  values={"rows": panel}, beats=panel)
    rows = np.where(by_n, deep, high)
    load = Issue("load8", many * own, np.where(by_n, wide, deep) * shape.item, rows, units=many, values={"rows": rows})
    read = Issue("read", many * shared, units=many, beats=np.where(by_n, high, deep))
    products = Issue("matmul", many * sums, units=many, values={"rows": high})
    store = Issue("store8", many * sums, wide * shape.out_item, high, units=many, values={"rows": high})
    bias = Issue("bias", many * sums, 4 * wide, units=many)

    step = Loop(blocks["k"], (products,), first=(load, read), slots=2)
    panels = Loop(tiles["k"], (step,), first=(fetch,), slots=2, occupied=0)
    tile = Loop(rounds * other, (panels,), first=(bias,) if shape.bias else (), last=(store,), slots=2)
    return Loop(1, (tile,), alone=(products, store))


GAMMA = kit.GemmKit(
    name="gamma",
    description="fused 8 x 8 tensor operations on 16-bit integers in complexes that share scratchpads (ACADL paper)",
    options=GRAPH.options({"complexes": [
        kit.Option("spread", str, "auto", "which tiles go to different complexes", choices=("auto", "m", "n"))]}),
    isa="gamma",
    graph=GRAPH.graph,
    isa_parameters=isa_parameters,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: MACS_PER_CYCLE * graph.parameters["complexes"],
    patience=20,
)


class Gamma(kit.KitTarget):
    """Gamma: fused tensor operations on 16-bit integers."""

    kit = GAMMA
