"""Sweeps: work on every number of a matrix, or on its rows or columns, spread over a mesh of cores.

A matrix of ``m x n`` tiles is dealt out in blocks; cores load a block of it (and of the other operands), the vector
unit works on it as f32, and the result is stored. There is nothing to share between cores but what memory brings
anyway, so that a plan is a block and how rows and columns of tiles are spread over the mesh.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.arrays import Half, check_arrays, packed
from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.plan import Pair, SweepPlan
from archloom.mapper.spatial.programs.streams import Shapes
from archloom.mapper.spatial.space import Column, Columns, Table, pairs, sizes

Numbers: TypeAlias = NDArray[Any]
"""Whole numbers or floats, one for each candidate."""

_BETWEEN = 20
"""Cycles between a block's work and the next."""


@dataclass(frozen=True)
class Step:
    """Cycles of a block by itself: of the vector unit, of its loads and its stores without the ``latency`` of memory,
    which are ``busy`` more where memory is; the plan's ``slots``, and columns of tiles ``n`` of the block."""

    vector: Numbers
    load: Numbers
    store: Numbers
    busy: Numbers
    latency: int
    slots: Column
    n: Column


class Sweep(ABC):
    """Work on a matrix of tiles."""

    rows: int
    columns: int

    @property
    def tiles(self) -> Pair:
        """Rows and columns of tiles of the matrix."""
        return -(-self.rows // 32), -(-self.columns // 32)

    @property
    def fixed(self) -> Pair:
        """Rows and columns of tiles that a block must have; 0: any."""
        return 0, 0

    @property
    def spreadable(self) -> Pair:
        """Whether rows, and columns, of tiles may be dealt out to several cores, as 1."""
        return 1, 1

    @abstractmethod
    def room(self, m: Column, n: Column, slots: Column) -> tuple[Column, Column, Column]:
        """Tiles of operands, sums, and statistics that blocks of ``m x n`` need in a core."""

    @abstractmethod
    def work(self, m: Column, n: Column) -> tuple[Numbers, Numbers, Numbers]:
        """For a block of ``m x n`` tiles: those that are loaded, that are stored, and passes of the vector unit."""

    def step(self, step: Step) -> Numbers:
        """Cycles from a block to the next: with two slots one block is stored while the next is worked on."""
        stored, load = (step.vector + step.busy + step.latency) / 2, step.load + step.latency
        overlapped = np.maximum.reduce([step.vector, stored, load / step.slots])
        found: Numbers = np.where(
            step.slots > 1, overlapped, np.maximum(step.vector + step.store + 2 * step.latency, load))
        return found

    def combining(self, found: Mapping[str, Column], machine: Machine) -> Numbers:
        """Cycles in which cores put their results together, for a block of columns of tiles."""
        return 0 * found["bn"]

    def ahead(self, loads: Numbers, n: Column) -> Numbers:
        """Tiles that a core must have before it begins, of blocks ``n`` tiles wide with ``loads`` tiles."""
        return loads

    @property
    def slots(self) -> tuple[int, ...]:
        """Blocks of operands that a core may have."""
        return 1, 2, 3

    @abstractmethod
    def tensors(self) -> Shapes:
        """Names and shapes in memory of all operands, the result the last."""

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the operands as arrays."""

    def pack(self, arrays: Mapping[str, Half]) -> dict[str, Half]:
        """The operands as they lie in memory; MappingError for other names or shapes than :meth:`shapes`."""
        return packed(check_arrays(self.shapes(), arrays))


def sweep_space(work: Sweep, machine: Machine) -> Table[SweepPlan]:
    """All candidates that fit: every spread, every block that makes fewer waves than the next smaller one.

    Columns: ``rm``, ``rn``, ``cm``, ``cn`` (spreads over rows and columns), the block ``bm``, ``bn``, and ``slots``."""
    table = np.array([
        (rm, rn, cm, cn, bm, bn, slots)
        for rm, rn in _pairs(machine.rows, work) for cm, cn in _pairs(machine.columns, work)
        for bm in _sizes(work, 0, rm * cm) for bn in _sizes(work, 1, rn * cn) for slots in work.slots
    ], np.int64).reshape(-1, 7)
    c: Columns = dict(zip(("rm", "rn", "cm", "cn", "bm", "bn", "slots"), table.T))
    needs, holds = work.room(c["bm"], c["bn"], c["slots"]), (machine.tiles, machine.sums, machine.stats)
    keep = np.logical_and.reduce([need <= held for need, held in zip(needs, holds)])
    return Table({name: column[keep] for name, column in c.items()}, lambda c: SweepPlan(
        (c["bm"], c["bn"]), (c["rm"], c["rn"]), (c["cm"], c["cn"]), c["slots"]))


def _pairs(extent: int, work: Sweep) -> list[Pair]:
    """Ways to spread rows and columns of tiles over a dimension of the mesh."""
    return [pair for pair in pairs(extent) if all(count == 1 or may for count, may in zip(pair, work.spreadable))]


def _sizes(work: Sweep, loop: int, cores: int) -> list[int]:
    return [work.fixed[loop]] if work.fixed[loop] else sizes(work.tiles[loop], cores)


def sweep_cycles(work: Sweep, machine: Machine, found: Table[SweepPlan]) -> NDArray[np.float64]:
    """Estimated cycles: those of memory, or of the core with the most blocks, whose first one comes when memory has
    brought those of the others."""
    c = found.columns
    cores = np.minimum(c["rm"] * c["cm"], work.tiles[0]) * np.minimum(c["rn"] * c["cn"], work.tiles[1])
    waves_m, waves_n = (-(-work.tiles[i] // (c[f"b{x}"] * c[f"r{x}"] * c[f"c{x}"])) for i, x in enumerate("mn"))
    loads, stores, passes = work.work(c["bm"], c["bn"])
    beat, blocks = -(-TILE_BYTES // machine.dram_bytes), work.tiles[0] * work.tiles[1] / (c["bm"] * c["bn"])
    memory = (loads + stores) * beat * blocks
    vector = passes * machine.vector_cycles + _BETWEEN
    # under load a store takes as long as memory needs for those of all cores
    busy = np.minimum(1, memory / (waves_m * waves_n * vector))
    way = TILE_BYTES / machine.core_bytes
    step = work.step(Step(vector, loads * way, stores * way, stores * np.maximum(way, beat * cores * busy),
                          machine.dram_latency, c["slots"], c["bn"]))
    first = np.maximum(loads * way, work.ahead(loads, c["bn"]) * beat * cores)
    core, combined = first + waves_m * waves_n * step + machine.dram_latency, waves_n * work.combining(c, machine)
    estimated: NDArray[np.float64] = (
        machine.launch_cycles + 2 * machine.dram_latency + np.maximum(memory, core) + combined)
    return estimated


def check_sweep(work: Sweep, plan: SweepPlan, machine: Machine) -> None:
    """MappingError that names every bound which the plan breaks."""
    plan.check(work, _faults(work, plan, machine))


def _faults(work: Sweep, plan: SweepPlan, machine: Machine) -> Iterator[str]:
    yield from machine.misfits(math.prod(plan.rows), math.prod(plan.columns))
    for loop, name in enumerate(("rows", "columns")):
        if plan.spread(loop) > 1 and not work.spreadable[loop]:
            yield f"{name} of tiles cannot be dealt out to several cores"
        if work.fixed[loop] not in (0, plan.block[loop]):
            yield f"a block must have {work.fixed[loop]} {name} of tiles, not {plan.block[loop]}"
    needs = work.room(*(np.array([v]) for v in (*plan.block, plan.slots)))
    yield from machine.shortages(*(int(needed[0]) for needed in needs))


def nothing_fits(work: Sweep, machine: Machine) -> str:
    """Which figure is to blame where no block fits."""
    least = [fixed or 1 for fixed in work.fixed]
    needs = work.room(*(np.array([v]) for v in (*least, 1)))
    found = [
        f"{int(needed[0])} {what}, of which it holds {held}"
        for what, needed, held in zip(("tiles of operands", "sums", "statistics"), needs,
                                      (machine.tiles, machine.sums, machine.stats)) if int(needed[0]) > held]
    return f"{work}: the smallest block of {least[0]} x {least[1]} tiles needs in a core " + ", ".join(found)
