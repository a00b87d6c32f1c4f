"""What an instruction computes: scalar operations by operator and type, from its statements.

An element-wise operator works once for each element of its result; a product of matrices multiplies and adds once for
each element and each place along the contracted axes; a reduction works once for each element that it takes. Operators
that lay out or make tensors compute nothing. Numbers that were made wider on the way to an operator count as they were
before: the hardware multiplies the bytes, where the description multiplies their copies of 32 bits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedRegion, Statement, TensorType
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.types import element_type

Work = Counter[tuple[str, str]]
"""How often each (operator, element type) is computed."""

MOVES = frozenset((
    "reshape", "bitcast_convert", "broadcast", "broadcast_in_dim", "transpose", "slice", "concatenate", "pad",
    "constant", "iota", "reverse", "copy", "gather", "scatter", "dynamic_slice", "dynamic_update_slice", "bitcast",
    "get_dimension_size", "complex", "real", "imag", "all_gather", "all_to_all", "collective_broadcast",
    "collective_permute",
))
"""Operators that move numbers or only make them."""

_KEEP_VALUES = MOVES | {"convert"}


def work_of(instruction: ResolvedInstr) -> Work:
    """The scalar operations of one instance."""
    return _work(instruction.statements, {})


def _work(statements: Sequence[Statement], given: Mapping[str, TensorType]) -> Work:
    types, narrow, found = dict(given), {name: kind.dtype for name, kind in given.items()}, Work()
    for statement in statements:
        if isinstance(statement, Read):
            types[statement.dst], narrow[statement.dst] = statement.type, statement.type.dtype
        elif isinstance(statement, Op):
            found.update(_of_op(statement, types, narrow))
            types[statement.dst] = statement.type
            narrow[statement.dst] = _narrowest(statement, narrow)
    return found


def _narrowest(op: Op, narrow: Mapping[str, str]) -> str:
    """The type that holds the numbers of a result: the one before it was converted to a wider one."""
    own = op.type.dtype
    if op.opcode not in _KEEP_VALUES or not op.operands:
        return own
    before = narrow[op.operands[0]]
    kinds = {element_type(t).kind for t in (own, before)}
    wider = element_type(before).bits < element_type(own).bits
    return before if wider and (len(kinds) == 1 or kinds == {"int", "uint"}) else own


def _of_op(op: Op, types: Mapping[str, TensorType], narrow: Mapping[str, str]) -> Work:
    size = math.prod(op.type.shape)
    if op.opcode in MOVES or (op.opcode == "convert" and _narrowest(op, narrow) != op.type.dtype):
        return Work()  # more bits for the same integer are wires
    widest = max((narrow[name] for name in op.operands), key=lambda dtype: element_type(dtype).bits)
    if op.opcode == "dot_general":
        axes = op.attribute("lhs_contracting", ())
        assert isinstance(axes, tuple)
        products = size * math.prod(types[op.operands[0]].shape[axis] for axis in axes)
        return Work({("multiply", widest): products, ("add", op.type.dtype): products})
    if OPCODES[op.opcode].family == "reduction":
        return _reduction(op, types, size)
    return Work({(op.opcode, widest): size})


_FOLDS = {"add": "add", "max": "maximum", "min": "minimum", "mul": "multiply", "multiply": "multiply",
          "maximum": "maximum", "minimum": "minimum", "and": "and", "or": "or"}


def _reduction(op: Op, types: Mapping[str, TensorType], size: int) -> Work:
    """Of a reduction along axes, or of windows: each element that is taken is one operation."""
    kind = op.attribute("kind")
    window = op.attribute("size")
    taken = size * math.prod(map(int, window)) if isinstance(window, tuple) else math.prod(
        types[op.operands[0]].shape)
    if isinstance(kind, ResolvedRegion):
        scalar = _work(kind.statements, dict(kind.inputs))
        return Work({key: count * taken for key, count in scalar.items()})
    return Work({(_FOLDS.get(str(kind), str(kind)), op.type.dtype): taken})
