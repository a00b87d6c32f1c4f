"""A plain transcription of a DRAM's bank state machine, command by command and word by word.

It shares no code with the simulators: benchmarks and tests hold them against it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Bank:
    """Idle (no row open) or active; ``busy_until``: no command is taken before."""

    first: int
    end: int
    open_row: int = -1
    activated_at: int = 0
    busy_until: int = 0


class Dram:
    """``access`` moves the words of a request; ``hits``, ``misses`` and ``conflicts`` count rows by what they met."""

    def __init__(self, banks: list[tuple[int, int]], row_words: int, rcd: int, rp: int, ras: int, port: int) -> None:
        self.banks = [Bank(first, end) for first, end in banks]
        self.row_words, self.rcd, self.rp, self.ras, self.port = row_words, rcd, rp, ras, port
        self.hits = self.misses = self.conflicts = 0

    def access(self, words: list[int], latency: int, clock: int) -> int:
        """The cycle in which the last of ``words`` (ascending) has moved, for a request granted at ``clock``."""
        last = clock
        while words:
            first = words[0]
            bank = next(b for b in self.banks if b.first <= first < b.end)
            row = (words[0] - bank.first) // self.row_words
            mine = []
            while words and bank.first <= words[0] < bank.end and (words[0] - bank.first) // self.row_words == row:
                mine.append(words[0])
                words = words[1:]
            clock = self.open(bank, row, clock)
            for _ in range(self.beats(mine)):
                last = max(last, clock + latency)
                clock += 1
            bank.busy_until = clock
        return last

    def open(self, bank: Bank, row: int, clock: int) -> int:
        """Send what commands it takes to have a row open; returns the cycle of the first access."""
        while clock < bank.busy_until:
            clock += 1
        if bank.open_row == row:
            self.hits += 1
            return clock
        if bank.open_row < 0:
            self.misses += 1
        else:
            self.conflicts += 1
            while clock < bank.activated_at + self.ras:
                clock += 1
            bank.open_row = -1  # precharge
            clock += self.rp
        bank.open_row, bank.activated_at = row, clock  # activate
        return clock + self.rcd

    def beats(self, words: list[int]) -> int:
        """A beat moves up to ``port`` words that follow one another."""
        count, room, after = 0, 0, -1
        for word in words:
            if word != after or room == 0:
                count, room = count + 1, self.port
            room, after = room - 1, word + 1
        return count
