"""Expressions of constants, computed where streams are lowered: what XLA would have to trace, lower and fold."""

from __future__ import annotations

from typing import Any

import numpy as np

from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.xla.lowering.ops import NUMPY, constant
from archloom.oracle.xla.notation.expr import Const, Expr, Map

_FOLDED = frozenset(NUMPY) - {"f16", "bf16"}
"""Element types that JAX holds as NumPy does."""


def known(e: Expr) -> Any:
    """The value of an expression of constants, as the interpreter computes it, as an array of shape (); None of others.

    No cache by expression: 0.0 and -0.0 are equal, and are not the same constant.
    """
    if e.dtype not in _FOLDED:
        return None
    if isinstance(e, Const):
        return np.asarray(constant(e.value, e.dtype))
    if not isinstance(e, Map):
        return None
    operands = []
    for o in e.operands:
        operands.append(known(o))
        if operands[-1] is None:
            return None
    attributes = dict(e.attributes, types=(e.dtype, *(o.dtype for o in e.operands)))
    with np.errstate(all="ignore"):
        return np.asarray(OPCODES[e.opcode].kernel((), np.dtype(NUMPY[e.dtype]), operands, attributes))
