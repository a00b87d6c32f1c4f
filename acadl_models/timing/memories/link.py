"""The channels of a link: who sends when."""

from __future__ import annotations

from dataclasses import dataclass, field


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
