"""Networks of depthwise convolutions: MobileNetV2, MobileNetV3 (large), EfficientNet-B0, ShuffleNetV2."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from archloom.models.networks.layers import Activation, Conv, Head, InvertedResidual, SqueezeExcite, divisible

V2_STAGES = ((1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 3, 32, 3, 2), (6, 3, 64, 4, 2), (6, 3, 96, 3, 1),
             (6, 3, 160, 3, 2), (6, 3, 320, 1, 1))
"""Expansion, kernel, channels, blocks, stride of the first (Sandler et al. 2018, table 2)."""

V3_BLOCKS = (
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1), (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)
"""Kernel, inner channels, outputs, squeeze-excite, hard-swish, stride (Howard et al. 2019, table 1)."""

B0_STAGES = ((1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1),
             (6, 5, 192, 4, 2), (6, 3, 320, 1, 1))
"""The same (Tan and Le 2019, table 1)."""


def _inverted(
    stages: tuple[tuple[int, ...], ...], width: float, classes: int, act: Activation, excite: bool = False
) -> nn.Module:
    """A convolution, ``stages`` of inverted residuals, a wide convolution and a dense layer."""
    channels = divisible(32 * width)
    layers: list[nn.Module] = [Conv(3, channels, 3, 2, act=act)]
    for expansion, kernel, base, blocks, stride in stages:
        outputs = divisible(base * width)
        for i in range(blocks):
            squeeze = partial(SqueezeExcite, inner=max(1, channels // 4), act=act, gate=nn.Sigmoid) if excite else None
            layers.append(InvertedResidual(
                channels, channels * expansion, outputs, kernel, 1 if i else stride, act, squeeze))
            channels = outputs
    last = divisible(1280 * width)
    return nn.Sequential(*layers, Conv(channels, last, 1, act=act), Head(last, classes))


def mobilenet_v2(width: float = 1.0, classes: int = 1000) -> nn.Module:
    """[n, 3, h, w] → [n, classes]; ``width`` scales all channels."""
    return _inverted(V2_STAGES, width, classes, nn.ReLU6)


def mobilenet_v3(width: float = 1.0, classes: int = 1000) -> nn.Module:
    """The large network: [n, 3, h, w] → [n, classes]; ``width`` scales all channels."""
    conv = partial(Conv, epsilon=1e-3)
    channels = divisible(16 * width)
    layers: list[nn.Module] = [conv(3, channels, 3, 2, act=nn.Hardswish)]
    for kernel, inner, base, excite, swish, stride in V3_BLOCKS:
        outputs = divisible(base * width)
        squeeze = (lambda c: SqueezeExcite(c, divisible(c / 4))) if excite else None
        layers.append(InvertedResidual(
            channels, divisible(inner * width), outputs, kernel, stride, nn.Hardswish if swish else nn.ReLU, squeeze,
            1e-3))
        channels = outputs
    last, hidden = 6 * channels, divisible(1280 * width)
    return nn.Sequential(
        *layers, conv(channels, last, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(last, hidden), nn.Hardswish(), nn.Linear(hidden, classes))


def efficientnet_b0(width: float = 1.0, classes: int = 1000) -> nn.Module:
    """[n, 3, h, w] → [n, classes]; ``width`` scales all channels."""
    return _inverted(B0_STAGES, width, classes, nn.SiLU, excite=True)


class ShuffleUnit(nn.Module):
    """Half of the channels pass (or are reduced), the others are convolved; then channels are shuffled."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        entering = inputs if stride > 1 else half
        self.split = stride == 1
        self.left = nn.Sequential(
            Conv(inputs, inputs, 3, stride, inputs, act=None), Conv(inputs, half, 1)) if stride > 1 else nn.Identity()
        self.right = nn.Sequential(
            Conv(entering, half, 1), Conv(half, half, 3, stride, half, act=None), Conv(half, half, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1) if self.split else (x, x)
        y = torch.cat([self.left(a), self.right(b)], 1)
        n, c, h, w = y.shape
        return y.reshape(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet(width: int = 116, classes: int = 1000) -> nn.Module:
    """ShuffleNetV2 (Ma et al. 2018; 116 is its 1x): [n, 3, h, w] → [n, classes]; ``width`` is even."""
    layers: list[nn.Module] = [Conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for stage, blocks in enumerate((4, 8, 4)):
        outputs = width << stage
        for i in range(blocks):
            layers.append(ShuffleUnit(channels, outputs, 1 if i else 2))
            channels = outputs
    last = 1024 if width >= 48 else 8 * width
    return nn.Sequential(*layers, Conv(channels, last, 1), Head(last, classes))
