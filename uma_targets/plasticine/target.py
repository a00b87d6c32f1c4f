"""The UMA target ``plasticine``: products of float32 networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from archloom.acadl_models.plasticine import isa_parameters, plasticine
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.pipeline import Number
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Issue, Loop, Nodes, Tiling
from archloom.uma_targets.kit.spans import kinds
from archloom.uma_targets.plasticine.emit import Tiled
from archloom.uma_targets.plasticine.plan import WORD_BYTES, Column, Machine, demand, sizes, tiling_of, tilings

GRAPH = kit.GraphOptions(plasticine)


def emit(gemm: kit.Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; the mapping's tile is the block of one pair of units."""
    machine = Machine.of(parameters)
    block = mapping.size("m"), machine.groups(mapping.size("n")), mapping.size("k")
    tiling = tiling_of(gemm.m, gemm.n, block, machine)
    return Tiled(**vars(gemm), tiling=tiling, machine=machine).nodes()


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks that fit into a PMU, ranked by compute against DRAM."""
    machine = Machine.of(isa_parameters(GRAPH.graph(options)))
    rows, vectors, depths = sizes(shape.m, shape.n, shape.k, machine)

    def block(c: kit.Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return c["m"], -(-c["n"] // machine.lanes), c["k"]

    return Tiling(
        {"m": rows, "n": [n * machine.lanes for n in vectors], "k": depths},
        demand={"pmu": lambda c: demand(machine, *block(c))}, room={"pmu": machine.vectors},
        loops=lambda c: _loops(shape, block(c), machine),
        help="a larger pmu_kib",
    )


class Run(NamedTuple):
    """``groups`` of ``blocks`` blocks, each of ``size`` rows or vectors."""

    groups: np.ndarray
    size: np.ndarray
    blocks: np.ndarray


def _loops(shape: kit.Shape, block: tuple[Column, Column, Column], machine: Machine) -> Loop:
    """Tiles of C, one for each group of rows and each of columns, as they are cut: those that are alike are counted.
    They are parts of one loop, as all but the very first overlap what is before them, however few are alike."""
    m, n, k = block
    down, across, sums = tilings(shape.m, shape.n, block, machine)
    one, vectors = np.ones_like(m), machine.groups(shape.n)
    rows = [Run(*run) for run in kinds(shape.m, m, down, one) if run[0].any()]
    columns = [Run(*run) for run in kinds(vectors, n, across, one) if run[0].any()]
    tiles = sum(run.groups for run in rows) * sum(run.groups for run in columns)
    parts, lengths = [], [run.groups for run in columns]
    for i, run in enumerate(columns):
        # the very last vector has fewer words than lanes
        last = (run.groups > 0) & (sum(lengths[i + 1:]) == 0)
        lacks = np.where(last, (vectors - shape.n / machine.lanes) / np.maximum(run.groups, 1), 0)
        parts += [Loop(of.groups * run.groups / tiles, (_tile(shape, machine, k, sums, of, run, lacks),))
                  for of in rows]
    high, broad, rest = _last(rows), _last(columns), shape.k % k
    deep = np.select([rest % machine.lanes > 0, rest > 0], [rest % machine.lanes, rest], k)
    store = Issue("store", 1, broad.size * machine.lanes * WORD_BYTES, high.size, beats=high.size * broad.size)
    return Loop(1, (Loop(tiles, tuple(parts)),), alone=(replace(_fold(machine, deep, high, broad), times=1), store))


def _last(runs: list[Run]) -> Run:
    """The last of them of which there are any."""
    found = runs[0]
    for run in runs[1:]:
        found = Run(*(np.where(run.groups > 0, of, before) for of, before in zip(run, found)))
    return found


def _tile(
    shape: kit.Shape, machine: Machine, k: Column, sums: Column, rows: Run, columns: Run, lacks: np.ndarray
) -> Loop:
    """A tile of all pairs of units, ``lacks`` vectors less broad: while a step of k is folded, the next blocks come."""
    lanes, rest = machine.lanes, shape.k % k
    steps = shape.k // k + (rest >= lanes) + (rest % lanes > 0)
    broad = (columns.size - lacks / columns.blocks) * lanes * WORD_BYTES
    move = Issue("load", columns.blocks, broad, words={"pmu": 0})

    def step(times: Number, deep: Number, slots: Number) -> Loop:
        scalars = rows.size * np.ceil(deep / lanes)
        across = Issue("load", rows.blocks, deep * WORD_BYTES, rows.size, words={"pmu": 0}, beats=scalars)
        own = replace(move, pieces=deep, beats=deep * columns.size)
        return Loop(times, (_fold(machine, deep, rows, columns),), first=(across, own), slots=slots)

    # the first blocks of a tile lie where those of the third step did, too
    first = step(1, k, np.where(steps % 2 == 1, 1, 2))
    others = step(steps - 1, np.maximum(shape.k - k, 1) / np.maximum(steps - 1, 1), 2)
    bias = replace(move, times=columns.blocks * shape.bias, pieces=rows.size, beats=rows.size * columns.size)
    store = Issue("store", rows.blocks * columns.blocks, broad, rows.size, beats=rows.size * columns.size)
    return Loop(1, (first, others), first=(bias,), last=(store,), slots=sums)


def _fold(machine: Machine, deep: Number, rows: Run, columns: Run) -> Issue:
    """The patterns of a step: each reads a vector of scalars and a block of B, and reads and writes its sums over the
    port of its PMU, which also takes what is loaded, once for all patterns of a step."""
    scalars, vectors = np.ceil(deep / machine.lanes), deep * columns.size
    words = vectors + scalars + 2 * columns.size + 2
    pairs = rows.blocks * columns.blocks
    return Issue("fold_product", pairs * rows.size, words={"pmu": words + scalars + vectors / rows.size}, units=pairs,
                 values={"k": deep, "n": columns.size}, beats=words)


class Plasticine(kit.KitTarget):
    """Plasticine: pattern compute and memory units in a checkerboard."""

    kit = kit.GemmKit(
        name="plasticine", isa="plasticine", graph=GRAPH.graph, options=GRAPH.options(), isa_parameters=isa_parameters,
        description="checkerboard of SIMD pipelines and scratchpads for parallel patterns, float32 (Plasticine)",
        emit=emit, tiling=_tiling, numbers="float32",
        # a vector of products a cycle in every PCU: what the port of its PMU feeds
        macs_per_cycle=lambda graph: graph.parameters["units"] * graph.parameters["lanes"])
