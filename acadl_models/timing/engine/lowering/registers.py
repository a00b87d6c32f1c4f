"""Lowering renamed registers: their numbers, and the records of the operands of instructions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from archloom.acadl_models.timing.engine.layout import H, OperandKind
from archloom.acadl_models.timing.engine.lowering.tables import Tables
from archloom.acadl_models.timing.program import AccessPlan, Program, StaticInstruction
from archloom.acadl_models.timing.renaming import files_of
from archloom.oracle.accesses import element_bits
from archloom.oracle.affine import Affine

Place = Callable[[Affine, Sequence[str]], int]
"""Puts an expression that has to repeat in the loops around it; returns its position."""


class RegisterLowering:
    """Numbers the registers of renamed buffers one buffer after the other."""

    def __init__(self, program: Program, place: Place) -> None:
        self.graph, self.place = program.graph, place
        self.files = {file.name: k for k, file in enumerate(f for f in self.graph.register_files if f.is_renamed)}
        self.bases: dict[str, int] = {}
        self.file_of: list[int] = []

    def operands(self, static: StaticInstruction, around: Sequence[str]) -> list[int]:
        """The OperandSpec records of an instruction; ``around``: the variables of the loops around it."""
        records: list[int] = []
        for plan in static.plans if self.files else ():
            if plan.place.renamed:
                assert plan.named is not None
                base, first = self._base(plan), self.place(plan.named.first, around)
                for other, whole in zip(plan.named.others, plan.named.whole):
                    records += _KINDS[plan.kind, whole], first, base + other
        return records

    def _base(self, plan: AccessPlan) -> int:
        """The number of the first register of a buffer."""
        buffer = plan.buffer
        base = self.bases.get(buffer.name)
        if base is None:
            base = self.bases[buffer.name] = len(self.file_of)
            bits = math.prod(buffer.shape) * element_bits(buffer.dtype)
            files = files_of(self.graph, buffer.name, range(-(-bits // plan.place.data_width)))
            self.file_of += [self.files[file] for file in files]
        return base

    def finish(self, tables: Tables) -> None:
        """Put what is known of registers and files."""
        d = tables.header
        d[H.NAMES], d[H.NAME_TABLE] = len(self.file_of), tables.put(self.file_of)
        files = [self.graph[name] for name in self.files]
        d[H.FILES] = len(files)
        d[H.FILE_TABLE] = tables.put([f.physical_registers - len(f.registers) for f in files])  # type: ignore[attr-defined]


_KINDS = {
    ("read", True): OperandKind.READ, ("read", False): OperandKind.READ,
    ("write", True): OperandKind.WRITE, ("write", False): OperandKind.MERGE,
    ("accumulate", False): OperandKind.ADD,
}
"""By how an access is ordered, and whether it replaces all elements of the register."""
