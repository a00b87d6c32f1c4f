"""Residual networks (He et al. 2016, stride in the 3×3 convolution)."""

from __future__ import annotations

import torch
from torch import nn

from archloom.models.networks.layers import Conv

DEPTHS = {18: ((2, 2, 2, 2), 1), 50: ((3, 4, 6, 3), 4)}
"""Blocks of each stage, and how many times wider than the 3×3 convolution a block's result is: 4 of bottlenecks."""


class Block(nn.Module):
    """``relu(branch(x) + shortcut(x))``."""

    def __init__(self, inputs: int, inner: int, widening: int, stride: int) -> None:
        super().__init__()
        outputs = inner * widening
        convolutions = [Conv(inputs, inner, 3, stride, act=None), Conv(inner, outputs, 3, act=None)] if (
            widening == 1) else [Conv(inputs, inner, 1, act=None), Conv(inner, inner, 3, stride, act=None),
                                 Conv(inner, outputs, 1, act=None)]
        self.branch = nn.Sequential(*(layer for conv in convolutions for layer in (conv, nn.ReLU())))[:-1]
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else Conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


class ResNet(nn.Module):
    """[n, 3, h, w] → [n, classes]; ``blocks`` of each stage, the first of which has ``width`` channels."""

    def __init__(self, blocks: tuple[int, ...], widening: int, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem, self.pool = Conv(3, width, 7, 2, act=None), nn.MaxPool2d(3, 2, 1)
        body, channels = [], width
        for stage, count in enumerate(blocks):
            for i in range(count):
                body.append(Block(channels, width << stage, widening, 2 if stage and not i else 1))
                channels = (width << stage) * widening
        self.body, self.head = nn.Sequential(*body), nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.pool(torch.relu(self.stem(x))))
        return self.head(x.mean((2, 3)))


def resnet(depth: int, width: int = 64, classes: int = 1000) -> nn.Module:
    """ResNet-18 or -50; ``width`` is that of the first stage."""
    return ResNet(*DEPTHS[depth], width, classes)
