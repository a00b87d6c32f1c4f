"""Reductions of rows and of columns, and what is done with rows of a matrix: softmax, layer norm, RMS norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.arrays import from_tiles
from archloom.mapper.spatial.emit import Shapes
from archloom.mapper.spatial.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import Pair
from archloom.mapper.spatial.space import Column
from archloom.mapper.spatial.sweep import Numbers, Step, Sweep
from archloom.oracle.errors import MappingError

Reduced = Literal["sum", "mean", "max"]
Normed = Literal["softmax", "layer_norm", "rms_norm"]

_PASSES: Mapping[str, int] = {"sum": 2, "mean": 2, "max": 2, "softmax": 9, "rms_norm": 5, "layer_norm": 11}
"""Of the vector unit over a row."""

_LAST: Mapping[str, int] = {"sum": 0, "mean": 0, "max": 0, "softmax": 2, "rms_norm": 3, "layer_norm": 5}
"""Of them those after which a part of the row is stored."""


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

    @property
    def fixed(self) -> Pair:
        return 1, 0

    @property
    def spreadable(self) -> Pair:
        return 1, 0

    def room(self, m: Column, n: Column, slots: Column) -> tuple[Column, Column, Column]:
        return (slots + len(self.weights)) * self.tiles[1], 2 * n + 2 * self.reduced, 0 * m + 4

    def work(self, m: Column, n: Column) -> tuple[Numbers, Numbers, Numbers]:
        stored = n / self.tiles[1] if self.reduced else n
        return n, stored, n * _PASSES[self.kind] + 2 * n / self.tiles[1]

    @property
    def slots(self) -> tuple[int, ...]:
        return 1, 2

    def step(self, step: Step) -> Numbers:
        last = step.vector * (_LAST[self.kind] / _PASSES[self.kind])
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
    def spreadable(self) -> Pair:
        return int(self.kind != "max"), 1

    def room(self, m: Column, n: Column, slots: Column) -> tuple[Column, Column, Column]:
        return slots * m * n, 1 * n, 0 * m

    def work(self, m: Column, n: Column) -> tuple[Numbers, Numbers, Numbers]:
        return m * n, m * n / self.tiles[0], m * n

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
