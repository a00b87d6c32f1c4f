"""Modules made by TVM's own importers, without any of archloom's: ONNX, PyTorch and relax.frontend.nn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
import torch
from torch import nn
from tvm.relax.frontend import nn as relax_nn
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.torch import from_exported_program

import archloom
from archloom.tvm_backend.ir.compat import tvm
from archloom.tvm_backend.targets import registry
from tests.support.examples import slow
from tests.support.tvm_backend import inside
from tests.support.tvm_backend.networks import Net, attention, quantized, residual_cnn
from tests.support.tvm_backend.small_networks import int8_cnn

DATA = Path(onnx.backend.test.__file__).parent / "data" / "pytorch-converted"
Made = tuple[Any, list[np.ndarray]]
"""A module and inputs for it."""


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ONNX -----------------------------------------------------------------------------------------------------------------


def of_onnx(model: onnx.ModelProto) -> Made:
    module = from_onnx(model, keep_params_in_input=False)
    weights = {tensor.name for tensor in model.graph.initializer}
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name not in weights]
    return module, [normal(*shape) for shape in shapes]


def of_data(name: str) -> Made:
    return of_onnx(onnx.load(DATA / name / "model.onnx"))


def mlp() -> onnx.ModelProto:
    net = Net()
    x = net.node("Relu", [net.dense(net.input("x", 2, 32), "fc1", 32, 24)], "relu")
    return net.model(net.node("Softmax", [net.dense(x, "fc2", 24, 10)], "softmax"))


def separable() -> onnx.ModelProto:
    """Depthwise and pointwise convolutions, clipped as MobileNet does."""
    net = Net()
    x = net.input("image", 1, 3, 12, 12)
    x = net.node("Relu", [net.conv(x, "stem", 3, 8, pads=[1, 1, 1, 1], strides=[2, 2])], "stem_relu")
    x = net.node("Relu", [net.conv(x, "depthwise", 8, 8, pads=[1, 1, 1, 1], group=8)], "depthwise_relu")
    x = net.conv(x, "pointwise", 8, 12, 1)
    return net.model(net.node("GlobalAveragePool", [x], "average"))


# PyTorch --------------------------------------------------------------------------------------------------------------


def tensor(*shape: int) -> torch.Tensor:
    return torch.from_numpy(normal(*shape))


def of_torch(module: nn.Module, *inputs: torch.Tensor) -> Made:
    torch.manual_seed(0)
    with torch.no_grad():
        program = torch.export.export(module.eval(), inputs)
    return from_exported_program(program), [x.numpy() for x in inputs]


class Block(nn.Module):
    """A block of a transformer: attention of two heads, and products with an activation."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (t.reshape(batch, length, 2, width // 2).transpose(1, 2) for t in parts)
        scores = torch.softmax(q @ k.transpose(-1, -2) / (width // 2) ** 0.5, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Several(nn.Module):
    """Two inputs and three results, of which one is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.a(x) * self.b(y), y, self.b(x + y).sum()


class Words(nn.Module):
    """Indices of words in."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(20, 8), nn.Linear(8, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(words).mean(1))


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))


def lazy(module: nn.Module, *inputs: torch.Tensor) -> Made:
    module(*inputs)
    return of_torch(module, *inputs)


# relax.frontend.nn ----------------------------------------------------------------------------------------------------


class RelaxMlp(relax_nn.Module):
    def __init__(self) -> None:
        self.up, self.down = relax_nn.Linear(16, 32), relax_nn.Linear(32, 8, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(relax_nn.op.relu(self.up(x)))


class RelaxNorm(relax_nn.Module):
    def __init__(self) -> None:
        self.norm, self.out = relax_nn.RMSNorm(16, axes=-1, bias=False), relax_nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        return x + relax_nn.op.silu(self.out(self.norm(x)))


def of_relax(module: relax_nn.Module, *shape: int) -> Made:
    """Its function is called forward; parameters come behind the inputs."""
    made, parameters = module.export_tvm({"forward": {"x": relax_nn.spec.Tensor(list(shape), "float32")}})
    weights = [normal(*map(int, p.shape), seed=i) for i, (_, p) in enumerate(parameters)]
    return made, [normal(*shape), *weights]


@dataclass(frozen=True)
class Case:
    """``near``: how far from TVM's results, relative to the largest."""

    target: str
    make: Callable[[], Made]
    near: float = 2.0 ** -16
    entry: str = "main"
    options: dict[str, Any] = field(default_factory=dict)


HALF = 2.0 ** -6
"""Sums of some dozens of products whose operands are rounded to 11 bits, in a few layers."""
STEPS = 0.02
"""A requantized value is off by a step, of 255, where the sums before are rounded otherwise."""
MESH = {"x": 2, "y": 2}

CASES: dict[str, Case] = {
    "onnx mlp": Case("qkv", lambda: of_onnx(mlp())),
    "onnx residual": Case("qkv", lambda: of_onnx(residual_cnn())),
    "onnx residual on plasticine": Case("plasticine", lambda: of_onnx(residual_cnn())),
    "onnx residual on a mesh": Case("mesh", lambda: of_onnx(residual_cnn()), HALF, options=MESH),
    "onnx attention": Case("qkv", lambda: of_onnx(attention())),
    "onnx attention on wormhole": Case("wormhole", lambda: of_onnx(attention()), HALF),
    "onnx separable": Case("mesh", lambda: of_onnx(separable()), HALF, options=MESH),
    "onnx int8 residual": Case("gemmini", lambda: of_onnx(quantized(residual_cnn())), STEPS),
    "onnx int8 attention": Case("gemmini", lambda: of_onnx(quantized(attention())), STEPS),
    "onnx int8 mlp": Case("amx", lambda: of_onnx(quantized(mlp())), STEPS),
    "onnx int8 cnn": Case("eyeriss", lambda: of_onnx(int8_cnn()), STEPS),
    "onnx int8 separable": Case("gemmini", lambda: of_onnx(quantized(separable())), STEPS),
    "onnx test_Linear": Case("qkv", lambda: of_data("test_Linear")),
    "onnx test_Conv2d_padding": Case("qkv", lambda: of_data("test_Conv2d_padding")),
    "onnx test_Conv2d_groups": Case("mesh", lambda: of_data("test_Conv2d_groups"), HALF, options=MESH),
    "torch cnn": Case("qkv", lambda: lazy(cnn(), tensor(1, 3, 12, 12))),
    "torch cnn on a mesh": Case("mesh", lambda: lazy(cnn(), tensor(1, 3, 12, 12)), HALF, options=MESH),
    "torch block": Case("qkv", lambda: of_torch(Block(), tensor(1, 6, 16))),
    "torch block on a mesh": Case("mesh", lambda: of_torch(Block(), tensor(1, 6, 16)), HALF, options=MESH),
    "torch several": Case("qkv", lambda: of_torch(Several(), tensor(3, 8), tensor(3, 8))),
    "torch words": Case("plasticine", lambda: of_torch(Words(), torch.tensor([[1, 5, 19], [0, 2, 7]]))),
    "relax mlp": Case("qkv", lambda: of_relax(RelaxMlp(), 4, 16), entry="forward"),
    "relax norm": Case("triple_ring", lambda: of_relax(RelaxNorm(), 4, 16), HALF, "forward"),
}
FAST = ("onnx mlp", "relax mlp")


def near(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], bound: float) -> None:
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=0, atol=bound * max(1e-30, float(np.abs(y).max(initial=0))))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name if name in FAST else slow(name) for name in CASES])
def test_modules_of_importers(name: str) -> None:
    case = CASES[name]
    module, inputs = case.make()
    partitioned = archloom.tvm.partition_for(case.target, module, **case.options)
    assert inside.regions(partitioned, case.target)
    executable = tvm.compile(inside.generated(partitioned), target="llvm")
    expected = inside.raw(tvm.compile(module, target="llvm"), *inputs, entry=case.entry)
    found = inside.raw(executable, *inputs, entry=case.entry)
    assert inside.kinds(found) == inside.kinds(expected)
    near(inside.arrays(found), inside.arrays(expected), case.near)
    same = tvm.IRModule({"main": module[case.entry].with_attr("global_symbol", "main")})
    inside.same(inside.arrays(found), inside.by_archloom(case.target, same, *inputs, **case.options))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["qkv", slow("mesh")])
def test_parameters_of_relax_modules_are_bound_by_name(target: str) -> None:
    module, (x, *weights) = of_relax(RelaxMlp(), 4, 16)
    names = [p.name for p in module["forward"].params][1:]
    partitioned = archloom.tvm.partition_for(target, module, params=dict(zip(names, weights)))
    assert inside.regions(partitioned, target) and len(partitioned["forward"].params) == 1
    executable = tvm.compile(inside.generated(partitioned), target="llvm")
    expected = inside.alone(module, x, *weights, entry="forward")
    near(inside.run(executable, x, entry="forward"), expected, HALF if target == "mesh" else 2.0 ** -16)
    assert registry.get(target).patterns
