"""The figures of Wormhole, where they come from, and how they are read.

Source: the TL paper (Li, Bai et al., "TL: Automatic End-to-End Compiler of Tile-Based Languages for Spatial Dataflow
Architectures"), section 3.1 and listings 6 to 8. The paper's figures contradict each other; the readings are:

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

Fitted to table 1 by least squares, for all its rows alike: ``LAUNCH_CYCLES``, ``SUMS`` and ``BLOCK_CYCLES``
(``benchmarks/cores/tl_table1.py --fit`` prints the errors of a grid of them; these three have the least).
"""

from __future__ import annotations

from archloom.acadl_models.mesh.energies import joules

CLOCK_HZ = 1e9

L1_BYTES = 1_499_136
"""Of a core (listing 7): 732 tiles."""

DRAM_BYTES = 12 << 30
DRAM_BYTES_PER_CYCLE = 267
NOC_BYTES_PER_CYCLE = 28

PRODUCT_CYCLES = 98
"""Of a 32 x 32 x 32 product."""

VECTOR_CYCLES = 3
"""Of an operation of the vector unit on 32 numbers (listing 8: ``throughput = 3``, read as the matrix unit's)."""

STATS = 256
"""Statistics of 32 rows, of 32 bits each, in a core's L1: an assumption, a fiftieth of it."""

DRAM_LATENCY_CYCLES = 500
"""From a core to memory and back: an assumption, of little weight beside transfers of thousands of cycles."""

LAUNCH_CYCLES = 25_500
"""Fitted: from the host's command until the cores work (the paper: overheads not captured decide small shapes)."""

SUMS = 50
"""Fitted: tiles of 32-bit partial sums that a core adds up at a time: what bounds a block of C."""

BLOCK_CYCLES = 1250
"""Fitted: cycles of a product of blocks beside those of its tiles: waiting for semaphores and starting anew."""

PITCH_MM = 2.9
"""Assumed, from a core to the next: the square root of 670 square millimetres over 80 places."""

JOULES = joules(PITCH_MM)
"""The TL paper states none; the table is the one of a work that it cites (:mod:`acadl_models.mesh.energies`)."""
