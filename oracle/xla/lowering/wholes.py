"""What has no index notation, computed of whole tensors: sort, gather, scatter, while, dynamic slices and their like.

Such an operator is one array for all iterations of the loops that its operands depend on, whose elements the rest of
the program refers to. The iterations are computed at once by ``jax.vmap``, or, where that might change what is
computed, one after the other by ``jax.lax.map``.

In instructions that stay in loops, such an operator (or one of the family ``opaque``, or a sum of floats in an order of
its own) makes whole arrays of all it is computed of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from archloom.oracle.late_jax import jax, jnp, lax
from archloom.oracle.resolved import Op, ResolvedInstr, ResolvedRegion, Write
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.xla.lowering.views import Spreading
from archloom.oracle.xla.notation.expr import Operand, Whole, over
from archloom.oracle.xla.notation.fallbacks import How, Record

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


def computed(lowering: Spreading, whole: Whole) -> tuple[Any, ...]:
    """The results, each with an axis for each parameter before its own axes."""
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
        return tuple(jnp.broadcast_to(r, (*extents, *r.shape)) for r in one(({},)))
    if function.in_turn:
        lowering.record.add(How.IN_TURN, function.title, function.in_turn, points)
    results = lax.map(one, point) if function.in_turn else jax.vmap(one)(point)
    return tuple(r.reshape(*extents, *r.shape[1:]) for r in results)


def _operand(lowering: Spreading, whole: Whole, operand: Operand) -> tuple[Any, bool]:
    """An operand's array, and whether it has a row for each point of the parameters."""
    shape = tuple(n for _, n in operand.axes)
    axes, names = (tuple(a for a, _ in pairs) for pairs in (operand.axes, whole.parameters))
    ranges = over((*whole.parameters, *operand.axes), {})
    found = lowering.spread(operand.body, ranges)
    if not any(n in found.names for n in names):
        return jnp.broadcast_to(found.expand(axes), shape), False
    extents = tuple(n for _, n in whole.parameters)
    array = jnp.broadcast_to(found.expand((*names, *axes)), (*extents, *shape))
    return array.reshape(math.prod(extents), *shape), True


def _values(whole: Whole) -> dict[str, Any]:
    """The values of the parameters that the function takes, at all points."""
    extents = [n for _, n in whole.parameters]
    grids = np.indices(extents, np.int32).reshape(len(extents), -1)
    return {v: grid for (v, _), grid in zip(whole.parameters, grids, strict=True) if v in whole.function.variables}


def compute(instr: ResolvedInstr, name: str, tensors: dict[str, Any]) -> Any:
    """The tensor ``name`` of an instruction as a carrier; ``tensors`` has what was read, and keeps what is made."""
    if name in tensors:
        return tensors[name]
    types = {s.dst: s.type.dtype for s in instr.statements if not isinstance(s, Write)}
    needed, waiting = set[str](), [name]
    definitions = {s.dst: s for s in instr.statements if isinstance(s, Op)}
    while waiting:
        wanted = waiting.pop()
        if wanted not in needed and wanted not in tensors:
            needed.add(wanted)
            waiting += definitions[wanted].operands
    for s in instr.statements:
        if isinstance(s, Op) and s.dst in needed:
            tensors[s.dst] = apply(s, tensors, types)
    return tensors[name]


def apply(s: Op, tensors: Mapping[str, Any], types: Mapping[str, str]) -> Any:
    """One operator applied to the arrays of its operands."""
    attributes = {k: _Function(v) if isinstance(v, ResolvedRegion) else v for k, v in s.attributes}
    operands = [jnp.asarray(tensors[o]) for o in s.operands]
    return OPCODES[s.opcode].lowering(s.type, operands, attributes, [types[o] for o in s.operands])


@dataclass(frozen=True)
class _Function:
    """A region as a function of carriers."""

    region: ResolvedRegion

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        r = self.region
        tensors = dict(zip((name for name, _ in r.inputs), inputs, strict=True))
        types = {name: kind.dtype for name, kind in r.inputs}
        for s in r.statements:
            types[s.dst] = s.type.dtype
            tensors[s.dst] = apply(s, tensors, types)
        return tuple(tensors[name] for name in r.results)
