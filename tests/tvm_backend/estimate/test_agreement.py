"""Python's estimate, a full compilation and the command line are of one network, whatever it was given as."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import onnx
import pytest
import torch
from hypothesis import given
from torch import nn

import archloom
from archloom.models import catalogue
from archloom.oracle.errors import InputError, MappingError
from archloom.tvm_backend import cli
from archloom.tvm_backend.ir.numbers import is_quantized
from archloom.tvm_backend.report.data import Layer, Report
from archloom.tvm_backend.sources import named_networks
from archloom.tvm_backend.targets.choice import backends
from tests.support.examples import examples, randoms, slow
from tests.support.tvm_backend.networks import Net, quantized, samples
from tests.support.tvm_backend.small_networks import float_cnn
from tests.support.tvm_backend.written_out import network

SMALL = {"mesh": {"x": 2, "y": 2}, "triple_ring": {"rows": 2, "columns": 2}}
"""Options with which a target of many cores is quick."""
TARGETS = [info.name for info in archloom.targets()]
VIT = "vit_base(image=16,patch=8,width=16,depth=1,heads=2,classes=4)"
SAMPLE = [("gemm(m=8,n=8,k=16)", "gemmini"), ("gemm(m=8,n=8,k=16,bias=1)", "qkv"), (VIT, "qkv,gemmini"),
          slow(VIT, "qkv"),
          slow("mlp_mixer(image=16,patch=8,width=16,depth=1,tokens=8,channels=16,classes=4)", "gemmini")]


class Queries(nn.Module):
    """A decoder of constant queries, whose attention to each other depends on no input."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 4, 16))
        self.decoder = nn.TransformerDecoderLayer(16, 2, 24, 0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.decoder(self.queries, x)
        return found


class Windows(nn.Module):
    """Attention within windows, whose operands are parts of a tensor of five axes."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        mixed: torch.Tensor = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return mixed.transpose(1, 2).reshape(2, 8, 16)


class Frames(nn.Module):
    """A recurrent layer in both directions, whose first states are zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 8, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.gru(x)[0]
        return found


class Experts(nn.Module):
    """Products of the same rows by several matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("btd,ndh->btnh", x, self.weight)


def growing() -> nn.Module:
    """Transposed convolutions with and without a crop, and activations that are shares of their operands."""
    return nn.Sequential(nn.ConvTranspose2d(4, 6, 2, 2), nn.Hardswish(), nn.ConvTranspose2d(6, 4, 3, 2, 1),
                         nn.Hardswish(), nn.Conv2d(4, 4, 3))


MODULES: tuple[tuple[Callable[[], nn.Module], tuple[int, ...]], ...] = (
    (Queries, (1, 6, 16)), (Windows, (2, 8, 16)), (Frames, (1, 3, 8)), (growing, (1, 4, 5, 5)), (Experts, (1, 5, 8)))
"""Modules of torch, and the shape of what they take."""


def told(capsys: pytest.CaptureFixture[str], model: str, target: str, options: dict[str, int]) -> Report:
    """What the command line prints."""
    words = [word for key, value in options.items() for word in ("-O", f"{key}={value}")]
    assert cli.main(["estimate", model, "-t", target, "--json", *words]) == 0
    return Report.from_json(json.loads(capsys.readouterr().out))


def one_network(capsys: pytest.CaptureFixture[str], model: str, target: str) -> None:
    options = SMALL.get(target, {})
    found = archloom.estimate(model, target, options)
    assert found == told(capsys, model, target, options)
    (among_many,) = archloom.estimate_many([model], target, options, workers=1, details=True)
    assert among_many == found
    if "(m=" in model:  # an operator is mapped as it is; compiled, it is a network with quantization around it
        return
    compiled = archloom.compile(model, target, options).report
    assert layers_of(compiled) == layers_of(found)
    assert (compiled.accelerator_cycles, compiled.macs) == (found.accelerator_cycles, found.macs)


def layers_of(report: Report) -> list[Layer]:
    """The layers; of a quantized network those of the accelerator, nameless and in no order: onnxruntime folds some
    more of the host's work, calls what it fuses otherwise, and puts branches that wait for nothing first."""
    if not is_quantized(backends(report.target)[0].numbers):
        return list(report.layers)
    return sorted([replace(layer, name="") for layer in report.accelerator_layers], key=repr)


@pytest.mark.parametrize(("model", "target"), SAMPLE)
def test_all_ways_give_one_report(capsys: pytest.CaptureFixture[str], model: str, target: str) -> None:
    one_network(capsys, model, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", catalogue.BY_NAME)
def test_all_ways_give_one_report_of_every_network(
    capsys: pytest.CaptureFixture[str], name: str, target: str
) -> None:
    try:
        one_network(capsys, catalogue.tiny(name), target)
    except MappingError:  # larger than the machine: said by each way alike, in test_estimate
        pytest.skip("a layer has no mapping")


def as_int8_is_as_quantized(network: Any, samples: Any) -> None:
    """The same work on accelerator and host, in the same cycles; which reshapes onnxruntime quantizes depends on the
    order of nodes, which it changes."""
    assumed = archloom.estimate(network, as_int8=True)
    measured = archloom.estimate(archloom.quantize(network, samples))
    layers = [sorted((layer.op, layer.macs, layer.cycles or 0) for layer in report.layers
                     if layer.op not in ("quantize", "dequantize")) for report in (assumed, measured)]
    assert layers[0] == layers[1]
    assert assumed.accelerator_cycles == measured.accelerator_cycles > 0


def of_the_catalogue(text: str) -> None:
    built = catalogue.build(text)
    as_int8_is_as_quantized(named_networks.float_onnx(built), built.samples(4))


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    "bert_base(length=8,width=16,layers=1,vocabulary=50)", "unet(image=16,width=4,depth=1)",
    "lstm_keywords(frames=4,features=8,hidden=8)"])
def test_a_float_network_is_estimated_as_it_would_be_quantized(text: str) -> None:
    of_the_catalogue(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.BY_NAME)
def test_every_float_network_is_estimated_as_it_would_be_quantized(name: str) -> None:
    of_the_catalogue(catalogue.tiny(name))


@pytest.mark.parametrize(("make", "shape"), MODULES)
def test_a_module_is_estimated_as_it_would_be_quantized(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    samples = [torch.randn(shape).numpy() for _ in range(2)]
    as_int8_is_as_quantized(torch.export.export(make().eval(), (torch.randn(shape),)), samples)


@given(random=randoms)
@examples(6, 200)
def test_a_network_that_writes_things_out_is_estimated_as_it_would_be_quantized(random: Random) -> None:
    model = network(random)
    as_int8_is_as_quantized(model, samples(model, 2))


@given(random=randoms)
@examples(1, 40)
def test_products_of_one_tensor_are_not_taken_for_the_same(random: Random) -> None:
    """On a machine that computes the same once, whose weights are not known."""
    net, (k, n) = Net(), (random.randint(2, 8), random.randint(2, 8))
    x = net.input("x", 4, k)
    parts = [net.node("Tanh", [net.dense(x, f"dense{i}", k, n)], f"tanh{i}") for i in range(3)]
    model = net.model(net.node("Concat", parts, "all", axis=1))
    assumed, measured = archloom.estimate(model, "mte", as_int8=True), archloom.estimate(quantized(model), "mte")
    assert assumed.macs == measured.macs == 3 * 4 * k * n
    assert assumed.cycles == measured.cycles


def test_operators_and_networks_by_name_are_quantized_where_the_target_wants_it() -> None:
    for model in ("gemm(m=4,n=4,k=4)", "lstm_keywords(frames=4,features=8,hidden=8)"):
        assert archloom.estimate(model, as_int8=True) == archloom.estimate(model)
        many = [archloom.estimate_many([model], as_int8=wanted, workers=1) for wanted in (True, False)]
        assert many[0] == many[1]
        with pytest.raises(InputError, match="as_int8"):
            archloom.estimate(model, "qkv", as_int8=True)


def test_a_file_of_the_name_of_a_network_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(float_cnn(), "alexnet")
    assert archloom.estimate("alexnet").macs == archloom.estimate(float_cnn()).macs
