"""The UMA target ``systolic_array``: matrix products on an array of any shape, in one of three dataflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.acadl_models.systolic_array import Design, graph_of
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Tiling, ceil_div, divided
from archloom.uma_targets.systolic_array.emit import emit

GRAPH = kit.GraphOptions(Design, {"rows": 16, "columns": 16, "dataflow": "ws", "convention": "equeue"})


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Whole folds; two tiles of each operand and of the sums fit into their memories."""
    rows, columns, dataflow = options["rows"], options["columns"], options["dataflow"]
    units = {
        "os": {"m": rows, "n": columns, "k": 1}, "ws": {"m": 1, "n": columns, "k": rows},
        "is": {"m": columns, "n": 1, "k": rows},
    }[dataflow]
    sizes = {d: divided(e, units[d]) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))}
    a, b = ("top", "left") if dataflow == "is" else ("left", "top")
    return Tiling(
        sizes,
        demand={
            a: lambda c: 2 * c["m"] * c["k"], b: lambda c: 2 * c["k"] * c["n"], "out": lambda c: 2 * c["m"] * c["n"],
        },
        room={name: hardware.memory(name).rows for name in ("left", "top", "out")},
        loops=lambda c: _loops(shape, c, dataflow, (rows, columns)),
        help="larger left_kib, top_kib or out_kib",
    )


def _loops(shape: kit.Shape, c: kit.Columns, dataflow: str, array: tuple[int, int]) -> Loop:
    """Tiles of C, steps of k; A stays for a row of tiles where k is one tile. Folds follow each other on the array.
    Their order is the dataflow's definition, not a choice (:mod:`archloom.uma_targets.systolic_array.emit`)."""
    tall, wide, deep = (np.asarray(ceil_div(e, c[d])) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k)))
    m, n, k = shape.m / tall, shape.n / wide, shape.k / deep  # of a mean tile: the last ones are smaller
    a, b = ("load_top", "load_left") if dataflow == "is" else ("load_left", "load_top")
    load_a, load_b = Issue(a, moves=k * shape.item, pieces=m), Issue(b, moves=n * shape.item, pieces=k)
    bias = Issue("load_out", int(shape.bias), 4 * n, m)
    save = Issue("save" if shape.out_item > shape.item else "save_scaled", moves=n * shape.out_item, pieces=m)
    # an instruction for each vector: loads behind a tile's wait until nearly all of them are issued
    one = deep == 1
    loads = (replace(load_a, times=np.where(one, 0, 1)), load_b)
    step = Loop(deep, _folds(dataflow, m, n, k, array), first=loads, slots=2)
    tile = Loop(wide, (step,), first=(bias,), last=(save,), slots=2)
    rows = Loop(tall, (tile,), first=(replace(load_a, times=np.where(one, 1, 0)),), slots=2)
    return Loop(1, (rows,), alone=(save,))


def _folds(dataflow: str, m: np.ndarray, n: np.ndarray, k: np.ndarray, array: tuple[int, int]) -> tuple[Issue, ...]:
    """What the folds of a product of tiles issue."""
    rows, columns = array
    over_rows, over_columns = (m if dataflow == "os" else k), (m if dataflow == "is" else n)
    across = np.ceil(over_columns / columns)
    folds = np.ceil(over_rows / rows) * across
    drain = Issue("drain", folds, values={
        "height": np.minimum(over_rows, rows), "width": np.minimum(over_columns, columns)})
    if dataflow == "os":
        # the next fold enters while one runs empty
        return Issue("multiply", folds * k), Issue("unload", folds), replace(drain, times=1)
    steps = n if dataflow == "is" else m
    return Issue("preload", k * across), Issue("stream", folds * steps), drain


class SystolicArray(kit.KitTarget):
    """A systolic array of any shape in one of three dataflows."""

    kit = kit.GemmKit(
        name="systolic_array", isa="systolic_array", options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="systolic array of any shape: output-, weight- or input-stationary, int8 (ACADL paper)",
        graph=lambda options: graph_of(Design.of(**GRAPH.arguments(options))), sums=True)
