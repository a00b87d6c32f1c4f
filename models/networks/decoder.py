"""Decoders of language models: RMS normalization, rotary positions, grouped queries, SwiGLU (Touvron et al. 2023).

Each block takes and gives tensors only, so that equal ones are looked at once where a network is estimated.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

BASE = 500_000.0
"""Of the rotary positions of Llama 3."""


class Block(nn.Module):
    """Attention and a gated network, each normalized before and added to its input [n, length, width]."""

    def __init__(self, width: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-5) for _ in range(2))
        self.query = nn.Linear(width, heads * self.depth, bias=False)
        self.key, self.value = (nn.Linear(width, groups * self.depth, bias=False) for _ in range(2))
        self.out = nn.Linear(heads * self.depth, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, keys: torch.Tensor | None = None,
        values: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What it makes of ``x``, and the keys and values [n, groups, length, depth], those given before its own."""
        n, length, _ = x.shape
        y = self.norms[0](x)
        q, k, v = (part(y).view(n, length, heads, self.depth).transpose(1, 2) for part, heads in (
            (self.query, self.heads), (self.key, self.groups), (self.value, self.groups)))
        q, k = (t * cos + torch.cat((-t[..., self.depth // 2:], t[..., :self.depth // 2]), -1) * sin for t in (q, k))
        if keys is not None and values is not None:
            k, v = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=keys is None, enable_gqa=self.groups < self.heads)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, -1))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Decoder(nn.Module):
    """``tokens`` [n, length] int64 → logits [n, length, vocabulary]."""

    def __init__(self, width: int, layers: int, vocabulary: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.depth = width // heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads, groups, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, vocabulary, bias=False)

    def rotary(self, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [count, depth] of the positions from ``first``."""
        rates = BASE ** (-torch.arange(0, self.depth, 2, dtype=torch.float32) / self.depth)
        angles = torch.outer(torch.arange(first, first + count, dtype=torch.float32), rates).repeat(1, 2)
        return angles.cos(), angles.sin()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x, (cos, sin) = self.embedding(tokens), self.rotary(0, tokens.shape[1])
        for layer in self.layers:
            x, _, _ = layer(x, cos, sin)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


class DecoderStep(Decoder):
    """One token behind others whose keys and values are kept: ``token`` [n, 1] int64, ``keys`` and ``values`` [layers,
    n, groups, length, depth] → logits [n, 1, vocabulary], keys and values with the token's own."""

    def forward(  # type: ignore[override]
        self, token: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x, (cos, sin) = self.embedding(token), self.rotary(keys.shape[3], 1)
        kept = []
        for i, layer in enumerate(self.layers):
            x, *own = layer(x, cos, sin, keys[i], values[i])
            kept.append(own)
        return self.head(self.norm(x)), torch.stack([k for k, _ in kept]), torch.stack([v for _, v in kept])
