"""The meaning of HLO's operators as JAX functions, from the table of :mod:`archloom.oracle.taidl.operators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from archloom.oracle.late_jax import lax
from archloom.oracle.resolved import TensorType
from archloom.oracle.taidl.operators import OPCODES, carriers
from archloom.oracle.taidl.operators.carriers import carrier_dtype as jax_dtype
from archloom.oracle.taidl.operators.carriers import constant
from archloom.oracle.taidl.operators.conversion import converted
from archloom.oracle.xla.notation.expr import Const, Expr, Map

__all__ = ["ELEMENTWISE", "NUMPY", "bitcast", "constant", "convert", "elementwise", "jax_dtype", "known"]

NUMPY = {"i1": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
         "f16": "float16", "bf16": "bfloat16", "f32": "float32"}
"""NumPy's (JAX's) names of the element types that lie in HBM as JAX holds them, without 64-bit mode."""

ELEMENTWISE = frozenset(name for name, op in OPCODES.items() if op.family == "elementwise")
"""The operators that are maps of elements."""


convert: Callable[[Any, str, str], Any] = partial(converted, carriers)
"""``convert(x, source, dtype)``: in another type, as TAIDL's operator of that name."""


def bitcast(x: Any, dtype: str) -> Any:
    """The bits of ``x`` as another type of 8 bits and more; wider types join the last axis, narrower ones add one."""
    return lax.bitcast_convert_type(x, jax_dtype(dtype))


def elementwise(
    opcode: str, operands: Sequence[Any], attributes: tuple[tuple[str, object], ...], dtype: str,
    types: Sequence[str],
) -> Any:
    """Apply an operation to arrays of element types ``types`` that broadcast against each other."""
    named: Mapping[str, Any] = dict(attributes)
    return OPCODES[opcode].lowering(TensorType((), dtype), list(operands), named, types)


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
    types = [o.dtype for o in e.operands]
    with np.errstate(all="ignore"):
        return np.asarray(OPCODES[e.opcode].kernel(TensorType((), e.dtype), operands, dict(e.attributes), types))
