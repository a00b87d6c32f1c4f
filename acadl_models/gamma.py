"""Gamma of the ACADL paper (section 4.3, figure 6) as an architecture graph: complexes of three templates each.

A complex has a *load/store unit*, which moves tiles between the DRAM and its registers, its scratchpad or its
accumulators; a *compute unit* with vector registers of 8 x 16 bits, accumulators of 8 x 32 bits, ``matMulFu`` (products
of tiles, with activation), ``matAddFu`` (sums, pooling) and an access unit to scratchpads; and a *scratchpad*, which
the compute units of the complexes before and after it reach as well. One fetch unit issues to all units out of order.

What the paper leaves open, and is assumed here: one row of a product a cycle; sums of 32 bits (see ``gamma.taidl``); a
port of the scratchpad moves a row (128 bits) a cycle; each load/store unit has a bus of its own to the DRAM, which
moves a row of a tile (up to ``bus_bytes``) a cycle, with ``in_flight`` transfers under way. The process, 16 nm with
LPDDR4, is assumed, too.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl, parts
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.acadl_models.options import Clock, Size, Stated, check
from archloom.acadl_models.parts import Fetch, Place, connect, shared
from archloom.oracle.taidl.isa import Isa

STATED = Stated("gamma")
LANES = STATED["LANES"]
"""Rows and columns of a tile; elements of a vector register."""
MACS_PER_CYCLE = LANES * LANES
"""Of one complex: a row of a product, 8 x 8 multiplications."""

TRANSFERS = frozenset({"load8", "load16", "store8", "store16", "fetch8", "fetch16", "put16", "bias"})


class Station(acadl.Template):
    """A queue and an execute stage with one unit."""

    def __init__(self, name: str, fetch: Fetch, queue: int, unit: acadl.FunctionalUnit) -> None:
        self.queue = acadl.PipelineStage("queue", latency=1, depth=queue)
        self.stage = acadl.ExecuteStage("stage", latency=1)
        acadl.ACADLEdge(fetch.stage, self.queue, acadl.FORWARD)
        acadl.ACADLEdge(self.queue, self.stage, acadl.FORWARD)
        acadl.ACADLEdge(self.stage, unit, acadl.CONTAINS)


def _connect(unit: acadl.FunctionalUnit, *places: Place) -> None:
    """Let a unit read and write."""
    for place in places:
        connect(unit, [place], [place])


class Scratchpad(acadl.Template):
    """Rows of 8 x 16 bits, of which each port moves one a cycle."""

    def __init__(self, name: str, number: int, isa: Isa, neighbours: int) -> None:
        bits, rows = shared(isa.buffer("sp"), isa.scope["complexes"])
        # the load/store unit of its complex, and the compute units that it is shared by
        self.sram = parts.row_memory("sram", bits, rows, requests=2, ports=2 + neighbours, first=number * rows)


class Compute(acadl.Template):
    """Vector registers, accumulators, the units for products and sums, and the access unit to the scratchpads."""

    def __init__(self, name: str, fetch: Fetch, queue: int, isa: Isa, depth: int) -> None:
        complexes = isa.scope["complexes"]
        self.vectors = parts.registers("vectors", *shared(isa.buffer("vr"), complexes), "v")
        self.sums = parts.registers("sums", *shared(isa.buffer("acc"), complexes), "s")
        # rows follow one another through a pipeline of so many stages
        latency: UnitLatency = dict.fromkeys(("gemm", "matmul"), f"rows + {depth}")
        self.matmul = acadl.FunctionalUnit(
            "matMulFu", to_process={"gemm", "matmul"}, latency=latency, interval="rows", in_flight=1 + depth,
            component=parts.macs(MACS_PER_CYCLE, "i16", "i32", register_bits=32))
        self.matadd = acadl.FunctionalUnit(
            "matAddFu", to_process={"clear", "matadd", "pool"}, latency="rows",
            component=acadl.Logic({"add i16": LANES}))
        self.access = acadl.MemoryAccessUnit("spFu", to_process={"read", "write"}, latency=0)
        for label, unit in (("mul", self.matmul), ("add", self.matadd), ("sp", self.access)):
            Station(label, fetch, queue, unit)
        for unit in (self.matmul, self.matadd):
            _connect(unit, self.vectors, self.sums)
        _connect(self.access, self.vectors)


class LoadStore(acadl.Template):
    """The unit between the DRAM and a complex."""

    def __init__(self, name: str, fetch: Fetch, queue: int, in_flight: int) -> None:
        self.unit = acadl.MemoryAccessUnit(
            "unit", to_process=TRANSFERS, latency=1, interval={"bias": 1, "*": "rows"}, in_flight=in_flight)
        Station("station", fetch, queue, self.unit)


def gamma(
    *,
    complexes: Annotated[
        int, STATED.size("complexes", "load/store unit, compute unit and scratchpad, each so many times")
    ] = STATED["complexes"],
    registers: Annotated[
        int, STATED.size("registers", "vector registers of a complex, 8 x 16 bits each", least=4 * LANES)
    ] = STATED["registers"],
    accumulators: Annotated[
        int, STATED.size("accumulators", "tiles of 8 x 8 sums of 32 bits in a complex")] = STATED["accumulators"],
    scratchpad_kib: Annotated[
        int, Size(1, 1024, "scratchpad of a complex", "KiB")] = STATED.kib("sp", STATED["complexes"]),
    matmul_stages: Annotated[int, Size(1, 64, "pipeline of the product unit", "cycles")] = 4,
    bus_bytes: Annotated[int, Size(1, 1024, "width of a load/store unit's bus to the DRAM", "bytes")] = 16,
    dram_cycles: Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")] = 50,
    in_flight: Annotated[int, Size(1, 1024, "transfers of a load/store unit under way")] = 16,
    queue: Annotated[int, Size(1, 1024, "instructions that wait before each unit")] = 8,
    issue_entries: Annotated[int, Size(8, 4096, "instructions that wait for issue")] = 64,
    fetch_width: Annotated[int, Size(1, 64, "instructions fetched at a time")] = 8,
    dram_gib: Annotated[int, Size(1, 1 << 20, "DRAM", "GiB")] = 4,
    clock_hz: Annotated[float, Clock("clock of the accelerator")] = 1e9,
) -> acadl.ArchitectureGraph:
    """Gamma with ``complexes`` complexes in a row; sizes are those of one complex.

    Raises TargetError that lists every option out of range.
    """
    check(gamma, locals(), *parts.unfetched(locals()))
    isa = STATED.isa(locals(), scratchpad_rows=(scratchpad_kib << 10) // STATED.row_bytes("sp", {}))

    @acadl.generate
    def build() -> None:
        dram = acadl.DRAM(
            "dram", data_width=8, port_width=bus_bytes, max_concurrent_requests=in_flight * complexes,
            read_write_ports=complexes, read_latency=dram_cycles, write_latency=dram_cycles,
            address_ranges=[(0, dram_gib << 30)],
        )
        fetch = Fetch("fetch", issue_entries, fetch_width)
        pads, computes = [], []
        for c in range(complexes):
            neighbours = (c > 0) + (c + 1 < complexes)
            pads.append(Scratchpad(f"scratchpad[{c}]", c, isa, neighbours))
            computes.append(Compute(f"compute[{c}]", fetch, queue, isa, matmul_stages))
            transfer = LoadStore(f"loadstore[{c}]", fetch, queue, in_flight)
            _connect(transfer.unit, dram, pads[c].sram, computes[c].vectors)
            acadl.ACADLEdge(transfer.unit, computes[c].sums, acadl.WRITE_DATA)
        for c, compute in enumerate(computes):
            _connect(compute.access, *(pad.sram for pad in pads[max(0, c - 1):c + 2]))
        acadl.architecture(
            "gamma", clock_hz=clock_hz, isa=isa,
            buffers={
                "hbm": dram, "sp": [pad.sram for pad in pads], "vr": [c.vectors for c in computes],
                "acc": [c.sums for c in computes],
            },
            technology=acadl.Technology(16, dram="LPDDR4"),
        )

    return acadl.create_ag(build())
