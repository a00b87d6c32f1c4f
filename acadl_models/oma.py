"""The One MAC Accelerator (OMA) of the ACADL paper (section 4.1, figures 2 and 3) as an architecture graph.

Scalar operations, one at a time: a fetch stage ``ifs0`` with its access unit ``imau0``, an instruction memory and the
program counter ``pc0``; one execute stage ``ex0`` with the arithmetic unit ``fu0`` and the memory access unit ``mau0``,
which share the register file ``rf0``; a data memory ``dmem0`` behind a data cache ``dcache0``. (The paper's text swaps
the names of fetch stage and access unit.) Latencies are assumptions of this model, and so is the process, 45 nm with
transistors of low standby power and DDR3: the paper states none.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Flag, Size, Stated, Word
from archloom.acadl_models.parts import connect, macs, shared
from archloom.acadl_models.parts import registers as file_of

STATED = Stated("oma")

MOVES = frozenset({"load8", "load32", "store8", "store32"})
ARITHMETIC = frozenset({"movi", "mov", "add", "max", "mac", "requant"})


def oma(
    *,
    registers: Annotated[int, STATED.size("registers", "registers of 32 bits")] = STATED["registers"],
    cache: Annotated[bool, Flag("a data cache in front of the data memory")] = True,
    cache_sets: Annotated[int, Size(1, 1 << 16, "sets of the data cache")] = 16,
    cache_ways: Annotated[int, Size(1, 64, "lines in a set")] = 2,
    cache_line_bytes: Annotated[int, Size(4, 4096, "line of the data cache", "bytes")] = 32,
    replacement: Annotated[str, Word(POLICIES, "which line of a set is given up")] = "lru",
    hit_cycles: Annotated[int, Size(1, 1000, "a hit in the data cache", "cycles")] = 1,
    miss_cycles: Annotated[int, Size(1, 100_000, "what a miss costs more than a hit", "cycles")] = 20,
    memory_cycles: Annotated[int, Size(1, 100_000, "the data memory without a cache", "cycles")] = 20,
    mac_cycles: Annotated[int, Size(1, 1000, "a multiply-accumulate", "cycles")] = 1,
    memory_mib: Annotated[int, Size(1, 1 << 20, "data memory", "MiB")] = 256,
    clock_hz: Annotated[float, Clock("clock of the accelerator")] = 1e8,
) -> acadl.ArchitectureGraph:
    """The OMA; without ``cache`` the access unit reaches the data memory itself, in ``memory_cycles``.

    Raises TargetError that lists every option out of range.
    """
    isa = STATED.checked(oma, locals())

    @acadl.generate
    def build() -> None:
        ifs0 = acadl.InstructionFetchStage("ifs0", issue_buffer_size=8)
        imau0 = acadl.InstructionMemoryAccessUnit("imau0", latency=0)
        imem0 = acadl.SRAM("imem0", data_width=32, port_width=4, address_ranges=[(0, 1 << 20)])
        pc0 = acadl.RegisterFile("pc0", data_width=32, registers={"pc": 0})
        acadl.ACADLEdge(ifs0, imau0, acadl.CONTAINS)
        connect(imau0, [imem0, pc0], [pc0])

        ex0 = acadl.ExecuteStage("ex0", latency=1)
        rf0 = file_of("rf0", *shared(isa.buffer("reg")), "r")
        fu0 = acadl.FunctionalUnit("fu0", to_process=ARITHMETIC, latency={"mac": mac_cycles, "*": 1},
                                   component=macs(1, "i32", "i32"))
        mau0 = acadl.MemoryAccessUnit("mau0", to_process=MOVES, latency=0)
        acadl.ACADLEdge(ifs0, ex0, acadl.FORWARD)
        for unit in (fu0, mau0):
            acadl.ACADLEdge(ex0, unit, acadl.CONTAINS)
            connect(unit, [rf0], [rf0])

        dmem0: acadl.DataStorage = acadl.DRAM(
            "dmem0", data_width=8, port_width=4, read_latency=memory_cycles, write_latency=memory_cycles,
            address_ranges=[(0, memory_mib << 20)],
        )
        near = dmem0
        if cache:
            near = acadl.SetAssociativeCache(
                "dcache0", data_width=8, port_width=4, sets=cache_sets, ways=cache_ways,
                cache_line_size=cache_line_bytes, replacement_policy=POLICIES[replacement], hit_latency=hit_cycles,
                miss_latency=miss_cycles,
            )
            acadl.ACADLEdge(near, dmem0, acadl.BACKED_BY)
        connect(mau0, [near], [near])
        acadl.architecture(
            "oma", clock_hz=clock_hz, isa=isa, buffers={"hbm": dmem0, "reg": rf0},
            technology=acadl.Technology(45, devices="lstp", dram="DDR3"),
        )

    return acadl.create_ag(build())


POLICIES = {policy.name.lower(): policy for policy in acadl.ReplacementPolicy}
"""Replacement policies by the names that the option takes."""
