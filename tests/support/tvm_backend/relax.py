"""Parameters of Relax functions that tests write by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archloom.tvm_backend.ir.compat import Var, relax, tvm


def symbolic(name: str) -> Any:
    """A dimension without a number."""
    return tvm.tirx.Var(name, "int64")


def parameter(name: str, shape: Sequence[Any], dtype: str) -> Var:
    """A function parameter: a tensor."""
    return relax.Var(name, relax.TensorType(list(shape), dtype))
