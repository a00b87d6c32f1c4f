"""Wormhole as an ACADL architecture graph: ``rows`` x ``columns`` Tensix cores between two networks and GDDR6.

The figures and how the paper is read: :mod:`acadl_models.wormhole.figures`. How the hardware is modelled:

* A **core** has L1, part of which holds operands (tiles of 16 bits) and part partial sums (tiles of 32 bits), and units
  that work at the same time: a reader (from memory to L1), the matrix unit, an adder for sums of other cores, and a
  writer, which also turns sums into 16 bits. Reader and writer have a way in and out of ``noc_bytes_per_cycle`` each.
* The **networks**: each row and each column of the mesh is a ring with one sender. A multicast takes its ring for as
  long as its bytes need at the bandwidth of a link, whatever number of cores takes them off; multicasts of one ring
  follow one another. A tree goes over the first column (or row), then over all rows (or columns).
  Neighbours also have a link of their own, over which a core passes tiles on to the right or down.
* **Memory** is one port with the bandwidth of all channels together.
* **Semaphores** need no instructions: an instruction that reads or overwrites tiles waits for those before it that
  write or read them, which is what a core's semaphores are for.
* The program of all cores is handed out by one fetch unit, wide enough that it never limits.
"""

from __future__ import annotations

from acadl_models.acadl import DRAM, WRITE_DATA, ACADLEdge, ArchitectureGraph, architecture, create_ag, generate
from acadl_models.options import out_of_range, refuse
from acadl_models.parts import Fetch, QueuedUnit
from acadl_models.wormhole import figures
from acadl_models.wormhole.parts import Ring, Sizes, Tensix, Tree

_FETCHED = 64
"""Instructions, for all cores, that are handed out in a cycle."""

_AHEAD = 12
"""Instructions of each core that may be handed out before they can start."""


def wormhole(
    *,
    rows: int = 8,
    columns: int = 8,
    sums: int = figures.SUMS,
    stats: int = figures.STATS,
    l1_bytes: int = figures.L1_BYTES,
    product_cycles: int = figures.PRODUCT_CYCLES,
    block_cycles: int = figures.BLOCK_CYCLES,
    vector_cycles: int = figures.VECTOR_CYCLES,
    noc_bytes_per_cycle: int = figures.NOC_BYTES_PER_CYCLE,
    dram_bytes_per_cycle: int = figures.DRAM_BYTES_PER_CYCLE,
    dram_latency_cycles: int = figures.DRAM_LATENCY_CYCLES,
    dram_bytes: int = figures.DRAM_BYTES,
    launch_cycles: int = figures.LAUNCH_CYCLES,
    clock_hz: float = figures.CLOCK_HZ,
) -> ArchitectureGraph:
    """A socket of Wormhole, or as many of its rows and columns as are used.

    ``sums``: tiles of partial sums in each core, ``stats``: statistics of 32 rows; the rest of ``l1_bytes`` holds
    operands. Raises TargetError that lists every option out of range.
    """
    check_options(locals())
    sizes = Sizes(
        _tiles(l1_bytes, sums, stats), sums, stats, noc_bytes_per_cycle, product_cycles, block_cycles, vector_cycles)

    @generate
    def build() -> None:
        memory = DRAM(
            "gddr6", data_width=8, port_width=dram_bytes_per_cycle, max_concurrent_requests=8 * rows * columns,
            read_write_ports=4 * (rows * columns + rows + columns + 2), shared_port=True,
            read_latency=dram_latency_cycles, write_latency=dram_latency_cycles, address_ranges=[(0, dram_bytes)],
        )
        fetch = Fetch("fetch", max(_FETCHED, _AHEAD * rows * columns), _FETCHED)
        mesh = _cores(fetch, memory, rows, columns, sizes)
        _networks(fetch, memory, mesh, noc_bytes_per_cycle)
        host = QueuedUnit("dispatcher", fetch, {"launch"}, depth=1, latency=launch_cycles, interval=None, in_flight=1)
        for core in (core for row in mesh for core in row):
            ACADLEdge(host.unit, core.l1, WRITE_DATA)
            ACADLEdge(host.unit, core.acc, WRITE_DATA)
        cores = [core for row in mesh for core in row]
        architecture(
            "wormhole", clock_hz=clock_hz,
            parameters={"cores": rows * columns, "tiles": sizes.tiles, "sums": sums, "stats": stats},
            dims={"rows": rows, "columns": columns},
            buffers={"hbm": memory, "l1": [c.l1 for c in cores], "acc": [c.acc for c in cores],
                     "stat": [c.stat for c in cores]},
        )

    return create_ag(build())


def _cores(fetch: Fetch, memory: DRAM, rows: int, columns: int, sizes: Sizes) -> list[list[Tensix]]:
    users = 8 + 2 * (rows + columns)
    mesh = [
        [Tensix(f"core[{r}][{c}]", fetch, memory, r * columns + c, sizes, users) for c in range(columns)]
        for r in range(rows)
    ]
    for r, row in enumerate(mesh):
        for c, core in enumerate(row):
            beside = [other for other in row if other is not core] + [mesh[i][c] for i in range(rows) if i != r]
            for other in beside or [core]:  # a core alone hears itself, so that its graph has all that the ISA names
                core.hear(other)
    _neighbours(fetch, mesh, sizes.noc_bytes_per_cycle)
    return mesh


def _neighbours(fetch: Fetch, mesh: list[list[Tensix]], bytes_per_cycle: int) -> None:
    """Each core passes tiles on to the right and down; one without neighbours to itself."""
    for r, row in enumerate(mesh):
        for c, core in enumerate(row):
            if c + 1 < len(row):
                core.pass_on(f"east[{r}][{c}]", fetch, row[c + 1], bytes_per_cycle)
            if r + 1 < len(mesh):
                core.pass_on(f"south[{r}][{c}]", fetch, mesh[r + 1][c], bytes_per_cycle)
    if len(mesh) == len(mesh[0]) == 1:
        mesh[0][0].pass_on("east[0][0]", fetch, mesh[0][0], bytes_per_cycle)


def _networks(fetch: Fetch, memory: DRAM, mesh: list[list[Tensix]], bytes_per_cycle: int) -> None:
    lines = [list(column) for column in zip(*mesh)]
    row_rings = [
        Ring(f"noc_h[{r}]", fetch, memory, row, "multicast_row", bytes_per_cycle) for r, row in enumerate(mesh)
    ]
    column_rings = [
        Ring(f"noc_v[{c}]", fetch, memory, line, "multicast_column", bytes_per_cycle) for c, line in enumerate(lines)
    ]
    crossing_rows, crossing_columns = list(zip(row_rings, mesh)), list(zip(column_rings, lines))
    Tree("tree_v", fetch, memory, column_rings[0], crossing_rows, lines[0], "multicast_down")
    Tree("tree_h", fetch, memory, row_rings[0], crossing_columns, mesh[0], "multicast_across")


def _tiles(l1_bytes: int, sums: int, stats: int) -> int:
    """Tiles of operands that sums and statistics leave room for."""
    return (l1_bytes - stats * figures.STAT_BYTES) // figures.TILE_BYTES - 2 * sums


def isa_parameters(graph: ArchitectureGraph) -> dict[str, int]:
    """The parameters of ``wormhole.taidl``: all of them belong to the graph."""
    return dict(graph.parameters)


RANGES: dict[str, tuple[int, int]] = {
    "rows": (1, 16), "columns": (1, 16), "sums": (1, 1 << 14), "stats": (1, 1 << 14), "l1_bytes": (1 << 14, 1 << 27),
    "product_cycles": (1, 1 << 16), "block_cycles": (0, 1 << 20), "vector_cycles": (1, 1 << 10),
    "noc_bytes_per_cycle": (1, 4096),
    "dram_bytes_per_cycle": (1, 65536), "dram_latency_cycles": (1, 1_000_000), "dram_bytes": (1 << 20, 1 << 40),
    "launch_cycles": (1, 10_000_000),
}
"""Smallest and largest value of each integer option."""

_LEAST_TILES = 4


def check_options(options: dict[str, object]) -> None:
    """TargetError with every option that is out of range."""
    problems = out_of_range(options, RANGES)
    sums, stats, l1_bytes = options["sums"], options["stats"], options["l1_bytes"]
    if isinstance(sums, int) and isinstance(stats, int) and isinstance(l1_bytes, int):
        tiles = _tiles(l1_bytes, sums, stats)
        if tiles < _LEAST_TILES:
            problems.append(
                f"sums={sums} and stats={stats} take {2 * sums * figures.TILE_BYTES + stats * figures.STAT_BYTES} of "
                f"l1_bytes={l1_bytes}: {max(tiles, 0)} tiles are left for operands, at least {_LEAST_TILES} are needed"
            )
    refuse("wormhole", problems)
