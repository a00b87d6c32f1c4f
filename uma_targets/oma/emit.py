"""Tiled GEMM on the OMA: three loops over tiles in any order, and within a tile a product of scalars at a time.

Each pass over a tile of k adds to what the passes before it left: i32 partial sums in a workspace in memory. The first
pass starts from the bias or 0, the last one requantizes. Where k is one tile, sums stay in their register.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from archloom.mapper.mapping import Mapping as TileMapping
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets.kit.gemm import Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, each, pieces, repeat

SUM, A, B = range(3)
"""Registers."""


@dataclass(frozen=True)
class _Tile:
    """First element and size of the tile at hand, by dimension, and whether it is the first and the last of k."""

    first: Mapping[str, Affine]
    size: Mapping[str, int]
    starts: bool
    ends: bool


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product."""
    if sorted(mapping.order) != ["k", "m", "n"]:
        raise MappingError(f"{mapping}: expected an order of m, n and k")
    extents = {"m": gemm.m, "n": gemm.n, "k": gemm.k}

    def loops(depth: int, at: Mapping[str, tuple[Affine, Piece]]) -> Nodes:
        if depth == len(mapping.order):
            tile = _tile(mapping, at)
            return repeat("i", tile.size["m"], lambda i: repeat("j", tile.size["n"], lambda j: _element(
                gemm, tile, tile.first["m"] + i, tile.first["n"] + j)))
        d = mapping.order[depth]
        edges = d == "k"
        runs = pieces(extents[d], mapping.size(d), peel_first=edges, peel_last=edges)
        return each(f"{d}t", runs, lambda i, run: loops(depth + 1, {**at, d: (i, run)}))

    return loops(0, {})


def workspace_bytes(m: int, n: int, k: int, mapping: TileMapping) -> int:
    """Bytes of the partial sums that ``mapping`` keeps in memory."""
    return 4 * m * n if mapping.size("k") < k else 0


def _tile(mapping: TileMapping, at: Mapping[str, tuple[Affine, Piece]]) -> _Tile:
    first = {d: i * mapping.size(d) for d, (i, _) in at.items()}
    sizes = {d: run.size for d, (_, run) in at.items()}
    k = at["k"][1]
    return _Tile(first, sizes, k.is_first, k.is_last)


def _element(gemm: Gemm, tile: _Tile, i: Affine, j: Affine) -> Iterator[Node]:
    """What one element of C gets from a tile of k."""
    partial = gemm.workspace + (i * gemm.n + j) * 4
    if not tile.starts:
        yield Instr.make("load32", dram=partial, rd=SUM)
    elif gemm.bias is not None:
        yield Instr.make("load32", dram=gemm.bias_at(j), rd=SUM)
    else:
        yield Instr.make("movi", rd=SUM, value=0)
    yield from repeat("l", tile.size["k"], lambda l: _mac(gemm, i, j, tile.first["k"] + l))
    if tile.ends:
        yield Instr.make("requant", rd=SUM, rs=SUM, scale=gemm.scale_bits, low=gemm.lowest)
        yield Instr.make("store8", dram=gemm.c_at(i, j), rs=SUM)
    else:
        yield Instr.make("store32", dram=partial, rs=SUM)


def _mac(gemm: Gemm, i: Affine, j: Affine, k: Affine) -> Nodes:
    return [
        Instr.make("load8", dram=gemm.a_at(i, k), rd=A),
        Instr.make("load8", dram=gemm.b_at(k, j), rd=B),
        Instr.make("mac", rd=SUM, ra=A, rb=B),
    ]
