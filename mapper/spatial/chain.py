"""Two products with an activation between them, ``C = activation(A . W1 + bias1) . W2 + bias2 + residual``: workload,
plan and bounds. Biases and the residual may be missing.

The block in the middle never goes to memory. Cores that form a *team*, a rectangle of the mesh, work on the same rows:
each makes a part of the hidden columns, applies the activation, and hands its part over the network to the others of
its team, so that each has the rows whole in its L1; then each makes a part of the columns of C. A team of one core
keeps everything to itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.mesh.vector import UNARY
from archloom.mapper.spatial.arrays import check_arrays, from_tiles, in_tiles, to_tiles
from archloom.mapper.spatial.epilogue import ACTIVATIONS, Epilogue
from archloom.mapper.spatial.machine import SIDE, Machine
from archloom.mapper.spatial.plan import LEVELS, Level, Pattern
from archloom.oracle.errors import MappingError

SLOTS = 2
"""Blocks of streamed weights, and of sums where they fit, in a core."""

PATTERNS: tuple[Pattern, ...] = ("none", "row", "column", "down", "across")

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
        given = check_arrays(self.shapes(), arrays)
        return {name: (to_tiles(array[None]) if array.ndim == 2 else in_tiles(array[None]))[0]
                for name, array in given.items()}

    def unpack(self, result: NDArray[np.float16]) -> NDArray[np.float16]:
        """The result ``(m, n)`` from its tiles."""
        return from_tiles(result[None], (self.m, self.n))[0]


@dataclass(frozen=True, order=True)
class ChainPlan:
    """``block``: tiles of rows, of hidden columns, of columns of C, and of k, that a core works on at a time.

    ``rows``, ``columns``: over how many cores along each dimension of the mesh rows of A, and the members of a team,
    are spread. ``weights``: how those reach the cores that use the same, and whether they stay for the next rows.
    ``shared``: whether the rows of A are loaded once for the members of a team in a row (or in its column).
    ``together``: how many blocks of hidden columns a step of the second product takes; more than one only of a single
    row of tiles, where they lie one after the other.
    """

    block: tuple[int, int, int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    weights: tuple[Pattern, Level]
    shared: bool
    together: int = 1

    @property
    def team(self) -> int:
        """Cores that work on the same rows."""
        return self.rows[1] * self.columns[1]

    @property
    def places(self) -> int:
        """Teams."""
        return self.rows[0] * self.columns[0]

    def __str__(self) -> str:
        """One line, such as ``4x12x3x8 rows m8 columns t8 W:column stream A:shared``."""
        def spread(name: str, over: tuple[int, int]) -> str:
            return f"{name} " + (" ".join(f"{x}{n}" for x, n in zip("mt", over) if n > 1) or "-")

        return (f"{'x'.join(map(str, self.block))} {spread('rows', self.rows)} {spread('columns', self.columns)} "
                f"W:{' '.join(self.weights)} A:{'shared' if self.shared else 'none'}"
                + (f" *{self.together}" if self.together > 1 else ""))

    def to_json(self) -> str:
        """Canonical JSON text; :meth:`from_json` gives the equal plan."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "ChainPlan":
        """The plan written by :meth:`to_json`; MappingError for anything else."""
        try:
            fields = json.loads(text)
            block, rows, columns = (tuple(int(v) for v in fields[name]) for name in ("block", "rows", "columns"))
            pattern, level = fields["weights"]
            together = int(fields["together"])
            if (len(block), len(rows), len(columns)) != (4, 2, 2) or min(*block, *rows, *columns, together) < 1:
                raise ValueError("expected a block of four and spreads of two numbers of at least 1")
            if pattern not in PATTERNS or level not in LEVELS or not isinstance(fields["shared"], bool):
                raise ValueError("expected a pattern and a level of weights, and whether A is shared")
            return ChainPlan(block, rows, columns, (pattern, level), fields["shared"], together)  # type: ignore[arg-type]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MappingError(f"expected the JSON of a plan of a chain, found {text[:80]!r}: {error}") from error


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
    faults = faults_of(chain, plan, machine)
    if faults:
        raise MappingError(faults)


def faults_of(chain: Chain, plan: ChainPlan, machine: Machine) -> str:
    """Every bound which the plan breaks; nothing if there is none."""
    faults = list(_faults(chain, plan, machine))
    return f"plan {plan} for {chain}: " + "; ".join(faults) if faults else ""


def _faults(chain: Chain, plan: ChainPlan, machine: Machine) -> Iterator[str]:
    for name, over, extent in (("rows", plan.rows, machine.rows), ("columns", plan.columns, machine.columns)):
        if over[0] * over[1] != extent:
            yield f"it spreads loops over {over[0] * over[1]} {name}, of which there are {extent}"
    if plan.together > 1 and plan.block[0] > 1:
        yield f"steps of {plan.together} blocks of hidden columns need blocks of one row of tiles, not {plan.block[0]}"
    pattern = plan.weights[0]
    if pattern in ("down", "across") and plan.team > 1:
        yield f"weights go to all cores ({pattern}), but the {plan.team} members of a team use different ones"
    for what, needed, held in zip(("tiles of operands", "sums"), footprint(chain, plan), (machine.tiles, machine.sums)):
        if needed > held:
            yield f"it needs {needed} {what} in a core, which holds {held}"
