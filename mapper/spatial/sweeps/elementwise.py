"""Element-wise operators, one after the other on the same numbers: ``relu(x * scale + y)`` is one sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.mesh.vector import BINARY, UNARY
from archloom.mapper.spatial.arrays import from_tiles
from archloom.mapper.spatial.epilogue import ACTIVATIONS
from archloom.mapper.spatial.machines.machine import SIDE
from archloom.mapper.spatial.programs.streams import Shapes
from archloom.mapper.spatial.space import Column
from archloom.mapper.spatial.sweeps.sweep import Numbers, Sweep
from archloom.oracle.errors import MappingError

FUNCTIONS: Mapping[str, str] = {
    **ACTIVATIONS, "sqrt": "root", "reciprocal": "reciprocal", "negate": "negate", "abs": "absolute",
    "square": "square",
}
"""The vector unit's instruction for each function of a number."""


@dataclass(frozen=True, order=True)
class Operation:
    """A function of the numbers so far (:data:`FUNCTIONS`), or what combines them with another operand.

    ``kind``: a function, ``linear`` (``factor * x + shift``), or one of ``add``, ``subtract``, ``multiply``,
    ``divide``, ``maximum`` and ``minimum`` with a ``tensor`` of the same shape or a ``row`` that counts for all rows.
    """

    kind: str
    operand: Literal["none", "tensor", "row"] = "none"
    factor: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        known = [*BINARY] if self.operand != "none" else [*FUNCTIONS, "linear"]
        if self.operand not in ("none", "tensor", "row") or self.kind not in known:
            raise MappingError(
                f"operation {self.kind!r} with operand {self.operand!r}: expected one of {', '.join(FUNCTIONS)} or "
                f"linear without, or one of {', '.join(BINARY)} with a tensor or a row")

    @property
    def passes(self) -> int:
        """Of the vector unit over the numbers."""
        return BINARY[self.kind] if self.operand != "none" else UNARY[FUNCTIONS.get(self.kind, self.kind)]


@dataclass(frozen=True, order=True)
class Elementwise(Sweep):
    """``rows x columns`` numbers X of fp16 and the ``operations`` on them, in f32 until the result is stored.

    The other operands are called ``Y0``, ``Y1``, ... in the order of the operations that take them.
    """

    rows: int
    columns: int
    operations: tuple[Operation, ...]

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1 or not self.operations:
            raise MappingError(f"{self}: every extent must be at least 1, and there must be an operation")

    @property
    def relu(self) -> bool:
        """Whether the store does the last operation."""
        return self.operations[-1].kind == "relu"

    @property
    def worked(self) -> tuple[Operation, ...]:
        """Operations of the vector unit."""
        return self.operations[:-1] if self.relu else self.operations

    def count(self, operand: str) -> int:
        """Operations with a ``tensor`` or a ``row``."""
        return sum(op.operand == operand for op in self.operations)

    def room(self, m: Column, n: Column, slots: Column) -> tuple[Column, Column, Column]:
        tiles = m * n * (1 + self.count("tensor")) + n * self.count("row")
        return slots * tiles, np.minimum(slots, 2) * m * n, 0 * m

    def work(self, m: Column, n: Column) -> tuple[Numbers, Numbers, Numbers]:
        return m * n * (1 + self.count("tensor")), m * n, m * n * (1 + sum(op.passes for op in self.worked))

    def tensors(self) -> Shapes:
        m, n = self.tiles
        whole = (1, m, n, SIDE, SIDE)
        others = [whole if op.operand == "tensor" else (1, n, SIDE) for op in self.operations if op.operand != "none"]
        return (("X", whole), *((f"Y{i}", shape) for i, shape in enumerate(others)), ("Z", whole))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        whole = (self.rows, self.columns)
        others = [
            whole if op.operand == "tensor" else (self.columns,) for op in self.operations if op.operand != "none"]
        return {"X": whole, **{f"Y{i}": shape for i, shape in enumerate(others)}}

    def unpack(self, result: NDArray[np.float16]) -> NDArray[np.float16]:
        """The result ``(rows, columns)`` from its tiles."""
        return from_tiles(result, (self.rows, self.columns))[0]
