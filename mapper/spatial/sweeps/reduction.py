"""Reductions of rows and of columns, and what is done with rows of a matrix: softmax, layer norm, RMS norm.

What is done with rows is a list of instructions (:attr:`Rows.program`): some on statistics of the rows, some on every
chunk of them. The program that is emitted, its cycles and its joules are all read off this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.mesh.vector import passes
from archloom.mapper.spatial.arrays import from_tiles
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import Pair
from archloom.mapper.spatial.programs.streams import Shapes
from archloom.mapper.spatial.space import Column
from archloom.mapper.spatial.sweeps.sweep import Numbers, Step, Sweep
from archloom.oracle.errors import MappingError

Reduced = Literal["sum", "mean", "max"]
Normed = Literal["softmax", "layer_norm", "rms_norm"]

LEAST = -65504.0
"""The smallest number of fp16: no number is below."""


@dataclass(frozen=True)
class OfRows:
    """An instruction on statistic ``which`` of the rows, of which a core has two, with its ``values``."""

    name: str
    which: int = 0
    values: tuple[tuple[str, float], ...] = ()

    @property
    def passes(self) -> int:
        """Of the vector unit."""
        return passes(self.name, m=1)


@dataclass(frozen=True)
class OfChunk:
    """An instruction on a chunk of the rows, which lies unpacked in sums, beside what it ``uses``: nothing else, the
    chunk in L1 as its source or its target, statistic ``which`` of the rows, or operand ``which`` with a number for
    each column."""

    name: str
    uses: Literal["sums", "source", "target", "statistic", "weights"] = "sums"
    which: int = 0
    values: tuple[tuple[str, float], ...] = ()

    @property
    def passes(self) -> int:
        """Of the vector unit, for each tile."""
        return passes(self.name, m=1, n=1, count=1)


UNPACK, PACK = OfChunk("unpack", "source"), OfChunk("pack", "target")


@dataclass(frozen=True)
class Chunks:
    """``steps`` on every chunk of the rows, which is then stored if it is ``stored``."""

    steps: tuple[OfChunk, ...]
    stored: bool = False

    @staticmethod
    def of(*steps: OfChunk, stored: bool = False) -> "Chunks":
        """A chunk is unpacked before its steps."""
        return Chunks((UNPACK, *steps), stored)

    @property
    def passes(self) -> int:
        """Of the vector unit, for each tile."""
        return sum(step.passes for step in self.steps)


def _begin(which: int, value: float) -> OfRows:
    return OfRows("row_begin", which, (("value", value),))


def _linear(which: int, factor: float, shift: float = 0) -> OfRows:
    return OfRows("row_linear", which, (("factor", factor), ("shift", shift)))


def _with(name: str, which: int) -> OfChunk:
    return OfChunk(name, "statistic", which)


@dataclass(frozen=True, order=True)
class Rows(Sweep):
    """Of each of ``rows`` rows of ``columns`` numbers their ``sum``, ``mean`` or ``max``, or the row itself after
    ``softmax`` of ``scale * x``, ``layer_norm`` or ``rms_norm``.

    The norms take ``gamma``, layer norm also ``beta`` (a number for each column), and add ``epsilon`` to the variance.
    All operands are fp16 and all work is in f32, but that the weights of a softmax are kept as fp16 until their sum is
    known. A core holds whole rows, 32 at a time, and works on a part of them at a time, which is a plan's block.
    """

    rows: int
    columns: int
    kind: Reduced | Normed
    scale: float = 1.0
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        kinds = (*get_args(Reduced), *get_args(Normed))
        if min(self.rows, self.columns) < 1 or self.kind not in kinds:
            raise MappingError(f"{self}: every extent must be at least 1, and the kind one of {', '.join(kinds)}")

    @property
    def reduced(self) -> bool:
        """Whether a number is left of each row."""
        return self.kind in get_args(Reduced)

    @property
    def weights(self) -> tuple[str, ...]:
        """Operands with a number for each column."""
        return {"layer_norm": ("gamma", "beta"), "rms_norm": ("gamma",)}.get(self.kind, ())

    @cached_property
    def program(self) -> tuple[OfRows | Chunks, ...]:
        """What is done with rows, one after the other; sums and the like are in statistic 0 at the end."""
        share = 1 / self.columns
        if self.kind == "softmax":
            scaled = () if self.scale == 1 else (OfChunk("linear", values=(("factor", self.scale), ("shift", 0))),)
            return (_begin(0, -1e30), _begin(1, 0), Chunks.of(*scaled, _with("row_maximum", 0)),
                    Chunks.of(*scaled, _with("row_subtract", 0), OfChunk("exponential"), _with("row_sum", 1), PACK),
                    OfRows("row_reciprocal", 1), Chunks.of(_with("row_multiply", 1), stored=True))
        if self.kind == "layer_norm":
            return (_begin(0, 0), _begin(1, 0), Chunks.of(_with("row_sum", 0)), _linear(0, share),
                    Chunks.of(_with("row_subtract", 0), OfChunk("square"), _with("row_sum", 1)),
                    _linear(1, share, self.epsilon), OfRows("row_root", 1),
                    Chunks.of(_with("row_subtract", 0), _with("row_multiply", 1), OfChunk("multiply_row", "weights", 0),
                              OfChunk("add_row", "weights", 1), stored=True))
        if self.kind == "rms_norm":
            return (_begin(1, 0), Chunks.of(OfChunk("square"), _with("row_sum", 1)), _linear(1, share, self.epsilon),
                    OfRows("row_root", 1),
                    Chunks.of(_with("row_multiply", 1), OfChunk("multiply_row", "weights", 0), stored=True))
        largest, mean = self.kind == "max", (_linear(0, share),) * (self.kind == "mean")
        gathered = Chunks.of(_with("row_maximum" if largest else "row_sum", 0))
        return _begin(0, LEAST if largest else 0), gathered, *mean

    @property
    def fixed(self) -> Pair:
        return 1, 0

    @property
    def spreadable(self) -> Pair:
        return 1, 0

    def room(self, m: Column, n: Column, slots: Column) -> tuple[Column, Column, Column]:
        return (slots + len(self.weights)) * self.tiles[1], 2 * n + 2 * self.reduced, 0 * m + 4

    def work(self, m: Column, n: Column) -> tuple[Numbers, Numbers, Numbers]:
        of_row = sum(step.passes for step in self.program if isinstance(step, OfRows))
        if self.reduced:
            of_row += passes("row_spread", m=1)
        stored = n / self.tiles[1] if self.reduced else n
        return n, stored, n * self._passes(False) + of_row * n / self.tiles[1]

    def _passes(self, stored: bool) -> int:
        """Of the vector unit over a tile, of all chunks or of those that are stored."""
        chunks = (step for step in self.program if isinstance(step, Chunks))
        return sum(step.passes for step in chunks if step.stored or not stored)

    @property
    def slots(self) -> tuple[int, ...]:
        return 1, 2

    def step(self, step: Step) -> Numbers:
        last = step.vector * (self._passes(True) / self._passes(False))
        stored = 0 if self.reduced else np.maximum(0, (step.busy + step.latency - last) / 2)
        # with one slot the next row comes when this one is done
        late = step.load + step.latency * step.n / self.tiles[1]
        found: Numbers = step.vector + stored + np.where(step.slots > 1, 0, late)
        return found

    def ahead(self, loads: Numbers, n: Column) -> Numbers:
        return 0 * n + self.tiles[1]

    def tensors(self) -> Shapes:
        m, n = self.tiles
        result = (1, m, 1 if self.reduced else n, SIDE, SIDE)
        return (("X", (1, m, n, SIDE, SIDE)), *((name, (1, n, SIDE)) for name in self.weights), ("Z", result))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"X": (self.rows, self.columns), **dict.fromkeys(self.weights, (self.columns,))}

    def unpack(self, result: NDArray[np.float16]) -> NDArray[np.float16]:
        """The result, ``(rows, columns)`` or ``(rows,)``, from its tiles."""
        if self.reduced:
            return from_tiles(result, (self.rows, 1))[0, :, 0]
        return from_tiles(result, (self.rows, self.columns))[0]


@dataclass(frozen=True, order=True)
class Columns(Sweep):
    """Of each of ``columns`` columns of ``rows`` numbers (fp16) the ``sum``, ``mean`` or ``max``.

    Sums of the same columns may be dealt out to several cores and are added up over the network; the largest numbers of
    columns are found by one core.
    """

    rows: int
    columns: int
    kind: Reduced

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1 or self.kind not in get_args(Reduced):
            raise MappingError(
                f"{self}: every extent must be at least 1, and the kind one of {', '.join(get_args(Reduced))}")

    @property
    def instruction(self) -> str:
        """What is done with a block."""
        return "column_maximum" if self.kind == "max" else "column_sum"

    @property
    def spreadable(self) -> Pair:
        return int(self.kind != "max"), 1

    def room(self, m: Column, n: Column, slots: Column) -> tuple[Column, Column, Column]:
        return slots * m * n, 1 * n, 0 * m

    def work(self, m: Column, n: Column) -> tuple[Numbers, Numbers, Numbers]:
        return m * n, m * n / self.tiles[0], m * n * passes(self.instruction, m=1, n=1)

    def step(self, step: Step) -> Numbers:
        load = step.load + step.latency
        found: Numbers = np.where(step.slots > 1, np.maximum(step.vector, load / step.slots), step.vector + load)
        return found

    def combining(self, found: Mapping[str, Column], machine: Machine) -> Numbers:
        rounds = np.ceil(np.log2(found["cm"])) + np.ceil(np.log2(found["rm"]))
        combined: Numbers = rounds * found["bn"] * (2 * TILE_BYTES / machine.sum_bytes)
        return combined

    def tensors(self) -> Shapes:
        m, n = self.tiles
        return ("X", (1, m, n, SIDE, SIDE)), ("Z", (1, 1, n, SIDE, SIDE))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"X": (self.rows, self.columns)}

    def unpack(self, result: NDArray[np.float16]) -> NDArray[np.float16]:
        """The result ``(columns,)`` from its tiles."""
        return from_tiles(result, (1, self.columns))[0, 0]
