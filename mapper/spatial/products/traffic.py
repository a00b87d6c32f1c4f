"""What the loads of a step take of memory, rings and cores, over columns of plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.plan import ACROSS, COLUMN, DOWN, NONE, PATTERNS, ROW, WAVE
from archloom.mapper.spatial.space import Column


@dataclass(frozen=True, eq=False)
class Waves:
    """Waves over a loop: how many; of a whole block, what the largest block of a mean wave has; of all whole blocks of
    the cores, what they have, what they have in the first wave and, as ``tail``, in the last; ``busy``: cores with a
    whole block in the last wave."""

    count: np.ndarray
    largest: np.ndarray
    filled: np.ndarray
    first: np.ndarray
    busy: np.ndarray
    tail: np.ndarray

    @staticmethod
    def of(extent: int, block: Column, cores: Column) -> "Waves":
        whole = (block * cores).astype(np.float64)
        filled = extent / whole
        count = np.ceil(filled)
        left = extent - (count - 1) * whole
        last, busy = np.minimum(left, block), np.maximum(1, np.floor(left / block))
        largest = (count - 1 + last / block) / count
        return Waves(count, largest, filled / count, np.minimum(1, filled), busy, left / whole)

    @property
    def early(self) -> np.ndarray:
        """What the cores have in the first wave, for one of a mean wave."""
        return self.first / self.filled

    def of_some(self, share: np.ndarray) -> "Waves":
        """The same where only a share of the cores has tiles of the reduction."""
        return replace(self, filled=self.filled * share, first=self.first * share)

    def of_loads(self, keep: Column) -> np.ndarray:
        """What the cores have when they load tiles that these waves share: kept ones in the first wave."""
        return np.where(keep == 1, self.first, self.filled)


@dataclass(frozen=True)
class Around:
    """What there is beside a product on the part of a mesh that ``machine`` describes.

    ``problems``: products one after the other, ``filled``: the share of the parts that have one in a mean wave.
    ``crowd``: parts along a column and along a row of the mesh, which share its rings and the memory.
    ``finishing``: cycles of the vector unit for a tile of C, ``added``: tiles that are loaded for one.
    """

    problems: int = 1
    filled: float = 1
    crowd: tuple[int, int] = (1, 1)
    finishing: float = 0
    added: float = 0
    share: np.ndarray | float = 1
    """Of the tiles of A, for each candidate: what has to be loaded, where tiles overlap."""

    def of(self, some: slice) -> "Around":
        """The same for some of the candidates."""
        return replace(self, share=self.share[some]) if isinstance(self.share, np.ndarray) else self


ALONE = Around()


@dataclass(frozen=True, eq=False)
class InStep:
    """Shares of the cores that ask memory for tiles at the same time; of those of a row, and of a column, that do so of
    its sender."""

    memory: np.ndarray
    row: np.ndarray
    column: np.ndarray

    @staticmethod
    def of(
        machine: Machine, added_up: tuple[Column, Column], operands: list[tuple[Column, Column, Column, np.ndarray]],
    ) -> "InStep":
        """Those go in step that get the same tiles at that time, or add up each other's sums.

        ``added_up``: cores along a column, and along a row, that do so. Of both operands: how the tiles come, cores
        along each dimension of the mesh that share them, whether they come at that time.
        """
        on_column, on_row = added_up
        for way, rows, columns, there in operands:
            on_row = on_row * np.where(_ALONG_ROWS[way] & there, columns, 1)
            on_column = on_column * np.where(_ALONG_COLUMNS[way] & there, rows, 1)
        return InStep(on_row * on_column / machine.cores, on_row / machine.columns, on_column / machine.rows)


class Traffic:
    """What the loads of an operand for a step take of memory, of rings and of cores' ways, in cycles."""

    def __init__(
        self, machine: Machine, around: Around, way: Column, beats: np.ndarray, sizes: tuple[np.ndarray, np.ndarray],
        rows: Column, columns: Column, mine: Waves, theirs: Waves, filled: np.ndarray,
        shallow: np.ndarray,
    ) -> None:
        """``sizes``: bytes that a core gets, and those that are loaded. ``rows`` and ``columns``: cores along each
        dimension of the mesh that share the operand's tiles; ``mine``: waves over the loop that indexes it; ``filled``:
        of the cores that share it, those that have work; ``shallow``: loads for one of a whole step."""
        got, size = (each * mine.largest for each in sizes)
        ring = size / machine.ring_bytes
        tree = (way == DOWN) | (way == ACROSS)
        on_row, on_column = way == ROW, way == COLUMN
        wave, sharing = way == WAVE, rows * columns
        copies = np.where(on_row, machine.cores / columns, np.where(on_column, machine.cores / rows, machine.cores))
        copies = np.where(wave, machine.cores / sharing, copies)
        # a core without work in a wave loads nothing; tiles for several cores are sent to all that may share them
        high, wide = around.crowd
        loads = np.where(tree, high * wide, high * wide * copies) * mine.filled * np.where(way == NONE, filled, 1)
        self.memory = beats * loads
        # the first wave, for one of the mean
        self.early = mine.early * np.where((way == NONE) & (filled == theirs.filled), theirs.early, 1)
        self.inward = sizes[1] / machine.in_bytes * loads if machine.in_bytes else np.zeros(1)
        hop = size / machine.hop_bytes
        # cores that share a port take what is sent to all of them once
        written = got * np.where(on_column | tree, 1, machine.port_cores)
        self.port = written / machine.port_bytes if machine.port_bytes else np.zeros(1)
        own = np.where((way == NONE) | wave, size / machine.core_bytes, ring)
        # a transfer, from its first byte on a network until the last is in L1
        branch = size / machine.tree_bytes if machine.tree_bytes else np.zeros(1)
        self.way = own + np.where(tree, np.maximum(branch, self.port), self.port)
        # who sends waits for memory, with so many transfers under way
        sending = np.maximum(own, (machine.dram_latency * shallow + self.way) / machine.in_flight)
        # of those that send on a row or a column, the ones that have work
        at_work = mine.filled / mine.largest
        on_rows = np.maximum(1, wide * machine.columns / columns * at_work)
        on_columns = np.maximum(1, high * machine.rows / rows * at_work)
        self.row = np.where(on_row, on_rows * sending, np.where(tree, sending, 0))
        self.column = np.where(on_column, on_columns * sending, np.where(tree, sending, 0))
        self.sends = np.where(on_row, on_rows, np.where(on_column, on_columns, 1))
        self.core = np.where((way == NONE) | wave, sending, 0)
        self.passing = np.where(wave, hop, 0)
        # to the last core of a line, and to the last that has work in the last wave
        self.line = np.where(wave, (sharing - 1) * (hop + 1), 0)
        self.hops = np.where(wave, (np.minimum(sharing, theirs.busy) - 1) * (hop + 1), 0)

    def alone(self, together: InStep) -> np.ndarray:
        """Cycles until all tiles of a step have come."""
        central = together.memory * self._central
        return _most(
            central, together.row * self.row, together.column * self.column, self.core, self.passing, self.port)

    def behind(self, other: "Traffic", together: InStep) -> np.ndarray:
        """Cycles until all tiles of a step have come where those of another operand are before them: senders and
        cores' ways bring the others first, memory serves both in turn."""
        central = np.minimum(2 * self._central, self._central + other._central) * together.memory

        def after(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            return np.where(mine > 0, mine + theirs, 0)

        return _most(
            central, together.row * after(self.row, other.row), together.column * after(self.column, other.column),
            after(self.core, other.core), self.passing, self.port)

    @property
    def _central(self) -> np.ndarray:
        found: np.ndarray = np.maximum(self.memory, self.inward)
        return found

    def queue(self, other: "Traffic", mine: np.ndarray | float = 1, theirs: np.ndarray | float = 1) -> np.ndarray:
        """Cycles until memory has sent the tiles of a step, or so many times those of either operand, to all cores."""
        found: np.ndarray = np.maximum(
            mine * self.memory + theirs * other.memory, mine * self.inward + theirs * other.inward)
        return found

    def on_the_way(self, other: "Traffic") -> np.ndarray:
        """Cycles on the networks of tiles of both operands that come at the same time."""
        return _most(self.core + other.core, self.way, other.way)

    def sent(self, other: "Traffic") -> np.ndarray:
        """Cycles of the senders of rows and columns for tiles of both operands."""
        found: np.ndarray = np.maximum(self.row + other.row, self.column + other.column)
        return found

    def beside(self, other: "Traffic", together: InStep) -> np.ndarray:
        """Cycles when the loads of another operand come at the same time."""
        return _most(
            together.memory * self.queue(other), together.row * (self.row + other.row),
            together.column * (self.column + other.column),
            self.core + other.core, self.port + other.port, self.passing, other.passing)


def _most(first: np.ndarray, *others: np.ndarray) -> np.ndarray:
    for other in others:
        first = np.maximum(first, other)
    return first


def above(time: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    return np.maximum(0, time - hidden)


def beats_of(machine: Machine, rows: Column, columns: Column, width: int) -> np.ndarray:
    """Beats of memory for rows x columns tiles of a tensor ``width`` tiles wide."""
    ends_apart = rows * np.ceil(columns * TILE_BYTES / machine.memory_bytes)
    together = np.ceil(rows * columns * TILE_BYTES / machine.memory_bytes)
    return np.where(columns == width, together, ends_apart)


_ALONG_ROWS, _ALONG_COLUMNS = (np.isin(np.arange(len(PATTERNS)), (DOWN, ACROSS, one)) for one in (ROW, COLUMN))
"""Patterns, by number, with which cores of a row, or of a column, get the same tiles at the same time: not one after
the other, as where they are passed on."""
TO_ALL = np.isin(np.arange(len(PATTERNS)), (DOWN, ACROSS))
"""Patterns of one sender for all cores."""
