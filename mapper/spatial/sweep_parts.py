"""What the programs of all sweeps have in common: which cores have which tiles, and how these come and go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from archloom.mapper.spatial.emit import Nodes, repeat
from archloom.mapper.spatial.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.sweep import Sweep, SweepPlan
from archloom.mapper.spatial.zones import Wave, Zone, waves
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr

LEAST = -65504.0
"""The smallest number of fp16: no number is below."""

Body = Callable[[Affine, Affine, Affine], Nodes]
"""What a core does, given its number and its numbers along rows and columns of tiles."""


@dataclass(frozen=True)
class SweepEmitter(ABC):
    """The program of a sweep; ``where``: the addresses of its tensors, the result's the last."""

    work: Sweep
    plan: SweepPlan
    machine: Machine
    where: tuple[int, ...]

    @abstractmethod
    def nodes(self) -> Nodes:
        """The program after the launch."""

    @cached_property
    def waves(self) -> tuple[tuple[Wave, ...], tuple[Wave, ...]]:
        """Waves over rows and over columns of tiles."""
        m, n = (waves(self.work.tiles[i], self.plan.block[i], self.plan.rows[i], self.plan.columns[i]) for i in (0, 1))
        return m, n

    def each(self, zone: Zone, other: Zone, body: Body) -> Nodes:
        """Loops over the cores of a zone of rows and one of columns of tiles."""
        _, rows_n = self.plan.rows
        columns_m, columns_n = self.plan.columns

        def core(rm: Affine, cm: Affine, rn: Affine, cn: Affine) -> Nodes:
            number = (rm * rows_n + rn) * self.machine.columns + cm * columns_n + cn
            return body(number, rm * columns_m + cm, rn * columns_n + cn)

        return repeat("rm", zone.slow, lambda rm: repeat("cm", zone.fast, lambda cm: repeat(
            "rn", other.slow, lambda rn: repeat("cn", other.fast, lambda cn: core(rm, cm, rn, cn)))))

    def tile(self, at: tuple[Affine, Affine], place: tuple[Affine, Affine]) -> tuple[Affine, Affine]:
        """The first row and column of tiles of a block."""
        row, column = ((at[i] * self.plan.spread(i) + place[i]) * self.plan.block[i] for i in (0, 1))
        return row, column

    def load(self, tensor: int, first: tuple[Affine, Affine], size: tuple[int, int], l1: Affine) -> Instr:
        """A block of a tensor as wide as X."""
        width = self.work.tiles[1]
        dram = (first[0] * width + first[1]) * TILE_BYTES + self.where[tensor]
        return Instr.make("load", dram=dram, l1=l1, rows=size[0], cols=size[1], h0=width * TILE_BYTES)

    def store(
        self, acc: Affine, first: tuple[Affine, Affine], size: tuple[int, int], width: int, relu: bool = False
    ) -> Instr:
        """Sums as a block of the result, which is ``width`` tiles wide."""
        dram = (first[0] * width + first[1]) * TILE_BYTES + self.where[-1]
        return Instr.make("store", acc=acc, dram=dram, rows=size[0], cols=size[1], h0=width * TILE_BYTES,
                          relu=int(relu))
