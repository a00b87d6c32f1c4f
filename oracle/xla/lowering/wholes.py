"""What has no index notation, computed of whole tensors: sort, gather, scatter, while, dynamic slices and their like.

Such an operator is one array for all iterations of the loops that its operands depend on, whose elements the rest of
the program refers to. The iterations are computed at once by ``jax.vmap``, or, where that might change what is
computed, one after the other by ``jax.lax.map``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from archloom.oracle.resolved import Op
from archloom.oracle.xla.lowering.direct import apply
from archloom.oracle.xla.notation.expr import Operand, Whole
from archloom.oracle.xla.notation.fallbacks import How, Record

if TYPE_CHECKING:
    from archloom.oracle.xla.lowering.lower import Lowering

NEST = "loops"
"""The operator of instructions that stand for loops (:mod:`archloom.oracle.xla.loops.outlining`); its attribute
``nest`` is the function."""

@dataclass(frozen=True)
class Operator:
    """An operator of the table; ``op`` has numbers for the names of its operands, which are of element types ``types``.
    """

    op: Op
    types: tuple[str, ...]

    @staticmethod
    def of(s: Op, types: tuple[str, ...]) -> "Operator":
        return Operator(replace(s, dst="", operands=tuple(str(n) for n in range(len(types)))), types)

    @property
    def variables(self) -> tuple[str, ...]:
        return ()

    @property
    def in_turn(self) -> str:
        return "JAX does not know how to batch functions from outside" if self.op.opcode == "custom_call" else ""

    @property
    def title(self) -> str:
        return f"{self.op.opcode} {'x'.join(map(str, self.op.type.shape)) or 'scalar'}"

    def __call__(self, operands: Sequence[Any], values: Mapping[str, Any], record: Record) -> tuple[Any, ...]:
        names = self.op.operands
        return (apply(self.op, dict(zip(names, operands, strict=True)), dict(zip(names, self.types, strict=True))),)


def computed(lowering: "Lowering", whole: Whole) -> tuple[Any, ...]:
    """The results, each with an axis for each parameter before its own axes."""
    import jax
    from jax import lax

    extents = tuple(n for _, n in whole.parameters)
    points, function = math.prod(extents), whole.function
    lowering.record.operations.append((f"{points} x " if points > 1 else "") + function.title)
    fixed: dict[int, Any] = {}
    moving: list[Any] = []
    places: list[int] = []
    for number, operand in enumerate(whole.operands):
        array, depends = _operand(lowering, whole, operand)
        if depends:
            moving.append(array)
            places.append(number)
        else:
            fixed[number] = array

    def one(point: tuple[Any, ...]) -> tuple[Any, ...]:
        *arrays, values = point
        given = {**fixed, **dict(zip(places, arrays, strict=True))}
        return function([given[n] for n in range(len(whole.operands))], values, lowering.record)

    if not extents:
        return one(({},))
    point = (*moving, _values(whole))
    if not moving and not point[-1]:  # the same for all iterations
        import jax.numpy as jnp

        return tuple(jnp.broadcast_to(r, (*extents, *r.shape)) for r in one(({},)))
    if function.in_turn:
        lowering.record.add(How.IN_TURN, function.title, function.in_turn, points)
    results = lax.map(one, point) if function.in_turn else jax.vmap(one)(point)
    return tuple(r.reshape(*extents, *r.shape[1:]) for r in results)


def _operand(lowering: "Lowering", whole: Whole, operand: Operand) -> tuple[Any, bool]:
    """An operand's array, and whether it has a row for each point of the parameters."""
    import jax.numpy as jnp

    shape = tuple(n for _, n in operand.axes)
    axes, names = (tuple(a for a, _ in pairs) for pairs in (operand.axes, whole.parameters))
    ranges = {name: (0, n - 1) for name, n in (*whole.parameters, *operand.axes)}
    found = lowering.spread(operand.body, ranges)
    if not any(n in found.names for n in names):
        return jnp.broadcast_to(found.expand(axes), shape), False
    extents = tuple(n for _, n in whole.parameters)
    array = jnp.broadcast_to(found.expand((*names, *axes)), (*extents, *shape))
    return array.reshape(math.prod(extents), *shape), True


def _values(whole: Whole) -> dict[str, Any]:
    """The values of the parameters that the function takes, at all points."""
    import numpy as np

    extents = [n for _, n in whole.parameters]
    grids = np.indices(extents, np.int32).reshape(len(extents), -1)
    return {v: grid for (v, _), grid in zip(whole.parameters, grids, strict=True) if v in whole.function.variables}
