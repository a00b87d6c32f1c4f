"""The array as one unit (tensor level): every instruction is a step of all PEs together."""

from __future__ import annotations

from archloom.acadl_models.acadl import ArchitectureGraph, Included, RegisterFile, architecture, create_ag, generate
from archloom.acadl_models.parts import Fetch, connect, held, macs
from archloom.acadl_models.systolic_array.design import FETCH_CYCLES, TECHNOLOGY, Design
from archloom.acadl_models.systolic_array.parts import LATCHED, Dma, Memories, Mover

STEPS = ("preload", "shift", "stream", "multiply")
"""Mnemonics that take the array one step further."""


def build(design: Design) -> ArchitectureGraph:
    """The architecture graph of ``design`` at tensor level.

    A step takes one cycle: the vectors are read from the memories on the sides while the first PEs use them. ``drain``
    is as many steps as the convention charges for the way through the array.
    """
    charged = "rows + columns" if design.charging.whole_array else "height + width"
    # an array that needs no drain gets none from the programs; a latency must still be one
    drain = f"max(1, {charged} - 2 + {design.charging.hops})"

    @generate
    def systolic_array() -> None:
        fetch = Fetch("fetch", 8, width=4, latency=FETCH_CYCLES)
        memories = Memories("memory", design, units=2)
        of_array = Included("array.unit")
        stationary, sums = [
            RegisterFile(
                name, bits, {f"row[{i}]": 0 for i in range(rows)}, component=of_array, write_after_read=LATCHED)
            for name, bits, rows in (held(design.isa.buffer(name)) for name in ("stationary", "sums"))]
        array = Mover(
            "array", fetch, {*STEPS, "drain"}, latency={"drain": drain, "shift": 1, "*": 0},
            interval={"drain": drain, "*": 1}, in_flight=4,
            extent=(design.rows, design.columns),
            component=macs(design.rows * design.columns, "i8", "i32", register_bits=8 + 8 + 32),
        )
        connect(array.unit, [memories.left, memories.top, stationary, sums], [memories.out, stationary, sums])
        connect(Mover("unload", fetch, {"unload"}).unit, [sums], [memories.out])
        Dma("dma", fetch, memories, {"load_left", "load_top", "load_out"}, {"save", "save_scaled"})
        architecture(
            "systolic_array", clock_hz=design.clock_hz, isa=design.isa,
            buffers={"hbm": memories.dram, "left": memories.left, "top": memories.top, "out": memories.out},
            technology=TECHNOLOGY,
        )

    return create_ag(systolic_array())
