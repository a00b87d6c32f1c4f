"""Plans of all workloads: how work is cut into blocks, which core does which block when, how operands reach the cores.

Here are their fields, their text and their JSON form; what they mean is said where workloads are planned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args, get_origin, get_type_hints

from archloom.oracle.errors import MappingError

Pattern: TypeAlias = Literal["none", "row", "column", "down", "across", "wave"]
"""How tiles that several cores need get there.

``none``: each core loads them. ``row`` / ``column``: they are loaded once for each row / column of cores that need
them, and sent along it. ``down`` / ``across``: they are loaded once, sent down the first column and from there along
all rows, or along the first row and from there along all columns. ``wave``: the first core of those that share tiles
along one dimension of the mesh loads them, and each passes them on to the next, as in a systolic array.
"""

Sent: TypeAlias = Literal["none", "row", "column", "down", "across"]
"""Patterns in which no core passes tiles on."""

Level: TypeAlias = Literal["stream", "keep"]
"""``stream``: loaded for each step of the reduction, just before use. ``keep``: loaded when first used and kept for the
iterations of the wave loop that does not index them (the loads are hoisted out of it)."""

Pair: TypeAlias = tuple[int, int]
Spread: TypeAlias = tuple[int, int, int]
"""Over how many cores along a dimension of the mesh m, n and k are spread; the product is its extent."""

PATTERNS: tuple[str, ...] = get_args(Pattern)
NONE, ROW, COLUMN, DOWN, ACROSS, WAVE = range(len(PATTERNS))
"""Numbers of the patterns in columns of candidates."""
LEVELS: tuple[str, ...] = get_args(Level)

@dataclass(frozen=True, order=True)
class TileGemm:
    """``C[m, n] = A[m, k] . B[k, n]`` in tiles of 32 x 32."""

    m: int
    n: int
    k: int

    @staticmethod
    def of(m: int, n: int, k: int) -> "TileGemm":
        """From extents in elements; MappingError unless all are positive."""
        if min(m, n, k) < 1:
            raise MappingError(f"a product of {m} x {k} by {k} x {n} elements: every extent must be at least 1")
        return TileGemm(-(-m // 32), -(-n // 32), -(-k // 32))


@dataclass(frozen=True)
class Reduction:
    """How tiles of the reduction are dealt out to the cores that add up their sums: ``depth`` to each of ``full`` ones,
    the ``rest`` to the next one, none to others; those that have some are ``rows`` by ``columns`` cores."""

    depth: int
    full: int
    rest: int
    rows: int
    columns: int

    @staticmethod
    def of(tiles: int, rows: int, columns: int, outer: str, grain: int = 1) -> "Reduction":
        """Of ``tiles``, so many of which as ``grain`` says stay together, to ``rows`` by ``columns`` cores, whose
        ``outer`` dimension counts slower."""
        depth = -(-tiles // (grain * rows * columns)) * grain
        full, rest = divmod(tiles, depth)
        busy, fast = full + (rest > 0), columns if outer == "rows" else rows
        lines = -(-busy // fast), min(busy, fast)
        return Reduction(depth, full, rest, *(lines if outer == "rows" else lines[::-1]))


class Written:
    """A plan: what it is called where its text is damaged, and its JSON form, in which whole numbers must be at least 1
    where a field says nothing else."""

    form: ClassVar[str]

    def to_json(self) -> str:
        """Canonical JSON text; :meth:`from_json` gives the equal plan."""
        return json.dumps(asdict(self), separators=(",", ":"))  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The plan written by :meth:`to_json`; MappingError for anything else."""
        try:
            found: Self = _read(cls, json.loads(text))
        except ValueError as error:
            raise MappingError(f"expected the {cls.form}, found {text[:80]!r}: {error}") from error
        return found

    def refusal(self, work: object, faults: Iterable[str]) -> str:
        """What is wrong with it for a workload; nothing without ``faults``."""
        listed = "; ".join(faults)
        return f"plan {self} for {work}: {listed}" if listed else ""

    def check(self, work: object, faults: Iterable[str]) -> None:
        """MappingError that names all ``faults``."""
        if text := self.refusal(work, faults):
            raise MappingError(text)


def _read(kind: Any, value: Any, least: int = 1, most: float = math.inf) -> Any:
    """A value of JSON as one of a type; ValueError for anything else."""
    kinds = get_args(kind)
    if is_dataclass(kind):
        names = [f.name for f in fields(kind)]
        if not isinstance(value, dict) or set(value) != set(names):
            raise ValueError(f"expected the fields {', '.join(names)}")
        hints = get_type_hints(kind)
        read = {f.name: _read(hints[f.name], value[f.name], *f.metadata.get("within", ())) for f in fields(kind)}
        return kind(**read)  # type: ignore[operator]
    if get_origin(kind) is tuple:
        if not isinstance(value, list) or len(value) != len(kinds):
            raise ValueError(f"{value!r} must be {len(kinds)} values")
        return tuple(_read(each, item) for each, item in zip(kinds, value))
    if kinds and value not in kinds:
        raise ValueError(f"{value!r} is none of {', '.join(kinds)}")
    if not kinds and (type(value) is not kind or (kind is int and not least <= value <= most)):
        raise ValueError(f"{value!r} must be {'true or false' if kind is bool else f'from {least} to {most}'}")
    return value


class _Spread(Written):
    """A plan that spreads loops over the rows and the columns of the mesh."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def spread(self, loop: int) -> int:
        """Over how many cores a loop is spread, such as 0, 1 or 2 for m, n or k."""
        return self.rows[loop] * self.columns[loop]


def _over(name: str, loops: str, counts: Iterable[int]) -> str:
    """Such as ``rows m8 n2``, or ``rows -``."""
    return f"{name} " + (" ".join(f"{loop}{count}" for loop, count in zip(loops, counts) if count > 1) or "-")


@dataclass(frozen=True, order=True)
class Plan(_Spread):
    """One point of the space; with a :class:`TileGemm` and a machine enough to emit the stream.

    ``block``: tiles (m, n, k) that a core works on at a time; the first two are its block of C, the last is a step.
    ``rows``, ``columns``: how m, n and k are spread over the cores along each dimension of the mesh.
    ``outer``: the dimension of the mesh that counts slower where a loop is spread over both.
    ``order``: the loops over waves, the outer one first. ``a``, ``b``: pattern and level of the operands' loads.
    ``slots``: blocks of a streamed operand that a core holds. ``outputs``: blocks of sums that it holds: with two of
    them a block is stored while the next is computed. ``lead``: depth of the first step of the first wave in tiles,
    from which on steps double until they have the block's: the cores begin sooner; 0: all steps are alike.
    """

    form = "JSON form of a plan"
    block: tuple[int, int, int]
    rows: Spread
    columns: Spread
    outer: Literal["rows", "columns"]
    order: Literal["mn", "nm"]
    a: tuple[Pattern, Level]
    b: tuple[Pattern, Level]
    slots: int = 2
    outputs: int = field(default=1, metadata={"within": (1, 2)})
    lead: int = field(default=0, metadata={"within": (0,)})

    def __str__(self) -> str:
        """One line, such as ``8x8x4 rows m8 columns n8 m>n A:row stream B:column stream *2``."""
        both = any(r > 1 and c > 1 for r, c in zip(self.rows, self.columns))
        return " ".join([
            "x".join(map(str, self.block)), _over("rows", "mnk", self.rows), _over("columns", "mnk", self.columns),
            *([f"{self.outer} first"] if both else []), ">".join(self.order),
            f"A:{self.a[0]} {self.a[1]}", f"B:{self.b[0]} {self.b[1]}", f"*{self.slots}",
            *(["stores apart"] if self.outputs > 1 else []), *([f"from {self.lead}"] if self.lead else []),
        ])


@dataclass(frozen=True, order=True)
class PartedPlan(Written):
    """``parts``: into how many parts the rows and the columns of the mesh are cut; ``plan``: of a product on a part."""

    form = "JSON form of a plan on parts"
    parts: tuple[int, int]
    plan: Plan

    def __str__(self) -> str:
        """One line, such as ``2x1 parts, 4x4x2 rows m4 ...``."""
        return f"{self.parts[0]}x{self.parts[1]} parts, {self.plan}"


@dataclass(frozen=True, order=True)
class SweepPlan(_Spread):
    """``block``: rows and columns of tiles that a core works on at a time; ``rows``, ``columns``: how rows and columns
    of tiles are spread over the cores along each dimension of the mesh; ``slots``: blocks of operands in a core."""

    form = "JSON form of a plan of a sweep"
    block: Pair
    rows: Pair
    columns: Pair
    slots: int = 2

    def __str__(self) -> str:
        """One line, such as ``4x2 rows m8 columns n8 *2``."""
        rows, columns = _over("rows", "mn", self.rows), _over("columns", "mn", self.columns)
        return f"{self.block[0]}x{self.block[1]} {rows} {columns} *{self.slots}"


@dataclass(frozen=True, order=True)
class AttentionPlan(_Spread):
    """``block``: tiles of queries and of keys that a core works on at a time.

    ``rows``, ``columns``: how problems and queries are spread over each dimension of the mesh. ``keys``: how tiles of
    keys and values reach the cores that share them, and whether a core keeps all of them while it goes on to its next
    queries of the same problem. ``parts``: over how many cores along rows and columns the keys of a block of queries
    are dealt out, whose results are merged over the network (flash decoding).
    """

    form = "JSON of a plan of attention"
    block: tuple[int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    keys: tuple[Pattern, Level]
    parts: tuple[int, int] = (1, 1)

    def spread(self, loop: int) -> int:
        """Over how many cores problems (0), queries (1) or the keys of a block (2) are spread."""
        return self.parts[0] * self.parts[1] if loop == 2 else super().spread(loop)

    def __str__(self) -> str:
        """One line, such as ``4x5 rows p8 columns q8 K,V:row stream``."""
        rows, columns = (_over(name, "pqk", (*pair, part)) for name, pair, part in zip(
            ("rows", "columns"), (self.rows, self.columns), self.parts))
        return f"{self.block[0]}x{self.block[1]} {rows} {columns} K,V:{' '.join(self.keys)}"


@dataclass(frozen=True, order=True)
class ChainPlan(_Spread):
    """``block``: tiles of rows, of hidden columns, of columns of C, and of k, that a core works on at a time.

    ``rows``, ``columns``: over how many cores along each dimension of the mesh rows of A, and the members of a team,
    are spread. ``weights``: how those reach the cores that use the same, and whether they stay for the next rows.
    ``shared``: whether the rows of A are loaded once for the members of a team in a row (or in its column).
    ``together``: how many blocks of hidden columns a step of the second product takes; more than one only of a single
    row of tiles, where they lie one after the other.
    """

    form = "JSON of a plan of a chain"
    block: tuple[int, int, int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    weights: tuple[Sent, Level]
    shared: bool
    together: int = 1

    @property
    def places(self) -> int:
        """Teams."""
        return self.spread(0)

    @property
    def team(self) -> int:
        """Cores that work on the same rows."""
        return self.spread(1)

    def __str__(self) -> str:
        """One line, such as ``4x12x3x8 rows m8 columns t8 W:column stream A:shared``."""
        rows, columns = _over("rows", "mt", self.rows), _over("columns", "mt", self.columns)
        return (f"{'x'.join(map(str, self.block))} {rows} {columns} "
                f"W:{' '.join(self.weights)} A:{'shared' if self.shared else 'none'}"
                + (f" *{self.together}" if self.together > 1 else ""))


PLANS: dict[str, type[AttentionPlan | ChainPlan | SweepPlan | PartedPlan]] = {
    "attention": AttentionPlan, "chain": ChainPlan, "sweep": SweepPlan}
"""By the kind of a workload; of others they are PartedPlans."""


def described(kind: str, text: str) -> str:
    """The plan of a workload of a kind, given as JSON, as one line; MappingError for what is none."""
    return str(PLANS.get(kind, PartedPlan).from_json(text))
