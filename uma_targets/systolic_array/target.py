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

GRAPH = kit.GraphOptions(Design)


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Whole folds; two tiles of each operand and of the sums fit into their memories."""
    rows, columns, dataflow = options["rows"], options["columns"], options["dataflow"]
    design = Design.of(rows=rows, columns=columns, dataflow=dataflow, convention=options["convention"])
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
        least=lambda c: _least(shape, c, hardware, design),
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


def _least(shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware, design: Design) -> np.ndarray:
    """Cycles that no product in these tiles takes fewer than: the first loads, all that the array does, one after the
    other, and the last save.

    The first vector that meets an operand waits for the first tiles of both. These pass one port of memory, and then
    those of the memories beside the array; the last of them passes its own behind both. What comes before that vector
    in the array (``ahead``, the rows of the first fold) may have been done by then. The last vector is read by the last
    save, which does not wait for the array to run empty. By hand: 2 x 128 by 128 x 32 on 4 x 8 PEs, weights staying, in
    one tile. Its tiles have 256 and 4096 bytes, of which 16 come in a cycle: 100 + 16 + 256 - 1 cycles, and 64 more for
    A or 512 for B, which alone takes 100 + 256 - 1 + 512 = 867. The 128 folds take 4 + 2 + 12 cycles each. Sums are
    read in 2 cycles, and as bytes written in 100 + 4 - 1: 867 + 128 * 18 - 4 - 12 + 105 = 3260, simulated in 3282.

    Where there are several tiles, the array waits for B's of each (:func:`_wait`), which take turns in two places
    (:func:`_loads`).
    """
    m, n, k = (np.minimum(c[d], e) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k)))
    tall, wide = (np.asarray(ceil_div(e, t)) for e, t in ((shape.m, m), (shape.n, n)))
    memory, out = hardware.memory("hbm"), hardware.memory("out")
    late, speed = memory.read_latency_cycles - 1, int(memory.bytes_per_cycle)
    busy, ahead, behind = _busy(shape, (tall, wide), hardware, design)

    loaded, placed = list[np.ndarray](), list[np.ndarray]()
    for elements, side in ((m * k, "left"), (k * n, "top")):
        if design.dataflow == "is":
            side = {"left": "top", "top": "left"}[side]
        loaded.append(np.asarray(ceil_div(elements * shape.item, speed)))
        placed.append(np.asarray(ceil_div(elements, hardware.memory(side).words_per_cycle)))
    first = late + np.maximum(
        np.maximum(loaded[0] + placed[0], loaded[1] + placed[1]), sum(loaded) + np.minimum(*placed))
    last = (shape.m - (tall - 1) * m) * (shape.n - (wide - 1) * n)
    saved = ceil_div(last, out.words_per_cycle) + late + ceil_div(last * shape.out_item, speed)
    whole, load = _loads(shape, {"m": m, "n": n, "k": k}, hardware, design)
    turns = shape.batch * tall * wide * ceil_div(shape.k, k)
    waits = whole * _wait({"m": m, "n": n, "k": k}, load, hardware, design)
    found = first + shape.batch * busy + waits - ahead - behind + saved
    return np.maximum(found, ceil_div(turns * load, 2)).astype(int)


def _loads(
    shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware, design: Design
) -> tuple[np.ndarray, np.ndarray]:
    """Whole tiles of products that another one follows, at least, and what the load of any tile of B takes at least.

    B's tiles take turns in two places, and a load waits for the one before it in its place.
    """
    memory, side = hardware.memory("hbm"), hardware.memory("left" if design.dataflow == "is" else "top")
    least = np.minimum(c["n"], (shape.n - 1) % c["n"] + 1) * np.minimum(c["k"], (shape.k - 1) % c["k"] + 1)
    load = (memory.read_latency_cycles - 1 + ceil_div(least * shape.item, int(memory.bytes_per_cycle))
            + ceil_div(least, side.words_per_cycle))
    whole = shape.batch * (shape.m // c["m"]) * (shape.n // c["n"]) * (shape.k // c["k"])
    return np.maximum(0, whole - 1), np.asarray(load)


def _wait(c: kit.Columns, load: np.ndarray, hardware: kit.Hardware, design: Design) -> np.ndarray:
    """Cycles for which the array at least waits for the tile of B that follows a whole one.

    Its load comes behind the instructions of the tile before it, and is fetched when all of these but those that the
    issue buffer and the stages before the array hold (``window``) have started. These keep the array busy for a cycle
    each, and their drains for longer. What the load takes beyond that, the next vector that meets B waits for; where B
    comes from the left, the vectors that are preloaded before it may not. Nothing is said of tiles whose first vector
    may be among those that are held: what it waits for itself is counted then.
    """
    if design.dataflow == "os":
        return np.zeros(len(c["m"]), int)
    window = hardware.issue_entries + hardware.unit("stream").queue + 2
    steps, across = (c["m"], c["n"]) if design.dataflow == "ws" else (c["n"], c["m"])
    # instructions of a fold at least
    fold = np.where(c["k"] % design.rows, 1, np.minimum(c["k"], design.rows)) + steps
    folds = ceil_div(c["k"], design.rows) * ceil_div(across, design.columns)
    drain = int(hardware.interval_columns("drain", {"height": design.rows, "width": design.columns}))
    held = window + ceil_div(window, fold) * (drain - 1)
    beside = 0 if design.dataflow == "ws" else design.rows
    return np.where(folds * fold > window + design.rows, np.maximum(0, load - held - beside), 0)


def _busy(
    shape: kit.Shape, tiles: tuple[np.ndarray, np.ndarray], hardware: kit.Hardware, design: Design
) -> tuple[np.ndarray, int, int]:
    """Cycles for which a product keeps the array busy in so many tiles of rows and of columns, and what of them is
    before its first vector and after its last one at most. Tiles are whole folds, so that these are those of the whole
    product."""
    if design.dataflow == "os":  # how folds run empty differs between conventions: it is left out
        folds = ceil_div(shape.m, design.rows) * ceil_div(shape.n, design.columns)
        return np.asarray(folds * shape.k), 0, 0
    again, steps, across = (tiles[0], shape.m, shape.n) if design.dataflow == "ws" else (tiles[1], shape.n, shape.m)
    heights, widths = _parts(shape.k, design.rows), _parts(across, design.columns)
    count = sum(heights.values()) * sum(widths.values())
    drains = {(h, w): int(hardware.interval_columns("drain", {"height": h, "width": w})) if design.drain_steps(h, w)
              else 0 for h in heights for w in widths}
    brought = design.rows * sum(heights.values()) if design.charging.whole_array else shape.k
    fixed = brought * sum(widths.values()) + sum(heights[h] * widths[w] * d for (h, w), d in drains.items())
    return again * fixed + steps * count, design.rows, max(drains.values())


def _parts(extent: int, unit: int) -> dict[int, int]:
    """How often each size comes up where an extent is cut into parts of ``unit``."""
    return {size: often for size, often in ((unit, extent // unit), (extent % unit, 1)) if size and often}


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
        graph=lambda options: graph_of(Design.of(**GRAPH.arguments(options))), sums=True, is_bounded=True)
