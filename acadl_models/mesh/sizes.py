"""What is equal in all cores of a mesh, and how much room and time it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from archloom.acadl_models.acadl import Technology
from archloom.acadl_models.energy import arithmetic, memories, wires
from archloom.acadl_models.options import Clock, Size, Stated, problems_of, refuse
from archloom.oracle.taidl.isa import Isa

STATED = Stated("wormhole")
"""The ISA of all meshes."""

TILE_BYTES = STATED["TILE_BYTES"]
"""A tile of 32 x 32 numbers of 16 bits."""

_TILE_NUMBERS = STATED["SIDE"] ** 2

STAT_BYTES = STATED.row_bytes("stat", {})
"""A statistic of 32 rows, of 32 bits each."""

L1_ACCESS_BYTES = 64
"""Of L1 at a time."""

_LEAST_TILES = STATED.size("tiles").low

# parameters of all meshes
Sums = Annotated[int, STATED.size("sums", "tiles of 32-bit partial sums in a core", "tiles")]
Stats = Annotated[int, STATED.size("stats", "statistics of 32 rows in a core")]
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
SemaphoreCount = Annotated[int, STATED.size("semaphores")]
ClockHz = Annotated[float, Clock("clock of cores and networks")]


@dataclass(frozen=True)
class Joules:
    """Energies. ``product``: of 32 x 32 x 32 multiply-accumulates, ``vector``: of an operation on all numbers of a
    tile, ``l1_byte``: of a byte that is read or written, ``hop_byte``: of a byte on its way from a core to the next."""

    product: float
    vector: float
    l1_byte: float
    hop_byte: float

    def hops(self, count: float) -> float:
        """Of a byte over so many cores."""
        return count * self.hop_byte

    def words(self, size: int) -> float:
        """Of a word of ``size`` bytes in L1."""
        return size * self.l1_byte


def joules(technology: Technology, l1_bytes: int, pitch_mm: float) -> Joules:
    """The energies of a mesh of cores with an L1 of ``l1_bytes``, so many millimetres apart: numbers of 16 bits, sums
    of 32, and an L1 that is one memory, of which 512 bits are read or written at a time."""
    product, total = (arithmetic.known_joules(*what, technology) for what in (("multiply", "f16"), ("add", "f32")))
    l1 = memories.memory(l1_bytes, 8 * L1_ACCESS_BYTES, 1, technology)
    return Joules(
        product=32**3 * (product + total), vector=_TILE_NUMBERS * total, l1_byte=l1.joules / L1_ACCESS_BYTES,
        hop_byte=8 * wires.bit_joules(pitch_mm, technology),
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
    joules: Joules = Joules(0.0, 0.0, 0.0, 0.0)
    way_hops: float = 0
    semaphores: int = 0

    @cached_property
    def isa(self) -> Isa:
        """The ISA of one core."""
        return STATED.isa(vars(self), cores=1)

    @property
    def product(self) -> str:
        """Cycles of a product of m x k by k x n tiles, as a latency."""
        along = "m * n * k" if self.array == 1 else " * ".join(f"cdiv({e}, {self.array})" for e in "mnk")
        return f"{along} * {self.product_cycles} + {self.block_cycles}"

    @property
    def multipliers(self) -> int:
        """Of the matrix unit: as many as its products need."""
        return -(-self.array**3 * 32**3 // self.product_cycles)

    @property
    def vector_tile_cycles(self) -> int:
        """Of an operation on all numbers of a tile."""
        return -(-_TILE_NUMBERS // self.vector_width) * self.vector_cycles


def stated_l1_bytes() -> int:
    """L1 of a core that has the tiles, sums and statistics of the ISA by default."""
    return (STATED["tiles"] + 2 * STATED["sums"]) * TILE_BYTES + STATED["stats"] * STAT_BYTES


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
