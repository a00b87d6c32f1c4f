"""A small vision transformer for scikit-learn's handwritten digits, trained in seconds."""

from __future__ import annotations

import torch
from torch import nn

from archloom.models.data import Split
from archloom.models.digits import CLASSES, SHAPE, Training, trained

PATCH = 2
TOKENS = (SHAPE[1] // PATCH) * (SHAPE[2] // PATCH)
TRAINING = Training(epochs=20, learning_rate=3e-3, weight_decay=1e-2)


class Block(nn.Module):
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
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def train(data: Split, training: Training = TRAINING) -> DigitsViT:
    """A trained network in evaluation mode; the same seed gives the same network on the same machine."""
    return trained(DigitsViT, data, training)
