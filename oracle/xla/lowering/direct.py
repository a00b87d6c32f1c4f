"""The tensors of one instruction computed as whole arrays, operator by operator, by the lowerings of the table.

For instructions with an operator that has no index notation (family ``opaque``, and sums of floats in an order of
their own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archloom.oracle.resolved import Op, ResolvedInstr, ResolvedRegion, Write
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.operators.base import Shaped


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
    import jax.numpy as jnp

    attributes = {k: _Function(v) if isinstance(v, ResolvedRegion) else v for k, v in s.attributes}
    operands = [jnp.asarray(tensors[o]) for o in s.operands]
    result = Shaped(s.type.shape, s.type.dtype)
    return OPCODES[s.opcode].lowering(result, operands, attributes, [types[o] for o in s.operands])


@dataclass(frozen=True)
class _Function:
    """A region as a function of carriers."""

    region: ResolvedRegion

    @property
    def name(self) -> str:
        return self.region.name

    def outputs(self, inputs: Sequence[Shaped]) -> tuple[Shaped, ...]:
        raise AssertionError("the types of a resolved region are known")

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        r = self.region
        tensors = dict(zip((name for name, _ in r.inputs), inputs, strict=True))
        types = {name: kind.dtype for name, kind in r.inputs}
        for s in r.statements:
            types[s.dst] = s.type.dtype
            tensors[s.dst] = apply(s, tensors, types)
        return tuple(tensors[name] for name in r.results)
