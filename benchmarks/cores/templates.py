"""Fixed plans to compare with: of products TT-1D and TT-2D of Tenstorrent's library, as the TL paper defines them.

The paper (section 3.2): TT-1D loads the smaller input from memory in each core and broadcasts the other one over the
whole array; TT-2D streams both inputs over the mesh, one from the top and one from the left, so that tiles propagate as
in a systolic array. Each has a single block, which follows from the shape. The paper leaves that rule open; it is taken
from the library (``ttnn/operations/matmul``, ``matmul_program_config.cpp``): the share of a core is cut into the
largest blocks that fit, the most square ones among equals, with steps of two tiles in TT-1D and of four in TT-2D (of
fewer if these do not divide k), and nothing is kept.

In the library TT-1D sends the *smaller* input to all cores, and each core loads its own part of the larger one
(``mcast_in0`` for wide products); that is :func:`vendor_1d`.
"""

from __future__ import annotations

from collections.abc import Callable

from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import AttentionPlan, Pattern, Plan, TileGemm
from archloom.mapper.spatial.space import Rules, check, divisors
from archloom.oracle.errors import MappingError

PAPER = Rules(levels=("stream",), outputs=1, rising=False)
"""What the TL paper's plans may do: nothing is kept, steps are all alike, and there is one block of sums."""


def tt_1d(gemm: TileGemm, machine: Machine) -> Plan:
    """The smaller input loaded by each core, the larger one sent to all; MappingError if no block fits."""
    return _line(gemm, machine, tall=gemm.m < gemm.n)


def vendor_1d(gemm: TileGemm, machine: Machine) -> Plan:
    """The larger input loaded by each core, the smaller one sent to all; MappingError if no block fits."""
    return _line(gemm, machine, tall=gemm.m > gemm.n)


def tt_2d(gemm: TileGemm, machine: Machine) -> Plan:
    """A from the left and B from the top, from core to core; MappingError if no block fits."""
    rows, columns = machine.rows, machine.columns
    step = _divisor(gemm.k, 4)
    a: Pattern = "wave" if columns > 1 else "none"
    b: Pattern = "wave" if rows > 1 else "none"
    return _largest(gemm, machine, -(-gemm.m // rows), -(-gemm.n // columns), lambda bm, bn: Plan(
        (bm, bn, step), (rows, 1, 1), (1, columns, 1), "rows", "mn", (a, "stream"), (b, "stream")))


def _line(gemm: TileGemm, machine: Machine, *, tall: bool) -> Plan:
    """All cores in one line along m (``tall``) or n, so that they share the other input."""
    rows, columns, cores = machine.rows, machine.columns, machine.cores
    step = _divisor(gemm.k, 2)
    way: Pattern = "none" if cores == 1 else "down" if min(rows, columns) > 1 else "row" if rows == 1 else "column"
    if tall:
        return _largest(gemm, machine, -(-gemm.m // cores), gemm.n, lambda bm, bn: Plan(
            (bm, bn, step), (rows, 1, 1), (columns, 1, 1), "rows", "mn", ("none", "stream"), (way, "stream")))
    return _largest(gemm, machine, gemm.m, -(-gemm.n // cores), lambda bm, bn: Plan(
        (bm, bn, step), (1, rows, 1), (1, columns, 1), "rows", "mn", (way, "stream"), ("none", "stream")))


def _largest(
    gemm: TileGemm, machine: Machine, share_m: int, share_n: int, plan_of: Callable[[int, int], Plan]
) -> Plan:
    """The plan with the largest block, the most square of equals, among those that divide a core's share and fit."""
    blocks = [(m, n) for m in divisors(share_m) for n in divisors(share_n) if m * n <= machine.sums]
    for bm, bn in sorted(blocks, key=lambda b: (-b[0] * b[1], max(b) / min(b))):
        plan = plan_of(bm, bn)
        try:
            check(gemm, plan, machine)
        except MappingError:
            continue
        return plan
    raise MappingError(f"no block of {gemm.m} x {gemm.n} x {gemm.k} tiles fits: a core holds {machine.tiles} tiles")


def _divisor(extent: int, most: int) -> int:
    return max(d for d in range(1, most + 1) if extent % d == 0)


def vendor_attention(attention: Attention, machine: Machine) -> AttentionPlan:
    """The library's default (``ttnn/operations/transformer/sdpa``): blocks of queries of all problems are dealt out to
    cores, each of which loads all keys and values from memory for each of them; 32 queries and 32 keys at a time."""
    queries = attention.tiles[0]
    for rows in _pairs(machine.rows):
        for columns in _pairs(machine.columns):
            if rows[0] * columns[0] <= attention.problems and rows[1] * columns[1] <= queries:
                return AttentionPlan((1, 1), rows, columns, ("none", "stream"))
    return AttentionPlan((1, 1), (1, machine.rows), (1, machine.columns), ("none", "stream"))


def _pairs(extent: int) -> list[tuple[int, int]]:
    """Ways to spread problems and queries over a dimension of the mesh, most problems first."""
    return [(extent // a, a) for a in range(1, extent + 1) if extent % a == 0]
