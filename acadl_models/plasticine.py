"""Plasticine as an ACADL architecture graph: a checkerboard of pattern compute units and pattern memory units.

Source of the figures: Prabhakar, Zhang, Koeplinger, Feldman, Zhao, Hadjis, Pedram, Kozyrakis, Olukotun, "Plasticine: A
Reconfigurable Architecture For Parallel Patterns", ISCA 2017: 16 x 8 units, half of them PCUs of 16 lanes and 6 stages,
half PMUs of 256 KB in 16 banks; 1 GHz; four DDR3-1600 channels, 51.2 GB/s together; 12.3 single-precision TFLOPS.

How the hardware is modelled, at the level of innermost patterns (``oracle/isas/plasticine.taidl``):

* A **PCU** runs one pattern after the other, a vector of ``lanes`` words a cycle: ``fold_product`` takes ``k * n``
  cycles for ``n`` vectors of sums over ``k`` and its results leave ``stages`` cycles after the last operand. A pattern
  of more operations than there are stages would not fit: ``fold_lanes`` needs one and log2(lanes), and runs in several
  turns if there are fewer.
* A **PMU** delivers or takes one vector a cycle over its port, and one over its vector links: a word from each bank.
  Scalar operands come over the same port, a vector of them at a time. Bank conflicts are not modelled (vectors are
  contiguous), nor are the address calculations in the PMU.
* The **interconnect** is static and its routes do not contend: a PCU reads the PMUs next to it (north, south, east,
  west in the checkerboard) over their links, each ``hop_cycles`` long, and writes the PMU it is paired with. The
  result's place thus decides which PCU runs a pattern.
* **Address generators** move tiles between DRAM and PMUs; a load may fill several PMUs at once (switches multicast).
  ``generators`` of them share one port to DRAM with the bandwidth of all channels: addresses are interleaved.
* **Control** (the token network) costs nothing; the configuration is handed out as instructions, many at a time.
* **Energy and area**: 28 nm and DDR3, as in the paper; a link is as long as a unit is wide, 0.94 mm, by the paper's
  112.8 square millimetres for all units.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated, problems_of, refuse
from archloom.acadl_models.parts import Fetch, QueuedUnit, macs, shared
from archloom.oracle.taidl.isa import Isa

STATED = Stated("plasticine")

WORD_BITS = 32
"""Width of a word: single precision."""

DRAM_BYTES_PER_CYCLE = 51
"""51.2 GB/s at 1 GHz, rounded down."""

_FETCHED = 16
"""Patterns of the configuration that are handed out in a cycle."""

_QUEUE = 2
"""Patterns that wait before a unit."""


_NEIGHBOURS = 4
"""PCUs beside a PMU."""


class PCU(QueuedUnit):
    """A pattern compute unit."""

    def __init__(self, name: str, fetch: Fetch, lanes: int, stages: int) -> None:
        tree = 1 + (lanes - 1).bit_length()
        turns = -(-tree // stages)
        super().__init__(
            name, fetch, {"map", "relu", "fold", "fold_lanes", "fold_product"}, depth=_QUEUE, in_flight=2,
            latency={"fold_lanes": turns * stages, "*": stages},
            interval={"fold_product": "k * n", "fold_lanes": f"{turns} * count", "*": "count"},
            component=macs(lanes * stages, "f32", "f32", register_bits=WORD_BITS),
        )


class PMU(acadl.Template):
    """A pattern memory unit: its scratchpad and the link on which its vectors leave and arrive."""

    def __init__(self, name: str, number: int, isa: Isa, hop_cycles: int, users: int) -> None:
        bits, vectors = shared(isa.buffer("pmu"), isa.scope["units"])
        self.scratchpad = acadl.SRAM(
            "scratchpad", data_width=bits, port_width=1, shared_port=True, max_concurrent_requests=4,
            read_write_ports=users, address_ranges=[(number * vectors, (number + 1) * vectors)],
        )
        self.link = acadl.Link("link", bits // 8, latency=hop_cycles, component=acadl.Wire(0.94))


class Grid(acadl.Template):
    """``rows`` x ``cols`` units in a checkerboard; pair ``(i, c)`` is the PCU and the PMU in columns 2c and 2c + 1."""

    def __init__(
        self, name: str, fetch: Fetch, rows: int, cols: int, isa: Isa, stages: int, hop_cycles: int, generators: int,
    ) -> None:
        self.units: dict[tuple[int, int], PCU | PMU] = {}
        self.pmus: list[PMU] = []
        for i in range(rows):
            for c in range(cols // 2):
                number = i * (cols // 2) + c
                left = i % 2
                pcu = PCU(f"pcu[{i}][{c}]", fetch, isa.scope["lanes"], stages)
                pmu = PMU(f"pmu[{i}][{c}]", number, isa, hop_cycles, _NEIGHBOURS + 2 * generators)
                self.units[i, 2 * c + left], self.units[i, 2 * c + 1 - left] = pcu, pmu
                self.pmus.append(pmu)
                acadl.ACADLEdge(pcu.unit, pmu.scratchpad, acadl.WRITE_DATA, link=pmu.link)
        for (i, j), unit in self.units.items():
            near = (self.units.get(at) for at in ((i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)))
            for other in near:
                if isinstance(unit, PCU) and isinstance(other, PMU):
                    acadl.ACADLEdge(other.scratchpad, unit.unit, acadl.READ_DATA, link=other.link)


class AddressGenerator(acadl.Template):
    """Loads and stores of tiles, with a queue each."""

    def __init__(self, name: str, fetch: Fetch, memory: acadl.DRAM, pmus: list[PMU]) -> None:
        self.load = QueuedUnit("load", fetch, {"load"}, depth=_QUEUE, latency=1, interval=1, in_flight=4)
        self.store = QueuedUnit("store", fetch, {"store"}, depth=_QUEUE, latency=1, interval=1, in_flight=4)
        acadl.ACADLEdge(memory, self.load.unit, acadl.READ_DATA)
        acadl.ACADLEdge(self.store.unit, memory, acadl.WRITE_DATA)
        for pmu in pmus:
            acadl.ACADLEdge(self.load.unit, pmu.scratchpad, acadl.WRITE_DATA)
            acadl.ACADLEdge(pmu.scratchpad, self.store.unit, acadl.READ_DATA)


def plasticine(
    *,
    rows: Annotated[int, Size(1, 64, "rows of units")] = 8,
    cols: Annotated[
        int, Size(2, 64, "columns of units, an even number: half are PCUs, half PMUs")] = 2 * STATED["units"] // 8,
    lanes: Annotated[int, STATED.size("lanes", "lanes of a PCU, words of a vector")] = STATED["lanes"],
    stages: Annotated[int, Size(2, 64, "stages of a PCU")] = 6,
    pmu_kib: Annotated[int, Size(1, 1 << 15, "scratchpad of a PMU", "KiB")] = STATED.kib("pmu", STATED["units"]),
    generators: Annotated[int, Size(1, 64, "address generators, each with a load and a store queue")] = 4,
    dram_bytes_per_cycle: Annotated[
        int, Size(1, 65536, "bandwidth of all channels of DRAM", "bytes")
    ] = DRAM_BYTES_PER_CYCLE,
    dram_latency_cycles: Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")] = 60,
    dram_gib: Annotated[int, Size(1, 1 << 10)] = 4,
    hop_cycles: Annotated[int, Size(0, 1000, "from a PMU to a PCU beside it", "cycles")] = 1,
    lookahead: Annotated[int, Size(16, 1 << 16, "patterns that may be handed out at a time")] = 512,
    clock_hz: Annotated[float, Clock("clock of the accelerator")] = 1e9,
) -> acadl.ArchitectureGraph:
    """Plasticine with ``rows`` x ``cols`` units, half of them PCUs; ``cols`` is even.

    ``dram_latency_cycles`` is an assumption of this model.
    ``lookahead``: patterns that may be handed out at a time. Raises TargetError that lists every option out of range.
    """
    check_options(locals())
    vectors = (pmu_kib << 10) // STATED.row_bytes("pmu", locals())
    isa = STATED.isa(locals(), units=rows * cols // 2)

    @acadl.generate
    def build() -> None:
        memory = acadl.DRAM(
            "dram", data_width=8, port_width=dram_bytes_per_cycle, max_concurrent_requests=4 * generators,
            read_write_ports=2 * generators, shared_port=True, read_latency=dram_latency_cycles,
            write_latency=dram_latency_cycles, address_ranges=[(0, dram_gib << 30)],
        )
        fetch = Fetch("fetch", lookahead, _FETCHED, stands_for="the configuration of the units")
        grid = Grid("grid", fetch, rows, cols, isa, stages, hop_cycles, generators)
        for i in range(generators):
            AddressGenerator(f"ag[{i}]", fetch, memory, grid.pmus)
        acadl.architecture(
            "plasticine", clock_hz=clock_hz, isa=isa,
            buffers={"hbm": memory, "pmu": [pmu.scratchpad for pmu in grid.pmus]},
            technology=acadl.Technology(28, dram="DDR3"),
        )

    return acadl.create_ag(build())


def check_options(options: dict[str, object]) -> None:
    """TargetError with every option that is out of range."""
    problems = problems_of(plasticine, options)
    cols, lanes, kib = (options[name] for name in ("cols", "lanes", "pmu_kib"))
    if isinstance(cols, int) and cols % 2:
        problems.append(f"cols must be even, not {cols}: every PCU has a PMU beside it")
    of_lanes, least = STATED.size("lanes"), STATED.size("vectors").low
    sound = isinstance(lanes, int) and of_lanes.low <= lanes <= of_lanes.high and isinstance(kib, int)
    if sound and (vectors := (kib << 10) // STATED.row_bytes("pmu", {"lanes": lanes})) < least:  # type: ignore[operator]
        problems.append(f"pmu_kib={kib} holds {vectors} vectors of {lanes} lanes; at least {least} are needed")
    refuse("plasticine", problems)
