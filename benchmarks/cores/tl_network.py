"""What a product's plan would take if its tiles went from core to core by the instructions that no plan of it uses.

* ``share``: a block that a row or a column gets is loaded by one of its cores, which sends it on to the others
  (``share_row``, ``share_column``), instead of a multicast from memory.
* ``unicast``: tiles that cores hand on go by ``unicast``; a block of a multicast goes to each core by one of its own.
* ``gather``: results of the cores of a row are packed and collected by its first core (``gather_row``), which writes
  them all, instead of each core writing its own.

Each is the same product: programs are rewritten, or emitted by a subclass, and all are simulated alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.programs.emit import Emitter, Place, tensors_of
from archloom.mapper.spatial.programs.streams import placed, program
from archloom.mapper.spatial.programs.waves import Nodes, Wave, repeat
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr, Loop, Node, Stream

Rewrite = Callable[[Instr], list[Node]]


def rewritten(stream: Stream, rewrite: Rewrite) -> Stream:
    """A stream with other instructions in place of each."""
    def over(nodes: tuple[Node, ...]) -> Iterator[Node]:
        for node in nodes:
            if isinstance(node, Instr):
                yield from rewrite(node)
            else:
                assert isinstance(node, Loop)
                yield Loop(node.var, node.start, node.stop, node.step, tuple(over(node.body)))

    return replace(stream, body=tuple(over(stream.body)))


def share(instr: Instr) -> list[Node]:
    """A multicast along a line as a load and what the core that has it sends on."""
    if instr.mnemonic not in ("multicast_row", "multicast_column"):
        return [instr]
    there = instr["l1"]
    return [_load(instr), Instr.make(
        f"share_{instr.mnemonic.removeprefix('multicast_')}", source=there, target=there, count=_count(instr),
        n0=instr["n0"], s0=instr["s0"])]


def unicast(instr: Instr) -> list[Node]:
    """Tiles to each core one by one."""
    if instr.mnemonic == "forward":
        return [Instr("unicast", instr.attributes)]
    if instr.mnemonic not in ("multicast_row", "multicast_column") or instr["n0"].constant == 1:
        return [instr]
    there, far = instr["l1"], instr["s0"].constant
    return [_load(instr), *repeat("to", range(1, instr["n0"].constant), lambda i: [
        Instr.make("unicast", source=there, target=there + i * far, count=_count(instr))])]


def _load(instr: Instr) -> Instr:
    return Instr.make("load", **{name: instr[name] for name in ("dram", "l1", "rows", "cols", "h0")})


def _count(instr: Instr) -> int:
    return instr["rows"].constant * instr["cols"].constant


class Gathering(Emitter):
    """The first core of those that share rows of a wave along a row of the mesh writes for all of them."""

    def store(self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], sums: Affine) -> Nodes:
        found: Nodes = []
        tiles, free = self.machine.tiles, self.region(0) + self.region(1)
        bm, bn, _ = self.plan.block
        for zone, other in product(these[0].zones, these[1].zones):
            (down, along), size = self.ranges(1, other), zone.size * other.size

            def packed(place: Place, size: int = size) -> Nodes:
                acc, l1 = self.core(place) * self.machine.sums + sums, self.core(place) * tiles + free
                return [Instr.make("pack", acc=acc, l1=l1, count=size), Instr.make("clear", acc=acc, count=size)]

            def written(
                place: Place, m: int = zone.size, n: int = other.size, size: int = size, along: range = along
            ) -> Nodes:
                core = self.core(place)
                l1, acc = core * tiles + free, core * self.machine.sums + sums
                far = self.step_between(1, "columns")

                def one(i: Affine) -> Nodes:
                    theirs = replace(place, column=(place.column[0], i + along.start, place.column[2]))
                    row = (at[0] * self.plan.spread(0) + self.index(theirs, 0)) * bm
                    column = (at[1] * self.plan.spread(1) + self.index(theirs, 1)) * bn
                    return [Instr.make("unpack", l1=l1 + i * size + size, acc=acc, count=size),
                            *self.out(place, (row, column), (m, n), acc)]

                return [Instr.make("gather_row", source=l1, target=l1 + size, count=size, n0=len(along),
                                   s0=far * tiles), *repeat("from", range(len(along)), one)]

            mine, alone = self.ranges(0, zone), range(1)
            found += self.each([mine, (down, along), (alone, alone)], packed)
            found += self.each([mine, (down, along[:1]), (alone, alone)], written)
        return found


def gathered(gemm: TileGemm, plan: Plan, machine: Machine) -> Stream | None:
    """The program with collected results; None where a core has no room for them beside its operands."""
    tensors = a, b, c = placed(tensors_of(gemm))
    emitter = Gathering(gemm, plan, machine, a.address, b.address, c.address)
    block = plan.block[0] * plan.block[1]
    if emitter.region(0) + emitter.region(1) + block * (1 + plan.columns[1]) > machine.tiles:
        return None
    return program(machine, tensors, [Instr.make("launch"), *emitter.nodes()], "gathered")
