"""The meaning of HLO's operators as JAX functions, from the table of :mod:`archloom.oracle.taidl.operators`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.late_jax import lax
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.operators.base import Shaped
from archloom.oracle.taidl.operators.carriers import carrier_dtype as jax_dtype
from archloom.oracle.taidl.operators.carriers import constant
from archloom.oracle.taidl.operators.conversion import convert as converted
from archloom.oracle.taidl.types import element_type
from archloom.oracle.xla.notation.expr import Const, Expr, Map

__all__ = ["ELEMENTWISE", "NUMPY", "bitcast", "constant", "convert", "elementwise", "jax_dtype", "known"]

NUMPY = {"i1": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
         "f16": "float16", "bf16": "bfloat16", "f32": "float32"}
"""NumPy's (JAX's) names of the element types that lie in HBM as JAX holds them, without 64-bit mode."""

ELEMENTWISE = frozenset(name for name, op in OPCODES.items() if op.family == "elementwise")
"""The operators that are maps of elements."""


def convert(x: Any, source: str, dtype: str) -> Any:
    """``x`` in another type, as TAIDL's ``convert``."""
    return converted(x, element_type(source), element_type(dtype))


def bitcast(x: Any, dtype: str) -> Any:
    """The bits of ``x`` as another type of 8 bits and more; wider types join the last axis, narrower ones add one."""
    return lax.bitcast_convert_type(x, jax_dtype(dtype))


def elementwise(
    opcode: str, operands: Sequence[Any], attributes: tuple[tuple[str, object], ...], dtype: str,
    types: Sequence[str],
) -> Any:
    """Apply an operation to arrays of element types ``types`` that broadcast against each other."""
    named: Mapping[str, Any] = dict(attributes)
    return OPCODES[opcode].lowering(Shaped((), dtype), list(operands), named, types)


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
