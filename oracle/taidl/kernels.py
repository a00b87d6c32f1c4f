"""What the operators compute in NumPy, by name (see :mod:`archloom.oracle.taidl.operators`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.operators.base import Array, Kernel
from archloom.oracle.taidl.types import numpy_dtype

__all__ = ["KERNELS", "Array", "Kernel", "numpy_dtype", "wrap"]

KERNELS: dict[str, Kernel] = {op.name: op.kernel for op in OPCODES.values()}
"""A kernel for each operator."""


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    """An integer reduced to the range of an integer type (two's complement)."""
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
