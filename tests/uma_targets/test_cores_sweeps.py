"""What vector units of meshes take of networks: element-wise operators, norms, softmax, reductions, residuals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import archloom
from archloom.tvm_backend.artifact import workload_json

ONE: dict[str, Any] = {"x": 1, "y": 1}
TOLERANCE = 3e-3


def compiled(network: nn.Module, *inputs: torch.Tensor, options: dict[str, Any] = ONE) -> Any:
    """The network on a mesh, right within the numbers of float16, each layer bit for bit as interpreted."""
    torch.manual_seed(1)
    made = archloom.compile(network.eval(), "mesh", options, example_inputs=inputs)
    found = made.run(dict(zip([spec.name for spec in made.compiled.inputs], inputs)))
    again = made.run(dict(zip([spec.name for spec in made.compiled.inputs], inputs)), executor="interpreter")
    expected = network(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for (name, value), reference in zip(found.items(), expected, strict=True):
        reference = reference.detach().numpy()
        assert np.abs(value - reference).max() <= TOLERANCE * np.abs(reference).max()
        np.testing.assert_array_equal(value, again[name])
    return made


def layers(made: Any) -> list[str]:
    return [layer.op for layer in made.report.accelerator_layers]


def host(made: Any) -> set[str]:
    return {op.op for op in made.report.host}


class Block(nn.Module):
    """Dense layers with what stands between them in transformers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        for parameter in self.norm.parameters():
            nn.init.normal_(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(0.5 * (x + self.down(F.gelu(self.up(self.norm(x))))), -1)


def test_a_block_is_one_region(tmp_path: Path) -> None:
    made = compiled(Block(40), torch.randn(2, 21, 40))
    assert layers(made) == ["layer_norm", "dense+bias+gelu+dense+bias+residual", "scale", "softmax"]
    (region,) = made.compiled.regions
    assert not made.compiled.host.ops and not any(step.views for step in region.steps)
    for step in region.steps:
        assert workload_json.from_json(workload_json.to_json(step.workload)) == step.workload
    made.save(tmp_path / "net")
    x = torch.randn(2, 21, 40)
    np.testing.assert_array_equal(archloom.load_compiled(tmp_path / "net")(x), made(x))


@pytest.mark.slow
def test_images_stay_as_convolutions_store_them() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.norm, self.last = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
            for norm in (self.norm, self.last):
                nn.init.normal_(norm.weight)
                nn.init.uniform_(norm.running_var, 0.5, 2)
                nn.init.normal_(norm.running_mean)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            y = F.relu(self.norm(self.second(F.hardswish(y))) + y)
            return self.last(y).mean((2, 3))

    made = compiled(Residual(), torch.randn(1, 8, 7, 9))
    swish = "shift+relu+scale+shift+relu+scale+shift+multiply+scale"
    assert layers(made) == ["conv2d+bias", swish, "conv2d+bias+residual+relu", "multiply+add", "column_mean"]
    assert not host(made) & {"nn.batch_norm", "add", "nn.relu", "mean", "multiply"}
    (region,) = made.compiled.regions
    _, step, *_ = region.steps
    assert region.value(step.output).layout.name == "tile-grid" and not step.views
    assert "residual" not in region.steps[2].views


class Chains(nn.Module):
    """Element-wise operators in all forms."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("row", torch.linspace(-1, 1, 40))
        self.register_buffer("plane", torch.randn(3, 40))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.tanh(x * y - self.row) * 2 + 1
        b = 3 - torch.relu(x).square() * self.plane
        c = torch.minimum(torch.maximum(x, y), self.row) + x
        d = torch.clamp(x, -0.5, 0.25) * torch.rsqrt(y * y + 1)
        return a, b, c, d, torch.abs(-x) + x.pow(3), torch.exp(x) @ torch.ones(40, 5)


@pytest.mark.slow
def test_chains_of_element_wise_operators() -> None:
    made = compiled(Chains(), torch.randn(2, 3, 40), torch.randn(2, 3, 40), options={"x": 2, "y": 1})
    assert not made.compiled.host.ops
    assert {"multiply+subtract+hyperbolic", "exp"} & {*layers(made)}


@pytest.mark.slow
def test_numbers_beyond_the_edges_do_not_reach_sums() -> None:
    class Odd(nn.Module):
        """Products of what has other numbers than zeros beyond its edges, in rows and in columns."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.key, self.value = nn.Linear(20, 12), nn.Linear(20, 9)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            key, value = torch.exp(self.key(x)), self.value(x) + 1
            shares = torch.softmax(key @ key.transpose(0, 1) / 8, -1)
            return key.transpose(0, 1) @ value, shares @ value, shares.max(-1, keepdim=True).values

    made = compiled(Odd(), torch.randn(19, 20))
    views = [v for region in made.compiled.regions for step in region.steps for v in step.views.values()]
    assert any(view.zero_edges for view in views)
    assert "retile" in {layer.op for layer in made.report.layers}


@pytest.mark.parametrize(("function", "reason"), [
    (lambda x: x / (x * x), "divide by the zeros beyond"),
    (lambda x: x + x[:, :1], "not constant|single number|an operand has"),
    (lambda x: torch.softmax(x, 0), "along axes"),
    (lambda x: x.sum(-1), "drops the axis"),
    (lambda x: x.pow(5), "a power other than"),
    (lambda x: x + 1e9, "beyond float16"),
    (lambda x: torch.softmax(x.repeat(1, 3000), -1), "needs in a core"),
])
def test_what_is_left_says_why(function: Any, reason: str) -> None:
    class Network(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)  # type: ignore[no-any-return]

    import re

    model = archloom.load(Network().eval(), example_inputs=torch.randn(3, 7))
    report = archloom.estimate(model, "mesh", ONE)
    reasons = [op.reason for op in report.host]
    assert any(re.search(reason, said) for said in reasons), reasons
