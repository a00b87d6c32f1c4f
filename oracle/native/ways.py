"""How processors multiply signed bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ROWS = 6
"""Rows of a block; the last one of a matrix begins as many before its end, and makes some elements twice."""


@dataclass(frozen=True)
class Way:
    """Instructions of a processor: ``intrinsic`` adds up products of a group of numbers in each lane, and to the sum so
    far if ``adds``."""

    lanes: int
    group: int
    intrinsic: str

    @property
    def adds(self) -> bool:
        return self.group == 4

    @property
    def vectors(self) -> int:
        """Vectors of columns in a block: its sums, their columns and one factor fit into 32 registers, or 16."""
        return self.lanes // 4

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Rows and vectors of the blocks that there are: of single rows all, of others those of a narrow panel, too."""
        return (1, self.vectors), *((ROWS, 1 << i) for i in range(self.vectors.bit_length()))

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x i32>"

    @property
    def operand(self) -> str:
        """The type of what is multiplied."""
        return self.vector if self.adds else f"<{2 * self.lanes} x i16>"


WAYS: Mapping[str, Way] = {
    "avx512vnni": Way(16, 4, "llvm.x86.avx512.vpdpbusd.512"),
    "avxvnni": Way(8, 4, "llvm.x86.avx512.vpdpbusd.256"),
    "avx512bw": Way(16, 2, "llvm.x86.avx512.pmaddw.d.512"),
    "avx2": Way(8, 2, "llvm.x86.avx2.pmadd.wd"),
}
"""By the feature of the processor that it takes, as LLVM calls it; the best first."""
