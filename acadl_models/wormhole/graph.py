"""Wormhole as an ACADL architecture graph: a mesh of Tensix cores, two networks and GDDR6.

How a mesh is modelled: :mod:`archloom.acadl_models.mesh.graph`. The figures and how the paper is read:
:mod:`archloom.acadl_models.wormhole.figures`.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import sizes
from archloom.acadl_models.mesh.graph import Chip, assembled, rings
from archloom.acadl_models.options import Size
from archloom.acadl_models.wormhole import figures


def wormhole(
    *,
    rows: Annotated[int, Size(1, 16, "rows of cores")] = 8,
    columns: Annotated[int, Size(1, 16, "columns of cores")] = 8,
    sums: sizes.Sums = figures.SUMS,
    stats: sizes.Stats = figures.STATS,
    l1_bytes: sizes.L1Bytes = figures.L1_BYTES,
    product_cycles: sizes.ProductCycles = figures.PRODUCT_CYCLES,
    block_cycles: sizes.BlockCycles = figures.BLOCK_CYCLES,
    vector_cycles: sizes.VectorCycles = figures.VECTOR_CYCLES,
    noc_bytes_per_cycle: sizes.NocBytesPerCycle = figures.NOC_BYTES_PER_CYCLE,
    dram_bytes_per_cycle: sizes.DramBytesPerCycle = figures.DRAM_BYTES_PER_CYCLE,
    dram_latency_cycles: sizes.DramLatencyCycles = figures.DRAM_LATENCY_CYCLES,
    dram_bytes: sizes.DramBytes = figures.DRAM_BYTES,
    dram_channels: sizes.DramChannels = 1,
    launch_cycles: sizes.LaunchCycles = figures.LAUNCH_CYCLES,
    semaphores: sizes.SemaphoreCount = 0,
    clock_hz: sizes.ClockHz = figures.CLOCK_HZ,
) -> ArchitectureGraph:
    """A socket of Wormhole, or as many of its rows and columns as are used.

    ``sums``: tiles of partial sums in each core, ``stats``: statistics of 32 rows; the rest of ``l1_bytes`` holds
    operands. ``semaphores``: counters of each core for programs with ``signal`` and ``wait``, beside ``l1_bytes``.
    ``dram_channels``: 1 (all channels are one with the bandwidth of all) or, as in listing 7, 4.
    Raises TargetError that lists every option out of range.
    """
    sizes.check_options(wormhole, locals())
    core = sizes.Sizes(
        sizes.operand_tiles(l1_bytes, sums, stats), sums, stats, noc_bytes_per_cycle, 0, product_cycles, block_cycles,
        vector_cycles, joules=figures.JOULES, way_hops=(rows + columns) / 2, semaphores=semaphores)
    chip = Chip(
        "wormhole", rows, columns, core, dram_bytes_per_cycle, dram_latency_cycles, dram_bytes, launch_cycles,
        clock_hz, dram_channels)
    return assembled(chip, lambda *given: rings(chip, True, *given))
