"""Parameters of Relax functions that tests write by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from archloom.tvm_backend.ir.compat import relax, tvm


def symbolic(name: str) -> Any:
    """A dimension without a number."""
    return tvm.tirx.Var(name, "int64")


def parameter(name: str, shape: Sequence[Any], dtype: str) -> relax.Var:
    """A function parameter: a tensor."""
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def bound(module: Any, **parameters: np.ndarray) -> Any:
    """The module with parameters of ``main`` as constants."""
    arrays = {name: tvm.runtime.tensor(array) for name, array in parameters.items()}
    return relax.transform.BindParams("main", arrays)(module)
