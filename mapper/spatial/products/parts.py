"""Several equal products on a mesh: it is cut into parts, each of which works on one of the products at a time.

What is planned, costed and emitted for one product on a mesh holds for a product on a part of it. Parts are cut along
rows and columns of the mesh; how many there are is one more dimension of the space, which for a single product has one
value. Products may bring an epilogue with them (:mod:`archloom.mapper.spatial.epilogue`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.epilogue import SLOTS, Epilogue
from archloom.mapper.spatial.machines.machine import SIDE, Machine
from archloom.mapper.spatial.plan import ACROSS, DOWN, PartedPlan, Plan, Reduction, TileGemm
from archloom.mapper.spatial.products.cost import cycles
from archloom.mapper.spatial.products.traffic import Around
from archloom.mapper.spatial.space import EVERYTHING, Column, Rules, Space, check, divisors, footprint, space
from archloom.oracle.errors import MappingError


class Contraction(ABC):
    """``problems`` products of equal size, each with the epilogue."""

    epilogue: Epilogue

    @property
    @abstractmethod
    def problems(self) -> int:
        """How many products."""

    @property
    @abstractmethod
    def gemm(self) -> TileGemm:
        """Each of them."""

    @property
    def grain(self) -> int:
        """So many tiles of the reduction are dealt out together."""
        return 1

    def depths(self, depth: int) -> tuple[int, ...] | None:
        """Tiles that a step of the reduction may have where cores have ``depth`` of it; None: any number."""
        return None

    def loaded(self, bm: Column, bk: Column, depth: Column) -> NDArray[np.float64]:
        """The share of A's tiles that has to be loaded for blocks of ``bm`` and steps of ``bk`` tiles, if cores have
        ``depth`` tiles of the reduction."""
        return np.ones(len(bm))

    def steps(self, bk: Column, depth: Column, own: Column) -> Column:
        """How many steps of ``bk`` tiles a core takes that has its ``own`` tiles of the reduction, if others have
        ``depth``."""
        return -(-own // bk)

    @property
    def biases(self) -> int:
        """How many different biases there are: one, or one for each problem."""
        return 1

    @property
    def blank(self) -> int:
        """Tiles of zeros that are stored beside the result."""
        return 0

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape of the result in memory."""
        return self.problems, self.gemm.m, self.gemm.n, SIDE, SIDE

    @abstractmethod
    def inputs(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes of A and B in memory, in tiles."""

    def tensors(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes in memory of all operands, the result C the last."""
        gemm, whole = self.gemm, self.stored
        found = list(self.inputs())
        if self.epilogue.bias:
            found.append(("bias", (self.biases, gemm.n, SIDE)))
        if self.epilogue.residual:
            found.append(("residual", whole))
        return (*found, ("C", whole))


def reduction_of(work: Contraction, plan: Plan) -> Reduction:
    """How a plan deals out the reduction."""
    return Reduction.of(work.gemm.k, plan.rows[2], plan.columns[2], plan.outer, work.grain)


def part_of(machine: Machine, parts: tuple[int, int]) -> Machine:
    """A part of the mesh as a machine of its own."""
    return replace(machine, rows=machine.rows // parts[0], columns=machine.columns // parts[1])


def check_parts(work: Contraction, plan: PartedPlan, machine: Machine) -> None:
    """MappingError that names every bound which the plan breaks."""
    for name, count, extent in (("rows", plan.parts[0], machine.rows), ("columns", plan.parts[1], machine.columns)):
        if extent % count:
            raise MappingError(f"plan {plan}: {extent} {name} cannot be cut into {count} equal parts")
    check(work.gemm, plan.plan, part_of(machine, plan.parts), work.grain)
    plan.check(work, _faults(work, plan, machine))


def _faults(work: Contraction, plan: PartedPlan, machine: Machine) -> Iterator[str]:
    bm, bn, bk = plan.plan.block
    operands, beside = footprint(work.gemm, plan.plan, work.grain)[0], work.epilogue.room(bm, bn)
    if operands + beside > machine.tiles:
        yield (f"it needs {operands} tiles of operands and {beside} of the epilogue's in a core, which holds "
               f"{machine.tiles}")
    for name, pattern in (("A", plan.plan.a[0]), ("B", plan.plan.b[0])):
        if pattern in ("down", "across") and plan.parts != (1, 1):
            yield f"{name} goes to all cores ({pattern}), but only a part of them works on its product"
    depths = work.depths(reduction_of(work, plan.plan).depth)
    if depths is not None and bk not in depths:
        yield f"a step of {bk} tiles is none of {', '.join(map(str, depths))}, into which windows can be cut"


@dataclass(frozen=True, eq=False)
class PartedSpace:
    """Candidates: for each way to cut the mesh those of a product on a part, one after the other."""

    machine: Machine
    parts: tuple[tuple[int, int], ...]
    spaces: tuple[Space, ...]

    def __len__(self) -> int:
        return sum(map(len, self.spaces))

    def plan(self, i: int) -> PartedPlan:
        """Candidate ``i``."""
        for parts, found in zip(self.parts, self.spaces):
            if i < len(found):
                return PartedPlan(parts, found.plan(i))
            i -= len(found)
        raise IndexError(i)


def parted_space(work: Contraction, machine: Machine, rules: Rules = EVERYTHING) -> PartedSpace:
    """All candidates that fit; ways to cut the mesh that leave parts without a product only where there are no others.
    """
    ways = [(r, c) for r in divisors(machine.rows) for c in divisors(machine.columns)
            if machine.rows != machine.columns or r >= c]
    used = [(r, c) for r, c in ways if r * c <= work.problems]
    rules = replace(rules, beside=(SLOTS * work.epilogue.bias, SLOTS * work.epilogue.residual))
    spaces = []

    def depths(depth: int) -> Sequence[int]:
        return work.depths(depth) or rules.depths_of(depth)

    for parts in used:
        found = space(work.gemm, part_of(machine, parts), rules, work.grain, depths)
        spaces.append(found.some(_allowed(parts, found)))
    return PartedSpace(machine, tuple(used), tuple(spaces))


def _allowed(parts: tuple[int, int], found: Space) -> NDArray[np.bool_]:
    if parts == (1, 1):
        return np.ones(len(found), np.bool_)
    return ~np.isin(found.held["way_a"], (DOWN, ACROSS)) & ~np.isin(found.held["way_b"], (DOWN, ACROSS))


def parted_cycles(work: Contraction, found: PartedSpace) -> NDArray[np.float64]:
    """Estimated cycles of every candidate."""
    machine, epilogue = found.machine, work.epilogue
    estimated = [np.zeros(0)]
    for parts, candidates in zip(found.parts, found.spaces):
        count = parts[0] * parts[1]
        problems = -(-work.problems // count)
        share = work.loaded(candidates.column("bm"), candidates.column("bk"), candidates.over["depth"])
        around = Around(problems, work.problems / (problems * count), parts, epilogue.cycles(machine),
                        float(epilogue.residual), share)
        estimated.append(cycles(work.gemm, part_of(machine, parts), candidates, around)[0])
    return np.concatenate(estimated)
