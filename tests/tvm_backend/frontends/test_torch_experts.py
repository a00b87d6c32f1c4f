"""Mixtures of experts, as transformers 5 exports them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
import transformers.integrations.moe  # registers torch.ops.transformers
from torch import nn

import archloom
from tests.support.tvm_backend.torch_functions import random, same


def test_rows_by_experts() -> None:
    """An expert without rows, and rows of no expert, which are zeros."""
    offsets, weight = torch.tensor([0, 3, 5, 8], dtype=torch.int32), random(4, 8, 4)
    same(lambda x: torch.ops.transformers.grouped_mm_fallback(x, weight, offsets), random(10, 8))


@pytest.mark.slow
def test_mixtral(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2)
    network = transformers.MixtralForCausalLM(config).eval()

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.network(input_ids=ids, use_cache=False).logits
            return logits

    ids = torch.randint(0, 32, (1, 6))
    torch.export.save(torch.export.export(Logits(), (ids,), strict=False), tmp_path / "mixtral.pt2")
    exe = archloom.compile(tmp_path / "mixtral.pt2", target="qkv")
    assert exe.report.offloaded_macs == exe.report.macs
    np.testing.assert_allclose(exe(ids.numpy()), Logits()(ids).detach().numpy(), rtol=1e-3, atol=1e-4)
