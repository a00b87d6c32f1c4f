"""Scalar registers of a nest: what is held in which, and what loads constants."""

from __future__ import annotations

from dataclasses import dataclass, field

from archloom.oracle.errors import MappingError
from archloom.uma_targets.kit.nest import Nodes
from archloom.uma_targets.kit.vectors.unit import Kind, Unit

SCRATCH = 4
"""Scalar registers of each kind for what is used at once."""
RESERVED = 8
"""The first integer registers, which the unit may use itself."""


@dataclass
class Scalars:
    """Scalar registers: what is held first, then constants, which are loaded at the beginning as long as there are
    registers; the last ones are for what is used at once."""

    unit: Unit
    prologue: Nodes = field(default_factory=list)
    known: dict[tuple[Kind, int | str], int] = field(default_factory=dict)
    used: dict[Kind, int] = field(default_factory=lambda: {"f": 0, "x": RESERVED})
    turn: int = 0

    def held(self, name: str) -> int:
        """The register of what a pass has found."""
        if ("f", name) not in self.known:
            self.known["f", name] = self._new("f")
        return self.known["f", name]

    def constant(self, kind: Kind, bits: int) -> tuple[Nodes, int]:
        """A register with 32 bits, and what loads it now."""
        if (kind, bits) in self.known:
            return [], self.known[kind, bits]
        if self.used[kind] >= self.unit.scalars - SCRATCH:
            register = self.scratch()
            return list(self.unit.number(kind, register, bits)), register
        self.known[kind, bits] = register = self._new(kind)
        self.prologue += self.unit.number(kind, register, bits)
        return [], register

    def _new(self, kind: Kind) -> int:
        if self.used[kind] >= self.unit.scalars - SCRATCH:
            raise MappingError("more results of passes are held than there are scalar registers")
        self.used[kind] += 1
        return self.used[kind] - 1

    def scratch(self) -> int:
        self.turn = (self.turn + 1) % SCRATCH
        return self.unit.scalars - 1 - self.turn
