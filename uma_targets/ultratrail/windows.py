"""Where the windows of a 1-D convolution lie: how many there are, and which of their taps fall into the padding."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Windows:
    """Windows of ``kernel`` taps, ``stride`` positions apart, over ``positions`` padded ``before`` and ``after``."""

    positions: int
    kernel: int
    stride: int
    before: int
    after: int

    @property
    def count(self) -> int:
        return (self.positions + self.before + self.after - self.kernel) // self.stride + 1

    def taps(self, window: int) -> tuple[int, int]:
        """The first tap of a window that is not in the padding, and how many are not."""
        first = max(0, self.before - window * self.stride)
        return first, min(self.kernel, self.positions + self.before - window * self.stride) - first

    def first_position(self, window: int) -> int:
        """The position under that tap."""
        return window * self.stride + self.taps(window)[0] - self.before

    def runs(self, alone: Collection[int] = ()) -> list[tuple[int, int]]:
        """Windows as runs (first, count) through which the taps are the same and the position moves by the stride.

        ``alone``: windows that are to be runs of their own.
        """
        found: list[tuple[int, int]] = []
        for window in range(self.count):
            # where taps fall into the padding, the first one moves against the window
            regular = self.taps(window) == (0, self.kernel) and window not in alone
            if regular and found and self.taps(found[-1][0]) == (0, self.kernel) and (
                    found[-1][0] not in alone):
                found[-1] = found[-1][0], found[-1][1] + 1
            else:
                found.append((window, 1))
        return found
