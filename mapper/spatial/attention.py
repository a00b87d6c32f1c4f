"""Attention over many cores: softmax(scale * Q . K^T) . V by tiles, with an online softmax; its plans and their bounds.

Every head of every example is a *problem* of its own. A core works on a block of queries of one problem at a time and
goes over blocks of keys and values; cores that work on the same problem share these. Query heads that share keys and
values (grouped-query attention) are one problem with as many more queries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mapper.spatial.machine import SIDE, Machine
from mapper.spatial.plan import Level, Pattern
from oracle.errors import MappingError


@dataclass(frozen=True, order=True)
class Attention:
    """``problems`` of ``queries`` queries and ``keys`` keys, heads of ``width`` numbers."""

    problems: int
    queries: int
    keys: int
    width: int

    @staticmethod
    def of(batch: int, heads: int, sequence: int, width: int, kv_heads: int | None = None) -> "Attention":
        """Self-attention; MappingError for extents below 1, or heads that do not divide among ``kv_heads``."""
        kv = heads if kv_heads is None else kv_heads
        if min(batch, heads, sequence, width, kv) < 1 or heads % kv:
            raise MappingError(
                f"attention of {batch} x {heads} heads ({kv} of keys) over {sequence} x {width}: every extent must be "
                f"at least 1, and the heads of keys must divide those of queries"
            )
        return Attention(batch * kv, heads // kv * sequence, sequence, width)

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.width)

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles of queries, of keys, and of a head's width."""
        return -(-self.queries // SIDE), -(-self.keys // SIDE), -(-self.width // SIDE)


def to_tiles(tensor: NDArray[np.float16]) -> NDArray[np.float16]:
    """``(problems, rows, columns)`` as ``(problems, rows / 32, columns / 32, 32, 32)``, filled up with zeros."""
    problems, rows, columns = tensor.shape
    high, wide = -(-rows // SIDE), -(-columns // SIDE)
    whole = np.zeros((problems, high * SIDE, wide * SIDE), tensor.dtype)
    whole[:, :rows, :columns] = tensor
    return whole.reshape(problems, high, SIDE, wide, SIDE).transpose(0, 1, 3, 2, 4).copy()


def from_tiles(tiles: NDArray[np.float16], shape: tuple[int, int]) -> NDArray[np.float16]:
    """What :func:`to_tiles` was given, cut to ``shape``."""
    problems, high, wide, _, _ = tiles.shape
    whole = tiles.transpose(0, 1, 3, 2, 4).reshape(problems, high * SIDE, wide * SIDE)
    return whole[:, :shape[0], :shape[1]]


@dataclass(frozen=True, order=True)
class AttentionPlan:
    """``block``: tiles of queries and of keys that a core works on at a time.

    ``rows``, ``columns``: how problems and queries are spread over each dimension of the mesh. ``keys``: how tiles of
    keys and values reach the cores that share them, and whether a core keeps all of them while it goes on to its next
    queries of the same problem.
    """

    block: tuple[int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    keys: tuple[Pattern, Level]

    def spread(self, loop: int) -> int:
        """Over how many cores problems (0) or queries (1) are spread."""
        return self.rows[loop] * self.columns[loop]

    def __str__(self) -> str:
        """One line, such as ``4x5 rows p8 columns q8 K,V:row stream``."""
        def spread(name: str, over: tuple[int, int]) -> str:
            return f"{name} " + (" ".join(f"{x}{n}" for x, n in zip("pq", over) if n > 1) or "-")

        return (f"{self.block[0]}x{self.block[1]} {spread('rows', self.rows)} {spread('columns', self.columns)} "
                f"K,V:{' '.join(self.keys)}")


SCORE_SLOTS = 2
"""Blocks of scores, and of weights, in a core: the matrix unit makes the next while the vector unit turns one into
weights."""

STREAM_SLOTS = 2
OUT_SLOTS = 2


def footprint(attention: Attention, plan: AttentionPlan) -> tuple[int, int, int]:
    """Tiles of operands, of sums, and rows of statistics that the plan needs in a core."""
    bq, bk = plan.block
    _, keys, width = attention.tiles
    held = keys if plan.keys[1] == "keep" else STREAM_SLOTS * min(bk, keys)
    tiles = STREAM_SLOTS * bq * width + SCORE_SLOTS * bq * min(bk, keys) + 2 * held * width
    sums = SCORE_SLOTS * bq * min(bk, keys) + OUT_SLOTS * bq * width
    return tiles, sums, OUT_SLOTS * 2 * bq + SCORE_SLOTS * bq


def check(attention: Attention, plan: AttentionPlan, machine: Machine) -> None:
    """MappingError that names every bound which the plan breaks."""
    faults = list(_faults(attention, plan, machine))
    if faults:
        raise MappingError(f"plan {plan} for {attention}: " + "; ".join(faults))


def _faults(attention: Attention, plan: AttentionPlan, machine: Machine) -> Iterator[str]:
    for name, over, extent in (("rows", plan.rows, machine.rows), ("columns", plan.columns, machine.columns)):
        if over[0] * over[1] != extent:
            yield f"it spreads loops over {over[0] * over[1]} {name}, of which there are {extent}"
            return
    if plan.keys[0] == "wave":
        yield "keys and values are not passed from core to core"
    if plan.keys[0] in ("down", "across") and plan.spread(1) != machine.cores:
        yield f"keys go to all cores ({plan.keys[0]}), but only {plan.spread(1)} cores share them"
    needs = footprint(attention, plan)
    holds = (machine.tiles, machine.sums, machine.stats)
    for what, needed, held in zip(("tiles of operands", "sums", "rows of statistics"), needs, holds):
        if needed > held:
            yield f"it needs {needed} {what} in a core, which holds {held}"
