"""The options of a systolic array, checked, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any

from archloom.acadl_models.acadl import Technology
from archloom.acadl_models.options import Clock, Size, Stated, Word, problems_of, refuse
from archloom.acadl_models.systolic_array.conventions import CONVENTIONS, Convention
from archloom.oracle.errors import suggest
from archloom.oracle.taidl.isa import Isa

STATED = Stated("systolic_array")

TECHNOLOGY = Technology(28, dram="DDR4")
"""Assumed: neither simulator whose conventions these are states a process."""

DATAFLOWS = ("os", "ws", "is")
"""What stays in the PEs: the sums, the weights, or the inputs. The position is the ISA's code."""

FETCH_CYCLES = 1
"""From the start of a fetch to its instructions in the issue buffer: when the first instruction can start."""

LEVELS = ("tensor", "scalar")
"""The array as one unit, or every PE an object."""


@dataclass(frozen=True)
class Design:
    """A systolic array of ``rows`` × ``columns`` PEs; sizes of its memories in KiB, ``dma_bytes`` a cycle from DRAM.

    Raises TargetError that lists every option out of range.
    """

    rows: Annotated[int, STATED.size("rows", "rows of the array")] = STATED["rows"]
    columns: Annotated[int, STATED.size("columns", "columns of the array")] = STATED["columns"]
    dataflow: Annotated[
        str, Word(DATAFLOWS, "what stays in the PEs: sums (os), weights (ws) or inputs (is)")
    ] = DATAFLOWS[STATED["dataflow"]]
    level: Annotated[str, Word(LEVELS)] = "tensor"
    convention: Annotated[str, Word(
        CONVENTIONS, "what a fold is charged: the whole array (scalesim) or what it uses (equeue)")
    ] = tuple(CONVENTIONS)[STATED["convention"]]
    left_kib: Annotated[int, Size(1, 1 << 30, "memory on the left", "KiB")] = STATED.kib("left")
    top_kib: Annotated[int, Size(1, 1 << 30, "memory on the top", "KiB")] = STATED.kib("top")
    out_kib: Annotated[int, Size(1, 1 << 30, "memory of the sums", "KiB")] = STATED.kib("out")
    dma_bytes: Annotated[int, Size(1, 4096, "to and from memory in a cycle", "bytes")] = 16
    dram_latency: Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")] = 100
    clock_hz: Annotated[float, Clock("clock of the accelerator")] = 1e9

    def __post_init__(self) -> None:
        problems = problems_of(Design, vars(self))
        clock = self.clock_hz
        if isinstance(clock, bool) or not isinstance(clock, (int, float)) or not 0 < clock < float("inf"):
            problems.append(f"clock_hz must be a positive number, not {clock!r}")
        refuse("systolic_array", problems)

    @classmethod
    def of(cls, **options: Any) -> "Design":
        """A design of options by name; TargetError for names that are none, too."""
        unknown = [f"unknown option {name!r}{suggest(name, list(OPTIONS))}" for name in options if name not in OPTIONS]
        refuse("systolic_array", unknown)
        return cls(**options)

    @property
    def charging(self) -> Convention:
        """What the convention says."""
        return CONVENTIONS[self.convention]

    @property
    def isa_name(self) -> str:
        """The TAIDL description of this level's instructions."""
        return "systolic_array" if self.level == "tensor" else "systolic_pe"

    @cached_property
    def isa(self) -> Isa:
        """The declarations of this level's ISA."""
        return Stated(self.isa_name).isa(
            {"rows": self.rows, "columns": self.columns}, dataflow=DATAFLOWS.index(self.dataflow),
            convention=tuple(CONVENTIONS).index(self.convention), left_bytes=self.left_kib << 10,
            top_bytes=self.top_kib << 10, out_words=(self.out_kib << 10) // STATED.row_bytes("out", {}))

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, int]) -> "Design":
        """The design at tensor level whose ISA has these parameters: what a program depends on."""
        return cls(
            parameters["rows"], parameters["columns"], DATAFLOWS[parameters["dataflow"]],
            convention=tuple(CONVENTIONS)[parameters["convention"]],
        )

    def drain_steps(self, height: int, width: int) -> int:
        """Steps in which the array runs empty after a fold of ``height`` × ``width`` PEs."""
        whole = self.charging.whole_array
        return (self.rows + self.columns if whole else height + width) - 2 + self.charging.hops


OPTIONS = tuple(f.name for f in fields(Design))
"""Names of all options."""
