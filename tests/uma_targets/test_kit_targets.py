"""Every target of matrix products: products and small networks compile, run, and give the reference's numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest

import archloom
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle import interpreter
from archloom.oracle.errors import InputError, MappingError, TaidlError
from archloom.oracle.xla import compile_stream
from archloom.tvm_backend import cli
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.targets import registry
from archloom.uma_targets.kit import KitTarget
from examples.onnx_graph import OnnxGraph
from tests.support.examples import every
from tests.support.tvm_backend.registered import forgotten_after
from tests.support.uma_targets.lanes import Lanes

BUILT_IN = sorted(registry.BUILT_IN)
TARGETS = [*BUILT_IN, "lanes"]
PRODUCTS_ONLY = [name for name in BUILT_IN if isinstance(target := registry.get(name), KitTarget)
                 and "conv2d" not in target.kit.kernels and not target.nests] + ["lanes"]
SHAPES = [(1, 1, 1, 1), (1, 5, 7, 11), (1, 13, 1, 17), (2, 3, 18, 9)]
"""batch, m, n, k: the smallest, primes, a vector, nothing that is a multiple of a tile."""


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """The target of another package, registered for the time of a test."""
    with forgotten_after():
        Lanes().register()
        yield


def workload_of(target: str, shape: tuple[int, int, int, int], bias: bool, relu: bool) -> Workload:
    """A product in the numbers of the target, with one B for each of the batch."""
    batch, m, n, k = shape
    bias, relu = bias and fuses(target, "bias"), relu and fuses(target, "relu")
    if registry.get(target).numbers == "float32":
        return gemm(m, n, k, batch=batch, epilogue=Epilogue(bias, 1.0, relu, "float32"), shared_b=False,
                    dtype="float32")
    if registry.get(target).numbers == "float16":
        return gemm(m, n, k, batch=batch, epilogue=Epilogue(bias, 1.0, relu, "float16"), shared_b=False,
                    dtype="float16", tile=32)
    return gemm(m, n, k, batch=batch, epilogue=Epilogue(bias, 0.0123, relu, "int8"), shared_b=False)


def fuses(target: str, what: str) -> bool:
    """Whether a target adds biases or activations."""
    kit = getattr(registry.get(target), "kit", None)
    return kit is None or getattr(kit, what, True)


def random_inputs(workload: Workload, seed: int) -> dict[str, np.ndarray]:
    """Full-range bytes, biases in the thousands, or normal floats."""
    rng = np.random.default_rng(seed)
    make: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
        "int8": lambda s: rng.integers(-128, 128, s).astype(np.int8),
        "int32": lambda s: rng.integers(-5000, 5000, s).astype(np.int32),
        "float32": lambda s: np.asarray(rng.standard_normal(s), np.float32),
        "float16": lambda s: np.asarray(rng.standard_normal(s), np.float16),
    }
    return {t.name: make[t.dtype](t.shape) for t in workload.inputs}


def reference(workload: Workload, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The result by definition; of floats in double precision. Tiles are multiplied whole."""
    floats = workload.output.dtype != "int8"
    a, b, *rest = (beside(inputs[t.name]).astype(np.float64 if floats else np.int64) for t in workload.inputs)
    sums = a @ b + (rest[0] if rest else 0)
    if not floats:
        scaled = np.rint(sums.astype(np.int32).astype(np.float32) * np.float32(workload.epilogue.scale))
        sums = scaled.clip(-128, 127).astype(np.int8)
    return np.maximum(sums, 0) if workload.epilogue.relu else sums


def beside(array: np.ndarray) -> np.ndarray:
    """Tiles beside each other, as matrices; others as they are."""
    if array.dtype != np.float16:
        return array
    if array.ndim == 3:
        return array.reshape(1, -1)
    batch, high, wide, rows, columns = array.shape
    return array.swapaxes(2, 3).reshape(batch, high * rows, wide * columns)


@pytest.mark.first_case
@pytest.mark.parametrize(("target", "shape"), every(3, product(TARGETS, SHAPES)), ids=str)
def test_products_of_any_size(target: str, shape: tuple[int, int, int, int]) -> None:
    workload = workload_of(target, shape, bias=shape[2] > 1, relu=shape[0] == 1)
    accelerator = registry.get(target).accelerator
    plan = search(workload, accelerator)
    assert plan.timing.cycles > 0 and plan.timing.exact
    inputs = random_inputs(workload, sum(shape))
    found = interpreter.run(plan.stream, accelerator.isa(), inputs, poison=1)["C"]
    found, expected = beside(found), reference(workload, inputs)
    if workload.output.dtype == "int8":
        np.testing.assert_array_equal(found, expected)
    else:
        tolerance = 1e-3 if workload.tile else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    if shape in SHAPES[3:]:
        oracle = compile_stream(plan.stream, accelerator.isa())
        np.testing.assert_array_equal(beside(np.asarray(oracle(*inputs.values())[0])), found)


@pytest.mark.first_case
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize("target", [name for name in PRODUCTS_ONLY if registry.BUILT_IN.get(name)
                                    and registry.get(name).kit.sums])
def test_sums_as_they_are(target: str, shape: tuple[int, int, int, int]) -> None:
    """The bias is one for each of the batch."""
    batch, m, n, k = shape
    work = gemm(m, n, k, batch=batch, epilogue=Epilogue(n > 1, 1.0, False, "int32"), shared_b=False, shared_bias=False)
    accelerator, inputs = registry.get(target).accelerator, random_inputs(work, sum(shape))
    plan = search(work, accelerator)
    found = interpreter.run(plan.stream, accelerator.isa(), inputs, poison=1)["C"]
    sums = inputs["A"].astype(np.int32) @ inputs["B"].astype(np.int32) + inputs.get("bias", np.int32(0))
    np.testing.assert_array_equal(found, sums)
    oracle = compile_stream(plan.stream, accelerator.isa())
    np.testing.assert_array_equal(np.asarray(oracle(*inputs.values())[0]), sums)


def mlp() -> onnx.ModelProto:
    """13 → 17 → 5 on three rows, with biases and a ReLU, in float32."""
    rng = np.random.default_rng(0)
    graph = OnnxGraph("mlp")
    x = graph.input("x", (3, 13))
    for number, (rows, columns) in enumerate(((13, 17), (17, 5))):
        weight = rng.standard_normal((columns, rows)).astype(np.float32) / np.float32(np.sqrt(rows))
        x = graph.dense(x, weight, rng.standard_normal(columns).astype(np.float32), f"dense{number}")
        if number == 0:
            x = graph.relu(x, "relu")
    return graph.model(x, (3, 5))


def network(target: str) -> onnx.ModelProto:
    """The network as the target takes it."""
    if registry.get(target).numbers != "int8":
        return mlp()
    rng = np.random.default_rng(1)
    return quantize(mlp(), [{"x": rng.standard_normal((3, 13)).astype(np.float32)} for _ in range(4)])


@pytest.mark.parametrize("target", every(8, TARGETS))
def test_a_network_runs_and_equals_onnxruntime(target: str) -> None:
    whole = fuses(target, "bias") and fuses(target, "relu")
    model = archloom.load(network(target))
    report = archloom.estimate(model, target)
    assert report.cycles > 0 and report.peak_macs_per_cycle > 0
    if whole:
        assert report.offloaded_macs_share == 1
        ops = [layer.op for layer in report.accelerator_layers]  # a mesh takes both as one where that is faster
        assert ops in (["dense+bias+relu", "dense+bias"], ["dense+bias+relu+dense+bias"])
    result = archloom.check(model, target)
    assert result.passed and result.layers and all(layer.bit_exact for layer in result.layers)
    (output,) = result.outputs
    if registry.get(target).numbers != "int8":
        assert output.max_abs_error < (1e-5 if registry.get(target).numbers == "float32" else 5e-3)
    elif whole:
        assert output.max_error_in_steps == 0


@pytest.mark.parametrize("target", PRODUCTS_ONLY)
def test_pointwise_convolutions_are_products_and_others_are_made_so(target: str) -> None:
    graph = OnnxGraph("convs")
    rng = np.random.default_rng(0)
    x = graph.input("x", (1, 3, 5, 7))
    x = graph.conv(x, rng.standard_normal((6, 3, 1, 1)).astype(np.float32), None, "point")
    x = graph.conv(x, rng.standard_normal((2, 6, 3, 3)).astype(np.float32), None, "square", padding=1)
    model: Any = graph.model(x, (1, 2, 5, 7))
    if registry.get(target).numbers == "int8":
        model = quantize(model, [{"x": rng.standard_normal((1, 3, 5, 7)).astype(np.float32)}])
    report = archloom.estimate(model, target)
    taken = [(layer.op, layer.shape) for layer in report.accelerator_layers]
    square = ("conv2d", (1, 2, 5, 7)) if registry.get(target).kit.windows else ("dense", (1, 35, 2))
    assert taken == [("conv2d", (1, 6, 5, 7)), square] and report.offloaded_macs_share == 1


@pytest.mark.parametrize("target", every(3, BUILT_IN))
def test_the_command_line_describes_and_estimates(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["describe", target, "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["takes"]["matmul"] and described["isa"]["instructions"]
    assert cli.main(["estimate", "gemm(m=9,n=10,k=11)", "--target", target, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cycles"] > 0


def test_an_operator_as_text_takes_the_numbers_of_the_target() -> None:
    """``lanes`` computes in float32: a network of one operator is a float network for it."""
    text = "gemm(m=5,n=7,k=11,bias=1,relu=1)"
    assert archloom.estimate(text, "lanes").offloaded_macs_share == 1
    result = archloom.check(text, "lanes")
    assert result.passed and [layer.bit_exact for layer in result.layers] == [True]


def test_a_float_target_names_what_it_does_not_take() -> None:
    rng = np.random.default_rng(1)
    quantized = quantize(mlp(), [{"x": rng.standard_normal((3, 13)).astype(np.float32)}])
    report = archloom.estimate(quantized, "lanes")
    layers = [layer.op for layer in report.accelerator_layers]
    assert layers == ["dense+bias", "dense+bias"]  # of what the host dequantizes; weights and biases are floats at once
    assert {host.op for host in report.host} >= {"quantize", "dequantize"}
    (clip,) = [h for h in archloom.estimate(_clipped(), "lanes").host if h.op == "clip"]
    assert clip.reason == "lanes has no pattern for clip"


def _clipped() -> onnx.ModelProto:
    from onnx import helper, numpy_helper

    model = mlp()
    node = next(n for n in model.graph.node if n.op_type == "Relu")
    model.graph.initializer.extend([
        numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("low", 0.0), ("high", 1.0))])
    clip = helper.make_node("Clip", [node.input[0], "low", "high"], [node.output[0]], name="clip")
    node.CopyFrom(clip)
    return model


def test_artifacts_of_a_target_from_another_package_are_opened_by_it(tmp_path: Any) -> None:
    x = np.random.default_rng(2).standard_normal((3, 13)).astype(np.float32)
    made = archloom.compile(mlp(), "lanes")
    path = made.save(tmp_path / "mlp.loom")
    np.testing.assert_array_equal(archloom.load_compiled(path)(x), made(x))


def test_what_no_product_is_gets_refused() -> None:
    from archloom.mapper.workload import add

    with pytest.raises(MappingError, match="expected a matrix product or a 1x1 convolution, found add"):
        search(add(8, epilogue=Epilogue(False, 1.0, False, "int8")), registry.get("oma").accelerator)
    with pytest.raises(InputError, match="top_k"):
        search(workload_of("oma", (1, 1, 1, 1), False, False), registry.get("oma").accelerator, top_k=0)
    from archloom.oracle import taidl

    with pytest.raises(TaidlError, match="the name 'oma' is taken"):
        taidl.register(_copy_of("oma"))


def _copy_of(isa: str) -> Any:
    import tempfile
    from pathlib import Path

    from archloom.oracle.taidl import _ISAS

    copy = Path(tempfile.mkdtemp()) / f"{isa}.taidl"
    copy.write_text((_ISAS / f"{isa}.taidl").read_text())
    return copy
