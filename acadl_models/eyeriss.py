"""Eyeriss v1 as an ACADL architecture graph: a row-stationary array of PEs with a global buffer.

Source of the figures: Chen, Krishna, Emer, Sze, "Eyeriss: An Energy-Efficient Reconfigurable Accelerator for Deep
Convolutional Neural Networks", IEEE JSSC 52(1), 2017: 12 x 14 PEs of 16-bit fixed point at 200 MHz, 108 KB of global
buffer (100 KB for ifmaps and partial sums, 8 KB for filters), scratchpads of 12, 224 and 24 words in each PE, buses of
16 bits for ifmaps and of 64 bits for filters and partial sums, a 64-bit link to DRAM at up to 90 MHz.

How the hardware is modelled, at the level of the dataflow's one-dimensional primitives (``oracle/isas/eyeriss.taidl``):

* A **PE** takes ``conv``: ``p * q`` primitives of a filter row of ``s`` weights with an ifmap row, interleaved. One
  multiply-accumulate a cycle: ``p * q * s * f`` cycles for rows of ``f`` sums. Adding what comes from the PE below
  (``accumulate``) or from the global buffer (``accumulate_in``) uses the same adder: a cycle for each sum.
* Its **scratchpads** are register files that take no time; the ISA asserts their sizes. ``ifm``, ``psum`` and ``pin``
  hold the rows that stream through the FIFOs during a primitive, two at a time.
* The **networks** multicast: one instruction on the ifmap network fills the PEs of a diagonal in all sets that work
  on it, one on the filter network those of a row. What a network moves in a cycle is the width of its bus.
* Sums go **up a column**: PEs have an edge from the register file of the PE below and from no other.
* The **global buffer** serves its five users (ifmap, psum in, psum out, two directions of DRAM) at the same time, each
  with a port of 64 bits: the chip's 25 banks are given to one of them each, so that they do not collide.
* **DRAM** has one port for both directions. Compression of its traffic is not modelled.
* The chip steps through a configuration instead of fetching instructions: fetch is wide enough never to be the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.acadl_models.energy import arithmetic
from archloom.acadl_models.options import Clock, Size, Stated, problems_of, refuse
from archloom.acadl_models.parts import Fetch, Place, QueuedUnit, connect, held, macs, shared
from archloom.oracle.resolved import Buffer
from archloom.oracle.taidl.isa import Isa

STATED = Stated("eyeriss")

WORD_BITS = 16
"""Width of a value: 16-bit fixed point."""


@dataclass(frozen=True)
class Energy:
    """Joules of a multiply-accumulate, and of the rest by the published ratios to it (JSSC 2017; per word of 16 bits).

    A scratchpad costs as much as a multiply-accumulate, a neighbour twice, the global buffer six times and DRAM two
    hundred times as much.
    """

    mac: float

    def times(self, ratio: float) -> float:
        """``ratio`` multiply-accumulates."""
        return ratio * self.mac

    def of_pe(self) -> dict[str, float]:
        """Joules of a product (its ifmap value, weight, and sum read and written), and of an addition."""
        return {"conv": 5 * self.mac, "accumulate": (2 + 2) * self.mac, "accumulate_in": 2 * self.mac}


TECHNOLOGY = acadl.Technology(65, 1.0, "lstp")
"""TSMC 65 nm LP at 1 V; what DRAM costs is one of the ratios."""


def mac_of(technology: acadl.Technology) -> float:
    """Joules of a multiply-accumulate of 16 bits by the tables."""
    return sum(arithmetic.known_joules(operation, "i16", technology) for operation in ("multiply", "add"))


_FETCHED = 16
"""Steps of the configuration that the control hands out in a cycle."""


class Mover(QueuedUnit):
    """A network or DMA engine."""

    def __init__(
        self, name: str, fetch: Fetch, mnemonics: set[str], *, in_flight: int = 2, component: acadl.Logic | None = None
    ) -> None:
        super().__init__(
            name, fetch, mnemonics, depth=4, latency=1, interval=1, in_flight=in_flight, component=component)


def _spad(words: int) -> acadl.Memory:
    """A scratchpad of a PE: what is read and written of it costs with each product (:class:`Energy`)."""
    return acadl.Memory(size_bytes=words * WORD_BITS // 8, width_bits=WORD_BITS, ports=2)


class PE(acadl.Template):
    """A processing element: scratchpads, FIFOs and a multiply-accumulate unit."""

    def __init__(self, name: str, fetch: Fetch, isa: Isa, energy: Energy) -> None:
        sizes = isa.scope
        self.filt, self.ifm, self.psum, self.pin = (
            acadl.RegisterFile(fifo, shared(isa.buffer(fifo))[0], registers, joules_per_access=0.0, component=component)
            for fifo, registers, component in (
                ("filt", {"row": 0}, _spad(sizes["filter_spad"])), ("ifm", _SLOTS, _spad(sizes["ifmap_spad"])),
                ("psum", _SLOTS, _spad(sizes["psum_spad"])), ("pin", _SLOTS, acadl.Included("psum")))
        )
        self.stage = acadl.ExecuteStage("stage", latency=1)
        work: UnitLatency = {"conv": "p * q * s * f", "accumulate": "words", "accumulate_in": "words"}
        self.mac = acadl.FunctionalUnit(
            "mac", to_process={"conv", "accumulate", "accumulate_in"}, latency=work, operations=work,
            joules_per_operation=energy.of_pe(), component=macs(1, "i16", "i16"),
        )
        acadl.ACADLEdge(fetch.stage, self.stage, acadl.FORWARD)
        acadl.ACADLEdge(self.stage, self.mac, acadl.CONTAINS)
        connect(self.mac, (self.filt, self.ifm, self.psum, self.pin), [self.psum])

    def above(self, other: "PE") -> None:
        """The link up the column from ``other``, the PE below."""
        acadl.ACADLEdge(other.psum, self.mac, acadl.READ_DATA)


class Array(acadl.Template):
    """``rows`` x ``cols`` PEs, linked up the columns; row 0 is the lowest."""

    def __init__(self, name: str, fetch: Fetch, isa: Isa, energy: Energy) -> None:
        rows, cols = (range(isa.scope[side]) for side in ("rows", "cols"))
        self.pe = [[PE(f"pe[{i}][{j}]", fetch, isa, energy) for j in cols] for i in rows]
        for lower, upper in zip(self.pe, self.pe[1:]):
            for below, above in zip(lower, upper):
                above.above(below)

    def files(self, which: str) -> list[Place]:
        """One register file of every PE, in the order of the PEs' numbers."""
        return [getattr(pe, which) for row in self.pe for pe in row]


def eyeriss(
    *,
    rows: Annotated[int, STATED.size("rows", "rows of the PE array")] = STATED["rows"],
    cols: Annotated[int, STATED.size("cols", "columns of the PE array")] = STATED["cols"],
    ifmap_spad: Annotated[
        int, STATED.size("ifmap_spad", "ifmap scratchpad of a PE", "words")] = STATED["ifmap_spad"],
    filter_spad: Annotated[
        int, STATED.size("filter_spad", "filter scratchpad of a PE", "words")] = STATED["filter_spad"],
    psum_spad: Annotated[int, STATED.size("psum_spad", "psum scratchpad of a PE", "words")] = STATED["psum_spad"],
    glb_kib: Annotated[int, Size(1, 1 << 15, "global buffer for ifmaps and partial sums", "KiB")] = STATED.kib("glb"),
    filter_glb_kib: Annotated[int, Size(1, 1 << 15, "global buffer for filters", "KiB")] = STATED.kib("fglb"),
    psum_bits: int = WORD_BITS * STATED["psum_words"],
    row_words: Annotated[
        int, STATED.size("row_words", "words that one primitive streams in or out")] = STATED["row_words"],
    ifmap_bus_bits: Annotated[
        int, Size(16, 4096, "bus of the ifmap network, a multiple of 16", "bits", multiple=WORD_BITS)
    ] = 16,
    filter_bus_bits: Annotated[
        int, Size(16, 4096, "bus of the filter network, a multiple of 16", "bits", multiple=WORD_BITS)
    ] = 64,
    psum_bus_bits: Annotated[
        int, Size(16, 4096, "bus of the psum networks, a multiple of 16", "bits", multiple=WORD_BITS)
    ] = 64,
    dram_bytes_per_cycle: Annotated[int, Size(1, 4096, "bandwidth of DRAM", "bytes")] = 3,
    dram_latency_cycles: Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")] = 20,
    dram_gib: Annotated[int, Size(1, 1 << 10)] = 4,
    lookahead: Annotated[int, Size(16, 1 << 16, "primitives that the control may have handed out at a time")] = 1024,
    mac_joules: float | None = None,
    clock_hz: Annotated[float, Clock("clock of the core")] = 200e6,
) -> acadl.ArchitectureGraph:
    """Eyeriss with ``rows`` x ``cols`` PEs; scratchpads in words of 16 bits.

    ``psum_bits``: 16, as in the chip, or 32 for sums that never overflow; they take twice the room and the bus cycles.
    ``row_words`` bounds what one primitive streams (``p * f`` sums, ``q`` ifmap rows). ``dram_bytes_per_cycle``: 64
    bits at 90 MHz are 3.6 bytes in a cycle of 200 MHz, rounded down. ``lookahead``: primitives that the control may
    have handed out at a time. ``mac_joules``: energy of a multiply-accumulate, from which that of the rest follows
    (:class:`Energy`); without it that of the tables. Raises TargetError that lists every option out of range.
    """
    check_options(locals())
    energy = Energy(mac_of(TECHNOLOGY) if mac_joules is None else mac_joules)
    glb_words, fglb_words = ((kib << 10) // STATED.row_bytes(name, {}) for name, kib in (
        ("glb", glb_kib), ("fglb", filter_glb_kib)))
    isa = STATED.isa(locals(), psum_words=psum_bits // WORD_BITS)

    @acadl.generate
    def build() -> None:
        memory = _dram(dram_bytes_per_cycle, dram_latency_cycles, dram_gib, energy)
        glb, fglb = _buffer(isa.buffer("glb"), 5, energy), _buffer(isa.buffer("fglb"), 2, energy)
        fetch = Fetch("fetch", lookahead, _FETCHED, stands_for="the configuration of the array")
        array = Array("array", fetch, isa, energy)
        ifmap, filters, psums = (_bus(name, bits) for name, bits in (
            ("ifmap", ifmap_bus_bits), ("filter", filter_bus_bits), ("psum", psum_bus_bits)))
        _networks(fetch, glb, fglb, array, ifmap=ifmap, filters=filters, psums=psums)
        _dma(fetch, memory, glb, fglb)
        acadl.architecture(
            "eyeriss", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory, **{f: array.files(f) for f in _FILES}},
            technology=TECHNOLOGY,
        )

    return acadl.create_ag(build())


_FILES = ("filt", "ifm", "psum", "pin")
"""The register files of a PE that are buffers of the ISA."""

_SLOTS = {"slot0": 0, "slot1": 0}

_GLB_PORT_BITS = 64
"""Width of a bank of the global buffer."""


def _dram(bytes_per_cycle: int, latency: int, gib: int, energy: Energy) -> acadl.DRAM:
    return acadl.DRAM(
        "dram", data_width=8, port_width=bytes_per_cycle, max_concurrent_requests=8, read_write_ports=3,
        shared_port=True, read_latency=latency, write_latency=latency, address_ranges=[(0, gib << 30)],
        joules_per_access=energy.times(200 * 8 / WORD_BITS),
    )


def _buffer(buffer: Buffer, users: int, energy: Energy) -> acadl.SRAM:
    name, bits, words = held(buffer)
    return acadl.SRAM(
        name, data_width=bits, port_width=_GLB_PORT_BITS // bits, max_concurrent_requests=users,
        read_write_ports=users, address_ranges=[(0, words)], joules_per_access=energy.times(6),
        component=acadl.Memory(width_bits=_GLB_PORT_BITS),
    )


def _bus(name: str, bits: int) -> acadl.Link:
    # the ratio of the buffer is that of a word from there to a PE
    return acadl.Link(f"{name}_bus", bits // 8, component=acadl.Included("glb"))


def _networks(
    fetch: Fetch, glb: acadl.SRAM, fglb: acadl.SRAM, array: Array, *, ifmap: acadl.Link, filters: acadl.Link,
    psums: acadl.Link,
) -> None:
    """The multicast networks; psums go in and out at the same time, each over its own channel of their bus."""
    connect(Mover("ifmap_network", fetch, {"ifmap"}).unit, [glb], array.files("ifm"), ifmap)
    connect(Mover("filter_network", fetch, {"filter"}).unit, [fglb], array.files("filt"), filters)
    connect(Mover("psum_in_network", fetch, {"psum_in"}).unit, [glb], array.files("pin"), psums)
    connect(Mover("psum_out_network", fetch, {"psum_out"}).unit, array.files("psum"), [glb], psums)


def _dma(fetch: Fetch, memory: acadl.DRAM, glb: acadl.SRAM, fglb: acadl.SRAM) -> None:
    """What moves data between DRAM and the buffers."""
    load = Mover("dma_load", fetch, {"load", "load_sums", "clear", "config"}, in_flight=4)
    connect(load.unit, [memory], [glb])
    load_filter = Mover("dma_filter", fetch, {"load_filter"}, in_flight=4)
    connect(load_filter.unit, [memory], [fglb])
    store = Mover("dma_store", fetch, {"store", "store_scaled"}, in_flight=4, component=macs(1, "f32", "f32"))
    connect(store.unit, [glb], [memory])


def bus_words(graph: acadl.ArchitectureGraph) -> dict[str, int]:
    """What a planner needs besides: words that each bus and a port of the global buffer move in a cycle, and bytes that
    DRAM moves."""
    widths = {name: graph.objects[name] for name in ("ifmap_bus", "filter_bus", "psum_bus")}
    words = {name: link.bandwidth * 8 // WORD_BITS for name, link in widths.items() if isinstance(link, acadl.Link)}
    memory, glb = graph.objects["dram"], graph.objects["glb"]
    assert isinstance(memory, acadl.DRAM) and isinstance(glb, acadl.SRAM)
    return {**words, "dram_bytes": memory.port_width, "glb_port": glb.port_width}


def check_options(options: dict[str, object]) -> None:
    """TargetError with every option that is out of range."""
    problems = problems_of(eyeriss, options)
    if options["psum_bits"] not in (WORD_BITS, 2 * WORD_BITS):
        problems.append(f"psum_bits must be {WORD_BITS} or {2 * WORD_BITS}, not {options['psum_bits']!r}")
    joules = options["mac_joules"]
    if joules is not None and (isinstance(joules, bool) or not isinstance(joules, (int, float)) or not joules >= 0):
        problems.append(f"mac_joules must be a number of at least 0, or None, not {joules!r}")
    refuse("eyeriss", problems)
