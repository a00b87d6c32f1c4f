"""Templates that both levels of a systolic array are made of: moving data, and the memories around."""

from __future__ import annotations

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.acadl_models.parts import Fetch, connect, held, macs
from archloom.acadl_models.systolic_array.design import Design
from archloom.oracle.resolved import Buffer


class Mover(acadl.Template):
    """An execute stage with one memory access unit: a load unit, a store unit, a DMA engine."""

    def __init__(
        self, name: str, fetch: Fetch, mnemonics: set[str], latency: UnitLatency = 0,
        interval: UnitLatency | None = None, in_flight: int = 1, extent: tuple[int, ...] = (),
        component: acadl.Logic | None = None,
    ) -> None:
        self.stage = acadl.ExecuteStage("stage")
        self.unit = acadl.MemoryAccessUnit(
            "unit", to_process=mnemonics, latency=latency, interval=interval, in_flight=in_flight, extent=extent,
            component=component,
        )
        acadl.ACADLEdge(fetch.stage, self.stage, acadl.FORWARD)
        acadl.ACADLEdge(self.stage, self.unit, acadl.CONTAINS)


LATCHED = "started"
"""Operands are taken as an instruction starts: what they lie in may be written from then on."""


class Memories(acadl.Template):
    """The memories on the array's sides, as wide as the sides, and the DRAM behind them.

    Their words are elements and every one of them delivers a vector a cycle: the array never waits for them, which is
    what the simulators that count an array's cycles presume.
    """

    def __init__(self, name: str, design: Design, units: int) -> None:
        left, top, out = (design.isa.buffer(name) for name in ("left", "top", "out"))
        self.left = self._side(left, design.rows, units)
        self.top = self._side(top, design.columns, units)
        # a row of results leaves at a time, however many the convention has leave at once
        self.out = self._side(out, design.rows * design.columns, units, design.columns)
        self.dram = acadl.DRAM(
            "dram", data_width=8, port_width=design.dma_bytes, shared_port=True, read_write_ports=2,
            max_concurrent_requests=8, read_latency=design.dram_latency, write_latency=design.dram_latency,
            address_ranges=[(0, 1 << 34)], write_after_read=LATCHED,
        )

    def _side(self, buffer: Buffer, width: int, units: int, leaving: int | None = None) -> acadl.SRAM:
        name, bits, words = held(buffer)
        return acadl.SRAM(
            name, data_width=bits, port_width=width, max_concurrent_requests=4 * units,
            read_write_ports=2 * units, address_ranges=[(0, words)],
            component=acadl.Memory(width_bits=leaving and bits * leaving), write_after_read=LATCHED,
        )


class Dma(acadl.Template):
    """Moves between DRAM and the memories on the sides: an engine for each direction, four moves under way."""

    def __init__(self, name: str, fetch: Fetch, memories: Memories, loads: set[str], saves: set[str]) -> None:
        load = Mover("load", fetch, loads, interval=1, in_flight=4)
        connect(load.unit, [memories.dram], [memories.left, memories.top, *([memories.out] * ("load_out" in loads))])
        save = Mover("save", fetch, saves, interval=1, in_flight=4, component=macs(1, "f32", "f32"))
        connect(save.unit, [memories.out], [memories.dram])
