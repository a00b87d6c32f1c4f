"""Single operators as modules: what the catalogue has under ONNX's names."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


class Operator(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Relu": torch.relu, "Gelu": functional.gelu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp,
    "Erf": torch.erf, "Abs": torch.abs, "Neg": torch.neg, "HardSwish": functional.hardswish, "Swish": functional.silu,
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Max": torch.maximum, "Min": torch.minimum,
}
REDUCED: dict[str, Callable[..., torch.Tensor]] = {
    "ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax, "Softmax": functional.softmax,
}
"""Along the last axis."""


def elementwise(kind: str) -> nn.Module:
    return Operator(UNARY[kind] if kind in UNARY else BINARY[kind])


def along_rows(kind: str) -> nn.Module:
    return Operator(lambda x: REDUCED[kind](x, dim=-1))


def matmul() -> nn.Module:
    return Operator(torch.matmul)


def gemm(k: int, n: int, bias: int) -> nn.Module:
    return nn.Linear(k, n, bias=bool(bias))


def conv(c: int, o: int, k: int, stride: int, pad: int, dilation: int, group: int, bias: int) -> nn.Module:
    return nn.Conv2d(c, o, k, stride, pad, dilation, group, bias=bool(bias))


def normalization(kind: str, n: int) -> nn.Module:
    return nn.LayerNorm(n) if kind == "LayerNormalization" else nn.RMSNorm(n)


def pooling(kind: str, k: int, stride: int, pad: int) -> nn.Module:
    return nn.MaxPool2d(k, stride, pad) if kind == "MaxPool" else nn.AvgPool2d(k, stride, pad)


def global_average() -> nn.Module:
    return nn.AdaptiveAvgPool2d(1)


class Attention(nn.Module):
    """Queries [batch, heads, queries, depth] look at keys and values [batch, kv_heads, keys, depth]. ``causal``: the
    last query at all keys, each before it at one less."""

    mask: torch.Tensor | None

    def __init__(self, queries: int, keys: int, grouped: bool, causal: bool) -> None:
        super().__init__()
        self.grouped, self.causal = grouped, causal and queries == keys
        seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
        self.register_buffer("mask", seen if causal and 1 < queries != keys else None)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            query, key, value, self.mask, is_causal=self.causal, enable_gqa=self.grouped)


def attention(heads: int, kv_heads: int, queries: int, keys: int, causal: int) -> nn.Module:
    return Attention(queries, keys or queries, kv_heads not in (0, heads), bool(causal))
