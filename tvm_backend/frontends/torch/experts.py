"""Mixtures of experts of torch, whose rows go to experts by number, with shapes that do not depend on numbers.

Every row passes every expert, and each row keeps what its own made of it: an accelerator then has one product for each
expert. That is as many products as there are experts for each one that a router chose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def table() -> dict[Any, Callable[..., Any]]:
    """Functions in place of operators, as those of :mod:`archloom.tvm_backend.frontends.torch.decompositions`."""
    aten = torch.ops.aten
    found: dict[Any, Callable[..., Any]] = {
        aten.histc.default: _histogram,
        aten._grouped_mm.default: _grouped_product,
        aten.topk.default: _largest,
    }
    own = getattr(torch.ops.transformers, "grouped_mm_fallback", None)  # known once transformers has been imported
    return found if own is None else {**found, own.default: _grouped_product}


def _histogram(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many numbers lie in each of ``bins`` parts of ``min`` to ``max``; the last part has its end."""
    if not min < max:  # the limits are those of the numbers
        return NotImplemented
    numbers = x.reshape(-1, 1)
    place = torch.floor((numbers - min) * (bins / (max - min))).clamp(max=bins - 1)
    inside = (numbers >= min) & (numbers <= max)
    return ((place == torch.arange(bins).to(x.dtype)) & inside).to(x.dtype).sum(0)


def _largest(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Where any order will do, the sorted one."""
    return NotImplemented if sorted else torch.topk(x, k, dim, largest, True)


def _grouped_product(
    x: Tensor, weight: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Any:
    """[s, k] and [experts, k, n] to [s, n]: rows from ``offs[e - 1]`` to ``offs[e]`` by the weights of expert e."""
    if offs is None or bias is not None or x.dim() != 2 or weight.dim() != 3:
        return NotImplemented
    rows, ends = torch.arange(x.shape[0]), offs.to(torch.int64)
    total = torch.zeros(x.shape[0], weight.shape[2], dtype=x.dtype)
    for expert in range(weight.shape[0]):
        own = rows < ends[expert]
        if expert:
            own = own & (rows >= ends[expert - 1])
        total = torch.where(own.unsqueeze(1), torch.mm(x, weight[expert]), total)
    return total if out_dtype is None else total.to(out_dtype)
