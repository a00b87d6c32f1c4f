"""The figures of the triple ring, where they come from, and how they are read.

Source: the TL paper (Li, Bai et al., "TL: Automatic End-to-End Compiler of Tile-Based Languages for Spatial Dataflow
Architectures"), listing 9, "a 1D triple-ring topology similar to the IBM-Spyre accelerator". The listing prints
rings of 8 for 32 cores, and a set of memories that nobody declares (``%memories``): read are rings of 32, and ``%L1``.

* **Matrix unit**: ``throughput = 16384`` for 128 x 128 x 128 is its multiply-accumulates in a cycle, 128 x 128: it
  takes 128 cycles for a product of that shape.
* **Vector unit**: ``throughput = 128`` for 128 numbers: an operation in every cycle.
* **L1**: 2 MiB and 128 bytes a cycle for the two cores of a column. As on Wormhole the matrix unit's cycles include the
  reads of its operands; the 128 bytes are what the rings may write.
* **Rings**: 32 bytes a cycle from a core to the next of its row, 256 from an L1 to the next.
* **Memory**: two of 32 GiB with 512 bytes a cycle, at the first and the last L1. Everything that comes from memory to
  the cores passes the large ring, whose 256 bytes limit, not memory's 512.

Not in the paper, assumed: everything below "Assumptions".
"""

from __future__ import annotations

ROWS, COLUMNS = 2, 32

L1_BYTES = 2_097_152
"""Of the two cores of a column."""

L1_BYTES_PER_CYCLE = 128
SMALL_RING_BYTES_PER_CYCLE = 32
LARGE_RING_BYTES_PER_CYCLE = 256

ARRAY = 4
"""Tiles of 32 along each side of the matrix unit's 128 x 128 x 128."""

PRODUCT_CYCLES = 128
VECTOR_WIDTH = 128
VECTOR_CYCLES = 1

MEMORIES = 2
DRAM_BYTES = 34_359_738_368
DRAM_BYTES_PER_CYCLE = 512

# --- Assumptions ----------------------------------------------------------------------------------------------------
CLOCK_HZ = 1e9

SUMS = 64
"""Tiles of partial sums of a core: a block of 256 x 256, a quarter of its half of L1."""

STATS = 256

BLOCK_CYCLES = 128
"""Filling the array."""

DRAM_LATENCY_CYCLES = 500
LAUNCH_CYCLES = 1000

PITCH_MM = 2.0
"""From an L1 to the next; the energies are those of :mod:`archloom.acadl_models.mesh.energies`."""
