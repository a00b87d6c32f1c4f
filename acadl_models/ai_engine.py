"""The AI Engine array of AMD/Xilinx Versal as an ACADL architecture graph: cores in a grid, joined to a chain.

The facts are those of the public architecture manual (AM009) and of the EQueue paper's case study (section VII).
Behaviour is in ``oracle/isas/ai_engine.taidl``.

How the hardware is modelled:

* **Cores** lie in ``rows`` × ``columns`` and form one chain that runs to the right in even rows and to the left in odd
  ones, as the cascade does. Core i of the chain is the template ``core[row][column]``.
* A core is a VLIW processor whose slots work at the same time: here a unit for each of its two stream inputs, one for
  its stream output, and the **vector unit**. An operation takes a cycle (a ``mac4_stream`` takes its sums from the
  stream in that cycle); a matrix product takes one for each 4 × 4 × 2 products of 16 bits (32 products a cycle).
* What the vector unit reads and writes without waiting, vector registers and the data memory behind its load and store
  slots, are **register files**: they take no time.
* **Streams** are ``stream_bits`` wide links: one from the memory for each input, one back for each output, and one from
  each core to the next, which ends in a FIFO (``fifo`` places of four complex values) at the receiver. 0 takes the
  limit away: a transfer of contiguous values then takes one cycle. The **cascade** is an edge: the next core reads the
  accumulator.
* The **memory** stands for whatever feeds the streams (the programmable logic, or a DMA from DDR). It serves all
  streams at the same time; ``memory_latency`` is the time to the first value.
* **Energy and area**: 7 nm, with DDR4 behind the streams. Assumed: streams of 1 mm to the next core, of 5 mm to what
  feeds them; the matrix tiles lie in the data memory, of which a product reads and writes 256 bits at a time.
* **Programs**: each core has a program memory of its own in the hardware. The one program of this model is fetched so
  wide (four instructions for each core in a cycle) that fetching never limits.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated, not_multiple, problems_of, refuse
from archloom.acadl_models.parts import macs, registers, row_memory, shared
from archloom.oracle.taidl.isa import Isa

STATED = Stated("ai_engine")

LANES = STATED["LANES"]
"""Complex values that an operation makes, an accumulator holds and a FIFO's place takes."""

PRODUCTS_PER_CYCLE = 32
"""Multiply-accumulates of 16 bits that a core's vector unit makes in a cycle (8 complex ones in mul4 and mac4)."""

_PORT_BYTES = 64
_ISSUE_PER_CORE = 4
_WINDOW_PER_CORE = 64


class Files(acadl.Template):
    """The places of a core that cost its vector unit no time."""

    def __init__(self, name: str, isa: Isa) -> None:
        def file(name: str, component: acadl.Memory | None = None) -> acadl.RegisterFile:
            return registers(name, *of_core(isa, name), component=component)

        vectors = acadl.Memory(width_bits=256, ports=2)
        self.x, self.c, self.acc = (file(name) for name in ("x", "c", "acc"))
        self.ta, self.tb, self.tc = (file(name, vectors) for name in ("ta", "tb", "tc"))


def of_core(isa: Isa, name: str) -> tuple[int, int]:
    """A core's part of a buffer: the bits of a word, and the words."""
    buffer = isa.buffer(name)
    return shared(buffer, isa.scope["cores"], buffer.shape[1])


class Core(acadl.Template):
    """A core: two stream inputs, a vector unit and a stream output around its files."""

    def __init__(
        self, name: str, fetch: acadl.InstructionFetchStage, memory: acadl.SRAM, number: int, isa: Isa,
        stream_bytes: int,
    ) -> None:
        self.stream_bytes = stream_bytes
        self.files = Files("files", isa)
        bits, places = of_core(isa, "stream")
        self.fifo = row_memory("fifo", bits, places, requests=2, ports=2, first=number * places)
        input_a = acadl.MemoryAccessUnit(
            "input_a", {"read_samples", "read_coefficients", "read_a", "read_bias"}, latency=0)
        input_b = acadl.MemoryAccessUnit("input_b", {"read_b"}, latency=0)
        self.vector = acadl.MemoryAccessUnit(
            "vector", {"mul4", "mac4", "mac4_cascade", "mac4_stream", "mmul"},
            latency={"mac4_stream": 0, "mmul": "cdiv(m, 4) * cdiv(n, 4) * cdiv(k, 2)", "*": 1},
            component=macs(PRODUCTS_PER_CYCLE, "i16", "i32", register_bits=32),
        )
        self.output = acadl.MemoryAccessUnit("output", {"write_stream", "write_result", "write_c"}, latency=0,
                                             component=macs(LANES, "f32", "f32"))
        units = {"in_a": input_a, "in_b": input_b, "op": self.vector, "out": self.output}
        for name_of_slot, unit in units.items():
            slot = acadl.ExecuteStage(name_of_slot, latency=1)
            acadl.ACADLEdge(fetch, slot, acadl.FORWARD)
            acadl.ACADLEdge(slot, unit, acadl.CONTAINS)
        self._connect(memory, input_a, input_b)

    def _connect(self, memory: acadl.SRAM, input_a: acadl.MemoryAccessUnit, input_b: acadl.MemoryAccessUnit) -> None:
        files = self.files
        for unit, name in ((input_a, "a"), (input_b, "b")):
            acadl.ACADLEdge(memory, unit, acadl.READ_DATA, link=self.link(f"stream_{name}"))
        acadl.ACADLEdge(input_a, files.tc, acadl.WRITE_DATA)
        for file, writer in ((files.x, input_a), (files.c, input_a), (files.ta, input_a), (files.tb, input_b)):
            acadl.ACADLEdge(writer, file, acadl.WRITE_DATA)
            acadl.ACADLEdge(file, self.vector, acadl.READ_DATA)
        for file in (files.acc, files.tc):
            acadl.ACADLEdge(self.vector, file, acadl.WRITE_DATA)
            acadl.ACADLEdge(file, self.vector, acadl.READ_DATA)
            acadl.ACADLEdge(file, self.output, acadl.READ_DATA)
        acadl.ACADLEdge(self.fifo, self.vector, acadl.READ_DATA)
        acadl.ACADLEdge(self.output, memory, acadl.WRITE_DATA, link=self.link("stream_out"))

    def link(self, name: str, length_mm: float = 5.0) -> acadl.Link | None:
        """A stream as wide as the options say, None where streams have no limit."""
        wire = acadl.Wire(length_mm)
        return acadl.Link(name, bandwidth=self.stream_bytes, component=wire) if self.stream_bytes else None

    def feed(self, after: "Core") -> None:
        """Join this core to the next of the chain, by a stream and by the cascade."""
        path = self.fifo.name.removesuffix("fifo")
        acadl.ACADLEdge(self.output, after.fifo, acadl.WRITE_DATA, link=self.link(f"{path}stream_next", 1.0))
        if after is not self:
            acadl.ACADLEdge(self.files.acc, after.vector, acadl.READ_DATA)


def ai_engine(
    *,
    rows: Annotated[int, Size(1, 16, "rows of cores")] = 1,
    columns: Annotated[int, Size(1, 64, "columns of cores")] = STATED["cores"],
    stream_bits: Annotated[int, Size(0, 4096, "width of every stream (0: no limit)", "bits")] = 32,
    samples: Annotated[int, STATED.size("samples", "complex samples in a core")] = STATED["samples"],
    coefficients: Annotated[
        int, STATED.size("coefficients", "complex coefficients in a core")] = STATED["coefficients"],
    fifo: Annotated[
        int, STATED.size("fifo", "places of four complex values at the end of a core's stream")] = STATED["fifo"],
    tile: Annotated[int, STATED.size("tile", "rows and columns of a core's matrix tiles")] = STATED["tile"],
    memory_latency: Annotated[int, Size(1, 1_000_000, "from a request of the memory to the first value", "cycles")] = 1,
    memory_mib: Annotated[int, Size(1, 1 << 20, "memory behind the streams", "MiB")] = 1024,
    clock_hz: Annotated[float, Clock("clock of the cores", 1, 1e5)] = 1e9,
) -> acadl.ArchitectureGraph:
    """An array of ``rows`` × ``columns`` cores.

    ``stream_bits``: width of every stream, a multiple of 8 (0: no limit). ``samples``, ``coefficients``: complex values
    that a core holds. ``fifo``: places of four values at the end of a core's stream. ``tile``: rows and columns of its
    matrix tiles. ``memory_latency`` in cycles. Raises TargetError that lists every option out of range.
    """
    _check_options(locals())
    cores = rows * columns
    isa = STATED.isa(locals())

    @acadl.generate
    def build() -> None:
        fetch = acadl.InstructionFetchStage("fetch", issue_buffer_size=_WINDOW_PER_CORE * cores)
        unit = acadl.InstructionMemoryAccessUnit("fetch_unit", latency=0)
        programs = acadl.SRAM(
            "programs", data_width=128, port_width=_ISSUE_PER_CORE * cores, address_ranges=[(0, 1 << 32)]
        )
        acadl.ACADLEdge(fetch, unit, acadl.CONTAINS)
        acadl.ACADLEdge(programs, unit, acadl.READ_DATA)
        memory = acadl.SRAM(
            "memory", data_width=8, port_width=_PORT_BYTES, max_concurrent_requests=3 * cores,
            read_write_ports=3 * cores, read_latency=memory_latency, write_latency=memory_latency,
            address_ranges=[(0, memory_mib << 20)], component=acadl.OffChip("DDR4"),
        )
        chain = [
            Core(f"core[{row}][{column}]", fetch, memory, number, isa, stream_bits // 8)
            for number, (row, column) in enumerate(chain_places(rows, columns))
        ]
        # a core alone feeds itself, so that its graph has all that the ISA names
        for core, after in zip(chain, chain[1:] or chain):
            core.feed(after)
        acadl.architecture(
            "ai_engine", clock_hz=clock_hz, isa=isa,
            dims={"rows": rows, "columns": columns},
            buffers={
                "hbm": memory, "stream": [core.fifo for core in chain],
                **{name: [getattr(core.files, name) for core in chain] for name in ("x", "c", "acc", "ta", "tb", "tc")},
            },
            technology=acadl.Technology(7),
        )

    return acadl.create_ag(build())


def chain_places(rows: int, columns: int) -> list[tuple[int, int]]:
    """(row, column) of each core along the chain: to the right in even rows, to the left in odd ones."""
    return [(r, c if r % 2 == 0 else columns - 1 - c) for r in range(rows) for c in range(columns)]


def core_path(graph: acadl.ArchitectureGraph, number: int) -> str:
    """The path of core ``number`` of the chain, before which its objects' names begin."""
    row, column = chain_places(graph.dims["rows"], graph.dims["columns"])[number]
    return f"core[{row}][{column}]"


_MOST_CORES = 512


def _check_options(options: dict[str, object]) -> None:
    problems = problems_of(ai_engine, options)
    if not problems:
        rows, columns = options["rows"], options["columns"]
        assert isinstance(rows, int) and isinstance(columns, int)
        if rows * columns > _MOST_CORES:
            problems.append(f"rows * columns must be at most {_MOST_CORES}, not {rows} * {columns}")
        problems += not_multiple("stream_bits", options["stream_bits"], 8, " (or 0: no limit)")
    refuse("ai_engine", problems)
