"""The UMA target ``ultratrail``: temporal convolutions and matrix products of int8 networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.acadl_models.ultratrail import ultratrail
from archloom.mapper.tiling import Demand
from archloom.tvm_backend.ir.patterns import DFPattern
from archloom.tvm_backend.targets.backend import Strategy
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div, divided, rules, strategies
from archloom.uma_targets.kit.attention import Kernel
from archloom.uma_targets.ultratrail import temporal
from archloom.uma_targets.ultratrail.emit import demand, emit, room

GRAPH = kit.GraphOptions(ultratrail)


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    dim, have = options["dim"], room(options)
    most = {"m": min(have["fmem"], have["lmem"]), "n": dim * have["wmem"], "k": dim * have["wmem"]}
    sizes = {d: divided(e, 1 if d == "m" else dim, most=most[d]) for d, e in
             (("m", shape.m), ("n", shape.n), ("k", shape.k))}

    def rows(name: str) -> Demand:
        return lambda c: demand(c["m"], ceil_div(c["n"], dim), ceil_div(c["k"], dim))[name] * np.ones_like(c["m"])

    need = {name: rows(name) for name in have}
    return Tiling(sizes, orders=(("n", "m", "k"),), demand=need, room=have, loops=lambda c: _loops(shape, c, dim),
                  help="larger memories (features, weights, sums)")


def _loops(shape: kit.Shape, c: kit.Columns, dim: int) -> Loop:
    """Columns of tiles of C; weights come for all of them where k is one tile, else for each; all memories take turns.
    Sizes are those of mean tiles."""
    wide, tall, deep = (np.asarray(ceil_div(e, c[d])) for d, e in (("n", shape.n), ("m", shape.m), ("k", shape.k)))
    rows, cols, depth = shape.m / tall, ceil_div(shape.n, dim) / wide, ceil_div(shape.k, dim) / deep
    inputs, outputs = shape.k / ceil_div(shape.k, dim), shape.n / ceil_div(shape.n, dim)
    features = Issue("load_features", depth, inputs, rows, beats=rows)
    weights = Issue("load_weights", cols * depth, outputs, inputs, beats=1)
    bias = Issue("load_bias", cols * shape.bias, 4 * outputs, beats=1)
    macs = Issue("mac", cols * rows, values={"layer_blocks": depth, "taps": 1}, beats=depth + 1)
    store = Issue("store_sums", cols, outputs, rows, beats=rows)

    def where(there: np.ndarray) -> Issue:
        return replace(weights, times=np.where(there, weights.times, 0))

    step = Loop(deep, (Issue("layer"), macs), first=(features, where(deep > 1)), slots=2,
                whole=np.where(deep > 1, 1 / cols, 1))  # a sum takes all features, but weights of its own
    tile = Loop(tall, (step,), last=(store,), slots=2)
    columns = Loop(wide, (tile,), first=(bias, where(deep == 1)), slots=2)
    return Loop(1, (columns,), alone=(macs, replace(store, times=1)))


class UltraTrail(kit.KitTarget):
    """UltraTrail: an array of multipliers for temporal convolutions."""

    kit = kit.GemmKit(
        name="ultratrail", isa="ultratrail", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="Tübingen's keyword-spotting accelerator: 8×8 multipliers for temporal convolutions, int8",
        kernels={"conv2d": Kernel(temporal.emit, temporal.space)})

    def _offer(self, name: str, pattern: "Callable[[], DFPattern]", predicate: rules.AllOf, strategy: Strategy) -> None:
        if name.startswith("conv2d"):  # before the convolution that is a matrix product
            super()._offer(f"temporal_{name}", pattern, temporal.TAKEN, strategies.conv2d)
        super()._offer(name, pattern, predicate, strategy)
