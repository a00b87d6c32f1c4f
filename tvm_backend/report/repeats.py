"""Equal blocks of a long table, each shown once: the layers of a decoder are 80 times the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from archloom.oracle.errors import counted

T = TypeVar("T")

LONG = 200
"""Rows of a table that is shown as it is; a free choice: a few screens."""
FEWEST = 3
"""How often a block must come to be shown once."""
LONGEST = 1000
"""Rows of a block that is looked for: the time grows with their number."""


@dataclass(frozen=True)
class Block:
    """Rows ``start`` to ``start + period``, which come ``times`` times in a row."""

    start: int
    period: int
    times: int

    @property
    def end(self) -> int:
        """Behind the last of all its rows."""
        return self.start + self.period * self.times

    def heading(self, what: str) -> str:
        """``80 times these 9 layers``."""
        return f"{self.times:,} times {f'this {what}' if self.period == 1 else f'these {counted(self.period, what)}'}"


def blocks(keys: Sequence[Hashable]) -> list[Block]:
    """The sequence in blocks, one after another, without a rest: the block that saves most rows, then what is before
    and behind it. What does not repeat is a block that comes once."""
    numbers: dict[Hashable, int] = {}
    return list(_blocks(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64), 0))


def _blocks(keys: np.ndarray, first: int) -> Iterator[Block]:
    """Of keys that begin at row ``first``."""
    found = _best(keys)
    if found is None:
        if len(keys):
            yield Block(first, len(keys), 1)
        return
    yield from _blocks(keys[:found.start], first)
    yield Block(first + found.start, found.period, found.times)
    yield from _blocks(keys[found.end:], first + found.end)


def _best(keys: np.ndarray) -> Block | None:
    """The block that saves most rows; of several the first of the shortest."""
    best, saved = None, 1  # its heading is a row, too
    for period in range(1, min(len(keys) // FEWEST, LONGEST) + 1):
        if (len(keys) // period - 1) * period <= saved:
            continue
        differ = np.flatnonzero(keys[period:] != keys[:-period])
        ends = np.append(differ, len(keys) - period)
        starts = np.append(0, differ + 1)
        longest = int(np.argmax(ends - starts))
        times = int(ends[longest] - starts[longest]) // period + 1
        if times >= FEWEST and (times - 1) * period > saved:
            best, saved = Block(int(starts[longest]), period, times), (times - 1) * period
    return best


def shortened(
    rows: Sequence[T], texts: Callable[[T], list[str]], heading: Callable[[Sequence[T], Block], list[str]],
) -> list[list[str]]:
    """The rows of a table, all of them where there are at most :data:`LONG`. Otherwise equal blocks once, indented,
    below the row that ``heading`` makes of all that they stand for. Rows are equal if they show the same but in the
    first column, their name."""
    shown = [texts(row) for row in rows]
    if len(rows) <= LONG:
        return shown
    table = []
    for block in blocks([tuple(text[1:]) for text in shown]):
        once = shown[block.start:block.start + block.period]
        if block.times > 1:
            table.append(heading(rows[block.start:block.end], block))
            once = [[f"  {text[0]}", *text[1:]] for text in once]
        table += once
    return table
