"""The residual networks of :mod:`archloom.models.resnet` as PyTorch modules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from archloom.models.resnet import BATCH_NORM_EPSILON, Block, Convolution, ResNet, blocks, stem, weights


class NormalizedConvolution(nn.Sequential):
    """Convolution and batch normalization."""

    def __init__(self, conv: Convolution) -> None:
        super().__init__(
            nn.Conv2d(conv.inputs, conv.outputs, conv.kernel, conv.stride, conv.padding, bias=False),
            nn.BatchNorm2d(conv.outputs, eps=BATCH_NORM_EPSILON),
        )
        self.spec = conv

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Take the weights of this convolution out of ``values``."""
        conv, norm = self[0], self[1]
        pairs = ((conv.weight, "weight"), (norm.weight, "scale"), (norm.bias, "shift"),
                 (norm.running_mean, "mean"), (norm.running_var, "var"))
        for tensor, part in pairs:
            tensor.data.copy_(torch.from_numpy(values[f"{self.spec.name}.{part}"]))


class ResidualBlock(nn.Module):
    """``relu(branch(x) + shortcut(x))``."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for conv in block.branch:
            layers += [NormalizedConvolution(conv), nn.ReLU()]
        self.branch = nn.Sequential(*layers[:-1])
        self.shortcut = NormalizedConvolution(block.shortcut) if block.shortcut else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


class ResidualNetwork(nn.Module):
    """[n, channels, image, image] → [n, classes]."""

    def __init__(self, net: ResNet) -> None:
        super().__init__()
        self.stem = NormalizedConvolution(stem(net))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.body = nn.Sequential(*(ResidualBlock(block) for block in blocks(net)))
        self.head = nn.Linear(net.features, net.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.pool(torch.relu(self.stem(x))))
        return self.head(x.mean((2, 3)))


def torch_module(net: ResNet, seed: int = 0) -> ResidualNetwork:
    """The module in evaluation mode with the weights of :func:`archloom.models.resnet.weights`."""
    values = weights(net, seed)
    module = ResidualNetwork(net)
    for child in module.modules():
        if isinstance(child, NormalizedConvolution):
            child.fill(values)
    module.head.weight.data.copy_(torch.from_numpy(values["fc.weight"]))
    module.head.bias.data.copy_(torch.from_numpy(values["fc.bias"]))
    return module.eval()
