"""The parameters of Gemmini's ISA that the emission depends on, and the bounds that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archloom.oracle.errors import MappingError


@dataclass(frozen=True)
class GemminiParameters:
    """``dim`` × ``dim`` mesh; rows of the scratchpad (dim × int8) and of the accumulator (dim × int32)."""

    dim: int
    spad_rows: int
    acc_rows: int

    @staticmethod
    def of(values: Mapping[str, int]) -> "GemminiParameters":
        """From the ISA's parameters, which may have further ones."""
        return GemminiParameters(values["dim"], values["spad_rows"], values["acc_rows"])

    def check_rows(self, spad: int, acc: int, what: str) -> None:
        """MappingError with demand, bound, gap and levers if ``what`` needs more rows than there are."""
        for name, demand, bound, option in (
            ("scratchpad", spad, self.spad_rows, "scratchpad_kib"),
            ("accumulator", acc, self.acc_rows, "accumulator_kib"),
        ):
            if demand > bound:
                raise MappingError(
                    f"{what} needs {demand} rows of the {name} (dim {self.dim}), which has {bound}: {demand - bound} "
                    f"too many; smaller tiles, fewer buffers or a larger {option} would help"
                )
