"""Memories whose words are dealt out to channels: how long a request takes each, which are free; those of links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Interleaving:
    """``count`` channels, each of which has ``words`` words before the next one has as many.

    Together they move ``port_width`` words a cycle, each of them its share.
    """

    count: int
    words: int
    port_width: int

    def beats(self, runs: Iterable[tuple[int, int]]) -> list[int]:
        """Cycles for which each channel is taken by runs of words (first address, number): whole ones for a run."""
        found = [0] * self.count
        for first, size in runs:
            for channel in range(self.count):
                words = self._before(first + size, channel) - self._before(first, channel)
                found[channel] += -(-words * self.count // self.port_width)
        return found

    def _before(self, end: int, channel: int) -> int:
        """Words of a channel below an address."""
        rounds, rest = divmod(end, self.count * self.words)
        return rounds * self.words + min(max(rest - channel * self.words, 0), self.words)


@dataclass(eq=False)
class InterleavedPort:
    """When each channel of a memory is free."""

    interleaving: Interleaving
    free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.free = [0] * self.interleaving.count

    def move(self, runs: Sequence[tuple[int, int]], ready: int) -> int:
        """Move runs of words (first address, number) from ``ready`` on; returns the cycle of the last one."""
        finish = ready
        for channel, beats in enumerate(self.interleaving.beats(runs)):
            if beats:
                first = max(ready, self.free[channel])
                self.free[channel] = first + beats
                finish = max(finish, first + beats - 1)
        return finish


@dataclass(eq=False)
class Channels:
    """A link that carries ``bandwidth`` bytes a cycle; each takes ``latency`` more cycles to arrive.

    A streaming link has a channel for each direction, a windowed one has a single channel.
    """

    name: str
    bandwidth: int
    latency: int = 0
    window: bool = False
    _free: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})

    def send(self, size: int, is_read: bool, ready: int) -> tuple[int, int]:
        """Carry ``size`` bytes that can go from ``ready`` on; returns when they begin and when the last has arrived."""
        channel = is_read or self.window
        cycles = -(-size // self.bandwidth)
        start = max(ready, self._free[channel])
        self._free[channel] = start + cycles
        return start, start + cycles - 1 + self.latency
