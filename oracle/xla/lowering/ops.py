"""The meaning of HLO's operators as JAX functions, from the table of :mod:`archloom.oracle.taidl.operators`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.operators.base import Shaped
from archloom.oracle.taidl.operators.carriers import carrier_dtype, constant, uncontracted
from archloom.oracle.taidl.operators.conversion import convert as converted
from archloom.oracle.taidl.types import element_type

__all__ = ["ELEMENTWISE", "NUMPY", "bitcast", "constant", "convert", "elementwise", "jax_dtype", "uncontracted"]

NUMPY = {"i1": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
         "f16": "float16", "bf16": "bfloat16", "f32": "float32"}
"""NumPy's (JAX's) names of the element types that lie in HBM as JAX holds them, without 64-bit mode."""

ELEMENTWISE = frozenset(name for name, op in OPCODES.items() if op.family == "elementwise")
"""The operators that are maps of elements."""


def jax_dtype(dtype: str) -> np.dtype[Any]:
    """What JAX holds elements of a TAIDL type in (:mod:`archloom.oracle.taidl.operators.carriers`)."""
    return carrier_dtype(dtype)


def convert(x: Any, source: str, dtype: str) -> Any:
    """``x`` in another type, as TAIDL's ``convert``."""
    return converted(x, element_type(source), element_type(dtype))


def bitcast(x: Any, dtype: str) -> Any:
    """The bits of ``x`` as another type of 8 bits and more; wider types join the last axis, narrower ones add one."""
    from jax import lax

    return lax.bitcast_convert_type(x, jax_dtype(dtype))


def elementwise(
    opcode: str, operands: Sequence[Any], attributes: tuple[tuple[str, object], ...], dtype: str,
    types: Sequence[str],
) -> Any:
    """Apply an operation to arrays of element types ``types`` that broadcast against each other."""
    named: Mapping[str, Any] = dict(attributes)
    return OPCODES[opcode].lowering(Shaped((), dtype), list(operands), named, types)
