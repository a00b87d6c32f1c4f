"""A small residual network and a vision transformer for scikit-learn's handwritten digits, trained in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from archloom.models.data import Split

Net = TypeVar("Net", bound=nn.Module)
SHAPE = (1, 8, 8)
CLASSES = 10
PATCH = 2
TOKENS = (SHAPE[1] // PATCH) * (SHAPE[2] // PATCH)


class Residual(nn.Module):
    """``relu(conv(relu(conv(x))) + x)`` with 3×3 convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


class DigitsNet(nn.Module):
    """[n, 1, 8, 8] → [n, 10]: stem, residual block, widening, residual block, last convolution, classifier.

    The widening and the last convolution are each followed by ReLU and max-pooling, which halve the image.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.block1 = Residual(width)
        self.pool = nn.MaxPool2d(2)
        self.widen = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.block2 = Residual(2 * width)
        self.last = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.head = nn.Linear(2 * width * 4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block1(torch.relu(self.stem(x)))
        x = self.pool(torch.relu(self.widen(x)))
        x = self.pool(torch.relu(self.last(self.block2(x))))
        return self.head(x.flatten(1))


class AttentionBlock(nn.Module):
    """``x + attention(norm(x))``, then ``x + mlp(norm(x))``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.project = nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        y = self.norm1(x)
        q, k, v = (part(y).reshape(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.project(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.contract(nn.functional.gelu(self.expand(self.norm2(x))))


class DigitsViT(nn.Module):
    """[n, 1, 8, 8] → [n, 10]: patches of 2 × 2 with positions, blocks of attention and MLP, mean, classifier."""

    def __init__(self, width: int = 48, heads: int = 3, depth: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, PATCH, stride=PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn(1, TOKENS, width))
        self.blocks = nn.ModuleList(AttentionBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


@dataclass(frozen=True)
class Training:
    """How the network is trained; the defaults take a few seconds on one thread."""

    epochs: int = 8
    batch: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    seed: int = 0


def train(data: Split, training: Training | None = None, width: int = 32) -> DigitsNet:
    """A trained network in evaluation mode; the same seed gives the same network on the same machine."""
    return trained(lambda: DigitsNet(width), data, training or Training())


def trained(make: Callable[[], Net], data: Split, how: Training) -> Net:
    """The network that ``make`` makes, trained on ``data``, in evaluation mode."""
    threads = torch.get_num_threads()
    # one thread: operators this small gain nothing from more, lose much on a busy machine, and sum in one order
    torch.set_num_threads(1)
    try:
        # PyTorch's global generator is the only source of the initial weights: leave it as it was
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(how.seed)
            net = make()
            _fit(net, data, how)
    finally:
        torch.set_num_threads(threads)
    net.eval()
    return net


def _fit(net: nn.Module, data: Split, how: Training) -> None:
    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    steps = -(-len(images) // how.batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=how.learning_rate, weight_decay=how.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, how.learning_rate, how.epochs * steps)
    for _ in range(how.epochs):
        for rows in torch.randperm(len(images)).split(how.batch):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(net(images[rows]), labels[rows], label_smoothing=0.05).backward()
            optimizer.step()
            schedule.step()


def accuracy(net: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """Share of ``images`` [n, 1, 8, 8] that ``net`` gives their label."""
    with torch.no_grad():
        return float((net(torch.from_numpy(images)).argmax(1).numpy() == labels).mean())
