"""Python's estimate, a full compilation and the command line are of one network, whatever it was given as."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import archloom
from archloom.models import catalogue
from archloom.oracle.errors import InputError, MappingError
from archloom.tvm_backend import cli
from archloom.tvm_backend.ir.numbers import is_quantized
from archloom.tvm_backend.report.data import Layer, Report
from archloom.tvm_backend.sources import named_networks
from archloom.tvm_backend.targets.choice import backends
from tests.support.examples import slow
from tests.support.tvm_backend.small_networks import float_cnn

SMALL = {"mesh": {"x": 2, "y": 2}, "triple_ring": {"rows": 2, "columns": 2}}
"""Options with which a target of many cores is quick."""
TARGETS = [info.name for info in archloom.targets()]
VIT = "vit_base(image=16,patch=8,width=16,depth=1,heads=2,classes=4)"
SAMPLE = [("gemm(m=8,n=8,k=16)", "gemmini"), ("gemm(m=8,n=8,k=16,bias=1)", "qkv"), (VIT, "qkv,gemmini"),
          slow(VIT, "qkv"),
          slow("mlp_mixer(image=16,patch=8,width=16,depth=1,tokens=8,channels=16,classes=4)", "gemmini")]


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


def as_int8_is_as_quantized(text: str) -> None:
    """What runs on the accelerator is the same, in the same cycles; onnxruntime folds some more of the host's work."""
    built = catalogue.build(text)
    network = named_networks.float_onnx(built)
    assumed = archloom.estimate(network, as_int8=True)
    measured = archloom.estimate(archloom.quantize(network, built.samples(4)))
    layers = [sorted((la.op, la.macs, la.cycles or 0) for la in report.accelerator_layers)
              for report in (assumed, measured)]
    assert layers[0] == layers[1]
    assert assumed.accelerator_cycles == measured.accelerator_cycles > 0


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    "bert_base(length=8,width=16,layers=1,vocabulary=50)", "unet(image=16,width=4,depth=1)",
    "lstm_keywords(frames=4,features=8,hidden=8)"])
def test_a_float_network_is_estimated_as_it_would_be_quantized(text: str) -> None:
    as_int8_is_as_quantized(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.BY_NAME)
def test_every_float_network_is_estimated_as_it_would_be_quantized(name: str) -> None:
    as_int8_is_as_quantized(catalogue.tiny(name))


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
