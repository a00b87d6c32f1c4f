"""ResNet-18 and -50 (see :mod:`archloom.models.resnet`)."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from archloom.models import resnet
from archloom.models.resnet_torch import torch_module


def resnet_of(depth: int, image: int = 224, width: int = 64, classes: int = 1000) -> nn.Module:
    """[n, 3, image, image] → [n, classes]; ``width`` is that of the first stage."""
    net = {18: resnet.resnet18, 50: resnet.resnet50}[depth](image, classes)
    return torch_module(replace(net, width=width))
