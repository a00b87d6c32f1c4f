"""Waves of blocks over the cores: which cores have a block in a wave, and how large it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Zone:
    """Cores with blocks of ``size`` tiles: those at ``slow`` and ``fast`` of a loop's places along both dimensions."""

    slow: range
    fast: range
    size: int


@dataclass(frozen=True)
class Wave:
    """``count`` waves from number ``first`` on whose blocks lie alike."""

    first: int
    count: int
    zones: tuple[Zone, ...]

    @property
    def whole(self) -> bool:
        """Whether the cores have all work, and equal work."""
        return len(self.zones) == 1


def waves(extent: int, block: int, slow: int, fast: int) -> tuple[Wave, ...]:
    """``extent`` tiles in blocks, dealt out to ``slow * fast`` cores: block ``i`` of a wave goes to place
    ``(i // fast, i % fast)``. The last wave may have fewer and smaller blocks."""
    cores = slow * fast
    blocks = -(-extent // block)
    full = extent // block
    whole = full // cores
    found = [Wave(0, whole, (Zone(range(slow), range(fast), block),))] if whole else []
    if blocks > whole * cores:
        found.append(Wave(whole, 1, tuple(_last(full - whole * cores, extent % block, block, fast))))
    return tuple(found)


def _last(full: int, rest: int, block: int, fast: int) -> Iterator[Zone]:
    """``full`` whole blocks, then one of ``rest`` tiles, if there are any."""
    lines, more = divmod(full, fast)
    if lines:
        yield Zone(range(lines), range(fast), block)
    if more:
        yield Zone(range(lines, lines + 1), range(more), block)
    if rest:
        yield Zone(range(lines, lines + 1), range(more, more + 1), rest)


def halves(count: int) -> Iterator[tuple[int, range]]:
    """How ``count`` places in a line put together what they have: distances, and the places which then take what lies
    so far from them. In the end all of it is at the first."""
    distance = 1
    while distance < count:
        yield distance, range(0, count - distance, 2 * distance)
        distance *= 2
