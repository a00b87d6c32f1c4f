"""Indexing, shared heads and broadcast products of torch that TVM 0.27 imports wrong or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from archloom import load
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.targets import registry
from tests.support.examples import every, slow
from tests.support.tvm_backend.networks import split
from tests.support.tvm_backend.torch_functions import Of, all_same, random, same

FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one, from the end": lambda x: x[:, :, [-2]],
    "from both ends": lambda x: x[:, [1, -1]],
    "a table of places": lambda x: x[:, torch.tensor([[0, -1], [1, 2]])],
    "two that belong together": lambda x: x[:, [0, 1], [-1, 2]],
    "two, broadcast": lambda x: x[:, :, [[0], [1]], [-1, 2]],
    "two, apart": lambda x: x[:, [0, 1], :, [-1, 2]],
    "first and last": lambda x: x[[1], :, :, [-1]],
    "one in each axis": lambda x: x[[0, 1], [1, 2], [3, -1], [-1, 0]],
    "chosen by another": lambda x: x[:, (x[0, 0, 0] > 0).to(torch.int64) - 1],
}


@pytest.mark.slow
def test_places() -> None:
    all_same(FORMS, random(2, 3, 5, 4))


def test_a_mask_as_index_is_refused() -> None:
    with pytest.raises(ModelError, match="expected integers as indices, found a mask"):
        load(Of([lambda x: x[x.reshape(-1)[:4] > 0]]), example_inputs=random(4, 2))


@pytest.mark.first_case
@pytest.mark.parametrize("key", every(2, [(1, 1, 6, 8), (2, 4, 6, 8), (2, 1, 6, 8), (6, 8), (4, 6, 8)], single=True))
def test_attention_whose_keys_are_shared_by_heads(key: tuple[int, ...]) -> None:
    def attention(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, k * 0.5)

    model = same(attention, random(2, 4, 5, 8), random(*key))
    assert split(model, registry.get("qkv"))[0].offloaded_macs_share == 1


@pytest.mark.slow
def test_attention_without_heads() -> None:
    def attention(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask > 0)

    same(attention, random(3, 5, 8), torch.ones(5, 5).tril())


@pytest.mark.parametrize(("a", "b"), [
    slow((2, 4, 5, 8), (1, 1, 8, 3)), ((2, 4, 5, 8), (2, 1, 8, 3)), slow((1, 4, 5, 8), (2, 4, 8, 3)),
    ((5, 8), (2, 8, 3)), slow((2, 1, 5, 8), (1, 1, 8, 3)),
])
def test_broadcast_products(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    model = same(torch.matmul, random(*a), random(*b))
    assert split(model, registry.get("qkv"))[0].offloaded_macs_share == 1


@pytest.mark.slow
def test_parts_without_elements_are_left_out() -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        first, rest = x[..., :4], x[..., 4:]
        return torch.cat([-first, rest], -1)

    same(turned, random(2, 3, 4))
