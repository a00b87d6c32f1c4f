"""Networks that give an image: a YOLO-style detector, U-Net, and a block of a diffusion model's U-Net."""

from __future__ import annotations

import torch
from torch import nn

from archloom.models.networks.layers import Conv


class CrossStage(nn.Module):
    """A cross-stage-partial block: half of the channels pass through ``count`` bottlenecks."""

    def __init__(self, inputs: int, outputs: int, count: int, shortcut: bool = True) -> None:
        super().__init__()
        self.enter = Conv(inputs, outputs, 1, act=nn.SiLU)
        half = outputs // 2
        self.steps = nn.ModuleList(
            nn.Sequential(Conv(half, half, 3, act=nn.SiLU), Conv(half, half, 3, act=nn.SiLU)) for _ in range(count))
        self.leave = Conv(half * (count + 2), outputs, 1, act=nn.SiLU)
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for step in self.steps:
            y = step(parts[-1])
            parts.append(parts[-1] + y if self.shortcut else y)
        return self.leave(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Max-pools of growing reach, side by side (SPPF)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = Conv(channels, channels // 2, 1, act=nn.SiLU)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.leave = Conv(channels * 2, channels, 1, act=nn.SiLU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Detector(nn.Module):
    """A detector in the manner of YOLO: backbone, feature pyramid both ways, one head for each of three scales.

    [n, 3, h, w] → [n, 5 + classes, cells]: for each cell a box in pixels, the confidence and the classes' scores.
    ``h`` and ``w`` are multiples of 32.
    """

    def __init__(self, width: int = 16, classes: int = 80) -> None:
        super().__init__()
        w = width
        self.stem = nn.Sequential(Conv(3, w, 3, 2, act=nn.SiLU), self._down(w, 2 * w, 1))
        self.stages = nn.ModuleList([
            self._down(2 * w, 4 * w, 2), self._down(4 * w, 8 * w, 2),
            nn.Sequential(self._down(8 * w, 16 * w, 1), Pyramid(16 * w))])
        self.grow = nn.Upsample(scale_factor=2, mode="nearest")
        self.up = nn.ModuleList([CrossStage(24 * w, 8 * w, 1, False), CrossStage(12 * w, 4 * w, 1, False)])
        self.reduce = nn.ModuleList([Conv(4 * w, 4 * w, 3, 2, act=nn.SiLU), Conv(8 * w, 8 * w, 3, 2, act=nn.SiLU)])
        self.down = nn.ModuleList([CrossStage(12 * w, 8 * w, 1, False), CrossStage(24 * w, 16 * w, 1, False)])
        self.heads = nn.ModuleList(
            nn.Sequential(Conv(c, 4 * w, 3, act=nn.SiLU), nn.Conv2d(4 * w, 5 + classes, 1))
            for c in (4 * w, 8 * w, 16 * w))

    @staticmethod
    def _down(inputs: int, outputs: int, count: int) -> nn.Module:
        return nn.Sequential(Conv(inputs, outputs, 3, 2, act=nn.SiLU), CrossStage(outputs, outputs, count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.stages[0](self.stem(x))
        middle = self.stages[1](fine)
        coarse = self.stages[2](middle)
        middle = self.up[0](torch.cat([self.grow(coarse), middle], 1))
        fine = self.up[1](torch.cat([self.grow(middle), fine], 1))
        middle = self.down[0](torch.cat([self.reduce[0](fine), middle], 1))
        coarse = self.down[1](torch.cat([self.reduce[1](middle), coarse], 1))
        scales = zip(self.heads, (fine, middle, coarse), (8, 16, 32), strict=True)
        return torch.cat([self._decoded(head(features), pixels) for head, features, pixels in scales], 2)

    @staticmethod
    def _decoded(scores: torch.Tensor, pixels: int) -> torch.Tensor:
        """Boxes in pixels: the centre relative to its cell, the size as a power of e."""
        n, c, h, w = scores.shape
        rows = torch.arange(h, dtype=scores.dtype).reshape(1, 1, h, 1).expand(n, 1, h, w)
        columns = torch.arange(w, dtype=scores.dtype).reshape(1, 1, 1, w).expand(n, 1, h, w)
        place, size, rest = scores[:, :2], scores[:, 2:4], scores[:, 4:]
        centre = (torch.sigmoid(place) + torch.cat([columns, rows], 1)) * pixels
        size = torch.exp(torch.clamp(size, -4.0, 4.0)) * pixels
        return torch.cat([centre, size, torch.sigmoid(rest)], 1).reshape(n, c, h * w)


class UNet(nn.Module):
    """Contracting and expanding path with transposed convolutions (Ronneberger et al. 2015), padded.

    [n, 3, h, w] → [n, classes, h, w]; ``h`` and ``w`` are multiples of 2 ** depth.
    """

    def __init__(self, width: int = 64, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        sizes = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList(self._pair(a, b) for a, b in zip([3, *sizes[:-1]], sizes, strict=True))
        self.pool = nn.MaxPool2d(2, 2)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in reversed(sizes[:-1]))
        self.up = nn.ModuleList(self._pair(2 * c, c) for c in reversed(sizes[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(Conv(inputs, outputs, 3), Conv(outputs, outputs, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, stage in enumerate(self.down):
            x = stage(self.pool(x) if number else x)
            kept.append(x)
        for grow, stage, skip in zip(self.grow, self.up, reversed(kept[:-1]), strict=True):
            x = stage(torch.cat([grow(x), skip], 1))
        return self.head(x)


class DiffusionBlock(nn.Module):
    """A stage of a diffusion model's U-Net: residual block with time embedding, self- and cross-attention.

    ``x`` [n, channels, h, w], ``time`` [n, 4 * channels], ``context`` [n, words, context] → [n, channels, h, w].
    """

    def __init__(self, channels: int = 320, heads: int = 8, context: int = 768, groups: int = 32) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(groups, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, 1, 1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(4 * channels, channels))
        self.second = nn.Sequential(nn.GroupNorm(groups, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, 1, 1))
        self.norm = nn.GroupNorm(groups, channels, eps=1e-6)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.attention = nn.ModuleList(
            nn.ModuleList(nn.Linear(c, channels, bias=False) for c in (channels, source, source))
            for source in (channels, context))
        self.out = nn.ModuleList(nn.Linear(channels, channels) for _ in range(2))
        self.gate = nn.Linear(channels, 8 * channels)
        self.shrink = nn.Linear(4 * channels, channels)
        self.heads = heads

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        y = self.first(x) + self.time(time)[:, :, None, None]
        x = x + self.second(y)
        n, c, h, w = x.shape
        y = self.norm(x).reshape(n, c, h * w).transpose(1, 2)
        for number, source in enumerate((None, context)):
            normal = self.norms[number](y)
            y = y + self._attended(number, normal, normal if source is None else source)
        wide, gate = self.gate(self.norms[2](y)).chunk(2, -1)
        y = y + self.shrink(wide * nn.functional.gelu(gate))
        return x + y.transpose(1, 2).reshape(n, c, h, w)

    def _attended(self, number: int, query: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(z).reshape(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)
            for layer, z in zip(self.attention[number], (query, source, source), strict=True))
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.out[number](y.reshape(query.shape))
