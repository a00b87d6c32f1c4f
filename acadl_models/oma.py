"""The One MAC Accelerator (OMA) of the ACADL paper (section 4.1, figures 2 and 3) as an architecture graph.

Scalar operations, one at a time: a fetch stage ``ifs0`` with its access unit ``imau0``, an instruction memory and the
program counter ``pc0``; one execute stage ``ex0`` with the arithmetic unit ``fu0`` and the memory access unit ``mau0``,
which share the register file ``rf0``; a data memory ``dmem0`` behind a data cache ``dcache0``. (The paper's text swaps
the names of fetch stage and access unit.) Latencies are assumptions of this model: the paper states none.
"""

from __future__ import annotations

from archloom.acadl_models.acadl import (
    BACKED_BY,
    CONTAINS,
    DRAM,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    DataStorage,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    RegisterFile,
    ReplacementPolicy,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.options import no_choices, no_flags, out_of_range, refuse

MOVES = frozenset({"load8", "load32", "store8", "store32"})
ARITHMETIC = frozenset({"movi", "mov", "add", "max", "mac", "requant"})


def oma(
    *,
    registers: int = 16,
    cache: bool = True,
    cache_sets: int = 16,
    cache_ways: int = 2,
    cache_line_bytes: int = 32,
    replacement: str = "lru",
    hit_cycles: int = 1,
    miss_cycles: int = 20,
    memory_cycles: int = 20,
    mac_cycles: int = 1,
    memory_mib: int = 256,
    clock_hz: float = 1e8,
) -> ArchitectureGraph:
    """The OMA; without ``cache`` the access unit reaches the data memory itself, in ``memory_cycles``.

    Raises TargetError that lists every option out of range.
    """
    _check_options(locals())

    @generate
    def build() -> None:
        ifs0 = InstructionFetchStage("ifs0", issue_buffer_size=8)
        imau0 = InstructionMemoryAccessUnit("imau0", latency=0)
        imem0 = SRAM("imem0", data_width=32, port_width=4, address_ranges=[(0, 1 << 20)])
        pc0 = RegisterFile("pc0", data_width=32, registers={"pc": 0})
        ACADLEdge(ifs0, imau0, CONTAINS)
        ACADLEdge(imem0, imau0, READ_DATA)
        ACADLEdge(pc0, imau0, READ_DATA)
        ACADLEdge(imau0, pc0, WRITE_DATA)

        ex0 = ExecuteStage("ex0", latency=1)
        rf0 = RegisterFile("rf0", data_width=32, registers={f"r{i}": 0 for i in range(registers)})
        fu0 = FunctionalUnit("fu0", to_process=ARITHMETIC, latency={"mac": mac_cycles, "*": 1})
        mau0 = MemoryAccessUnit("mau0", to_process=MOVES, latency=0)
        ACADLEdge(ifs0, ex0, FORWARD)
        for unit in (fu0, mau0):
            ACADLEdge(ex0, unit, CONTAINS)
            ACADLEdge(rf0, unit, READ_DATA)
            ACADLEdge(unit, rf0, WRITE_DATA)

        dmem0: DataStorage = DRAM(
            "dmem0", data_width=8, port_width=4, read_latency=memory_cycles, write_latency=memory_cycles,
            address_ranges=[(0, memory_mib << 20)],
        )
        near = dmem0
        if cache:
            near = SetAssociativeCache(
                "dcache0", data_width=8, port_width=4, sets=cache_sets, ways=cache_ways,
                cache_line_size=cache_line_bytes, replacement_policy=POLICIES[replacement], hit_latency=hit_cycles,
                miss_latency=miss_cycles,
            )
            ACADLEdge(near, dmem0, BACKED_BY)
        ACADLEdge(near, mau0, READ_DATA)
        ACADLEdge(mau0, near, WRITE_DATA)
        architecture(
            "oma", clock_hz=clock_hz, parameters={"registers": registers}, buffers={"hbm": dmem0, "reg": rf0},
        )

    return create_ag(build())


POLICIES = {policy.name.lower(): policy for policy in ReplacementPolicy}
"""Replacement policies by the names that the option takes."""

RANGES: dict[str, tuple[int, int]] = {
    "registers": (4, 256), "cache_sets": (1, 1 << 16), "cache_ways": (1, 64), "cache_line_bytes": (4, 4096),
    "hit_cycles": (1, 1000), "miss_cycles": (1, 100_000), "memory_cycles": (1, 100_000), "mac_cycles": (1, 1000),
    "memory_mib": (1, 1 << 20),
}
"""Smallest and largest value of each integer option."""


def _check_options(options: dict[str, object]) -> None:
    problems = out_of_range(options, RANGES)
    problems += no_flags(options, ("cache",)) + no_choices(options, {"replacement": POLICIES})
    refuse("oma", problems)
