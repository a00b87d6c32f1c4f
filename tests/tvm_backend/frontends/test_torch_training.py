"""Programs that were exported in training mode, or draw numbers, are refused; the same in evaluation mode are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.torch.export import load_program
from archloom.tvm_backend.frontends.torch.training import refuse_training

TRAINED: dict[str, Callable[[], nn.Module]] = {
    "batch_norm": lambda: nn.BatchNorm2d(3), "dropout": nn.Dropout, "feature_dropout": nn.Dropout2d,
    "alpha_dropout": nn.AlphaDropout, "rrelu": nn.RReLU,
    "instance_norm": lambda: nn.InstanceNorm2d(3, track_running_stats=True),
    "dropout'": lambda: nn.MultiheadAttention(4, 2, 0.1),
}
X = torch.arange(24.0).reshape(2, 3, 2, 2)


def program(module: nn.Module, training: bool) -> torch.export.ExportedProgram:
    inputs = (torch.ones(2, 3, 4),) * 3 if isinstance(module, nn.MultiheadAttention) else (X,)
    return torch.export.export(module.train(training), inputs)


@pytest.mark.first_case
@pytest.mark.parametrize("name", TRAINED)
def test_training_mode(name: str) -> None:
    torch.manual_seed(0)
    refuse_training(program(TRAINED[name](), False), "net")
    with pytest.raises(ModelError, match=f"net: node .*{name}.*expected a network for inference"):
        refuse_training(program(TRAINED[name](), True), "net")


def test_random_numbers_and_batch_statistics() -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x)

    with pytest.raises(ModelError, match="randn_like.*draws random numbers"):
        load_program(program(Noise(), False), "net")
    refuse_training(program(nn.InstanceNorm2d(3), False), "net")  # statistics of each image: its function
