"""Networks that torchao 0.18 has quantized come in as they are: modules, exported programs and their files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchao import quantization as torchao

import archloom
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.targets import registry
from tests.support.examples import slow
from tests.support.tvm_backend.networks import executable, split
from tests.support.tvm_backend.reference import ReferenceExecutor

DYNAMIC, WEIGHTS_ONLY = torchao.Int8DynamicActivationInt8WeightConfig, torchao.Int8WeightOnlyConfig


class Cnn(nn.Module):
    """Convolutions with normalization, ReLU, pooling and a residual, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        x = torch.relu(x + self.second(x))
        result: torch.Tensor = self.last(x.mean((2, 3)))
        return result


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm, self.projections = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.mix, self.out = nn.Linear(width, width), nn.Linear(width, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.projections(self.norm(x)).chunk(3, -1)
        x = x + self.mix(nn.functional.scaled_dot_product_attention(query, key, value))
        result: torch.Tensor = self.out(nn.functional.gelu(x))
        return result


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 16))


def as_module(module: nn.Module, x: torch.Tensor, path: Path) -> Any:
    return archloom.load(module, x)


def as_program(module: nn.Module, x: torch.Tensor, path: Path) -> Any:
    return archloom.load(torch.export.export(module, (x,)))


def as_file(module: nn.Module, x: torch.Tensor, path: Path) -> Any:
    torch.export.save(torch.export.export(module, (x,)), path / "net.pt2")
    return archloom.load(path / "net.pt2")


def result(model: Any) -> Any:
    def run(x: torch.Tensor) -> np.ndarray:
        found = executable(model).run({model.inputs[0].name: x.numpy()}, executor=ReferenceExecutor())
        return np.asarray(next(iter(found.values())))

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("form", "unsigned"), [(as_module, True), slow(as_module, False), slow(as_file, True)])
def test_dynamic_int8_keeps_its_integers(
    form: Any, unsigned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchao moves activations to uint8, and takes that back by a bias, on processors with VNNI but without AMX."""
    monkeypatch.setattr("torchao.kernel.intmm._cpu_is_vnni_supported", lambda: unsigned)
    monkeypatch.setattr("torchao.kernel.intmm._cpu_is_amx_tile_supported", lambda: not unsigned)
    torch.manual_seed(0)
    module, x = mlp().eval(), torch.randn(20, 48)
    torchao.quantize_(module, DYNAMIC())
    model = form(module, x, tmp_path)
    part = split(model)[0]
    op = "dense+bias+int32" if unsigned else "dense+int32"
    assert part.offloaded_macs_share == 1 and [s.op for s in part.steps()] == [op] * 2
    np.testing.assert_allclose(result(model)(x), module(x).detach().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_check_runs_what_only_tvm_can() -> None:
    """The reference of a network with operators that the host does not run on XLA (``full_like``)."""
    torch.manual_seed(0)
    module, x = mlp().eval(), torch.randn(4, 48)
    torchao.quantize_(module, DYNAMIC())
    found = archloom.check(archloom.load(module, x), target="gemmini")
    assert found.outputs[0].cosine > 0.999 and all(layer.bit_exact for layer in found.layers)


def test_weights_alone_are_bytes_for_targets_of_floats(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = mlp().eval(), torch.randn(20, 48)
    torchao.quantize_(module, WEIGHTS_ONLY())
    exe = archloom.compile(as_file(module, x, tmp_path), target="qkv")
    assert exe.report.offloaded_macs == exe.report.macs == 20 * (48 * 32 + 32 * 16)
    np.testing.assert_allclose(exe(x), module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def quantizer(kind: str) -> Any:
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    dynamic = kind.endswith("dynamic")
    if kind.startswith("x86"):
        return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(
            is_dynamic=dynamic))
    return xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(
        is_per_channel=kind != "xnnpack tensor", is_dynamic=dynamic))


def quantized(module: nn.Module, x: torch.Tensor, kind: str) -> Any:
    from torchao.quantization.pt2e import quantize_pt2e

    with torch.no_grad():
        prepared = quantize_pt2e.prepare_pt2e(torch.export.export(module.eval(), (x,)).module(), quantizer(kind))
        prepared(x)
        return quantize_pt2e.convert_pt2e(prepared)


@pytest.mark.slow
@pytest.mark.parametrize("kind, network, form", [
    ("x86", Cnn, as_program), slow("xnnpack channels", Block, as_file), slow("xnnpack tensor", Cnn, as_file),
    slow("x86 dynamic", Block, as_file), slow("x86", Block, as_module), slow("xnnpack dynamic", Block, as_program),
])
def test_pt2e(kind: str, network: Callable[[], nn.Module], form: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8) if network is Cnn else torch.randn(2, 6, 16)
    module = quantized(network(), x, kind)
    model = form(module, x, tmp_path)
    part = split(model)[0]
    on_floats = 0 if network is Cnn else 2 * 2 * 6 * 6 * 16
    assert part.offloaded_macs == part.macs - on_floats
    if kind == "xnnpack tensor":  # biases, activations and requantization are part of the layers
        assert {tensor.dtype for region in part.regions for tensor in region.values} == {"int8"}
        assert split(model, registry.get("qkv"))[0].offloaded_macs_share == 1
    wanted = module(x).detach().numpy()
    np.testing.assert_allclose(result(model)(x), wanted, atol=0.02 * np.abs(wanted).max())


def test_without_torchao_a_file_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = mlp().eval(), torch.randn(2, 48)
    torchao.quantize_(module, WEIGHTS_ONLY())
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "net.pt2")

    monkeypatch.setitem(sys.modules, "torchao.quantization", None)
    with pytest.raises(ModelError, match="weight '0.weight' has been quantized by torchao, which is not installed"):
        archloom.load(tmp_path / "net.pt2")
