"""Modules without weights: estimates are those of the module with weights, and whoever needs weights says so."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import archloom
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.compile import compile_model
from archloom.tvm_backend.frontends.torch import weights
from archloom.tvm_backend.report.build import of_compiled
from tests.support.examples import examples

WIDTHS = st.sampled_from((8, 24, 136))
"""The square of the last is more than a weight's least size."""


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[int], list[str], bool]:
    """Widths of dense layers, what follows each, and whether the last one's weights are the first one's."""
    widths = draw(st.lists(WIDTHS, min_size=2, max_size=3))
    after = draw(st.lists(st.sampled_from(("ReLU", "GELU", "Identity", "norm")), min_size=len(widths),
                          max_size=len(widths)))
    return widths, after, draw(st.booleans())


def module_of(widths: list[int], after: list[str], tied: bool) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs, name in zip(widths, [*widths[1:], widths[0]], after, strict=True):
        layers += [nn.Linear(inputs, outputs), nn.LayerNorm(outputs) if name == "norm" else getattr(nn, name)()]
    if tied:
        layers += [nn.Linear(widths[0], widths[1])]
        layers[-1].weight = layers[0].weight
    return nn.Sequential(*layers).eval()


@pytest.mark.slow
@given(stacks(), st.sampled_from(("plasticine", "qkv", "gemmini")))
@examples(2, 40)
def test_estimates_are_those_with_weights(stack: tuple[list[int], list[str], bool], target: str) -> None:
    module = module_of(*stack)
    x = torch.zeros(4, stack[0][0])
    wanted = of_compiled(compile_model(archloom.load(module, (x,)), target))
    assert archloom.estimate(module, target, example_inputs=(x,)) == wanted
    with torch.device("meta"):
        bare, y = module_of(*stack), torch.empty(4, stack[0][0])
    assert archloom.estimate(bare, target, example_inputs=(y,)) == wanted
    assert not weights.are_known(bare) and weights.are_known(module)  # what exporting put in their place is gone


def test_what_no_machine_holds_is_read_but_not_built() -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(1 << 17, 1 << 16, bias=False), nn.Linear(1 << 16, 8))
    model = archloom.load(module, (torch.empty(1, 1 << 17),), name="huge")
    assert not model.has_weights
    assert archloom.coverage(model, "plasticine").macs == (1 << 33) + (1 << 19)
    for build in (archloom.compile, archloom.check):
        with pytest.raises(ModelError, match="huge: expected a network with its weights"):
            build(model, "plasticine")
