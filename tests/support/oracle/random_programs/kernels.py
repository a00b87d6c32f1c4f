"""Random streams on random ISAs: nests of loops around instructions whose attributes move with the loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.assembly import to_text
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from archloom.oracle.taidl.types import of_numpy
from tests.support.oracle.operator_cases import tensor
from tests.support.oracle.random_programs.isas import Instruction, RandomIsa
from tests.support.oracle.random_programs.scope import Attribute


@dataclass
class _Kernel:
    """Draws instructions; ``loops`` are the enclosing ones as (variable, first, last)."""

    r: Random
    isa: RandomIsa
    budget: int
    """How many instances of instructions may still come, those of the enclosing loops taken into account."""
    loops: list[tuple[str, int, int]] = field(default_factory=list)
    serial: int = 0

    def affine(self, high: int) -> Affine:
        """An expression with values in 0..high."""
        e = Affine(0)
        for var, _, _ in self.loops:
            kind = self.r.randrange(5)
            if kind >= 2:
                v = Affine.variable(var)
                if kind == 4:
                    v = self.r.choice([v % 2, v // 2, (v + 1) % 3, v % 3])
                e = e + v * self.r.choice([1, 1, 1, 2, 3, -1])
        least, most = e.range({v: (a, b) for v, a, b in self.loops})
        if most - least > high:
            return Affine(self.r.randint(0, high))
        return e + self.r.randint(-least, high - most)

    def value(self, a: Attribute) -> Affine:
        k = Affine(self.r.randint(0, a.high)) if a.shape and self.r.random() < 0.8 else self.affine(a.high)
        return k * a.grain + a.base

    def instr(self, instruction: Instruction) -> Instr:
        self.budget -= 1
        return Instr(instruction.name, tuple((a.name, self.value(a)) for a in instruction.attributes))

    def nodes(self, depth: int, most: int) -> tuple[Instr | Loop, ...]:
        made: list[Instr | Loop] = []
        for _ in range(self.r.randint(1, most)):
            if depth and self.budget > 4 and self.r.random() < 0.4:
                made.append(self.loop(depth))
            else:
                made.append(self.instr(self.r.choice(self.isa.instructions)))
        return tuple(made)

    def loop(self, depth: int) -> Loop:
        r = self.r
        extent, step = r.choice([2, 2, 3, 3, 4, 5, 1, 0]), r.choice([1, 1, 1, 2, -1])
        start = r.choice([0, 0, 0, 1]) if step > 0 else extent
        self.serial += 1
        var = f"v{self.serial}" if r.random() < 0.5 else f"i{depth}"
        outer, times = self.budget, max(extent, 1)
        self.budget = outer // times
        last = start + step * max(extent - 1, 0)
        self.loops.append((var, min(start, last), max(start, last)))
        body = self.nodes(depth - 1, 3)
        self.loops.pop()
        self.budget = outer - (outer // times - self.budget) * times
        return Loop(var, start, start + step * extent, step, body)


def random_kernel(isa: RandomIsa, seed: int) -> str:
    """The text of stream number ``seed`` on an ISA: buffers may be filled, instructions in loops, buffers dumped."""
    r = Random(f"kernel {isa.seed} {seed}")
    k = _Kernel(r, isa, budget=40)
    body: list[Instr | Loop] = [k.instr(f) for f in isa.fills if r.random() < 0.6]
    if r.random() < 0.3:
        body += k.nodes(0, 2)
    body.append(k.loop(r.choice([1, 2, 2, 3])))
    body += k.nodes(1, 2) if r.random() < 0.5 else ()
    chosen = r.randrange(len(isa.dumps))
    body += [k.instr(d) for i, d in enumerate(isa.dumps) if i == chosen or r.random() < 0.3]
    arguments = [HbmTensor(f"A{i}", g.address, g.shape, g.numpy) for i, g in enumerate(isa.regions.values())]
    results = [HbmTensor(f"R{i}", g.address, g.shape, g.numpy) for i, g in enumerate(isa.regions.values())]
    stream = Stream("random", (), tuple(arguments), tuple(results), isa.hbm, tuple(body), f"random {isa.seed} {seed}")
    return to_text(stream)


def arguments(stream: Stream, seed: int) -> dict[str, np.ndarray]:
    """Elements of every kind for the arguments."""
    return {t.name: tensor(t.shape, of_numpy(t.dtype), seed + i) for i, t in enumerate(stream.arguments)}
