"""Two products with an activation between them, ``C = activation(A . W1 + bias1) . W2 + bias2 + residual``: workload,
plan and bounds. Biases and the residual may be missing.

The block in the middle never goes to memory. Cores that form a *team*, a rectangle of the mesh, work on the same rows:
each makes a part of the hidden columns, applies the activation, and hands its part over the network to the others of
its team, so that each has the rows whole in its L1; then each makes a part of the columns of C. A team of one core
keeps everything to itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.mesh.vector import UNARY
from archloom.mapper.spatial.arrays import check_arrays, from_tiles, packed
from archloom.mapper.spatial.epilogue import ACTIVATIONS, Epilogue
from archloom.mapper.spatial.machines.machine import SIDE, Machine
from archloom.mapper.spatial.plan import ChainPlan, Sent
from archloom.mapper.spatial.space import DEPTHS, Columns, Table, crossed, joined, pairs, sizes
from archloom.oracle.errors import MappingError

SLOTS = 2
"""Blocks of streamed weights, and of sums where they fit, in a core."""

PATTERNS: tuple[Sent, ...] = get_args(Sent)

Number: TypeAlias = Any
"""An integer, or a column of them."""


@dataclass(frozen=True)
class Chain:
    """``m`` rows of ``k`` numbers become ``hidden`` and then ``n`` numbers, with ``activation`` between (None: none).

    ``biases``: whether a number is added to each column of the first product, before the activation, and of the second;
    ``residual``: whether a tensor of the result's shape is added to that.

    MappingError for extents below 1 and for an activation that the vector unit does not have.
    """

    m: int
    k: int
    hidden: int
    n: int
    activation: str | None = "gelu"
    biases: tuple[bool, bool] = (False, False)
    residual: bool = False

    def __post_init__(self) -> None:
        if min(self.m, self.k, self.hidden, self.n) < 1:
            raise MappingError(f"{self}: every extent must be at least 1")
        if self.activation is not None and self.activation not in ACTIVATIONS:
            raise MappingError(f"activation {self.activation!r}: expected one of {', '.join(ACTIVATIONS)}, or none")

    @property
    def tiles(self) -> tuple[int, int, int, int]:
        """Tiles along m, k, hidden and n."""
        m, k, hidden, n = (-(-extent // SIDE) for extent in (self.m, self.k, self.hidden, self.n))
        return m, k, hidden, n

    @property
    def products(self) -> int:
        """Multiplications of both products."""
        return self.m * self.hidden * (self.k + self.n)

    @property
    def ends(self) -> tuple[Epilogue, Epilogue]:
        """What is added to the sums of each product, without the activation."""
        return Epilogue(bias=self.biases[0]), Epilogue(bias=self.biases[1], residual=self.residual)

    @property
    def passes(self) -> int:
        """Passes of the vector unit over the hidden block: bias, activation, and its sums as tiles of 16 bits."""
        return self.ends[0].passes + 1 + (UNARY[ACTIVATIONS[self.activation]] if self.activation else 0)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the operands as arrays, in elements."""
        found: dict[str, tuple[int, ...]] = {
            "A": (self.m, self.k), "W1": (self.k, self.hidden), "W2": (self.hidden, self.n)}
        for name, there, extent in zip(("bias1", "bias2"), self.biases, (self.hidden, self.n)):
            if there:
                found[name] = (extent,)
        return found | ({"residual": (self.m, self.n)} if self.residual else {})

    def tensors(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes in memory of all operands, the result C the last."""
        def tiles(shape: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(-(-extent // SIDE) for extent in shape) + (SIDE,) * len(shape)

        operands = tuple((name, tiles(shape)) for name, shape in self.shapes().items())
        return (*operands, ("C", tiles((self.m, self.n))))

    def pack(self, arrays: Mapping[str, NDArray[np.float16]]) -> dict[str, NDArray[np.float16]]:
        """The operands as they lie in memory; MappingError for other names or shapes than :meth:`shapes`."""
        return {name: tiles[0] for name, tiles in packed(check_arrays(self.shapes(), arrays)).items()}

    def unpack(self, result: NDArray[np.float16]) -> NDArray[np.float16]:
        """The result ``(m, n)`` from its tiles."""
        return from_tiles(result[None], (self.m, self.n))[0]


def needs(
    chain: Chain, block: tuple[Number, Number, Number, Number], team: Number, kept: Number, together: Number
) -> tuple[Any, Any]:
    """Tiles of operands, and of sums, that a core needs (of columns of plans, too)."""
    _, k, hidden, n = chain.tiles
    bm, bh, bn, bk = block
    rounds = -(-hidden // (bh * team)), -(-n // (bn * team))
    stay = rounds[0] * bh * k + rounds[1] * bn * hidden
    weights = np.where(kept, stay, SLOTS * np.maximum(np.minimum(bk, k) * bh, together * bh * bn))
    return bm * (k + hidden) + weights + SLOTS * beside(chain, block), bm * np.maximum(bh, bn)


def beside(chain: Chain, block: tuple[Number, Number, Number, Number]) -> Any:
    """Tiles of biases and of the residual for a block of either product."""
    bm, bh, bn, _ = block
    first, second = chain.ends
    return np.maximum(first.block(bm, bh), second.block(bm, bn))


def footprint(chain: Chain, plan: ChainPlan) -> tuple[int, int]:
    """What a plan needs in a core, as :func:`needs` lists it."""
    tiles, sums = needs(chain, plan.block, plan.team, plan.weights[1] == "keep", plan.together)
    return int(tiles), int(sums)


def check(chain: Chain, plan: ChainPlan, machine: Machine) -> None:
    """MappingError that names every bound which the plan breaks."""
    plan.check(chain, faults_of(chain, plan, machine))


def faults_of(chain: Chain, plan: ChainPlan, machine: Machine) -> Iterator[str]:
    """Every bound which the plan breaks."""
    yield from machine.misfits(math.prod(plan.rows), math.prod(plan.columns))
    if plan.together > 1 and plan.block[0] > 1:
        yield f"steps of {plan.together} blocks of hidden columns need blocks of one row of tiles, not {plan.block[0]}"
    pattern = plan.weights[0]
    if pattern in ("down", "across") and plan.team > 1:
        yield f"weights go to all cores ({pattern}), but the {plan.team} members of a team use different ones"
    yield from machine.shortages(*footprint(chain, plan))


NAMES = ("bm", "bh", "bn", "bk", "rm", "rt", "cm", "ct", "way", "keep", "shared", "together")


TOGETHER = (1, 2, 4, 8, 16)
"""Blocks of hidden columns in a step of the second product."""


def chain_space(chain: Chain, machine: Machine) -> Table[ChainPlan]:
    """All candidates that fit the machine, by all ways to spread rows and teams over the mesh, all useful blocks and
    all patterns of weights; those that leave cores without work only if there are no others.

    Columns: the block ``bm``, ``bh``, ``bn``, ``bk``; cores along rows (``rm``, ``rt``) and columns (``cm``, ``ct``)
    over which rows of A and members of teams are spread; ``way`` (index into the patterns), ``keep``, ``shared`` and
    ``together``."""
    spreads = [
        (rows, columns) for rows in pairs(machine.rows) for columns in pairs(machine.columns)
        if machine.rows != machine.columns or rows >= columns
    ]
    m, _, hidden, n = chain.tiles
    busy = [(r, c) for r, c in spreads if r[0] * c[0] <= m and r[1] * c[1] <= max(hidden, n)]
    parts = [_candidates(chain, machine, rows, columns) for rows, columns in busy or spreads]
    return Table(joined(parts, NAMES), lambda c: ChainPlan(
        (c["bm"], c["bh"], c["bn"], c["bk"]), (c["rm"], c["rt"]), (c["cm"], c["ct"]),
        (PATTERNS[c["way"]], "keep" if c["keep"] else "stream"), bool(c["shared"]), c["together"]))


def _candidates(chain: Chain, machine: Machine, rows: tuple[int, int], columns: tuple[int, int]) -> Columns:
    m, k, hidden, n = chain.tiles
    places, team = rows[0] * columns[0], rows[1] * columns[1]
    blocks = [
        (bm, bh, bn) for bm in sizes(m, places) for bh in sizes(hidden, team) for bn in sizes(n, team)
        if bm * max(bh, bn) <= machine.sums
    ]
    c = crossed({
        ("bm", "bh", "bn"): blocks, ("bk",): [(d,) for d in sorted({d for d in DEPTHS if d < k} | {k})],
        ("way",): [(PATTERNS.index(way),) for way in _ways(rows[0], columns[0], team)],
        ("keep",): [(0,), (1,)], ("shared",): [(0,), (1,)] if team > 1 else [(0,)],
        ("together",): [(t,) for t in TOGETHER],
    })
    for name, value in zip(("rm", "rt", "cm", "ct"), (*rows, *columns)):
        c[name] = np.full(len(c["bm"]), value)
    tiles, sums = needs(chain, (c["bm"], c["bh"], c["bn"], c["bk"]), team, c["keep"] == 1, c["together"])
    again = -(-m // (c["bm"] * places)) > 1
    chosen = (tiles <= machine.tiles) & (sums <= machine.sums) & ((c["keep"] == 0) | again)
    chosen &= (c["together"] == 1) | ((c["bm"] == 1) & (c["together"] * c["bh"] <= hidden))
    return {name: c[name][chosen] for name in NAMES}


def _ways(rows: int, columns: int, team: int) -> Iterator[str]:
    """Patterns for weights that ``rows`` x ``columns`` teams use."""
    yield "none"
    yield from ["column"] * (rows > 1) + ["row"] * (columns > 1)
    yield from ["down", "across"] * (team == 1 and rows > 1 and columns > 1)
