"""Layers of images on the host against torch: one module of many results, so that one compilation serves all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from archloom import load
from archloom.tvm_backend.host.network import jitted


class Layers(nn.Module):
    """Every layer that :mod:`archloom.tvm_backend.host.operators` computes, on one image of 4 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.grow = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.dilated = nn.ConvTranspose2d(4, 3, 2, stride=3, dilation=2)
        self.group = nn.GroupNorm(2, 4, eps=1e-3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "transposed": self.grow(x), "transposed, dilated": self.dilated(x), "group norm": self.group(x),
            "pool, ceil": functional.max_pool2d(x, 3, 2, ceil_mode=True),
            "pool, ceil, padded": functional.max_pool2d(x, 3, 3, padding=1, ceil_mode=True),
            "adaptive": functional.adaptive_avg_pool2d(x, (3, 2)),
            "nearest": functional.interpolate(x, size=(11, 4), mode="nearest"),
            "nearest, exact": functional.interpolate(x, size=(5, 9), mode="nearest-exact"),
            "nearest, scaled": functional.interpolate(x, scale_factor=1.7, mode="nearest"),
            "linear": functional.interpolate(x, size=(9, 12), mode="bilinear"),
            "corners": functional.interpolate(x, size=(13, 3), mode="bilinear", align_corners=True),
        }


def test_layers_equal_torch() -> None:
    torch.manual_seed(0)
    module, x = Layers().eval(), torch.randn(2, 4, 7, 8)
    with torch.no_grad():
        expected = module(x)
    model = load(module, example_inputs=x)
    found = jitted(model.module["main"])([x.numpy()])
    for (name, reference), y in zip(expected.items(), found, strict=True):
        np.testing.assert_allclose(np.asarray(y), reference.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_empty_tensors_are_left_out_of_a_concatenation() -> None:
    """As torch does; TVM 0.27 refuses them."""
    class Growing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([torch.tensor([]), x, x + 1], -2)

    x = torch.randn(2, 3)
    model = load(Growing(), example_inputs=x)
    np.testing.assert_array_equal(jitted(model.module["main"])([x.numpy()])[0], torch.cat([x, x + 1]).numpy())
