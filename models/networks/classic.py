"""Networks of plain convolutions: AlexNet, VGG, SqueezeNet, DenseNet, ResNet-18 and -50."""

from __future__ import annotations

import torch
from torch import nn

from archloom.models.networks.layers import Concat, Conv, Head


def alexnet(
    classes: int = 1000, width: int = 64, hidden: int = 4096, image: int = 224, normalize: int = 0,
) -> nn.Module:
    """[n, 3, image, image] → [n, classes] (Krizhevsky 2014); ``image`` is 63 or more.

    ``normalize`` adds the first paper's local normalization.
    """
    def norm() -> list[nn.Module]:
        return [nn.LocalResponseNorm(5)] if normalize else []

    w = width
    side = (image - 7) // 4 + 1
    for _ in range(3):
        side = (side - 3) // 2 + 1
    features = [
        nn.Conv2d(3, w, 11, 4, 2), nn.ReLU(), *norm(), nn.MaxPool2d(3, 2),
        nn.Conv2d(w, 3 * w, 5, 1, 2), nn.ReLU(), *norm(), nn.MaxPool2d(3, 2),
        nn.Conv2d(3 * w, 6 * w, 3, 1, 1), nn.ReLU(), nn.Conv2d(6 * w, 4 * w, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(4 * w, 4 * w, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2),
    ]
    return nn.Sequential(
        *features, nn.Flatten(), nn.Dropout(), nn.Linear(4 * w * side * side, hidden), nn.ReLU(), nn.Dropout(),
        nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))


VGG = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each stage, by the number of layers (Simonyan and Zisserman 2015)."""


def vgg(depth: int, image: int = 224, width: int = 64, hidden: int = 4096, classes: int = 1000) -> nn.Module:
    """[n, 3, image, image] → [n, classes], ``image`` a multiple of 32."""
    layers: list[nn.Module] = []
    channels = 3
    for stage, count in enumerate(VGG[depth]):
        outputs = width * min(8, 2**stage)
        for _ in range(count):
            layers += [nn.Conv2d(channels, outputs, 3, 1, 1), nn.ReLU()]
            channels = outputs
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(channels * (image // 32) ** 2, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def squeezenet(width: int = 16, classes: int = 1000) -> nn.Module:
    """SqueezeNet 1.1: [n, 3, h, w] → [n, classes] (Iandola et al. 2016)."""
    def fire(inputs: int, squeeze: int, expand: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, squeeze, 1), nn.ReLU(),
            Concat(nn.Sequential(nn.Conv2d(squeeze, expand, 1), nn.ReLU()),
                   nn.Sequential(nn.Conv2d(squeeze, expand, 3, padding=1), nn.ReLU())))

    w = width
    return nn.Sequential(
        nn.Conv2d(3, 4 * w, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(4 * w, w, 4 * w), fire(8 * w, w, 4 * w), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(8 * w, 2 * w, 8 * w), fire(16 * w, 2 * w, 8 * w), nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(16 * w, 3 * w, 12 * w), fire(24 * w, 3 * w, 12 * w), fire(24 * w, 4 * w, 16 * w),
        fire(32 * w, 4 * w, 16 * w), nn.Dropout(), nn.Conv2d(32 * w, classes, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten())


class DenseLayer(nn.Module):
    """Adds ``growth`` channels to all before it."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), Conv(inputs, 4 * growth, 1),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet(
    blocks: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32, share: float = 1, classes: int = 1000,
) -> nn.Module:
    """DenseNet-121 by default: [n, 3, h, w] → [n, classes] (Huang et al. 2017).

    Blocks have ``share`` of their layers, and at least one.
    """
    blocks = tuple(max(1, round(count * share)) for count in blocks)
    channels = 2 * growth
    layers: list[nn.Module] = [Conv(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for number, count in enumerate(blocks):
        for _ in range(count):
            layers.append(DenseLayer(channels, growth))
            channels += growth
        if number + 1 < len(blocks):
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False),
                       nn.AvgPool2d(2, 2)]
            channels //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), Head(channels, classes))


DEPTHS = {18: ((2, 2, 2, 2), 1), 50: ((3, 4, 6, 3), 4)}
"""Blocks of each stage, and how many times wider than the 3×3 convolution a block's result is: 4 of bottlenecks."""


class Residual(nn.Module):
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
                body.append(Residual(channels, width << stage, widening, 2 if stage and not i else 1))
                channels = (width << stage) * widening
        self.body, self.head = nn.Sequential(*body), nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.pool(torch.relu(self.stem(x))))
        return self.head(x.mean((2, 3)))


def resnet(depth: int, width: int = 64, classes: int = 1000) -> nn.Module:
    """ResNet-18 or -50 (He et al. 2016, stride in the 3×3 convolution); ``width`` is that of the first stage."""
    return ResNet(*DEPTHS[depth], width, classes)
