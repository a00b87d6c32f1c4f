"""Estimates for searches: the cycles of a full compilation, by content, in a batch, without calibration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import archloom
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.compile import compile_model, partition_model
from archloom.tvm_backend.estimate import network as estimate
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.report.build import of_compiled
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.report.text import full_text
from examples import nas_space
from examples.nas_space import Architecture, Space, Stage
from tests.support.tvm_backend.networks import residual_cnn
from tests.support.tvm_backend.small_networks import float_cnn, images, int8_cnn

SMALL = Space(
    images=(16,), multipliers=(0.25,), stages=(Stage(16, 2, (1, 2)),), stem=8, first=8, head=16, classes=5)
DIM = {"dim": 8}


def layers(report: Report) -> dict[str, Any]:
    return {layer.name: replace(layer, region=None) for layer in report.layers}


def network(kernel: int = 3) -> onnx.ModelProto:
    return nas_space.onnx_model(Architecture(16, 0.25, (((kernel, 3),),), SMALL), seed=0)


@pytest.mark.slow
def test_the_same_cycles_as_a_full_compilation() -> None:
    model = quantize(network(), [np.random.default_rng(0).standard_normal((1, 3, 16, 16), np.float32)])
    compiled = of_compiled(compile_model(archloom.load(model), "gemmini", DIM))
    estimated = archloom.estimate(model, options=DIM)
    assert estimated.cycles == compiled.cycles > 0
    assert layers(estimated) == layers(compiled)


@pytest.mark.first_case
@pytest.mark.parametrize("make", [network, float_cnn, residual_cnn])
def test_as_int8_has_the_layers_and_cycles_of_the_quantized_network(make: Any) -> None:
    model = make()
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    real = quantize(model, [np.random.default_rng(i).standard_normal(shape, np.float32) for i in range(2)])
    assumed = archloom.estimate(model, options=DIM, as_int8=True)
    measured = archloom.estimate(real, options=DIM)
    assert assumed.accelerator_cycles == measured.accelerator_cycles > 0
    assert {n: (la.op, la.macs, la.cycles) for n, la in layers(assumed).items()} == {
        n: (la.op, la.macs, la.cycles) for n, la in layers(measured).items()}


def test_asked_again_the_report_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(int8_cnn(), tmp_path / "net.onnx")
    first = archloom.estimate(tmp_path / "net.onnx", options=DIM)
    loaded = archloom.load(tmp_path / "net.onnx")
    of_model = archloom.estimate(loaded, options=DIM)
    monkeypatch.setattr(estimate, "_timed", lambda *_: pytest.fail("worked out again"))
    assert archloom.estimate(tmp_path / "net.onnx", options=DIM) == first
    assert archloom.estimate(loaded, options=DIM) == of_model
    estimate._reports.clear()
    assert archloom.estimate(tmp_path / "net.onnx", options=DIM) == first  # from the disk


@pytest.mark.slow
def test_another_option_or_shape_is_another_estimate() -> None:
    cycles = {archloom.estimate(int8_cnn(), options={"dim": d}).cycles for d in (4, 8)}
    assert len(cycles) == 2


@pytest.mark.slow
def test_a_batch_gives_what_single_estimates_give(tmp_path: Path) -> None:
    onnx.save(int8_cnn(), tmp_path / "cnn.onnx")
    models = [network(3), network(5), tmp_path / "cnn.onnx", network(3)]
    reports = archloom.estimate_many(iter(models), options=DIM, as_int8=False, workers=2)
    for model, report in zip(models, reports, strict=True):
        assert isinstance(report, Report)
        single = archloom.estimate(model, options=DIM)
        assert (report.model, report.cycles, report.macs) == (single.model, single.cycles, single.macs)
        assert [(la.name, la.cycles, la.bytes) for la in report.layers] == [
            (la.name, la.cycles, la.bytes) for la in single.layers]


@pytest.mark.slow
def test_a_batch_of_float_networks_gives_what_single_estimates_give(tmp_path: Path) -> None:
    onnx.save(network(5), tmp_path / "five.onnx")
    models = [network(3), tmp_path / "five.onnx", residual_cnn(), network(3)]
    reports = archloom.estimate_many(iter(models), options=DIM, as_int8=True, workers=2, details=True)
    estimate.forget()
    for model, report in zip(models, reports, strict=True):
        single = archloom.estimate(model, options=DIM, as_int8=True)
        assert isinstance(report, Report)
        assert replace(report, layers=()) == replace(single, layers=())
        assert [(la.name, la.cycles, la.mapping) for la in report.layers] == [
            (la.name, la.cycles, la.mapping) for la in single.layers]


@pytest.mark.slow
def test_a_workload_without_a_mapping_in_a_batch() -> None:
    small = {"dim": 8, "scratchpad_kib": 1, "accumulator_kib": 1}
    wide = nas_space.onnx_model(Architecture(16, 0.25, (((31, 3),),), SMALL))
    single = archloom.estimate(wide, options=small, as_int8=True)
    refused = [(op.name, op.reason) for op in single.host if op.macs]
    assert any(name.startswith("block1") and "scratchpad" in reason for name, reason in refused)
    for workers in (1, 2):
        (found,) = archloom.estimate_many([wide], options=small, as_int8=True, workers=workers)
        assert isinstance(found, Report) and found.cycles == single.cycles
        assert [(op.name, op.reason) for op in found.host if op.macs] == refused


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_estimated_in_a_batch(tmp_path: Path, workers: int) -> None:
    models = [network(), tmp_path / "absent.onnx"]
    with pytest.raises(ModelError, match="no such file"):
        archloom.estimate_many(models, options=DIM, as_int8=True, workers=workers)
    report, error = archloom.estimate_many(models, options=DIM, as_int8=True, workers=workers, on_error="return")
    assert isinstance(report, Report) and isinstance(error, ModelError)
    with pytest.raises(InputError, match="workers"):
        archloom.estimate_many(models, workers=0)


def test_what_only_tvm_can_read_takes_its_way() -> None:
    model = float_cnn()
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Elu"
    quantized = quantize(model, images(2)[:, None])
    report = archloom.estimate(quantized, options=DIM)
    (slower,) = report.fallbacks
    assert "operator Elu" in slower.why and slower.why in full_text(report)
    assert Report.from_json(report.to_json()) == report
    assert "fallbacks" not in archloom.estimate(int8_cnn(), options=DIM).to_json()
    steps = partition_model(archloom.load(quantized), "gemmini", DIM).steps()
    assert [la.name for la in report.accelerator_layers] == [s.name for s in steps]
    (other,) = archloom.estimate_many([quantized], options=DIM, workers=2)
    assert isinstance(other, Report) and other.cycles == report.cycles


@pytest.mark.slow
@pytest.mark.parametrize("place", ["frontends.onnx.importer._Importer._node", "frontends.onnx.editor.rewrite"])
def test_a_fault_of_a_program_is_told_as_one(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise AttributeError("no such field")

    model = int8_cnn()
    monkeypatch.setattr(f"archloom.tvm_backend.{place}", wrong)
    with pytest.raises(AttributeError, match="no such field"):
        archloom.estimate(model, options=DIM)


def test_as_int8_of_an_old_operator_set() -> None:
    model = float_cnn()
    expected = archloom.estimate(model, options=DIM, as_int8=True)
    old = float_cnn()
    old.opset_import[0].version = 12  # its operators meant the same there
    found = archloom.estimate(old, options=DIM, as_int8=True)
    assert found.cycles == expected.cycles > 0 and found.offloaded_macs == expected.offloaded_macs
    (batched,) = archloom.estimate_many([old], options=DIM, as_int8=True, workers=2)
    assert isinstance(batched, Report) and batched.cycles == expected.cycles


def test_as_int8_is_for_networks_that_are_at_hand_in_floats() -> None:
    assert archloom.estimate(archloom.load(float_cnn()), as_int8=True) == archloom.estimate(float_cnn(), as_int8=True)
    with pytest.raises(InputError, match="as_int8"):
        archloom.estimate("gemm(m=4,n=4,k=4)", "qkv", as_int8=True)
