"""Normalizations and GELU that are written out in arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import archloom
from archloom.tvm_backend.ir import expressions
from archloom.tvm_backend.passes.composites import fuse_composites
from tests.support.examples import slow


class Rms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 2, 12))
        self.shift = nn.Parameter(torch.linspace(3, -2, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3))


class Layer(Rms):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x - x.mean(-1, keepdim=True)
        return y / torch.sqrt((y**2).mean(-1, keepdim=True) + 1e-2) * self.weight + self.shift


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


class OtherMean(Rms):
    """The mean is of other numbers than those that are divided."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt((x + 1).pow(2).mean(-1, keepdim=True) + 1e-3))


@pytest.mark.parametrize(("network", "operator"), [
    slow(Rms(), "nn.rms_norm"), (Layer(), "nn.layer_norm"), slow(Gelu(), "nn.gelu_tanh"), (OtherMean(), None)])
def test_one_operator_with_the_same_numbers(network: nn.Module, operator: str | None) -> None:
    x = torch.randn(3, 12)
    model = archloom.load(network.eval(), example_inputs=x)
    names = [expressions.op_name(b.value) for b in expressions.bindings(fuse_composites(model.module)["main"])]
    assert [n for n in names if n] == [operator] if operator else "nn.rms_norm" not in names
    compiled = archloom.compile(model, "mesh", {"x": 1, "y": 1})
    expected = network(x).detach().numpy()
    assert np.abs(compiled(x) - expected).max() <= 3e-3 * np.abs(expected).max()
    layers = [layer.op for layer in compiled.report.accelerator_layers]
    if operator:
        assert layers == [operator.removeprefix("nn.").removesuffix("_tanh")] and not compiled.report.host
