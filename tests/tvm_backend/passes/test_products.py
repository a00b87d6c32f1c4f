"""Convolutions and attention as products: the same numbers, all of them on a target that only multiplies matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import archloom
from archloom import load
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.host.network import jitted
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.passes.products import as_products
from archloom.tvm_backend.targets import registry
from tests.support.examples import slow
from tests.support.tvm_backend.networks import split


class Convolutions(nn.Module):
    """Every kind of convolution, each with its own way to use the result."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Conv2d(4, 6, 3, padding=1)
        self.strided = nn.Conv2d(6, 8, (3, 2), (2, 1), bias=False)
        self.grouped = nn.Conv2d(8, 12, 3, padding=(0, 1), groups=4, dilation=(1, 2))
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4)
        self.row = nn.Conv1d(4, 5, 3, stride=2, padding=1)
        self.grow = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.grow_groups = nn.ConvTranspose2d(4, 6, (2, 4), stride=(2, 3), groups=2)
        self.grow_row = nn.ConvTranspose1d(4, 2, 3, stride=2, dilation=2)
        self.weight = nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = self.plain(x)
        y = self.grouped(torch.relu(self.strided(torch.relu(first))))
        row = torch.relu(self.row(x.flatten(2)))
        grown = torch.relu(self.grow_row(x.flatten(2)))
        return first, y, self.depthwise(x), row, self.grow(x), self.grow_groups(x), grown, (
            first.transpose(1, 3) @ self.weight)


class Attention(nn.Module):
    """Attention with its own scale, with a mask, and causal."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mask = torch.arange(v.shape[2]) < 4
        attend = functional.scaled_dot_product_attention
        return attend(q, k, v, scale=0.3), attend(q, k, v, attn_mask=mask[None, None, None]), attend(
            k, k, v, is_causal=True)


def same(model: Model, *inputs: torch.Tensor) -> None:
    """The rewritten network gives the numbers of the network."""
    arrays = [x.numpy() for x in inputs]
    rewritten = as_products(model.module)["main"]
    names = {compat.op_name(b.value) for b in compat.bindings(rewritten)}
    assert not names & {"nn.conv2d", "nn.conv1d", "nn.conv2d_transpose", "nn.conv1d_transpose", "nn.attention",
                        "nn.attention_bias"}
    for found, expected in zip(jitted(rewritten)(arrays), jitted(model.module["main"])(arrays), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, slow(2)])
def test_convolutions(batch: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(batch, 4, 7, 6)
    model = load(Convolutions().eval(), example_inputs=x)
    same(model, x)
    part, _, _ = split(model, registry.get("qkv"))
    assert part.offloaded_macs_share == 1.0
    estimated = archloom.estimate(torch.export.export(Convolutions().eval(), (x,)), "qkv")  # read without TVM
    assert estimated.macs == estimated.offloaded_macs == part.macs
    fused = sorted(step.op for step in part.steps())
    assert fused == ["batch_matmul"] * 3 + ["dense"] * 3 + ["dense+bias"] + ["dense+bias+relu"] + ["dense+relu"]


def test_attention() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 4)
    model = load(Attention(), example_inputs=(q, k, v))
    same(model, q, k, v)
    part = partition_model(model, "qkv", {"sum_rows": 16})  # where attention has no room as a whole
    assert part.offloaded_macs_share == 1.0 and len(list(part.steps())) == 6
    part, _, _ = split(model, registry.get("qkv"))
    assert part.offloaded_macs_share == 1.0 and len(list(part.steps())) == 3
