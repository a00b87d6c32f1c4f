"""Networks of image patches: MLP-Mixer and a vision transformer; and an LSTM over audio frames."""

from __future__ import annotations

import torch
from torch import nn


class Mixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al. 2021): [n, 3, image, image] → [n, classes]."""

    def __init__(
        self, image: int, patch: int, width: int, depth: int, tokens: int, channels: int, classes: int
    ) -> None:
        super().__init__()
        count = (image // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.mix = nn.ModuleList(
            nn.Sequential(nn.Linear(a, b), nn.GELU(), nn.Linear(b, a))
            for _ in range(depth) for a, b in ((count, tokens), (width, channels)))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for i, mix in enumerate(self.mix):
            y = self.norms[i](x)
            x = x + (mix(y) if i % 2 else mix(y.transpose(1, 2)).transpose(1, 2))
        return self.head(self.norms[-1](x).mean(1))


class EncoderLayer(nn.Module):
    """Attention and a two-layer network, each normalized before and added to its input."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = (t.reshape(n, length, self.heads, -1).transpose(1, 2)
                   for t in self.mix(self.norms[0](x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
        x = x + self.out(y)
        return x + self.shrink(nn.functional.gelu(self.grow(self.norms[1](x))))


class VisionTransformer(nn.Module):
    """ViT (Dosovitskiy et al. 2021): [n, 3, image, image] → [n, classes]."""

    def __init__(self, image: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.sin(torch.arange((image // patch) ** 2 + 1.0))[None, :, None].repeat(
            1, 1, width) * 0.1)
        self.layers = nn.Sequential(*(EncoderLayer(width, heads, 4 * width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class KeywordSpotter(nn.Module):
    """An LSTM over ``frames`` of ``features`` coefficients, written step by step: [n, frames, features] → [n, classes].

    The product of the input's weights is taken for all frames at once; that of the state's, once a frame.
    """

    def __init__(self, frames: int = 49, features: int = 40, hidden: int = 128, classes: int = 12) -> None:
        super().__init__()
        self.frames, self.hidden = frames, hidden
        self.enter = nn.Linear(features, 4 * hidden)
        self.state = nn.Linear(hidden, 4 * hidden, bias=False)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        entering = self.enter(x)
        h = c = torch.zeros(x.shape[0], self.hidden)
        for frame in range(self.frames):
            i, f, g, o = (entering[:, frame] + self.state(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)
