"""What is equal in all cores of a mesh, and how much room and time it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from archloom.acadl_models.options import Clock, Size, problems_of, refuse

TILE_BYTES = 2048
"""A tile of 32 x 32 numbers of 16 bits."""

_TILE_NUMBERS = 32 * 32

STAT_BYTES = 128
"""A statistic of 32 rows, of 32 bits each."""

_LEAST_TILES = 4

# parameters of all meshes
Sums = Annotated[int, Size(1, 1 << 14, "tiles of 32-bit partial sums in a core", "tiles")]
Stats = Annotated[int, Size(1, 1 << 14, "statistics of 32 rows in a core")]
L1Bytes = Annotated[int, Size(1 << 14, 1 << 27, "L1 of a core", "bytes")]
ArrayTiles = Annotated[int, Size(1, 16, "tiles along each side of the matrix unit")]
ProductCycles = Annotated[int, Size(1, 1 << 16, "of the matrix unit for a product of its size", "cycles")]
BlockCycles = Annotated[int, Size(0, 1 << 20, "of a product of blocks, beside those", "cycles")]
VectorWidth = Annotated[int, Size(1, 1024, "numbers that the vector unit works on at a time")]
VectorCycles = Annotated[int, Size(1, 1 << 10, "of the vector unit for these", "cycles")]
NocBytesPerCycle = Annotated[int, Size(1, 4096, "of a link of the networks", "bytes/cycle")]
DramBytesPerCycle = Annotated[int, Size(1, 65536, "of all channels of memory together", "bytes/cycle")]
DramLatencyCycles = Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")]
DramBytes = Annotated[int, Size(1 << 20, 1 << 40, "memory", "bytes")]
DramChannels = Annotated[int, Size(1, 64, "over which tiles are dealt out")]
LaunchCycles = Annotated[int, Size(1, 10_000_000, "from the host's command until the cores work", "cycles")]
SemaphoreCount = Annotated[int, Size(0, 1 << 14)]
ClockHz = Annotated[float, Clock("clock of cores and networks")]


@dataclass(frozen=True)
class Joules:
    """Energies, None: not stated. ``product``: of 32 x 32 x 32 multiply-accumulates, ``vector``: of an operation on all
    numbers of a tile, ``l1_byte`` and ``dram_byte``: of a byte that is read or written, ``hop_byte``: of a byte on its
    way from a core to the next."""

    product: float | None = None
    vector: float | None = None
    l1_byte: float | None = None
    dram_byte: float | None = None
    hop_byte: float | None = None

    def hops(self, count: float) -> float | None:
        """Of a byte over so many cores."""
        return None if self.hop_byte is None else count * self.hop_byte

    def words(self, size: int) -> float | None:
        """Of a word of ``size`` bytes in L1."""
        return None if self.l1_byte is None else size * self.l1_byte


def joules(pitch_mm: float) -> Joules:
    """The energies of a mesh with cores so many millimetres apart: those of a table of a 45 nm process.

    No paper about one of the meshes states any. Operations and memories: M. Horowitz, "Computing's energy problem"
    (ISSCC 2014): a product of 16 bits 1.1 pJ, a sum of 32 bits 0.9 pJ, 64 bits of a memory of 1 MB 100 pJ, 64 bits of
    DRAM 1.3 nJ. Assumed: 0.1 pJ for a bit over a millimetre of wire. Ratios of plans rest on the ratios of these
    figures; absolute energies are those of an old process. Static power is not stated.
    """
    product, total = 1.1e-12, 0.9e-12
    return Joules(
        product=32**3 * (product + total), vector=_TILE_NUMBERS * total, l1_byte=100e-12 / 8, dram_byte=1.3e-9 / 8,
        hop_byte=8 * 0.1e-12 * pitch_mm,
    )


@dataclass(frozen=True)
class Sizes:
    """``tiles`` of operands, ``sums`` and ``stats`` of a core; the rates of its units and ways.

    The matrix unit takes ``product_cycles`` for a product of ``array`` x ``array`` by ``array`` x ``array`` tiles, and
    ``block_cycles`` for one of blocks beside those of its products. The vector unit works on ``vector_width`` numbers
    in ``vector_cycles``. ``l1_bytes_per_cycle``: what networks may write into L1, 0: no less than they bring.
    ``way_hops``: cores on the way from memory to a core, on the mean. ``semaphores`` of a core, 0: units wait for one
    another by what they read and write alone.
    """

    tiles: int
    sums: int
    stats: int
    noc_bytes_per_cycle: int
    l1_bytes_per_cycle: int
    product_cycles: int
    block_cycles: int
    vector_cycles: int
    vector_width: int = 32
    array: int = 1
    joules: Joules = Joules()
    way_hops: float = 0
    semaphores: int = 0

    @property
    def product(self) -> str:
        """Cycles of a product of m x k by k x n tiles, as a latency."""
        along = "m * n * k" if self.array == 1 else " * ".join(f"cdiv({e}, {self.array})" for e in "mnk")
        return f"{along} * {self.product_cycles} + {self.block_cycles}"

    @property
    def vector_tile_cycles(self) -> int:
        """Of an operation on all numbers of a tile."""
        return -(-_TILE_NUMBERS // self.vector_width) * self.vector_cycles


def operand_tiles(l1_bytes: int, sums: int, stats: int) -> int:
    """Tiles of operands that sums and statistics leave room for."""
    return (l1_bytes - stats * STAT_BYTES) // TILE_BYTES - 2 * sums


def check_options(make: Callable[..., Any], options: Mapping[str, object]) -> None:
    """TargetError with every option that is out of range, or that leaves no room for operands."""
    problems = problems_of(make, options)
    sums, stats, l1_bytes = options["sums"], options["stats"], options["l1_bytes"]
    if isinstance(sums, int) and isinstance(stats, int) and isinstance(l1_bytes, int):
        tiles = operand_tiles(l1_bytes, sums, stats)
        if tiles < _LEAST_TILES:
            problems.append(
                f"sums={sums} and stats={stats} take {2 * sums * TILE_BYTES + stats * STAT_BYTES} of "
                f"l1_bytes={l1_bytes}: {max(tiles, 0)} tiles are left for operands, at least {_LEAST_TILES} are needed"
            )
    refuse(make.__name__, problems)
