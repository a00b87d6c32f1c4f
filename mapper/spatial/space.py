"""The space of plans of a product on a mesh, as columns of arrays: a candidate is a row, an object only when chosen.

Every way to spread m, n and k over the dimensions of the mesh (also each dimension over several loops, and in both
orders where a loop takes part of both; the last cores have less of a loop, or nothing, where it cannot be dealt out
evenly), every useful block, both orders of the waves, whether an operand is kept for
the waves that do not index it, every pattern by which tiles that cores share can reach them. Useless rows are left out,
never a shape of plan (but for trees to part of the mesh, which are missing: operands that a rectangle of cores shares
go to each of its rows or columns by a multicast of its own). By these rules no better plan is left out, as far as tests
have found, which list every plan of tiny products (``tests/support/mapper/plain_space.py``):

* no spread over m and n that leaves cores without any work, and to another one more than twice as much as it needs to
  have with as many cores along k (fewer cores may share more tiles, which is better where loads take longer than
  products);
* the reduction is dealt out to as few cores as can have so few tiles of it each;
* sums are added up over the network only where C has fewer than eight tiles for each core;
* the waves' order is free only where something is kept;
* of two plans that a square mesh makes equal by exchanging its dimensions only one;
* a core holds two blocks of sums wherever they fit and there is another wave: it costs nothing.

By these little is lost; how much at most, without the launch, was seen on one to four cores with up to four tiles along
each loop:

* of the blocks with which a loop takes the same number of waves only the smallest: it does the same work in less room
  (1.3 %: blocks of 3 and 1 tiles end with a smaller store than two of 2);
* a pattern that sends tiles along a dimension of the mesh along which nobody shares them is a plain load (7 % where
  ports of L1 are narrow; 0.2 % of a product of 8 x 10 x 16 tiles). Where nobody shares any, B's tiles may come along
  the rows, whose rings are idle else, beside A's;
* an operand is kept only where another wave uses it: tiles that are loaded for one wave alone are as many as when they
  are streamed, and need the room of all their steps instead of that of ``slots`` (15 % where memory is far and products
  are short; the search tries three slots with what it has found);
* no level between *stream* and *keep*, for the same reason;
* how deep the first steps are changes little: :func:`risen` lists it for the candidates that are worth it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import (
    LEVELS,
    NONE,
    PATTERNS,
    ROW,
    Pair,
    Pattern,
    Plan,
    Reduction,
    Spread,
    TileGemm,
)

P = TypeVar("P")

Column: TypeAlias = NDArray[np.int64]
Columns: TypeAlias = dict[str, Column]
Depths: TypeAlias = Callable[[int], Sequence[int]]
"""How deep the steps of a core may be that has so many tiles of the reduction."""

SLOTS = (2,)
"""Blocks of a streamed operand that a core holds; the search tries triple buffering with what it has found."""

DEPTHS = (1, 2, 4, 8, 16, 32)
"""Steps of the reduction in tiles, beside its whole extent."""


@dataclass(frozen=True)
class Rules:
    """What plans may do: patterns of each operand, whether tiles may be kept; all by default.

    ``outputs``: blocks of sums that a core may
    hold; ``rising``: whether the first steps may be shallower than the others.
    """

    a: tuple[str, ...] = PATTERNS
    b: tuple[str, ...] = PATTERNS
    levels: tuple[str, ...] = LEVELS
    outputs: int = 2
    rising: bool = True
    depths: tuple[int, ...] = DEPTHS
    """Steps of the reduction in tiles, beside its whole extent."""
    beside: tuple[int, int] = (0, 0)
    """Tiles of L1 for each column of tiles of a block of C, and for each tile of it, beside the operands."""

    def depths_of(self, depth: int) -> tuple[int, ...]:
        """How deep the steps of a core with ``depth`` tiles of the reduction may be."""
        return tuple(sorted({d for d in self.depths if d < depth} | {depth}))


EVERYTHING = Rules()

IDLE = 2
"""Where cores have no work, others have so many times as much at most as they need to have."""

LEADS = (1, 2, 4, 8)
"""Depths of the first step in tiles, where it is shallower than the others."""


@dataclass(frozen=True)
class Spreads:
    """How the loops of a plan are spread over the mesh, as it has it, and what comes of it for the reduction."""

    rows: Spread
    columns: Spread
    outer: Literal["rows", "columns"]
    reduction: Reduction


@dataclass(frozen=True, eq=False)
class Space:
    """Candidates in columns: ``spread`` (index into ``spreads``), ``bm``, ``bn``, ``bk``, ``nm`` (1: n is the outer
    wave loop), ``keep_a``, ``keep_b``, ``way_a``, ``way_b`` (index into PATTERNS), ``slots``, ``outputs``,
    ``lead``. There may be millions: ``held`` has each column in the smallest type for it."""

    spreads: tuple[Spreads, ...]
    held: Columns

    def __len__(self) -> int:
        return len(self.held["bm"])

    def column(self, name: str) -> Column:
        """One of the columns, to calculate with."""
        return self.held[name].astype(np.int64)

    @property
    def columns(self) -> Columns:
        """All of them."""
        return {name: self.column(name) for name in self.held}

    @property
    def over(self) -> Columns:
        """Cores along m, n and k of each candidate on the rows of the mesh (``rm``, ``rn``, ``rk``) and on its columns
        (``cm``, ``cn``, ``ck``), and its reduction's fields by their names, such as ``depth``."""
        names = (*(over + loop for over in "rc" for loop in "mnk"), *(each.name for each in fields(Reduction)))
        found = np.array([(*s.rows, *s.columns, *astuple(s.reduction)) for s in self.spreads], np.int64)
        return dict(zip(names, found.reshape(-1, len(names))[self.held["spread"]].T))

    def some(self, rows: "slice | NDArray[Any]") -> "Space":
        """The candidates with some numbers, or for which a mask is set."""
        return Space(self.spreads, {name: column[rows] for name, column in self.held.items()})

    def plan(self, i: int) -> Plan:
        """Candidate ``i``."""
        c = {name: int(column[i]) for name, column in self.held.items()}
        over = self.spreads[c["spread"]]
        return Plan(
            (c["bm"], c["bn"], c["bk"]), over.rows, over.columns, over.outer, "nm" if c["nm"] else "mn",
            (_pattern(c["way_a"]), "keep" if c["keep_a"] else "stream"),
            (_pattern(c["way_b"]), "keep" if c["keep_b"] else "stream"), c["slots"], c["outputs"], c["lead"],
        )


@dataclass(frozen=True, eq=False)
class Table(Generic[P]):
    """Candidates in columns, and the plan that a row of them stands for."""

    columns: Columns
    plan_of: Callable[[dict[str, int]], P]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def plan(self, i: int) -> P:
        """Candidate ``i``."""
        return self.plan_of({name: int(column[i]) for name, column in self.columns.items()})


def joined(parts: Sequence[Columns], names: Iterable[str]) -> Columns:
    """The rows of all parts, one after the other."""
    return {name: np.concatenate([part[name] for part in parts] or [np.zeros(0, np.int64)]) for name in names}


def narrow(columns: Columns) -> Columns:
    """The same numbers, none below 0, in the smallest types that hold them."""
    return {name: column.astype(np.min_scalar_type(column.max(initial=0))) for name, column in columns.items()}


def risen(found: Space, rows: NDArray[np.int64]) -> Space:
    """The candidates ``rows``, each also with every depth of the first step that is less than that of the others."""
    leads = np.array((0, *LEADS), np.int64)
    columns = {name: np.repeat(column, len(leads)) for name, column in found.some(rows).columns.items()}
    columns["lead"] = np.tile(leads, len(rows))
    keep = (columns["lead"] < columns["bk"])
    return Space(found.spreads, {name: column[keep] for name, column in columns.items()})


def _pattern(number: int) -> Pattern:
    return PATTERNS[number]  # type: ignore[return-value]


def space(
    gemm: TileGemm, machine: Machine, rules: Rules = EVERYTHING, grain: int = 1, depths: Depths | None = None
) -> Space:
    """All candidates that fit the machine; so many tiles of the reduction as ``grain`` says stay on one core."""
    spreads: list[Spreads] = []
    parts: list[Columns] = []
    for rows, columns in _spreads(gemm, machine, grain):
        both = any(r > 1 and c > 1 for r, c in zip(rows[:2], columns[:2]))
        outers: tuple[Literal["rows", "columns"], ...] = ("rows", "columns") if both else ("rows",)
        depth = Reduction.of(gemm.k, rows[2], columns[2], "rows", grain).depth
        part = _candidates(gemm, machine, rules, rows, columns, (depth, (depths or rules.depths_of)(depth)))
        if len(part["bm"]):
            for outer in outers:
                parts.append(narrow({**part, "spread": np.full(len(part["bm"]), len(spreads))}))
                spreads.append(Spreads(rows, columns, outer, Reduction.of(gemm.k, rows[2], columns[2], outer, grain)))
    names = ("spread", "bm", "bn", "bk", "nm", "keep_a", "keep_b", "way_a", "way_b", "slots", "outputs", "lead")
    return Space(tuple(spreads), joined(parts, names))


def _spreads(gemm: TileGemm, machine: Machine, grain: int) -> Iterator[tuple[Spread, Spread]]:
    """Ways to spread the loops; those that give some cores nothing to do only if the others have not much more for it.
    """
    every = [(r, c) for r in triples(machine.rows) for c in triples(machine.columns)]
    fewest: dict[int, int] = {}  # cores along k for which each has so many tiles
    for split in sorted({r[2] * c[2] for r, c in every}):
        fewest.setdefault(-(-gemm.k // (grain * split)), split)
    found = [(r, c) for r, c in every if r[2] * c[2] in fewest.values()]
    # sums are added up over the network only where the blocks of C are too few to keep the cores busy
    few = [(r, c) for r, c in found if r[2] * c[2] == 1 or gemm.m * gemm.n < 8 * machine.cores]
    least: dict[int, int] = {}
    for spread in few or found:
        split, share, _ = _share(gemm, *spread)
        least[split] = min(share, least.get(split, share))
    for r, c in few or found:
        split, share, idle = _share(gemm, r, c)
        if (not idle or share <= IDLE * least[split]) and (machine.rows != machine.columns or r >= c):
            yield r, c


def _share(gemm: TileGemm, rows: Spread, columns: Spread) -> tuple[int, int, bool]:
    """Cores along k; the largest part of C of a core, and whether there are cores without any."""
    m, n, k = (r * c for r, c in zip(rows, columns))
    return k, -(-gemm.m // m) * -(-gemm.n // n), m > gemm.m or n > gemm.n


def divisors(extent: int) -> list[int]:
    return [d for d in range(1, extent + 1) if extent % d == 0]


def triples(extent: int) -> list[Spread]:
    """Ways to spread three loops over a dimension of the mesh."""
    return [(a, b, extent // (a * b)) for a in divisors(extent) for b in divisors(extent // a)]


def pairs(extent: int) -> list[Pair]:
    """Ways to spread two loops over a dimension of the mesh."""
    return [(a, extent // a) for a in divisors(extent)]


def sizes(extent: int, cores: int = 1) -> list[int]:
    """The smallest block for each number of waves in which ``cores`` cores do ``extent`` tiles."""
    share = -(-extent // cores)
    return sorted({-(-share // waves) for waves in range(1, share + 1)})


def _candidates(
    gemm: TileGemm, machine: Machine, rules: Rules, rows: Spread, columns: Spread, deep: tuple[int, Sequence[int]]
) -> Columns:
    """``deep``: tiles of the reduction of a core, and of its steps."""
    share, (depth, steps) = [r * c for r, c in zip(rows, columns)], deep
    blocks = [(m, n) for m in sizes(gemm.m, share[0]) for n in sizes(gemm.n, share[1]) if m * n <= machine.sums]
    ways = [
        (a, b) for a in _ways(rows, columns, 1, share[1] == machine.cores, rules.a)
        for b in _ways(rows, columns, 0, share[0] == machine.cores, rules.b)
    ]
    levels = [(nm, ka, kb) for nm in (0, 1) for ka in (0, 1) for kb in (0, 1)
              if ("keep" in rules.levels or not ka + kb) and ("stream" in rules.levels or ka * kb)]
    axes: dict[tuple[str, ...], Sequence[tuple[int, ...]]] = {
        ("bm", "bn"): blocks, ("bk",): [(d,) for d in steps], ("nm", "keep_a", "keep_b"): levels,
        ("way_a", "way_b"): ways, ("slots",): [(s,) for s in SLOTS],
    }
    c = crossed(axes)
    keep = _fits(gemm, machine, rules, share, depth, c)
    c = {name: column[keep] for name, column in c.items()}
    again = (gemm.m > c["bm"] * share[0]) | (gemm.n > c["bn"] * share[1])
    two = again & (2 * c["bm"] * c["bn"] <= machine.sums) & (rules.outputs > 1)
    return {**c, "outputs": np.where(two, 2, 1), "lead": np.zeros(len(two), np.int64)}


def crossed(axes: Mapping[tuple[str, ...], Sequence[tuple[int, ...]]]) -> Columns:
    """Columns of all combinations of one entry of each axis; an axis has a column for each name."""
    tables = [np.array(values, np.int64).reshape(-1, len(names)) for names, values in axes.items()]
    shape = [len(table) for table in tables]
    numbers = np.indices(shape).reshape(len(shape), -1)
    return {
        name: table[number, i]
        for names, table, number in zip(axes, tables, numbers) for i, name in enumerate(names)
    }


def _ways(rows: Spread, columns: Spread, loop: int, all_share: bool, allowed: tuple[str, ...]) -> list[int]:
    """Patterns for the tiles of an operand that the cores along ``loop`` share; each loads its own where none does."""
    along_rows, along_columns = rows[loop], columns[loop]
    if along_rows * along_columns == 1:
        idle = loop == 0 and rows[1] * columns[1] == 1  # nothing else goes over the rings
        return [NONE, *[ROW] * (idle and "row" in allowed)]
    found = ["none"]
    line = [over[loop + 1:] for over in (rows, columns) if over[loop] > 1]
    found += ["wave"] * (len(line) == 1 and max(line[0]) == 1)
    found += ["row"] * (along_columns > 1) + ["column"] * (along_rows > 1)
    found += ["down", "across"] * (all_share and along_rows > 1 and along_columns > 1)
    return [PATTERNS.index(name) for name in found if name in allowed]


def _fits(
    gemm: TileGemm, machine: Machine, rules: Rules, share: list[int], depth: int, c: Columns
) -> NDArray[np.bool_]:
    """Rows within the capacity of a core whose kept operands are used again."""
    waves_m, waves_n = -(-gemm.m // (c["bm"] * share[0])), -(-gemm.n // (c["bn"] * share[1]))
    bk = np.minimum(c["bk"], depth)
    kept_a = c["bm"] * depth * np.where(c["nm"] == 1, waves_m, 1)
    kept_b = c["bn"] * depth * np.where(c["nm"] == 1, 1, waves_n)
    tiles = np.where(c["keep_a"] == 1, kept_a, c["slots"] * c["bm"] * bk)
    tiles = tiles + np.where(c["keep_b"] == 1, kept_b, c["slots"] * c["bn"] * bk)
    tiles = tiles + c["bn"] * rules.beside[0] + c["bm"] * c["bn"] * rules.beside[1]
    # an operand is kept for other waves; orders differ where something is kept for one of two loops
    used = ((c["keep_a"] == 0) | (waves_n > 1)) & ((c["keep_b"] == 0) | (waves_m > 1))
    ordered = (c["nm"] == 0) | ((waves_m > 1) & (waves_n > 1) & (c["keep_a"] + c["keep_b"] > 0))
    return (tiles <= machine.tiles) & used & ordered


def footprint(gemm: TileGemm, plan: Plan, grain: int = 1) -> tuple[int, int]:
    """Tiles of operands, and of sums, that the plan needs in a core."""
    bm, bn, bk = plan.block
    depth = Reduction.of(gemm.k, plan.rows[2], plan.columns[2], plan.outer, grain).depth
    counts = (-(-gemm.m // (bm * plan.spread(0))), -(-gemm.n // (bn * plan.spread(1))))
    tiles = 0
    for size, (_, level), mine, outer in ((bm, plan.a, counts[0], "m"), (bn, plan.b, counts[1], "n")):
        kept = depth * (1 if plan.order[0] == outer else mine)
        tiles += size * (plan.slots * min(bk, depth) if level == "stream" else kept)
    return tiles, bm * bn * plan.outputs


def check(gemm: TileGemm, plan: Plan, machine: Machine, grain: int = 1) -> None:
    """MappingError that names every bound which the plan breaks."""
    faults = list(machine.misfits(math.prod(plan.rows), math.prod(plan.columns)))
    faults += _unconnected(plan)
    whole = {"down", "across"}
    for name, pattern, loop in (("A", plan.a[0], 1), ("B", plan.b[0], 0)):
        if pattern in whole and plan.spread(loop) != machine.cores:
            faults.append(f"{name} goes to all cores ({pattern}), but only {plan.spread(loop)} cores share its tiles")
    if not faults:
        faults += machine.shortages(*footprint(gemm, plan, grain))
    plan.check(f"{gemm.m} x {gemm.n} x {gemm.k} tiles", faults)


def _unconnected(plan: Plan) -> Iterator[str]:
    """Waves need cores that share tiles along one dimension of the mesh, each beside the next."""
    for name, pattern, loop in (("A", plan.a[0], 1), ("B", plan.b[0], 0)):
        if pattern == "wave":
            along = [over for over in (plan.rows, plan.columns) if over[loop] > 1]
            if len(along) != 1 or any(count > 1 for count in along[0][loop + 1:]):
                yield f"{name} passes from core to core, but those that share its tiles are not in one line"
