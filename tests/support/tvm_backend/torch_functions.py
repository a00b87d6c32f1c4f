"""Functions of torch, imported and run, beside torch itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from archloom import load
from tests.support.tvm_backend.networks import executable
from tests.support.tvm_backend.reference import ReferenceExecutor


class Of(nn.Module):
    """Functions of the same arguments as a module, with a result for each."""

    def __init__(self, functions: Iterable[Callable[..., torch.Tensor]]) -> None:
        super().__init__()
        self.functions = tuple(functions)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(*inputs) for function in self.functions)


def same(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Any:
    """Demand that an imported function gives what torch gives, in its shape and type; its model."""
    return all_same({"": function}, *inputs)


def all_same(functions: Mapping[str, Callable[..., torch.Tensor]], *inputs: torch.Tensor) -> Any:
    """As `same`, of functions by their names that are imported and compiled as one network."""
    model = load(Of(functions.values()), example_inputs=inputs)
    names = [spec.name for spec in model.inputs]
    found = executable(model).run(
        {n: x.numpy() for n, x in zip(names, inputs, strict=True)}, executor=ReferenceExecutor())
    for (name, function), result in zip(functions.items(), found.values(), strict=True):
        expected = function(*inputs).numpy()
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype), name
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=1e-5, err_msg=name)
    return model


def random(*shape: int) -> torch.Tensor:
    """Normally distributed numbers, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))
