"""Plans: how a product is cut into blocks, which core computes which block when, and how operands reach the cores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

from archloom.oracle.errors import MappingError

Pattern: TypeAlias = Literal["none", "row", "column", "down", "across", "wave"]
"""How tiles that several cores need get there.

``none``: each core loads them. ``row`` / ``column``: they are loaded once for each row / column of cores that need
them, and sent along it. ``down`` / ``across``: they are loaded once, sent down the first column and from there along
all rows, or along the first row and from there along all columns. ``wave``: the first core of those that share tiles
along one dimension of the mesh loads them, and each passes them on to the next, as in a systolic array.
"""

Level: TypeAlias = Literal["stream", "keep"]
"""``stream``: loaded for each step of the reduction, just before use. ``keep``: loaded when first used and kept for the
iterations of the wave loop that does not index them (the loads are hoisted out of it)."""

Spread: TypeAlias = tuple[int, int, int]
"""Over how many cores along a dimension of the mesh m, n and k are spread; the product is its extent."""

PATTERNS: tuple[str, ...] = get_args(Pattern)
LEVELS: tuple[str, ...] = get_args(Level)
OUTPUTS = (1, 2)
"""Blocks of sums that a core may hold."""


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


@dataclass(frozen=True, order=True)
class Plan:
    """One point of the space; with a :class:`TileGemm` and a machine enough to emit the stream.

    ``block``: tiles (m, n, k) that a core works on at a time; the first two are its block of C, the last is a step.
    ``rows``, ``columns``: how m, n and k are spread over the cores along each dimension of the mesh.
    ``outer``: the dimension of the mesh that counts slower where a loop is spread over both.
    ``order``: the loops over waves, the outer one first. ``a``, ``b``: pattern and level of the operands' loads.
    ``slots``: blocks of a streamed operand that a core holds. ``outputs``: blocks of sums that it holds: with two of
    them a block is stored while the next is computed. ``lead``: depth of the first step of the first wave in tiles,
    from which on steps double until they have the block's: the cores begin sooner; 0: all steps are alike.
    """

    block: tuple[int, int, int]
    rows: Spread
    columns: Spread
    outer: Literal["rows", "columns"]
    order: Literal["mn", "nm"]
    a: tuple[Pattern, Level]
    b: tuple[Pattern, Level]
    slots: int = 2
    outputs: int = 1
    lead: int = 0

    def spread(self, loop: int) -> int:
        """Over how many cores loop 0, 1 or 2 (m, n or k) is spread."""
        return self.rows[loop] * self.columns[loop]

    def __str__(self) -> str:
        """One line, such as ``8x8x4 rows m8 columns n8 m>n A:row stream B:column stream *2``."""
        def spread(name: str, over: Spread) -> str:
            parts = [f"{loop}{count}" for loop, count in zip("mnk", over) if count > 1]
            return f"{name} {' '.join(parts) or '-'}"

        both = any(r > 1 and c > 1 for r, c in zip(self.rows, self.columns))
        return " ".join([
            "x".join(map(str, self.block)), spread("rows", self.rows), spread("columns", self.columns),
            *([f"{self.outer} first"] if both else []), ">".join(self.order),
            f"A:{self.a[0]} {self.a[1]}", f"B:{self.b[0]} {self.b[1]}", f"*{self.slots}",
            *(["stores apart"] if self.outputs > 1 else []), *([f"from {self.lead}"] if self.lead else []),
        ])

    def to_json(self) -> str:
        """Canonical JSON text; :meth:`from_json` gives the equal plan."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Plan":
        """The plan written by :meth:`to_json`; MappingError for anything else."""
        try:
            return _from_fields(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MappingError(f"expected the JSON form of a plan, found {text[:80]!r}: {error}") from error


def _from_fields(fields: Mapping[str, Any]) -> Plan:
    if set(fields) != set(Plan.__dataclass_fields__):
        raise ValueError(f"fields {sorted(fields)} instead of {sorted(Plan.__dataclass_fields__)}")
    for name, valid in (("outer", ("rows", "columns")), ("order", ("mn", "nm"))):
        if fields[name] not in valid:
            raise ValueError(f"{name} {fields[name]!r} is none of {', '.join(valid)}")
    for name in ("a", "b"):
        pattern, level = fields[name]
        if pattern not in PATTERNS or level not in LEVELS:
            raise ValueError(f"{name}: {pattern!r}, {level!r} must be a pattern and a level")
    triples = {name: tuple(int(v) for v in fields[name]) for name in ("block", "rows", "columns")}
    slots, outputs, lead = (int(fields[name]) for name in ("slots", "outputs", "lead"))
    if any(len(t) != 3 for t in triples.values()) or min(slots, *(v for t in triples.values() for v in t)) < 1:
        raise ValueError("block, rows and columns must be three numbers of at least 1, slots at least 1")
    if outputs not in OUTPUTS or lead < 0:
        raise ValueError(f"outputs must be one of {OUTPUTS}, not {outputs}, and lead at least 0, not {lead}")
    ways = {name: tuple(fields[name]) for name in ("a", "b")}
    return Plan(
        **triples, **ways,  # type: ignore[arg-type]
        outer=fields["outer"], order=fields["order"], slots=slots, outputs=outputs, lead=lead)
