"""UltraTrail, Tübingen's accelerator for keyword spotting, as an ACADL architecture graph.

Sources: Palomero Bernardo et al., "UltraTrail: A Configurable Ultralow-Power TC-ResNet AI Accelerator for Efficient
Keyword Spotting", IEEE TCAD 2020; Gerum et al., "Hardware Accelerator and Neural Network Co-Optimization for
Ultra-Low-Power Audio Processing Devices", DSD 2022 (arXiv 2209.03807), whose networks, array sizes and latencies lie in
the public repository ekut-es/hannah. Behaviour is in ``oracle/isas/ultratrail.taidl``.

How the hardware is modelled:

* The **array** takes one tap of one block of ``dim`` input channels in a cycle, for ``dim`` output channels: a row of
  features and a row of weights are read in each cycle. Taps that fall into the padding are left out. The output unit
  writes a position one cycle after its last tap, while the array is at the next. A layer is set up in a cycle.
* **Memories**: a row in a cycle. The three feature memories are banks of one buffer.
* **Energy and area**: GlobalFoundries 22FDX at 0.8 V with transistors of low standby power, as published; an operand
  register of 8 bits and one of a sum of 32 for each product, and an outside memory of LPDDR4 are assumed. What is
  fetched are the settings of a layer, of no energy here.
* **Outside memory**: ``bus_bits`` in a cycle with ``bus_latency`` cycles to the first beat. Neither this nor the sizes
  of the memories are taken from the sources: networks of the sources fit, with weights and input in place.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated
from archloom.acadl_models.parts import connect, held, macs, row_memory, shared

STATED = Stated("ultratrail")

FEATURE_MEMORIES = 3
"""Input, output and residual of a layer lie in one each."""


def ultratrail(
    *,
    dim: Annotated[int, STATED.size("dim", "the array has dim × dim multipliers")] = STATED["dim"],
    features: Annotated[
        int, STATED.size("features", "rows of each of the three feature memories")] = STATED["features"],
    weights: Annotated[
        int, STATED.size("weights", "rows (dim × dim weights) of the weight memory")] = STATED["weights"],
    biases: Annotated[int, STATED.size("biases", "rows of the bias memory", least=2)] = STATED["biases"],
    sums: Annotated[int, STATED.size("sums", "rows of the memory of partial sums", least=2)] = STATED["sums"],
    bus_bits: Annotated[int, Size(8, 4096, "width of the way to the outside memory", "bits", multiple=8)] = 32,
    bus_latency: Annotated[
        int, Size(1, 1_000_000, "from a request of the outside memory to the first beat", "cycles")
    ] = 1,
    memory_mib: Annotated[int, Size(1, 1 << 20, "outside memory", "MiB")] = 64,
    clock_hz: Annotated[float, Clock("clock of the accelerator", 0.001, 1e5)] = 250e3,
) -> acadl.ArchitectureGraph:
    """UltraTrail with a ``dim`` × ``dim`` array.

    ``features`` (in each feature memory), ``weights``, ``biases`` and ``sums`` are rows of their memories.
    ``bus_bits`` (a multiple of 8) and ``bus_latency``: the way to the outside memory. ``clock_hz``: 250 kHz is
    the clock at which the sources state latencies. Raises TargetError that lists every option out of range.
    """
    isa = STATED.checked(ultratrail, locals())

    @acadl.generate
    def build() -> None:
        fetch = _fetch()
        memory = _outside(bus_bits // 8, bus_latency, memory_mib)
        # four streams each: a layer reads and writes at the same time
        bits, rows = shared(isa.buffer("fmem"), FEATURE_MEMORIES)
        fmem = [row_memory(f"fmem[{i}]", bits, rows, requests=4, ports=3, first=i * rows)
                for i in range(FEATURE_MEMORIES)]
        wmem, bmem, lmem = (
            row_memory(*held(isa.buffer(name)), requests=4, ports=2) for name in ("wmem", "bmem", "lmem"))
        pool = acadl.RegisterFile("pool", shared(isa.buffer("pool"), words=1)[0], {"pool": 0})
        load = acadl.MemoryAccessUnit("load", {"load_features", "load_weights", "load_bias"}, latency=0)
        array = acadl.MemoryAccessUnit(
            "array", {"layer", "mac", "conv", "conv_pool"}, latency={"layer": 1, "*": 0},
            interval={"layer": 1, "*": "layer_blocks * taps"}, in_flight=2, extent=(dim, dim),
            component=macs(dim * dim, "i8", "i32", register_bits=8 + 32),
        )
        store = acadl.MemoryAccessUnit("store", {"store_features", "store_sums"}, latency=0,
                                       component=macs(dim, "f32", "f32"))
        for name, unit in (("loading", load), ("computing", array), ("storing", store)):
            stage = acadl.ExecuteStage(name, latency=1)
            acadl.ACADLEdge(fetch, stage, acadl.FORWARD)
            acadl.ACADLEdge(stage, unit, acadl.CONTAINS)
        connect(load, [memory], [*fmem, wmem, bmem])
        connect(array, [*fmem, wmem, bmem], [*fmem, lmem])
        connect(store, [*fmem, lmem], [memory])
        connect(array, [pool], [pool])
        acadl.architecture(
            "ultratrail", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory, "fmem": fmem},
            technology=acadl.Technology(22, 0.8, "lstp"),
        )

    return acadl.create_ag(build())


def _fetch() -> acadl.InstructionFetchStage:
    settings = acadl.Included("the settings of a layer")
    fetch = acadl.InstructionFetchStage("fetch", issue_buffer_size=16, component=settings)
    fetcher = acadl.InstructionMemoryAccessUnit("fetch_unit", latency=0, component=settings)
    programs = acadl.SRAM("configuration", data_width=256, port_width=1, address_ranges=[(0, 1 << 32)])
    acadl.ACADLEdge(fetch, fetcher, acadl.CONTAINS)
    acadl.ACADLEdge(programs, fetcher, acadl.READ_DATA)
    return fetch


def _outside(bus_bytes: int, latency: int, mib: int) -> acadl.SRAM:
    return acadl.SRAM(
        "memory", data_width=8, port_width=bus_bytes, max_concurrent_requests=2, read_write_ports=2,
        shared_port=True, read_latency=latency, write_latency=latency, address_ranges=[(0, mib << 20)],
        component=acadl.OffChip("LPDDR4"),
    )
