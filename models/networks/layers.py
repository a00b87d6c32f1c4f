"""Layers that several networks share, and seeded weights that keep activations in range."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

Activation = Callable[[], nn.Module]


def divisible(channels: float, by: int = 8) -> int:
    """``channels`` rounded to a multiple of ``by``, by at most a tenth downwards (as MobileNet does)."""
    rounded = max(by, int(channels + by / 2) // by * by)
    return rounded + by if rounded < 0.9 * channels else rounded


class Conv(nn.Sequential):
    """Convolution, batch normalization and activation, with padding that keeps the size at stride 1."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int | tuple[int, int] = 3, stride: int = 1, groups: int = 1,
        act: Activation | None = nn.ReLU, padding: int | tuple[int, int] | None = None, epsilon: float = 1e-5,
    ) -> None:
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        pad = (sides[0] // 2, sides[1] // 2) if padding is None else padding
        conv = nn.Conv2d(inputs, outputs, sides, stride, pad, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outputs, eps=epsilon), *([act()] if act else []))


class SqueezeExcite(nn.Module):
    """``x * gate(expand(act(reduce(mean(x)))))``, one factor for each channel (Hu et al. 2018)."""

    def __init__(self, channels: int, inner: int, act: Activation = nn.ReLU, gate: Activation = nn.Hardsigmoid) -> None:
        super().__init__()
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.factors = nn.Sequential(nn.Conv2d(channels, inner, 1), act(), nn.Conv2d(inner, channels, 1), gate())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factors: torch.Tensor = self.factors(self.mean(x))
        return x * factors


class InvertedResidual(nn.Module):
    """Pointwise expansion, depthwise convolution, squeeze-excite, pointwise projection (Sandler et al. 2018)."""

    def __init__(
        self, inputs: int, inner: int, outputs: int, kernel: int, stride: int, act: Activation,
        excite: Callable[[int], nn.Module] | None = None, epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if inner != inputs:
            layers.append(Conv(inputs, inner, 1, act=act, epsilon=epsilon))
        layers.append(Conv(inner, inner, kernel, stride, inner, act, epsilon=epsilon))
        if excite is not None:
            layers.append(excite(inner))
        layers.append(Conv(inner, outputs, 1, act=None, epsilon=epsilon))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.residual else y


class Head(nn.Sequential):
    """Global average and a dense layer: [n, c, h, w] → [n, classes]."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Concat(nn.Module):
    """The results of several branches side by side in channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    """``module`` in evaluation mode, with weights that keep each layer's activations near unit variance.

    Batch normalizations get statistics that differ by channel, as trained ones have; nothing depends on torch's own
    generator.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                weight = layer.weight
                fan_in = weight[0].numel()
                if isinstance(layer, nn.ConvTranspose2d):
                    fan_in = weight.shape[0] * weight[0, 0].numel() // math.prod(layer.stride)
                weight.copy_(torch.randn(weight.shape, generator=generator) * math.sqrt(2 / fan_in))
                if layer.bias is not None:
                    layer.bias.copy_(torch.randn(layer.bias.shape, generator=generator) * 0.1)
            elif isinstance(layer, nn.BatchNorm2d):
                for tensor, low, high in ((layer.weight, 0.8, 1.2), (layer.running_var, 0.8, 1.25)):
                    assert tensor is not None
                    tensor.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)
                for tensor in (layer.bias, layer.running_mean):
                    assert tensor is not None
                    tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.1)
    return module.eval()


def perturbed(module: nn.Module, seed: int = 0) -> nn.Module:
    """``module`` in evaluation mode, with random values where initialization leaves all alike: biases and norms."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.parameters():
            if tensor.ndim == 1:
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.add_(0.1 * noise)
    return module.eval()
