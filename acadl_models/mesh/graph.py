"""Meshes of cores as ACADL architecture graphs: ``x`` x ``y`` cores, two networks and memory off chip.

How the hardware is modelled:

* A **core** has L1, part of which holds operands (tiles of 16 bits) and part partial sums (tiles of 32 bits), and units
  that work at the same time: a reader (from memory to L1), the matrix unit, the vector unit, an adder for sums of other
  cores, and a writer, which also turns sums into 16 bits. Reader and writer have a way in and out of
  ``noc_bytes_per_cycle`` each; with ``l1_bytes_per_cycle`` all that networks write into an L1 goes through one port,
  unless that carries as much as they bring.
* The **networks**: each row and each column of the mesh has one sender. A multicast takes its row or column for as long
  as its bytes need at the bandwidth of a link, whatever number of cores takes them off; multicasts of one row
  follow one another, and so do tiles that cores share with others of their row or collect from them (``share_row``,
  ``gather_row``). ``unicast`` goes from any core to any other, along the row and then along the column. A tree goes
  over the first column (or row), then over all rows (or columns). Neighbours also have a link of their own, over which
  a core passes tiles on to the right or down, in a torus from the last to the first, too.
* **Memory** has ``dram_channels``, over which tiles are dealt out one by one: each moves its share of the bandwidth,
  and tiles that lie in one channel follow one another. Every core reaches every channel.
* **Semaphores** need no instructions: an instruction that reads or overwrites tiles waits for those before it that
  write or read them, which is what a core's semaphores are for. With ``semaphores`` there are counters for programs
  that hand tiles over by ``signal`` and ``wait``, a cycle each in the queue of the unit
  (:mod:`archloom.acadl_models.mesh.semaphores`). A signal arrives at once: tiles that it announces may still be on
  their way, and the instructions that read them wait for them as without semaphores.
* The program of all cores is handed out by one fetch unit, wide enough that it never limits. It stands for the control
  of each core, whose energy is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from archloom.acadl_models import acadl
from archloom.acadl_models.mesh import sizes
from archloom.acadl_models.mesh.parts import Core, Ring, Router, Tree
from archloom.acadl_models.mesh.semaphores import Semaphores
from archloom.acadl_models.options import Flag, Size
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect

Cores: TypeAlias = list[list[Core]]
"""Rows of cores."""

Units: TypeAlias = dict[tuple[str, int], acadl.MemoryAccessUnit]
"""Units by their queue and the number of their core."""

_FETCHED = 64
"""Instructions, for all cores, that are handed out in a cycle."""

AHEAD = 12
"""Instructions of each core that may be handed out before they can start."""


_TECHNOLOGY = acadl.Technology(45, 0.9, dram="DDR3")


def mesh(
    x: Annotated[int, Size(1, 32, "columns of cores")] = 4,
    y: Annotated[int, Size(1, 32, "rows of cores")] = 4,
    *,
    sums: sizes.Sums = 64,
    stats: sizes.Stats = 256,
    l1_bytes: sizes.L1Bytes = 1 << 20,
    l1_bytes_per_cycle: Annotated[
        int, Size(0, 4096, "port through which networks write into an L1; 0: as much as comes", "bytes/cycle")
    ] = 0,
    array: sizes.ArrayTiles = 1,
    product_cycles: sizes.ProductCycles = 64,
    block_cycles: sizes.BlockCycles = 100,
    vector_width: sizes.VectorWidth = 32,
    vector_cycles: sizes.VectorCycles = 1,
    noc_bytes_per_cycle: sizes.NocBytesPerCycle = 32,
    dram_bytes_per_cycle: sizes.DramBytesPerCycle = 128,
    dram_latency_cycles: sizes.DramLatencyCycles = 300,
    dram_bytes: sizes.DramBytes = 8 << 30,
    dram_channels: sizes.DramChannels = 1,
    launch_cycles: sizes.LaunchCycles = 1000,
    semaphores: sizes.SemaphoreCount = 0,
    clock_hz: sizes.ClockHz = 1e9,
    torus: Annotated[bool, Flag("whether rows and columns are rings")] = True,
    name: str = "mesh",
) -> acadl.ArchitectureGraph:
    """``y`` rows of ``x`` cores; the defaults are a machine of round figures, not one that was built.

    ``sums``: tiles of partial sums in each core, ``stats``: statistics of 32 rows; the rest of ``l1_bytes`` holds
    operands. The matrix unit multiplies ``array`` x ``array`` tiles of 32 x 32 in ``product_cycles``, and takes
    ``block_cycles`` more for a product of blocks; the vector unit works on ``vector_width`` numbers in
    ``vector_cycles``. ``torus``: rows and columns are rings, otherwise they have ends. ``dram_bytes`` and
    ``dram_bytes_per_cycle`` are those of all ``dram_channels`` together. Raises TargetError that lists
    every option out of range.
    """
    sizes.check_options(mesh, locals())
    # a row and a column bring two links' bytes: a port of as many never limits
    port = l1_bytes_per_cycle if l1_bytes_per_cycle < 2 * noc_bytes_per_cycle else 0
    of_core = sizes.Sizes(
        sizes.operand_tiles(l1_bytes, sums, stats), sums, stats, noc_bytes_per_cycle, port, product_cycles,
        block_cycles, vector_cycles, vector_width, array, sizes.joules(_TECHNOLOGY, l1_bytes, pitch_mm=1.0),
        (x + y) / 2, semaphores)
    chip = Chip(
        name, y, x, of_core, dram_bytes_per_cycle, dram_latency_cycles, dram_bytes, launch_cycles, clock_hz,
        _TECHNOLOGY, dram_channels)
    return assembled(chip, lambda *given: rings(chip, torus, *given))


@dataclass(frozen=True)
class Chip:
    """Cores in rows and columns, and what is around them: memory of ``dram_bytes`` in so many channels, which move
    ``dram_bytes_per_cycle`` together."""

    name: str
    rows: int
    columns: int
    sizes: sizes.Sizes
    dram_bytes_per_cycle: int
    dram_latency_cycles: int
    dram_bytes: int
    launch_cycles: int
    clock_hz: float
    technology: acadl.Technology
    dram_channels: int = 1

    @property
    def cores(self) -> int:
        return self.rows * self.columns

    @property
    def channelled_bytes(self) -> int:
        """Bytes of memory: whole tiles in each channel, if there are several."""
        step = self.dram_channels * sizes.TILE_BYTES if self.dram_channels > 1 else 1
        return self.dram_bytes // step * step


def assembled(
    chip: Chip, network: Callable[[Fetch, Sequence[acadl.DRAM], Semaphores | None], Cores]
) -> acadl.ArchitectureGraph:
    """The graph of a chip whose cores, and what is between them and memory, ``network`` makes."""
    of_core = chip.sizes

    @acadl.generate
    def build() -> None:
        memory = [acadl.DRAM(
            "dram", data_width=8, port_width=chip.dram_bytes_per_cycle, max_concurrent_requests=8 * chip.cores,
            read_write_ports=4 * (chip.cores + chip.rows + chip.columns + 2), shared_port=True,
            read_latency=chip.dram_latency_cycles, write_latency=chip.dram_latency_cycles,
            address_ranges=[(0, chip.channelled_bytes)],
            channels=chip.dram_channels, channel_words=sizes.TILE_BYTES if chip.dram_channels > 1 else 0,
        )]
        ahead = AHEAD if not of_core.semaphores else 4 * AHEAD
        fetch = Fetch("fetch", max(_FETCHED, ahead * chip.cores), _FETCHED, stands_for="the cores' own control")
        semaphores = Semaphores(chip.cores, of_core.semaphores, 4 * chip.cores + 16) if of_core.semaphores else None
        cores = [core for row in network(fetch, memory, semaphores) for core in row]
        host = QueuedUnit(
            "dispatcher", fetch, {"launch"}, depth=1, latency=chip.launch_cycles, interval=None, in_flight=1,
            resets=True)
        for core in cores:
            connect(host.unit, writes=[core.l1, core.acc])
        buffers: dict[str, Any] = {
            "hbm": memory, "l1": [c.l1 for c in cores], "acc": [c.acc for c in cores], "stat": [c.stat for c in cores]}
        if semaphores is not None:
            buffers |= {"semaphore": semaphores.counters, "progress": list(semaphores.rest(host.unit))}
        acadl.architecture(
            chip.name, clock_hz=chip.clock_hz, isa=sizes.STATED.isa(vars(of_core), cores=chip.cores),
            dims={"rows": chip.rows, "columns": chip.columns}, buffers=buffers,
            technology=chip.technology,
        )

    return acadl.create_ag(build())


def rings(
    chip: Chip, torus: bool, fetch: Fetch, memory: Sequence[acadl.DRAM], semaphores: Semaphores | None
) -> Cores:
    """Cores each of which has ways of its own to memory, links among neighbours, and senders along rows and columns."""
    users = 8 + 2 * (chip.rows + chip.columns)
    mesh = [
        [Core(f"core[{r}][{c}]", fetch, memory, r * chip.columns + c, chip.sizes, users) for c in range(chip.columns)]
        for r in range(chip.rows)
    ]
    for r, row in enumerate(mesh):
        for c, core in enumerate(row):
            beside = [other for other in row if other is not core] + [mesh[i][c] for i in range(len(mesh)) if i != r]
            for other in beside or [core]:  # a core alone hears itself, so that its graph has all that the ISA names
                core.hear(other)
    forwards = _neighbours(fetch, mesh, chip.sizes, torus)
    senders = _senders(fetch, memory, mesh, chip.sizes)
    if semaphores is not None:
        handshakes(semaphores, mesh, forwards, senders)
    return mesh


def handshakes(semaphores: Semaphores, mesh: Cores, forwards: Units, senders: Units) -> None:
    """Who waits on and signals whose semaphores; readers of what trees and routers send may be anywhere."""
    rows, columns = len(mesh), len(mesh[0])
    for r, row in enumerate(mesh):
        for c, core in enumerate(row):
            me = r * columns + c
            line = [r * columns + i for i in range(columns)] + [i * columns + c for i in range(rows)]
            units = {"reader": core.reader, "matrix": core.matrix, "adder": core.adder, "writer": core.writer,
                     "vector": core.vector}
            for queue, unit in units.items():
                near = queue in ("reader", "writer")
                semaphores.join(unit.unit, queue, me, [me], [] if near else [*line, 0])
    for (queue, me), forwarding in forwards.items():
        r, c = divmod(me, columns)
        line = [r * columns + i for i in range(columns)] if queue == "east" else [i * columns + c for i in range(rows)]
        semaphores.join(forwarding, queue, me, [me], line)
    every = range(rows * columns)
    lines = {"row": lambda me: range(me, me + columns), "column": lambda me: range(me, rows * columns, columns)}
    for (queue, me), sending in senders.items():
        semaphores.join(sending, queue, me, lines[queue](me) if queue in lines else every, [])


def _neighbours(fetch: Fetch, mesh: Cores, of_core: sizes.Sizes, torus: bool) -> Units:
    """Each core passes tiles on to the right and down; one without neighbours to itself."""
    made: Units = {}

    def link(way: str, r: int, c: int) -> acadl.Link:
        return acadl.Link(f"{way}_link[{r}][{c}]", of_core.noc_bytes_per_cycle, joules_per_byte=of_core.joules.hops(1))

    def join(way: str, r: int, c: int, line: Sequence[Core], at: int) -> None:
        if at + 1 < len(line) or (torus and len(line) > 1):
            name = f"{way}[{r}][{c}]"
            following = line[(at + 1) % len(line)]
            made[way, r * len(mesh[0]) + c] = mesh[r][c].pass_on(name, fetch, following, link(way, r, c))

    for r, row in enumerate(mesh):
        for c in range(len(row)):
            join("east", r, c, row, c)
            join("south", r, c, [line[c] for line in mesh], r)
    if len(mesh) == len(mesh[0]) == 1:
        made["east", 0] = mesh[0][0].pass_on("east[0][0]", fetch, mesh[0][0], link("east", 0, 0))
    return made


def _senders(fetch: Fetch, memory: Sequence[acadl.DRAM], mesh: Cores, of_core: sizes.Sizes) -> Units:
    """Those of rows, of columns and of trees, and routers."""
    def ring(name: str, cores: Sequence[Core], mnemonic: str) -> Ring:
        joules = of_core.joules.hops(len(cores))
        return Ring(name, fetch, memory, cores, mnemonic, of_core.noc_bytes_per_cycle, joules=joules)

    lines = [list(column) for column in zip(*mesh)]
    row_rings = [ring(f"noc_h[{r}]", row, "multicast_row") for r, row in enumerate(mesh)]
    column_rings = [ring(f"noc_v[{c}]", line, "multicast_column") for c, line in enumerate(lines)]
    crossing_rows, crossing_columns = list(zip(row_rings, mesh)), list(zip(column_rings, lines))
    made: Units = {}
    for r, row in enumerate(mesh):
        ways = [(core, core.ways.port if core in row else column_rings[c].link)
                for c, line in enumerate(lines) for core in line]
        router = Router(f"router[{r}]", fetch, row_rings[r].link, row, ways)
        made["router", r * len(lines)] = router.sender.unit
    down = Tree("tree_v", fetch, memory, column_rings[0], crossing_rows, lines[0], "multicast_down")
    across = Tree("tree_h", fetch, memory, row_rings[0], crossing_columns, mesh[0], "multicast_across")
    made |= {("down", 0): down.sender.unit, ("across", 0): across.sender.unit}
    made |= {("row", r * len(lines)): one.sender.unit for r, one in enumerate(row_rings)}
    return made | {("column", c): one.sender.unit for c, one in enumerate(column_rings)}
