"""Programs of element-wise operators: blocks come, are worked on one operator after the other, and go."""

from __future__ import annotations

from dataclasses import dataclass

from archloom.mapper.spatial.elementwise import FUNCTIONS, Elementwise, Operation
from archloom.mapper.spatial.emit import Nodes, bits, repeat
from archloom.mapper.spatial.machine import SIDE
from archloom.mapper.spatial.sweep_parts import SweepEmitter
from archloom.mapper.spatial.zones import Wave
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr


@dataclass(frozen=True)
class ElementwiseEmitter(SweepEmitter):
    """Blocks of all operands together."""

    def nodes(self) -> Nodes:
        found: Nodes = []
        last = self.waves[1][-1]
        for wave in self.waves[0]:
            def over(at: Affine, wave: Wave = wave) -> Nodes:
                nodes: Nodes = []
                for other in self.waves[1]:
                    def one(to: Affine, other: Wave = other) -> Nodes:
                        turn = at * (last.first + last.count) + to
                        return [
                            node for zone in wave.zones for beside in other.zones
                            for node in self.each(zone, beside, lambda core, m, n, size=(zone.size, beside.size): (  # type: ignore[misc]
                                self.block(core, self.tile((at, to), (m, n)), size, turn)))]

                    nodes += repeat("wn", range(other.first, other.first + other.count), one)
                return nodes

            found += repeat("wm", range(wave.first, wave.first + wave.count), over)
        return found

    def block(self, core: Affine, first: tuple[Affine, Affine], size: tuple[int, int], turn: Affine) -> Nodes:
        """All of a core's block."""
        work, (bm, bn) = self.work, self.plan.block
        assert isinstance(work, Elementwise)
        whole = bm * bn * (1 + work.count("tensor")) + bn * work.count("row")
        l1 = core * self.machine.tiles + turn % self.plan.slots * whole
        acc = core * self.machine.sums + turn % min(2, self.plan.slots) * (bm * bn)
        count = size[0] * size[1]
        loads: Nodes = [self.load(0, first, size, l1)]
        steps: Nodes = [Instr.make("unpack", l1=l1, acc=acc, count=count)]
        at, number = l1 + bm * bn, 1
        for op in work.worked:
            steps.append(_operation(op, at, acc, size))
            if op.operand == "tensor":
                loads.append(self.load(number, first, size, at))
            elif op.operand == "row":
                loads.append(Instr.make(
                    "load_row", dram=first[1] * (2 * SIDE) + self.where[number], l1=at, cols=size[1]))
            if op.operand != "none":
                at, number = at + (bm * bn if op.operand == "tensor" else bn), number + 1
        return [*loads, *steps, self.store(acc, first, size, work.tiles[1], work.relu)]


def _operation(op: Operation, l1: Affine, acc: Affine, size: tuple[int, int]) -> Instr:
    m, n = size
    if op.operand == "tensor":
        return Instr.make(f"{op.kind}_tiles", l1=l1, acc=acc, count=m * n)
    if op.operand == "row":
        return Instr.make(f"{op.kind}_row", l1=l1, acc=acc, m=m, n=n)
    if op.kind == "linear":
        return Instr.make("linear", acc=acc, count=m * n, factor=bits(op.factor), shift=bits(op.shift))
    return Instr.make(FUNCTIONS[op.kind], acc=acc, count=m * n)
