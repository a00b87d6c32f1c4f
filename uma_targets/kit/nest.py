"""Building blocks of loop nests: cutting an extent into runs of equal pieces, and loops over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from archloom.mapper.reuse import ceil_div as ceil_div
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Loop, Node, Stream

Nodes: TypeAlias = list[Node]

ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Piece:
    """``count`` consecutive tiles of ``size`` elements each, the first of which has number ``first``."""

    first: int
    count: int
    size: int
    is_first: bool = False
    """Whether this is the first tile alone."""
    is_last: bool = False
    """Whether this is the last tile alone."""


@lru_cache(maxsize=4096)
def pieces(extent: int, tile: int, *, peel_first: bool = False, peel_last: bool = False) -> tuple[Piece, ...]:
    """``extent`` elements in tiles of ``tile``: the whole tiles, then what is left; edges peeled where asked."""
    whole, rest = divmod(extent, tile)
    runs = [Piece(0, whole, tile)] if whole else []
    runs += [Piece(whole, 1, rest)] if rest else []
    if peel_first and runs[0].count > 1:
        head = runs[0]
        runs[:1] = [Piece(0, 1, head.size), Piece(1, head.count - 1, head.size)]
    if peel_last and runs[-1].count > 1:
        tail = runs[-1]
        runs[-1:] = [replace(tail, count=tail.count - 1), Piece(tail.first + tail.count - 1, 1, tail.size)]
    total = whole + bool(rest)
    return tuple(
        replace(p, is_first=p.first == 0 and p.count == 1, is_last=p.first + 1 == total and p.count == 1) for p in runs
    )


def repeat(var: str, count: int, body: Callable[[Affine], Iterable[Node]]) -> Nodes:
    """``for var in range(count)``; a single iteration needs no loop, none no body."""
    if count <= 1:
        return list(body(Affine(0))) if count else []
    inner = tuple(body(Affine.variable(var)))
    return [Loop(var, 0, count, 1, inner)] if inner else []


def each(var: str, runs: Iterable[Piece], body: Callable[[Affine, Piece], Iterable[Node]]) -> Nodes:
    """One loop for each run of pieces; ``body`` gets the number of the tile and its run."""
    nodes: Nodes = []
    for run in runs:
        nodes += repeat(var, run.count, lambda i, run=run: body(i + run.first, run))  # type: ignore[misc]
    return nodes


def place(tensors: Iterable[tuple[str, tuple[int, ...], str, int]], *, guard_bytes: int = 0) -> list[HbmTensor]:
    """Addresses for (name, shape, dtype, bytes) one after the other, aligned, none at address 0.

    ``guard_bytes`` stay free in front of the first tensor.
    """
    address = align(max(1, guard_bytes))
    placed = []
    for name, shape, dtype, size in tensors:
        placed.append(HbmTensor(name, address, shape, dtype))
        address = align(address + size)
    return placed


def float_bits(value: float) -> int:
    """The bits of ``value`` as a float32, as an attribute of an instruction holds it."""
    return int(np.float32(value).view(np.uint32))


def align(address: int) -> int:
    """The next multiple of the alignment."""
    return ceil_div(address, ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@dataclass(frozen=True)
class Memory:
    """Where the tensors of a workload lie in HBM: arguments, then the result."""

    workload: Workload
    tensors: tuple[HbmTensor, ...]

    @staticmethod
    def of(workload: Workload, guard_bytes: int = 0) -> "Memory":
        """One after the other; ``guard_bytes`` stay free in front of the first."""
        tensors = (*workload.inputs, workload.output)
        return Memory(workload, tuple(
            place(((t.name, t.shape, t.dtype, t.size_bytes) for t in tensors), guard_bytes=guard_bytes)))

    @property
    def by_name(self) -> dict[str, HbmTensor]:
        return {t.name: t for t in self.tensors}

    @property
    def end(self) -> int:
        """The first aligned address behind the result."""
        return align(self.tensors[-1].address + self.workload.output.size_bytes)

    def stream(
        self, isa: str, parameters: tuple[tuple[str, int], ...], body: Iterable[Node], more_bytes: int = 0
    ) -> Stream:
        """The stream of ``body``, with ``more_bytes`` of HBM behind the result."""
        *arguments, result = self.tensors
        return Stream(isa, parameters, tuple(arguments), (result,), align(self.end + more_bytes), tuple(body),
                      self.workload.name)
