"""Wormhole as an ACADL architecture graph: a mesh of Tensix cores (:mod:`.mesh.graph`), two networks and GDDR6.

Source of the figures: the TL paper (Li, Bai et al., "TL: Automatic End-to-End Compiler of Tile-Based Languages for
Spatial Dataflow Architectures"), section 3.1 and listings 6 to 8. They contradict each other; the readings are:

* **DRAM**: listing 7 gives 12 GiB and 267 to each of four memories, the text 12 GB and 288 GB/s to a socket. Taken:
  the listing's four memories are the channels, and both its figures stand for all of them together (267 is then what
  micro-benchmarks leave of 288). Tiles are dealt out over the channels one by one (``dram_channels=4``), and every core
  reaches every channel, where listing 7's map would bind a core to one: a tensor would have to lie in the channels of
  its readers. By default all channels are one: what that changes is below a thousandth (docs/wormhole.md).
* **Matrix unit**: ``throughput = 98`` of a unit for 32 x 32 x 32 products has no unit. Taken: a core makes such a
  product in 98 cycles, its eight parts together: 42.8 TFLOP/s for 64 cores, where the best of table 1 is 42.47.
* **L1**: 60 (bytes a cycle for a port), not the 24.5 TB/s of the introduction. Its bandwidth never limits: both
  networks together bring 56 bytes a cycle, and the 98 cycles of a product were measured with operands in L1. A port in
  the graph would hold each transfer up a second time (0.1 to 0.9 % of large products, docs/wormhole.md), so there is
  none.
* **Networks**: 28 bytes a cycle for each link; the modulo in the maps makes each row and each column a ring.

Fitted to table 1 by least squares, for all its rows alike: ``launch_cycles``, ``sums`` and ``block_cycles``
(``benchmarks/cores/tl_table1.py --fit`` prints the errors of a grid of them; these three have the least).
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models.acadl import ArchitectureGraph, Technology
from archloom.acadl_models.mesh import sizes
from archloom.acadl_models.mesh.graph import Chip, assembled, rings
from archloom.acadl_models.options import Size

__all__ = ["wormhole"]


_TECHNOLOGY = Technology(12, dram="GDDR6")
"""GlobalFoundries 12 nm; the supply is taken as the node's nominal one."""

_L1_BYTES = sizes.stated_l1_bytes()


def wormhole(
    *,
    rows: Annotated[int, Size(1, 16, "rows of cores")] = 8,
    columns: Annotated[int, Size(1, 16, "columns of cores")] = sizes.STATED["cores"] // 8,
    sums: sizes.Sums = sizes.STATED["sums"],  # fitted: what bounds a block of C
    stats: sizes.Stats = sizes.STATED["stats"],  # an assumption, a fiftieth of L1
    l1_bytes: sizes.L1Bytes = _L1_BYTES,  # listing 7: 732 tiles
    product_cycles: sizes.ProductCycles = 98,
    block_cycles: sizes.BlockCycles = 1250,  # fitted: waiting for semaphores and starting anew
    vector_cycles: sizes.VectorCycles = 3,  # for 32 numbers (listing 8: ``throughput = 3``, read as the matrix unit's)
    noc_bytes_per_cycle: sizes.NocBytesPerCycle = 28,
    dram_bytes_per_cycle: sizes.DramBytesPerCycle = 267,
    dram_latency_cycles: sizes.DramLatencyCycles = 500,  # an assumption, of little weight beside long transfers
    dram_bytes: sizes.DramBytes = 12 << 30,
    dram_channels: sizes.DramChannels = 1,
    launch_cycles: sizes.LaunchCycles = 25_500,  # fitted (the paper: overheads not captured decide small shapes)
    semaphores: sizes.SemaphoreCount = sizes.STATED["semaphores"],
    clock_hz: sizes.ClockHz = 1e9,
) -> ArchitectureGraph:
    """A socket of Wormhole, or as many of its rows and columns as are used.

    ``sums``: tiles of partial sums in each core, ``stats``: statistics of 32 rows; the rest of ``l1_bytes`` holds
    operands. ``semaphores``: counters of each core for programs with ``signal`` and ``wait``, beside ``l1_bytes``.
    ``dram_channels``: 1 (all channels are one with the bandwidth of all) or, as in listing 7, 4.
    Raises TargetError that lists every option out of range.
    """
    sizes.check_options(wormhole, locals())
    # assumed: the square root of 670 square millimetres over 80 places
    energies = sizes.joules(_TECHNOLOGY, l1_bytes, pitch_mm=2.9)
    core = sizes.Sizes(
        sizes.operand_tiles(l1_bytes, sums, stats), sums, stats, noc_bytes_per_cycle, 0, product_cycles, block_cycles,
        vector_cycles, joules=energies, way_hops=(rows + columns) / 2, semaphores=semaphores)
    chip = Chip(
        "wormhole", rows, columns, core, dram_bytes_per_cycle, dram_latency_cycles, dram_bytes, launch_cycles,
        clock_hz, _TECHNOLOGY, dram_channels)
    return assembled(chip, lambda *given: rings(chip, True, *given))
