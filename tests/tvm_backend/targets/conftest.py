"""A registry that forgets what a test registers, and modules of one convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Shape = tuple[int, ...]


@pytest.fixture(autouse=True)
def forgets(clean_registry: None) -> None:
    """Nothing that a test registers is known to the next one."""


@pytest.fixture(scope="session")
def conv2d_module() -> Any:
    """A Relax module with one convolution of ``data`` and ``weight``, both parameters of ``main``."""
    from archloom.tvm_backend.ir import compat
    from tests.support.tvm_backend.relax import parameter

    def make(data: Shape, weight: Shape, *, padding: Shape = (1, 1, 1, 1), strides: Shape = (1, 1), groups: int = 1
             ) -> Any:
        x, w = parameter("data", data, "float32"), parameter("weight", weight, "float32")
        call = compat.normalized(compat.relax_op("nn.conv2d")(
            x, w, strides=list(strides), padding=list(padding), groups=groups))
        y = compat.new_var("y", call)
        return compat.module_of(compat.make_function([x, w], [compat.bind(y, call)], [y]))

    return make


@pytest.fixture(scope="session")
def conv2d_reference() -> Any:
    """PyTorch's convolution on NumPy arrays."""
    import torch

    def run(x: np.ndarray, w: np.ndarray, **options: Any) -> np.ndarray:
        result: np.ndarray = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w), **options).numpy()
        return result

    return run
