"""Functions of torch, imported and run, beside torch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from archloom.tvm_backend.frontends.load import load
from tests.support.tvm_backend.networks import executable
from tests.support.tvm_backend.reference import ReferenceExecutor


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def same(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Any:
    """Demand that an imported function gives what torch gives, in its shape and type; its model."""
    model = load(Of(function), example_inputs=inputs)
    names = [spec.name for spec in model.inputs]
    found = executable(model).run(
        {n: x.numpy() for n, x in zip(names, inputs, strict=True)}, executor=ReferenceExecutor())
    (result,) = found.values()
    expected = function(*inputs).numpy()
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result, expected, rtol=2e-4, atol=1e-5)
    return model


def random(*shape: int) -> torch.Tensor:
    """Normally distributed numbers, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))
