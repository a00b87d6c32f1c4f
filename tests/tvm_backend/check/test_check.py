"""``check``: accuracies of the three, layers against integers, reference and floats, and where they part."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.mapper import workload
from archloom.mapper.nests import Axis, Code, Nest, Pass, Store
from archloom.models import data, digits
from archloom.oracle.affine import Affine
from archloom.oracle.errors import InputError
from archloom.tvm_backend import cli
from archloom.tvm_backend.check import network
from archloom.tvm_backend.check.layers import LayerCheck, LayerRun, _as_operator, check_layers, snr_db
from archloom.tvm_backend.check.network import CheckResult, check
from archloom.tvm_backend.check.workload_reference import evaluate, steps_of_nest
from archloom.tvm_backend.executors import XlaExecutor
from archloom.tvm_backend.frontends.torch.export import to_onnx
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.quantization.scheme import Scheme
from examples import digits_onnx
from examples.onnx_graph import OnnxGraph
from tests.support.tvm_backend.networks import Net, quantized, residual_cnn, samples

OPTIONS = {"dim": 16}


@pytest.fixture(scope="module")
def split() -> data.Split:
    whole = data.digits()
    return data.Split(
        whole.train_images[:400], whole.train_labels[:400], whole.test_images[:40], whole.test_labels[:40])


def _images(split: data.Split) -> list[dict[str, np.ndarray]]:
    return [{"image": image[None]} for image in split.train_images[:32]]


def _checked(floats: onnx.ModelProto, split: data.Split, **scheme: Any) -> CheckResult:
    model = quantize(floats, _images(split), Scheme(**scheme))
    return archloom.check(model, options=OPTIONS, inputs=split.test_images, labels=split.test_labels, reference=floats)


def _holds(result: CheckResult, net: torch.nn.Module, split: data.Split, lost: float) -> None:
    accuracy = result.accuracy
    assert result.failures == () and accuracy is not None
    assert accuracy.float_network is not None
    assert accuracy.float_network == pytest.approx(digits.accuracy(net, split.test_images, split.test_labels))
    assert accuracy.quantized is not None and abs(accuracy.accelerator - accuracy.quantized) <= 0.05
    assert accuracy.accelerator >= accuracy.float_network - lost
    assert all(layer.bit_exact and layer.integer_error == 0 for layer in result.layers)
    assert all(layer.snr_db is not None and layer.snr_db > 15 for layer in result.layers)


@pytest.mark.slow
def test_a_convolutional_network_trained_on_digits(split: data.Split) -> None:
    net = digits.train(split, digits.Training(epochs=4), width=4)
    result = _checked(digits_onnx.onnx_model(net), split)
    _holds(result, net, split, lost=0.05)
    assert result.first_difference is None and all(layer.differing == 0 for layer in result.layers)
    assert result.accuracy is not None and result.accuracy.to_json()["reference"] == result.accuracy.float_network


@pytest.mark.slow
def test_a_vision_transformer_trained_on_digits(split: data.Split) -> None:
    net = digits.trained(lambda: digits.DigitsViT(16, 2, 1), split, digits.Training(epochs=12, learning_rate=2e-2))
    result = _checked(to_onnx(net, np.zeros((1, 1, 8, 8), np.float32), "digits", ["image"]), split)
    _holds(result, net, split, lost=0.1)
    assert {"batch_matmul", "dense+bias"} <= {layer.op for layer in result.layers}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("digits_cnn", 0.97), ("digits_vit", 0.92)])
def test_trained_networks_by_name(name: str, least: float, capsys: pytest.CaptureFixture[str]) -> None:
    """All test digits, by the command line: the float network, its quantized form and the accelerator agree."""
    assert cli.main(["check", name, "--inputs", "digits", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    accuracy = result["accuracy"]
    assert result["samples"] == 449 and accuracy["float"] >= least
    assert min(accuracy["quantized"], accuracy["accelerator"]) >= accuracy["float"] - 0.01
    assert all(layer["bit_exact"] and layer["differing"] == 0 for layer in result["layers"])


@pytest.mark.slow
def test_the_first_layer_that_parts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that is off by one on the accelerator spoils what follows, and only it is not bit-exact."""
    right = XlaExecutor.run

    def wrong(self: XlaExecutor, step: Any, arguments: Any) -> Any:
        result = right(self, step, arguments)
        return result + 1 if step.name == "a" else result

    monkeypatch.setattr(XlaExecutor, "run", wrong)
    model = quantized(residual_cnn())
    result = check(archloom.load(model), "gemmini", OPTIONS, inputs=samples(model, 1)[0])
    assert result.first_difference == "a" and not result.passed
    by_name = {layer.name: layer for layer in result.layers}
    assert [name for name, layer in by_name.items() if not layer.bit_exact] == ["a"]
    assert by_name["stem"].differing == 0 and by_name["a"].most_steps == 1 and (by_name["b"].differing or 0) > 0


@pytest.mark.slow
def test_outputs_that_fused_kernels_round_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are right if they are what onnxruntime computes operator by operator."""
    right = network._onnx_reference

    def reference(proto: onnx.ModelProto, *, fused: bool = True) -> network.Reference:
        return lambda batch: [y + 100.0 * fused for y in right(proto, fused=fused)(batch)]

    monkeypatch.setattr(network, "_onnx_reference", reference)
    model = quantized(residual_cnn())
    result = check(archloom.load(model), "gemmini", OPTIONS, inputs=samples(model, 1)[0])
    assert result.passed and result.reference == "onnxruntime, operator by operator"


def test_a_stream_that_computes_another_function_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracle and interpreter agree on a wrong stream; the operator in integers does not."""
    from archloom.tvm_backend.executors import InterpreterExecutor

    for kind in (XlaExecutor, InterpreterExecutor):
        right = kind.run
        monkeypatch.setattr(kind, "run", lambda self, step, arguments, *_, right=right: -np.asarray(
            right(self, step, arguments)))
    model = quantized(residual_cnn())
    result = check(archloom.load(model), "gemmini", OPTIONS, inputs=samples(model, 1)[0])
    assert any(re.search(r"differs from its operator in integers by up to .*elements, within .*oh 0\.\.", failure)
               for failure in result.failures)


@given(st.sampled_from(["int8", "float32"]), st.tuples(*[st.integers(1, 6)] * 4), st.booleans(), st.integers(0, 2**32))
def test_elements_that_are_not_the_operators_are_told(
    dtype: str, sizes: tuple[int, int, int, int], relu: bool, seed: int
) -> None:
    """Sums in any order are right; a box of other numbers is told by its corners."""
    rng, (b, m, n, k) = np.random.default_rng(seed), sizes
    out = dtype if dtype == "float32" else "int8"
    work = workload.gemm(m, n, k, batch=b, dtype=dtype, epilogue=workload.Epilogue(
        True, 1.0 if out == "float32" else 0.01, relu, out))
    tensors = {t.name: rng.integers(-100, 100, t.shape).astype(t.dtype) for t in work.inputs}
    if dtype == "float32":
        sums = sum(tensors["A"][..., i, None] * tensors["B"][i] for i in reversed(range(k))) + tensors["bias"]
        right = np.maximum(sums, 0) if relu else sums
    else:
        right = evaluate(work, tensors)
    first = tuple(int(rng.integers(extent)) for extent in (b, m, n))
    last = tuple(int(rng.integers(at, extent)) for at, extent in zip(first, (b, m, n)))
    step: Any = SimpleNamespace(workload=work, constants={})
    assert _as_operator(LayerRun(step, tensors, right))[3] is None
    wrong = right.copy()
    box = tuple(slice(i, j + 1) for i, j in zip(first, last))
    wrong[box] = np.where(right[box] > 5, right[box] - 9, right[box] + 9) if dtype == "int8" else right[box] + 1e6
    told = _as_operator(LayerRun(step, tensors, wrong))[3] or ""
    assert told.endswith(f"expected {right[first]:g}, found {wrong[first]:g}")
    if right.size > 1:
        assert told.startswith(f"{wrong[box].size} of {right.size} elements")
        assert all(f"{name} {i}..{j}" in told and f"{name}={i}" in told
                   for name, extent, i, j in zip("bmn", (b, m, n), first, last) if extent > 1)


def test_bytes_of_nests_are_held_against_their_definition() -> None:
    """A byte more is the machine's rounding, two are none."""
    at, code = Affine.variable("i"), Code()
    real = code.apply("multiply", code.apply("sigmoid", code.load("X0", at)), code.number(100))
    stores = (Store("Y", at, code.apply("to_whole", real), "int8"),)
    work = workload.nest((Nest((Axis("i", 50),), (Pass((), tuple(code.operations), stores),)),),
                         (((50,), "float32"), ((50,), "int8")))
    given = np.linspace(-6, 6, 50, dtype=np.float32)
    right = np.rint(100 / (1 + np.exp(-given.astype(np.float64)))).astype(np.int8)
    for more in range(3):
        made = right.copy()
        made[7] += more
        assert steps_of_nest(work, {"X0": given}, made) == more
    layer = LayerCheck("a", "sigmoid", 0.0, None, True, True, None, None, None, rounding_steps=2.0)
    assert "2 steps from" in next(iter(network._layer_failures([layer])))
    assert not list(network._layer_failures([replace(layer, rounding_steps=1.0)]))


@pytest.mark.slow
def test_noise_grows_with_the_step_of_quantization() -> None:
    """The fewer of the int8 range a network uses, the lower the ratio of signal to noise: 6 dB for each bit."""
    net = Net()
    floats = net.model(net.conv(net.input("x", 1, 4, 6, 6), "conv", 4, 8))
    batch = samples(floats, 1, seed=3)[0]
    ratios: list[float] = []
    for factor in (1, 4):
        scaled = [{name: x * np.float32(factor) for name, x in s.items()} for s in [batch]]
        result = check(archloom.load(quantize(floats, scaled)), "gemmini", OPTIONS, inputs=batch, reference=floats)
        ratios.append(result.layers[0].snr_db or 0.0)
    assert ratios[0] - ratios[1] == pytest.approx(12, abs=2.5)


def test_layers_of_too_many_instructions_are_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = archloom.load("gemm(m=40,n=20,k=30)")
    with monkeypatch.context() as patch:
        patch.delattr(XlaExecutor, "prepare")
        with pytest.raises(InputError, match="layer gemm: .* at most 3, and this one has") as refused:
            check(model, "gemmini", OPTIONS, count=1, most_instructions=3)
        found = int(str(refused.value).split("this one has ")[1].split(";")[0])
        with pytest.raises(InputError, match=f"at most {found - 1}, .* has {found};"):
            check(model, "gemmini", OPTIONS, count=1, most_instructions=found - 1)
        with pytest.raises(InputError, match="expected at least 1, found 0"):
            check(model, "gemmini", OPTIONS, count=1, most_instructions=0)
    assert check(model, "gemmini", OPTIONS, count=1, most_instructions=found).passed


def test_layers_that_take_too_long_to_interpret_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock of the test's: the first 16 instructions take a second, the next 16 two."""
    model = archloom.load("gemm(m=64,n=64,k=64)")
    (plan,) = archloom.compile("gemm(m=64,n=64,k=64)", target="gemmini", options=OPTIONS).compiled.plans.values()
    count = plan.stream.count()
    seconds = 1 + 2 * (count - 16) / 16
    assert count > 32
    monkeypatch.setattr(time, "thread_time", iter([5.0, 6.0, 8.0] * 2).__next__)
    with monkeypatch.context() as patch:
        patch.delattr(XlaExecutor, "prepare")
        patch.setattr(network, "MOST_SECONDS", seconds - 1)
        with pytest.raises(InputError, match=rf"layer gemm: .* {count:,} of this one take about {seconds:,.0f} s;"):
            check(model, "gemmini", OPTIONS, count=1)
    monkeypatch.setattr(network, "MOST_SECONDS", seconds)
    assert check(model, "gemmini", OPTIONS, count=1).passed
    monkeypatch.setattr(network, "MOST_SECONDS", 0)
    assert check(model, "gemmini", OPTIONS, count=1, most_instructions=count).passed


@pytest.mark.slow
def test_without_a_float_network_its_own_floats_are_taken() -> None:
    model = quantized(residual_cnn())
    result = check(archloom.load(model), "gemmini", OPTIONS, count=1)
    assert all(layer.snr_db is not None and 15 < layer.snr_db < 80 for layer in result.layers)
    assert result.accuracy is None and "accuracy" not in result.to_json()


def test_float_targets_have_no_integers_to_be_compared_with() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10)).eval()
    model = archloom.load(module, torch.zeros(4, 12), name="mlp")
    result = check(model, "qkv", {}, inputs=np.random.default_rng(0).standard_normal((8, 12)).astype(np.float32),
                   labels=np.zeros(8, np.int64))
    assert result.passed and result.accuracy is not None and result.accuracy.quantized is None
    assert result.accuracy.float_network == result.accuracy.accelerator
    assert [layer.integer_error for layer in result.layers] == [None] * len(result.layers)
    assert all(layer.differing is None and (layer.snr_db is None or layer.snr_db > 90) for layer in result.layers)


@pytest.mark.parametrize(("c", "h", "w"), [(4, 4, 4), pytest.param(3, 4, 5, marks=pytest.mark.slow)])
def test_results_with_channels_last_are_compared_as_the_images_that_they_are(c: int, h: int, w: int) -> None:
    """Also where a shape does not tell: of a convolution in place, behind it, of a product, and the result itself."""
    image = f"float[1,{c},{h},{w}]"
    proto = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]> net ({image} x) => ({image} z) {{
        a = Conv <pads = [1, 1, 1, 1]> (x, wide)  b = Sigmoid (a)  d = Conv (b, narrow)  y = Relu (d)
        e = Transpose <perm = [0, 1, 3, 2]> (y)  f = Transpose <perm = [0, 1, 3, 2]> (e)  z = Tanh (f) }}""")
    rng = np.random.default_rng(0)
    for name, shape in {"wide": (c, c, 3, 3), "narrow": (c, c, 1, 1)}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape, np.float32), name))
    for node in proto.graph.node:
        node.name = f"node_{node.output[0]}"
    model, runs = archloom.load(proto), list[LayerRun]()
    network = archloom.compile(model, "mte", {"vlen": 256, "rlen": 128})
    given = {"x": rng.standard_normal((1, c, h, w), np.float32)}
    network.run(given, executor="interpreter", capture=lambda *run: runs.append(LayerRun(*run)))
    ratios = {layer.op: layer.snr_db for layer in check_layers(network, model, runs, given, None)}
    told = {op: ratio for op, ratio in ratios.items() if ratio is not None}
    assert {"conv2d", "sigmoid", "dense+relu"} <= set(told) and min(told.values()) > 90


def test_places_of_an_image_in_one_dimension_are_compared_as_the_image() -> None:
    """On `mte` a grouped convolution of single pixels is a product for each group, of which a pool takes an image."""
    network = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        network (float[1,2,3,3] x) => (float[1,2,3,3] y)
        <float a = {0.02}, float b = {0.03}, float c = {0.0018}, int8 zero = {0}, int8[2,1,1,1] w = {89, 35}> {
            q = QuantizeLinear (x, a, zero)
            r = QLinearConv <group: int = 2> (q, a, zero, w, c, zero, b, zero)
            p = MaxPool <kernel_shape: ints = [2, 2], pads: ints = [1, 1, 0, 0]> (r)
            y = DequantizeLinear (p, b, zero)
        }""")
    result = archloom.check(network, "mte", quiet=True)
    assert result.passed, str(result)
    assert any(layer.differing is not None for layer in result.layers)


def test_ratio_of_signal_to_noise() -> None:
    signal = np.array([3.0, -4.0])
    assert snr_db(signal, signal) == 300 and snr_db(0 * signal, signal) == -300
    assert snr_db(signal, signal * 1.1) == pytest.approx(20)


@pytest.mark.slow
def test_data_sets_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = OnnxGraph("linear")
    flat = graph.node("Flatten", [graph.input("image", (64, 1, 8, 8))], "flat", axis=1)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((10, 64)).astype(np.float32)
    logits = graph.dense(flat, weights, rng.standard_normal(10).astype(np.float32), "logits")
    onnx.save(graph.model(logits, (64, 10)), tmp_path / "net.onnx")
    words = ["check", str(tmp_path / "net.onnx"), "--calibrate", "digits:128", "--inputs", "digits"]
    for flags in (["--per-channel"], ["--calibration", "percentile", "--percentile", "99.9", "--asymmetric"]):
        assert cli.main([*words, *flags]) == 0
        out = capsys.readouterr().out
        assert all(text in out for text in ("quantized reference", "448 samples", "dense+bias+int32"))
        assert "histogram" not in out
    assert cli.main([*words, "--percentile", "99"]) == 2
    assert cli.main(["check", str(tmp_path / "net.onnx"), "--per-channel"]) == 2
    assert "only with --calibrate" in capsys.readouterr().err
    assert cli.main(["check", str(tmp_path / "net.onnx"), "--inputs", "digit"]) == 2


def test_data_sets_fit_the_network() -> None:
    model = quantized(residual_cnn())
    with pytest.raises(InputError, match="64 elements for each sample"):
        archloom.check(model, options=OPTIONS, inputs="digits")
    with pytest.raises(InputError, match="no data set is named 'digit'"):
        archloom.check(model, options=OPTIONS, inputs="digit")
    with pytest.raises(InputError, match="it has no input 'image'"):
        net = Net()
        other = net.model(net.conv(net.input("x", 1, 4, 6, 6), "conv", 4, 8))
        archloom.check(model, options=OPTIONS, reference=other)
