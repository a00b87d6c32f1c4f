"""The banks of a DRAM with open rows: a page stays open until another row of its bank is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from archloom.acadl_models.timing.result import DramTiming


@dataclass(eq=False)
class _Bank:
    """``row`` is the open one or None; times are those of its activation and of the next free cycle."""

    start: int
    stop: int
    row: int | None = None
    activated: int = 0
    free: int = 0


@dataclass(eq=False)
class Banks:
    """Banks by the ``ranges`` of their words, with rows of ``row_words`` words counted from the bank's first one.

    ``rcd``: cycles from activating a row to the first access; ``rp``: from precharging a bank to activating a row;
    ``ras``: least cycles from activating a row to precharging its bank.
    """

    name: str
    ranges: Sequence[tuple[int, int]]
    row_words: int
    rcd: int
    rp: int
    ras: int
    port_width: int = 1
    hits: int = 0
    misses: int = 0
    conflicts: int = 0
    banks: list[_Bank] = field(init=False)

    def __post_init__(self) -> None:
        self.banks = [_Bank(start, stop) for start, stop in self.ranges]

    def access(self, runs: Iterable[tuple[int, int]], latency: int, now: int) -> int:
        """When the last word of a request that is granted ``now`` has moved.

        ``runs`` are half-open ranges of words, ascending. Each row that they touch is one segment; the segments
        follow one another.
        """
        time, finish = now, now
        for bank, row, beats in self._segments(runs):
            column = self._open(bank, row, max(time, bank.free))
            bank.free = time = column + beats
            finish = max(finish, column + latency + beats - 1)
        return finish

    def figures(self) -> DramTiming:
        """The counters so far."""
        return DramTiming(self.name, self.hits, self.misses, self.conflicts)

    def _open(self, bank: _Bank, row: int, time: int) -> int:
        """Have a row open from ``time`` on; returns the cycle of the first access to it."""
        if bank.row == row:
            self.hits += 1
            return time
        if bank.row is None:
            self.misses += 1
        else:
            self.conflicts += 1
            time = max(time, bank.activated + self.ras) + self.rp
        bank.row, bank.activated = row, time
        return time + self.rcd

    def _segments(self, runs: Iterable[tuple[int, int]]) -> Iterator[tuple[_Bank, int, int]]:
        """Bank, row and beats of each row that ranges of words touch, ascending; each piece takes whole beats."""
        found: list[tuple[_Bank, int, int]] = []
        for start, stop in runs:
            while start < stop:
                bank = next(b for b in self.banks if b.start <= start < b.stop)
                row = (start - bank.start) // self.row_words
                end = min(stop, bank.start + (row + 1) * self.row_words, bank.stop)
                beats = -(-(end - start) // self.port_width)
                if found and found[-1][:2] == (bank, row):
                    beats += found.pop()[2]
                found.append((bank, row, beats))
                start = end
        return iter(found)
