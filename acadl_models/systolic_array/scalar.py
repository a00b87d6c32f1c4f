"""Every PE an object (scalar level): the grid of the ACADL paper's section 4.2, with its templates.

Operands enter through load units into the first row and the first column, results leave through the store units of the
columns, and PEs know their neighbours. When a PE works is not stated anywhere: an instruction starts when the registers
that it reads have been written, and that makes the wave run diagonally through the grid.
"""

from __future__ import annotations

from archloom.acadl_models import acadl
from archloom.acadl_models.parts import Fetch, connect, held, macs
from archloom.acadl_models.systolic_array.design import FETCH_CYCLES, TECHNOLOGY, Design
from archloom.acadl_models.systolic_array.parts import LATCHED, Dma, Memories, Mover

REGISTERS = ("west", "north", "own")
"""Of each PE, in the ISA's order."""


class PE(acadl.Template):
    """A processing element: registers, and a unit that works for one cycle.

    Dangling edges: ``to_east`` and ``to_south`` write into a neighbour's registers, ``registers_in`` takes what a
    neighbour or a load unit writes, ``registers_out`` what a store unit reads, ``instructions`` comes from the fetch.
    """

    def __init__(self, name: str, mnemonics: set[str], bits: int) -> None:
        self.registers = acadl.RegisterFile(
            "registers", data_width=bits, registers=dict.fromkeys(REGISTERS, 0), write_after_read=LATCHED)
        self.stage = acadl.ExecuteStage("stage")
        self.unit = acadl.FunctionalUnit("unit", to_process=mnemonics, component=macs(1, "i8", "i32"))
        acadl.ACADLEdge(self.stage, self.unit, acadl.CONTAINS)
        connect(self.unit, [self.registers], [self.registers])
        self.instructions = acadl.ACADLDanglingEdge(acadl.FORWARD, target=self.stage)
        self.registers_in = acadl.ACADLDanglingEdge(acadl.WRITE_DATA, target=self.registers)
        self.registers_out = acadl.ACADLDanglingEdge(acadl.READ_DATA, source=self.registers)
        self.to_east = acadl.ACADLDanglingEdge(acadl.WRITE_DATA, source=self.unit)
        self.to_south = acadl.ACADLDanglingEdge(acadl.WRITE_DATA, source=self.unit)


class Grid(acadl.Template):
    """``rows`` × ``columns`` PEs, each connected to its neighbours in the east and in the south."""

    def __init__(self, name: str, design: Design, fetch: Fetch) -> None:
        mnemonics, (_, bits, _), (_, below_bits, columns) = (
            {"mac", "push", "pass"}, held(design.isa.buffer("pe")), held(design.isa.buffer("south")))
        self.pes = [[PE(f"pe[{i}][{j}]", mnemonics, bits) for j in range(design.columns)] for i in range(design.rows)]
        self.south = [
            acadl.RegisterFile(f"south[{j}]", below_bits, {"sum": 0}, write_after_read=LATCHED) for j in range(columns)]
        for i, row in enumerate(self.pes):
            for j, pe in enumerate(row):
                acadl.connect_dangling_edge(fetch.stage, pe.instructions)
                if j + 1 < design.columns:
                    acadl.connect_dangling_edge(pe.to_east, row[j + 1].registers_in)
                below = self.pes[i + 1][j].registers_in if i + 1 < design.rows else self.south[j]
                acadl.connect_dangling_edge(pe.to_south, below)

    def results(self, j: int, apart: bool) -> list[tuple[str, list[acadl.RegisterFile]]]:
        """The store units of a column, by name, each with the registers that it reads: one at its end, or one a PE."""
        pes = [row[j].registers for row in self.pes]
        if not apart:
            return [(f"store[{j}]", [*pes, self.south[j]])]
        return [(f"store[{i}][{j}]", [pe]) for i, pe in enumerate(pes[:-1])] + [
            (f"store[{len(pes) - 1}][{j}]", [pes[-1], self.south[j]])
        ]


def build(design: Design) -> acadl.ArchitectureGraph:
    """The architecture graph of ``design`` at scalar level.

    A column has one store unit, at its southern end, that takes a result a cycle. Where sums stay and folds overlap,
    the convention has all sums leave at once: then every PE has a store unit of its own.
    """
    rows, columns = design.rows, design.columns
    apart = design.dataflow == "os" and design.charging.sums_overlap
    # a step of the whole array, so that the loops over steps and the fetches keep pace; where a fold follows another at
    # once, sums are stored beside it
    at_once = apart or (design.dataflow == "os" and not design.drain_steps(rows, columns))
    a_step = rows * columns + rows + columns + (rows * columns if at_once else 0)

    @acadl.generate
    def systolic_pe() -> None:
        # the last PE works rows + columns steps behind the first: so many steps wait for their turn
        fetch = Fetch("fetch", (rows + columns + 2) * a_step, width=a_step, latency=FETCH_CYCLES,
                      stands_for="the wave of operands")
        memories = Memories("memory", design, units=rows * columns if apart else max(rows, columns))
        sync = acadl.RegisterFile(
            "sync", held(design.isa.buffer("sync"))[1], {"fold": 0, "filled": 0}, write_after_read=LATCHED)
        grid = Grid("grid", design, fetch)
        for i in range(rows):
            west = Mover(f"west[{i}]", fetch, {"load_west", "clear_west"}, {"load_west": 0, "clear_west": 1})
            connect(west.unit, [memories.left, sync], [grid.pes[i][0].registers])
        cycles = {"load_north": 0, "load_own": 0, "clear_north": 1, "clear_own": 1}
        for j in range(columns):
            north = Mover(f"north[{j}]", fetch, set(cycles), cycles)
            connect(north.unit, [memories.top, sync], [grid.pes[0][j].registers, sync])
            for name, registers in grid.results(j, apart):
                connect(Mover(name, fetch, {"store_own", "store_sum"}).unit, registers, [memories.out, sync])
        connect(grid.pes[0][0].unit, [sync])
        connect(grid.pes[-1][-1].unit, writes=[sync])
        Dma("dma", fetch, memories, {"load_left", "load_top"}, {"save"})
        acadl.architecture(
            "systolic_pe", clock_hz=design.clock_hz, isa=design.isa,
            buffers={
                "hbm": memories.dram, "left": memories.left, "top": memories.top, "out": memories.out,
                "pe": [pe.registers for row in grid.pes for pe in row], "south": grid.south,
            },
            technology=TECHNOLOGY,
        )

    return acadl.create_ag(systolic_pe())
