"""The triple ring as an ACADL architecture graph: cores, and how they are built, are those of :mod:`.mesh`.

Source of the figures: the TL paper (Li, Bai et al., "TL: Automatic End-to-End Compiler of Tile-Based Languages for
Spatial Dataflow Architectures"), listing 9, "a 1D triple-ring topology similar to the IBM-Spyre accelerator". It prints
rings of 8 for 32 cores, and a set of memories that nobody declares (``%memories``): read are rings of 32, and ``%L1``.

* **Matrix unit**: ``throughput = 16384`` for 128 x 128 x 128 is its multiply-accumulates in a cycle, 128 x 128: it
  takes 128 cycles for a product of that shape, 4 tiles of 32 along each side.
* **Vector unit**: ``throughput = 128`` for 128 numbers: an operation in every cycle.
* **L1**: 2 MiB and 128 bytes a cycle for the two cores of a column. As on Wormhole the matrix unit's cycles include the
  reads of its operands; the 128 bytes are what the rings may write.
* **Rings**: 32 bytes a cycle from a core to the next of its row, 256 from an L1 to the next.
* **Memory**: two of 32 GiB with 512 bytes a cycle, at the first and the last L1. Everything that comes from memory to
  the cores passes the large ring, whose 256 bytes limit, not memory's 512.
* Assumed: the process of the Spyre accelerator, 5 nm, with LPDDR4 for its LPDDR5 (no source of the tables has that);
  clock, partial sums and statistics, cycles of a block and of a launch, latency of memory, and the pitch.

How it is built:

* The ``rows`` cores of a **column** share an L1, of which each has a part; what rings write into it goes through one
  port. A multicast to all cores of a column passes the port once.
* The **large ring** joins all L1s, and those at its ends with memory. All loads and multicasts take it for as long as
  their bytes need, stores its channel of the other direction.
* A **small ring** joins the cores of a row: each passes tiles on to the next, and adds up sums of others. Cores of a
  column pass them through their L1.
* **Memories**: tiles are dealt out over them one by one, so that every tensor lies in all; they are the channels of one
  ``DRAM``, each with ``dram_bytes_per_cycle`` of its own.
* **Energies**: a byte on the large ring is counted half way around it, whoever takes it off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from archloom.acadl_models.acadl import DRAM, ArchitectureGraph, Included, Link, Technology
from archloom.acadl_models.mesh import sizes
from archloom.acadl_models.mesh.graph import Chip, Cores, Units, assembled, handshakes
from archloom.acadl_models.mesh.parts import Core, Ring, Router, Ways
from archloom.acadl_models.mesh.semaphores import Semaphores
from archloom.acadl_models.options import Size
from archloom.acadl_models.parts import Fetch

__all__ = ["triple_ring"]


_TECHNOLOGY = Technology(5, dram="LPDDR4")


def triple_ring(
    *,
    rows: Annotated[int, Size(2, 4, "cores that share an L1")] = 2,
    columns: Annotated[int, Size(2, 64, "L1s on the large ring")] = 32,
    sums: sizes.Sums = 64,  # a block of 256 x 256, a quarter of a core's half of L1
    stats: sizes.Stats = 256,
    l1_bytes: sizes.L1Bytes = 2_097_152,  # of the cores of a column
    l1_bytes_per_cycle: Annotated[
        int, Size(1, 4096, "port through which networks write into an L1; 0: as much as comes", "bytes/cycle")
    ] = 128,
    array: sizes.ArrayTiles = 4,
    product_cycles: sizes.ProductCycles = 128,
    block_cycles: sizes.BlockCycles = 128,  # filling the array
    vector_width: sizes.VectorWidth = 128,
    vector_cycles: sizes.VectorCycles = 1,
    small_ring_bytes_per_cycle: Annotated[int, Size(1, 4096, "of the rings between neighbours", "bytes/cycle")] = 32,
    large_ring_bytes_per_cycle: Annotated[
        int, Size(1, 4096, "of the ring that joins all L1s and memory", "bytes/cycle")
    ] = 256,
    memories: Annotated[int, Size(1, 64, "at the ends of the large ring")] = 2,
    dram_bytes_per_cycle: sizes.DramBytesPerCycle = 512,
    dram_latency_cycles: sizes.DramLatencyCycles = 500,
    dram_bytes: sizes.DramBytes = 34_359_738_368,
    launch_cycles: sizes.LaunchCycles = 1000,
    semaphores: sizes.SemaphoreCount = 0,
    clock_hz: sizes.ClockHz = 1e9,
    name: str = "triple_ring",
) -> ArchitectureGraph:
    """``columns`` L1s of ``l1_bytes`` on a ring, with ``rows`` cores each, and ``memories``, each of ``dram_bytes`` and
    ``dram_bytes_per_cycle``.

    ``sums`` and ``stats`` are those of a core, and so are ``semaphores``: counters for programs with ``signal`` and
    ``wait``, beside ``l1_bytes``. Raises TargetError that lists every option out of range.
    """
    _check_options(locals())
    core = sizes.Sizes(
        sizes.operand_tiles(l1_bytes // rows, sums, stats), sums, stats, small_ring_bytes_per_cycle, l1_bytes_per_cycle,
        product_cycles, block_cycles, vector_cycles, vector_width, array,
        sizes.joules(_TECHNOLOGY, l1_bytes, pitch_mm=2.0), semaphores=semaphores)
    chip = Chip(
        name, rows, columns, core, memories * dram_bytes_per_cycle, dram_latency_cycles, memories * dram_bytes,
        launch_cycles, clock_hz, _TECHNOLOGY, memories)
    return assembled(chip, lambda *given: _wired(chip, large_ring_bytes_per_cycle, *given))


def _wired(
    chip: Chip, ring_bytes: int, fetch: Fetch, memory: Sequence[DRAM], semaphores: Semaphores | None
) -> Cores:
    wire = chip.sizes.joules
    large = Link("large_ring", ring_bytes, joules_per_byte=wire.hops(chip.columns / 2))
    ports = [Link(f"l1_port[{c}]", chip.sizes.l1_bytes_per_cycle, component=Included("l1"))
             for c in range(chip.columns)]
    small = [
        [Link(f"small_ring[{r}][{c}]", chip.sizes.noc_bytes_per_cycle, joules_per_byte=wire.hops(1))
         for c in range(chip.columns)]
        for r in range(chip.rows)
    ]
    users = 8 + 2 * (chip.rows + chip.columns)
    mesh = [
        # a core receives over the part of its small ring that ends at it
        [Core(f"core[{r}][{c}]", fetch, memory, r * chip.columns + c, chip.sizes, users,
              Ways(large, large, small[r][c - 1], ports[c])) for c in range(chip.columns)]
        for r in range(chip.rows)
    ]
    forwards: Units = {}
    for r, row in enumerate(mesh):
        for c, core in enumerate(row):
            forwards |= _joined(fetch, mesh, r, c, small[r][c], ports[c])
            for other in (other for other in row if other is not core):
                core.hear(other)
            for other in (line[c] for line in mesh if line is not row):
                core.hear(other, ports[c])
    senders = _senders(fetch, memory, mesh, large)
    if semaphores is not None:
        handshakes(semaphores, mesh, forwards, senders)
    return mesh


def _joined(fetch: Fetch, mesh: Cores, r: int, c: int, onward: Link, port: Link) -> Units:
    """A core passes tiles on to the next of its row, around the ring, and through its L1 to the next of its column."""
    row, me = mesh[r], r * len(mesh[r]) + c
    made: Units = {("east", me): row[c].pass_on(f"east[{r}][{c}]", fetch, row[(c + 1) % len(row)], onward)}
    if r + 1 < len(mesh):
        made["south", me] = row[c].pass_on(f"south[{r}][{c}]", fetch, mesh[r + 1][c], port)
    return made


def _senders(fetch: Fetch, memory: Sequence[DRAM], mesh: Cores, large: Link) -> Units:
    """All over the large ring; what the cores of a column share passes their port for the first of them."""
    made: Units = {}
    for r, row in enumerate(mesh):
        ring = Ring(f"along[{r}]", fetch, memory, row, "multicast_row", large)
        made["row", r * len(row)] = ring.sender.unit
    for c, column in enumerate(zip(*mesh)):
        ring = Ring(f"across[{c}]", fetch, memory, column, "multicast_column", large, _once(column))
        made["column", c] = ring.sender.unit
    every = [core for column in zip(*mesh) for core in column]
    ports = [port for column in zip(*mesh) for port in _once(column)]
    router = Router("router", fetch, large, every, [(core, core.ways.port) for core in every])
    made["router", 0] = router.sender.unit
    for name, way in (("all_v", "down"), ("all_h", "across")):
        made[way, 0] = Ring(name, fetch, memory, every, f"multicast_{way}", large, ports).sender.unit
    return made


def _once(column: Sequence[Core]) -> list[Link | None]:
    return [core.ways.port if core is column[0] else None for core in column]


def _check_options(options: dict[str, object]) -> None:
    """TargetError with every option that is out of range."""
    rows, l1_bytes = options["rows"], options["l1_bytes"]
    of_core = dict(options)
    if isinstance(rows, int) and isinstance(l1_bytes, int) and rows > 0:
        of_core["l1_bytes"] = l1_bytes // rows
    sizes.check_options(triple_ring, of_core)
