"""What a simulation reports about memories with state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheTiming:
    """What happened in a cache: look-ups of lines by outcome, and its traffic with the storage behind it.

    Every line that a request touches is looked up once; in a cache behind a cache the lines that the one in front loads
    count as reads, those that it writes back or through as writes. ``evictions`` are lines that gave way to another,
    ``write_backs`` those of them that were dirty. ``bytes_from_backing`` are whole lines; ``bytes_to_backing`` are the
    whole lines of write-backs and the bytes that are written through.
    """

    name: str
    read_hits: int
    read_misses: int
    write_hits: int
    write_misses: int
    evictions: int
    write_backs: int
    bytes_from_backing: int
    bytes_to_backing: int

    @property
    def hits(self) -> int:
        return self.read_hits + self.write_hits

    @property
    def misses(self) -> int:
        return self.read_misses + self.write_misses

    @property
    def hit_rate(self) -> float:
        """Share of the look-ups that hit; 1 where there were none."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 1.0


@dataclass(frozen=True)
class DramTiming:
    """How the rows stood that the segments of requests to a DRAM wanted.

    Open (``row_hits``), no row of the bank open (``row_misses``), or another one (``row_conflicts``).
    """

    name: str
    row_hits: int
    row_misses: int
    row_conflicts: int
