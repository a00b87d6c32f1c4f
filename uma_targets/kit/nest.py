"""Building blocks of loop nests: cutting an extent into runs of equal pieces, and loops over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from archloom.mapper.reuse import ceil_div as ceil_div
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr, Loop, Node, Parallel
from archloom.oracle.user_code import among, called

Nodes: TypeAlias = list[Node]

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
    return _loop(var, count, partial(_given, body))


def _loop(var: str, count: int, body: Callable[[Affine], Nodes]) -> Nodes:
    if count <= 1:
        return body(Affine(0)) if count else []
    inner = tuple(body(Affine.variable(var)))
    return [Loop(var, 0, count, 1, inner)] if inner else []


def _given(body: Callable[..., Iterable[Node]], *arguments: Affine | Piece) -> Nodes:
    """What a body gives, which a user may have written."""
    return among(body, called(body, *arguments, gives=Iterable), _KINDS)


_KINDS = Instr | Loop | Parallel


def each(var: str, runs: Iterable[Piece], body: Callable[[Affine, Piece], Iterable[Node]]) -> Nodes:
    """One loop for each run of pieces; ``body`` gets the number of the tile and its run."""
    nodes: Nodes = []
    for run in runs:
        nodes += _loop(var, run.count, lambda i, run=run: _given(body, i + run.first, run))  # type: ignore[misc]
    return nodes


def float_bits(value: float) -> int:
    """The bits of ``value`` as a float32, as an attribute of an instruction holds it."""
    return int(np.float32(value).view(np.uint32))
