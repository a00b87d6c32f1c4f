"""Factors of dense layers go into their weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import archloom
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.compat import ensure_dataflow
from archloom.tvm_backend.passes.weights import fold_scales
from tests.support.examples import slow


class Scaled(nn.Module):
    """A dense layer of heads, ``factor`` times; ``shown``: what is multiplied is a result, too."""

    def __init__(self, bias: bool, shown: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.shown = nn.Linear(16, 24, bias=bias), shown

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        y = self.layer(x).view(2, 5, 4, 6).transpose(1, 2)
        scaled = 0.3 * y
        return (scaled, y) if self.shown else scaled


@pytest.mark.slow
@pytest.mark.parametrize(("bias", "shown"), [slow(True, False), (False, True), slow(False, False), slow(True, True)])
def test_a_factor_goes_into_the_weights_where_nothing_else_reads_the_layer(bias: bool, shown: bool) -> None:
    network, x = Scaled(bias, shown).eval(), torch.randn(2, 5, 16)
    module = fold_scales(ensure_dataflow(archloom.load(network, example_inputs=x).module))
    operators = [ir.op_name(b.value) for b in ir.bindings(module["main"])]
    assert operators.count("multiply") == shown and operators.count("matmul") == 1
    found, expected = archloom.compile(network, "mesh", {"x": 1, "y": 1}, example_inputs=x)(x), network(x)
    for one, other in zip(*((found, expected) if shown else ((found,), (expected,))), strict=True):
        assert np.abs(one - other.detach().numpy()).max() < 3e-3 * float(other.detach().abs().max())


@pytest.mark.slow
def test_a_tensor_is_no_factor() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 24)

        def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * gate

    inputs = torch.randn(3, 16), torch.randn(3, 24)
    module = ensure_dataflow(archloom.load(Gated().eval(), example_inputs=inputs).module)
    assert fold_scales(module) is module
