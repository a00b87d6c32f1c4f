"""Blocks dealt out to cores wave by wave, and loops over waves and cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from archloom.oracle.affine import Affine
from archloom.oracle.stream import Loop, Node


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


@dataclass(frozen=True)
class Steps:
    """A run of ``count`` equal steps of the reduction: the ``first`` tile, and how ``deep`` they are, also in the core
    that has the ``rest`` of it."""

    first: int
    count: int
    deep: int
    rest: int


def cut(first: int, end: int, deep: int, own: int) -> Iterator[Steps]:
    """Steps of ``deep`` tiles from ``first`` to ``end``, of which the core with the rest of the reduction has those
    below its ``own``."""
    while first < end:
        deep = min(deep, end - first)
        rest, count = max(0, min(own - first, deep)), (end - first) // deep
        if rest:
            count = min(count, (own - first) // deep) or 1
        yield Steps(first, count, deep, rest)
        first += count * deep


def halves(count: int) -> Iterator[tuple[int, range]]:
    """How ``count`` places in a line put together what they have: distances, and the places which then take what lies
    so far from them. In the end all of it is at the first."""
    distance = 1
    while distance < count:
        yield distance, range(0, count - distance, 2 * distance)
        distance *= 2


Nodes = list[Node]


def repeat(var: str, values: range, body: Callable[[Affine], Nodes]) -> Nodes:
    """A loop over ``values``, or its body alone for a single value."""
    if len(values) <= 1:
        return body(Affine(values[0])) if values else []
    inner = tuple(body(Affine.variable(var)))
    return [Loop(var, values.start, values.stop, values.step, inner)] if inner else []


def repeat_waves(var: str, found: Iterable[Wave], body: Callable[[Affine, Wave], Nodes]) -> Nodes:
    """``body`` for the number of each of the waves, as loops over those that lie alike."""
    return [node for wave in found for node in repeat(
        var, range(wave.first, wave.first + wave.count), lambda at, wave=wave: body(at, wave))]  # type: ignore[misc]


def repeat_peeled(var: str, found: tuple[Wave, ...], peel: bool, body: Callable[[Affine, Wave, bool], Nodes]) -> Nodes:
    """``body`` for the number of each of the waves, the first wave apart if asked to ``peel`` it, and whether the loop
    begins with that."""
    nodes: Nodes = []
    for wave in found:
        apart = peel and wave.first == 0 and wave.count > 1
        for run in (range(1), range(1, wave.count)) if apart else (range(wave.first, wave.first + wave.count),):
            nodes += repeat(var, run, lambda at, wave=wave, run=run: body(at, wave, run.start == 0))  # type: ignore[misc]
    return nodes
