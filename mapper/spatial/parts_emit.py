"""From plans of several products on parts of a mesh to streams: cores of all parts do the same for other products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from archloom.mapper.spatial.emit import ZERO, Emitter, Nodes, Place, repeat
from archloom.mapper.spatial.epilogue import SLOTS, Beside, finished
from archloom.mapper.spatial.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.parts import Contraction
from archloom.mapper.spatial.plan import PartedPlan
from archloom.mapper.spatial.zones import Wave, waves
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr

_NO_WAVE = Wave(0, 0, ())


@dataclass(frozen=True, kw_only=True)
class PartedEmitter(Emitter):
    """The program of all parts; ``parts`` of the mesh, and which of them have a product in the present ``wave``."""

    work: Contraction
    parts: tuple[int, int]
    bias: int
    residual: int
    wave_of: Wave = _NO_WAVE
    at: Affine = ZERO
    turn: Affine = ZERO
    """Blocks of sums that a core has stored before."""

    def nodes(self) -> Nodes:
        """The program after the launch: waves of products, each dealt out to the parts."""
        found: Nodes = []
        turns = prod(last.first + last.count for last in (self.waves(0)[-1], self.waves(1)[-1]))
        for wave in waves(self.work.problems, 1, *self.parts):
            found += repeat("wp", range(wave.first, wave.first + wave.count), lambda at, wave=wave: Emitter.nodes(  # type: ignore[misc]
                replace(self, wave_of=wave, at=at, turns=at * turns)))
        return found

    def each(self, spans: list[tuple[range, range]], body: Callable[[Place], Nodes]) -> Nodes:
        """Loops over the cores of every part that has a product, whose places along m, n and k lie in ``spans``."""
        rows, columns = self.machine.rows // self.parts[0], self.machine.columns // self.parts[1]

        def part(r: Affine, c: Affine) -> Nodes:
            problem = self.at * prod(self.parts) + r * self.parts[1] + c
            origin = r * (rows * self.machine.columns) + c * columns
            return Emitter.each(self, spans, lambda place: body(replace(place, problem=problem, origin=origin)))

        found: Nodes = []
        for zone in self.wave_of.zones:
            found += repeat("rp", zone.slow, lambda r, zone=zone: repeat("cp", zone.fast, lambda c: part(r, c)))  # type: ignore[misc]
        return found

    def store(self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], sums: Affine) -> Nodes:
        return Emitter.store(replace(self, turn=self.turn_of(at)), at, these, sums)

    def out(self, place: Place, first: tuple[Affine, Affine], size: tuple[int, int], acc: Affine) -> Nodes:
        """The epilogue of a block, and its way to memory."""
        gemm, width = self.gemm, self.gemm.n * TILE_BYTES
        tile = (place.problem * gemm.m + first[0]) * gemm.n + first[1]
        bias = first[1] + (place.problem * gemm.n if self.work.biases > 1 else 0)
        l1 = self.beside(place)
        beside = Beside(bias * (2 * SIDE) + self.bias, tile * TILE_BYTES + self.residual, l1, width)
        store = Instr.make("store", acc=acc, dram=tile * TILE_BYTES + self.c, rows=size[0], cols=size[1], h0=width,
                           relu=self.work.epilogue.clipped)
        return [*finished(self.work.epilogue, acc, size, beside), store]

    def beside(self, place: Place) -> Affine:
        """Where the epilogue's operands of the present block lie in a core."""
        room = self.work.epilogue.block(*self.plan.block[:2])
        return self.core(place) * self.machine.tiles + self.turn % SLOTS * room + (self.region(0) + self.region(1))


def parted_nodes(
    work: Contraction, plan: PartedPlan, machine: Machine, where: Mapping[str, int], emitter: type[PartedEmitter]
) -> Nodes:
    """The program after the launch; all tensors lie in tiles."""
    return emitter(
        work.gemm, plan.plan, machine, where["A"], where["B"], where["C"], work=work, parts=plan.parts,
        bias=where.get("bias", 0), residual=where.get("residual", 0)).nodes()
