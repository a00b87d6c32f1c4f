"""The whole way of a small network through the façade: compile, run, report, save, load, estimate, check."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import archloom
from archloom.tvm_backend.check.network import check
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.executable import CompiledNetwork
from tests.support.tvm_backend.artifacts import damage
from tests.support.tvm_backend.small_networks import CLASSES, float_cnn, images, int8_cnn

OPTIONS = {"dim": 8}


@pytest.fixture(scope="module")
def proto() -> onnx.ModelProto:
    return int8_cnn()


@pytest.fixture(scope="module")
def network(proto: onnx.ModelProto) -> CompiledNetwork:
    return archloom.compile(archloom.load(proto), target="gemmini", options=OPTIONS)


def test_runs_exactly_as_onnxruntime_in_integers(proto: onnx.ModelProto, network: CompiledNetwork) -> None:
    session = integer_session(proto)
    for image in images(3, seed=5):
        y = network(image[None])
        assert isinstance(y, np.ndarray) and y.shape == (1, CLASSES)
        np.testing.assert_array_equal(y, run(session, {"image": image[None]})["logits"])


def test_report_is_complete_and_physical(network: CompiledNetwork) -> None:
    report = network.report
    assert report.timing == "simulated" and report.clock_hz == 1e9 and report.peak_macs_per_cycle == 64
    assert report.accelerator_cycles == sum(layer.cycles or 0 for layer in report.accelerator_layers) > 0
    assert report.accelerator_seconds == report.accelerator_cycles / report.clock_hz
    for layer in report.accelerator_layers:
        assert layer.cycles is not None and layer.cycles * report.peak_macs_per_cycle >= layer.macs
        assert layer.bytes["dram"] > 0 and layer.mapping
        assert all(sum(use) == layer.cycles for use in (
            (u.busy_cycles, u.dependency_stall_cycles, u.storage_stall_cycles, u.idle_cycles,
             u.starved_cycles)
            for u in layer.units.values()))
    assert report.offloaded_macs_share == 1.0
    assert {h.op for h in report.host} >= {"quantize", "mean"} and all(h.reason for h in report.host)
    assert sum(layer.macs for layer in report.layers) == report.macs


def test_estimate_equals_the_report_of_compile(proto: onnx.ModelProto, network: CompiledNetwork) -> None:
    assert archloom.estimate(archloom.load(proto), target="gemmini", options=OPTIONS) == network.report


def test_estimate_of_an_operator_is_that_of_its_network() -> None:
    text = "conv2d(c=5,h=9,w=9,o=7,k=3,pad=1,bias=1,relu=1)"
    from archloom.tvm_backend.sources.operator_network import onnx_model
    from archloom.tvm_backend.sources.operators import parse

    direct = archloom.estimate(text, options=OPTIONS)
    through = archloom.estimate(archloom.load(onnx_model(parse(text))), options=OPTIONS)
    assert direct.cycles == through.accelerator_cycles and direct.macs == through.macs
    assert direct.layers[0].mapping == through.layers[0].mapping


@pytest.mark.slow
@pytest.mark.parametrize("name", ["net.loom", "net.zip"])
def test_saved_and_loaded_is_the_same(network: CompiledNetwork, tmp_path: Path, name: str) -> None:
    network.save(tmp_path / name)
    loaded = archloom.load_compiled(tmp_path / name)
    assert loaded.report == network.report
    assert loaded.compiled.regions[0].steps[0].workload == network.compiled.regions[0].steps[0].workload
    assert {k: p.stream for k, p in loaded.compiled.plans.items()} == {
        k: p.stream for k, p in network.compiled.plans.items()}
    x = images(1, seed=9)
    np.testing.assert_array_equal(loaded(x), network(x))
    assert (loaded.save(tmp_path / f"again.{name}")).exists()


@pytest.mark.first_case
@pytest.mark.parametrize(("file", "change"), [
    ("network.json", {"regions": [{}]}), ("network.json", {"inputs": 3}), ("plans.json", {"stem": {}}),
    ("report.json", {"schema": "x"}), ("network.json", {"options": 7}),
])
def test_inconsistent_contents_are_named(
    network: CompiledNetwork, tmp_path: Path, file: str, change: dict[str, object]
) -> None:
    network.save(tmp_path / "net.loom")
    damage(tmp_path / "net.loom", file, change)
    with pytest.raises(archloom.ArtifactError, match=rf"net.loom: {file}: "):
        archloom.load_compiled(tmp_path / "net.loom")


def test_check_passes_and_measures_accuracy(proto: onnx.ModelProto) -> None:
    x = images(6, seed=3)
    session = integer_session(proto)
    labels = np.array([run(session, {"image": image[None]})["logits"].argmax() for image in x])
    labels[0] = (labels[0] + 1) % CLASSES
    result = archloom.check(proto, options=OPTIONS, inputs=x, labels=labels, reference=float_cnn())
    assert result.passed and result.samples == 6 and result.reference == "onnxruntime"
    assert all(layer.bit_exact and layer.max_abs_error == 0 for layer in result.layers)
    assert [layer.name for layer in result.layers] == ["stem", "branch", "add", "down", "logits"]
    (output,) = result.outputs
    assert output.max_abs_error == 0 and output.top1_agreement == 1 and output.quantization_step is not None
    assert result.accuracy is not None and result.accuracy.accelerator == pytest.approx(5 / 6)
    assert json.loads(json.dumps(result.to_json()))["passed"] is True


@pytest.mark.slow
def test_check_finds_a_wrong_stream(proto: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer runs on the oracle with its result off by one: the check must name it and the output."""
    from archloom.tvm_backend.executors import XlaExecutor

    right = XlaExecutor.run

    def wrong(self: XlaExecutor, step, arguments):  # type: ignore[no-untyped-def]
        result = right(self, step, arguments)
        return result + 1 if step.name == "logits" else result

    monkeypatch.setattr(XlaExecutor, "run", wrong)
    result = check(archloom.load(proto), "gemmini", OPTIONS, inputs=images(1))
    assert not result.passed
    assert [layer.name for layer in result.layers if not layer.bit_exact] == ["logits"]
    assert any("layer logits: differs from the interpreter by up to 1" in f for f in result.failures)


@pytest.mark.slow
def test_check_of_a_network_without_onnx(proto: onnx.ModelProto) -> None:
    model = dataclasses.replace(archloom.load(proto), onnx=None)
    result = check(model, "gemmini", OPTIONS, count=2)
    assert result.passed and result.reference == "host" and result.samples == 2


def test_float_network_stays_on_the_host_and_is_named() -> None:
    network = archloom.compile(float_cnn(), options=OPTIONS)
    assert network.report.offloaded_macs == 0 and network.report.accelerator_cycles == 0
    assert all(h.reason for h in network.report.host) and network.report.utilization is None
    assert any("float" in h.reason for h in network.report.host if h.op == "nn.conv2d")


def test_inputs_are_checked(network: CompiledNetwork) -> None:
    with pytest.raises(archloom.InputError, match="float32 of shape 1x3x12x12"):
        network(np.zeros((1, 3, 12, 11), np.float32))
    with pytest.raises(archloom.InputError, match="found dtype float64"):
        network(np.zeros((1, 3, 12, 12)))
