"""The target ``systolic_array``: tiles, dataflows, whole networks, options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle import interpreter
from archloom.oracle.errors import MappingError, TargetError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.uma_targets.systolic_array.target import SystolicArray
from examples.onnx_graph import OnnxGraph
from tests.support.examples import every, examples

DATAFLOWS = ("os", "ws", "is")
CONVENTIONS = ("scalesim", "equeue")
SMALL = {"left_kib": 1, "top_kib": 1, "out_kib": 1}
sizes = st.integers(1, 19)


@pytest.mark.slow
@examples(15, 250)
@given(st.sampled_from(DATAFLOWS), st.sampled_from(CONVENTIONS), st.integers(1, 5), st.integers(1, 5),
       st.tuples(sizes, sizes, sizes), st.tuples(*[st.integers(1, 9)] * 3), st.booleans(), st.booleans())  # fmt: skip
def test_any_tiles_give_the_product(
    dataflow: str, convention: str, rows: int, columns: int, shape: tuple[int, int, int], tile: tuple[int, int, int],
    bias: bool, relu: bool,
) -> None:
    m, n, k = shape
    workload = gemm(m, n, k, epilogue=Epilogue(bias, 0.0123, relu, "int8"))
    accelerator = SystolicArray.kit.accelerator
    options = {"rows": rows, "columns": columns, "dataflow": dataflow, "convention": convention, **SMALL}
    mapping = Mapping("gemm", "", tuple(zip("mnk", tile)), ("m", "n", "k"))
    stream = accelerator.emitter(options).emit(workload, mapping)
    random = np.random.default_rng(m * n * k)
    a = random.integers(-128, 128, (1, m, k)).astype(np.int8)
    b = random.integers(-128, 128, (k, n)).astype(np.int8)
    inputs = {"A": a, "B": b} | ({"bias": random.integers(-5000, 5000, n).astype(np.int32)} if bias else {})
    sums = a.astype(np.int32) @ b.astype(np.int32) + inputs.get("bias", 0)
    expected = np.rint(sums.astype(np.float32) * np.float32(0.0123)).clip(0 if relu else -128, 127).astype(np.int8)
    np.testing.assert_array_equal(interpreter.run(stream, accelerator.isa(options), inputs, poison=7)["C"], expected)


@pytest.mark.parametrize("dataflow", every(3, DATAFLOWS))
def test_a_classifier_of_digits_equals_onnxruntime(dataflow: str) -> None:
    """64 → 48 → 10 on a batch, as for 8 × 8 images of digits, on an array that it does not fill."""
    random = np.random.default_rng(3)
    graph = OnnxGraph("classifier")
    x = graph.input("image", (5, 64))
    for number, (inner, outer) in enumerate(((64, 48), (48, 10))):
        weight = random.standard_normal((outer, inner)).astype(np.float32) / np.float32(np.sqrt(inner))
        x = graph.dense(x, weight, random.standard_normal(outer).astype(np.float32), f"dense{number}")
        x = graph.relu(x, "relu") if number == 0 else x
    images = [{"image": random.random((5, 64), dtype=np.float32)} for _ in range(4)]
    proto = quantize(graph.model(x, (5, 10)), images)
    network = archloom.compile(archloom.load(proto), target="systolic_array", options={
        "rows": 7, "columns": 5, "dataflow": dataflow,
    })  # fmt: skip
    assert network.report.offloaded_macs_share == 1
    assert network.report.peak_macs_per_cycle == 35
    for layer in network.report.accelerator_layers:
        assert layer.cycles is not None and layer.cycles * 35 >= layer.macs
    session = integer_session(proto)
    for image in images:
        (expected,) = run(session, image).values()
        np.testing.assert_array_equal(network(image["image"]), expected)


def test_a_larger_array_is_faster() -> None:
    text = "gemm(m=128,n=128,k=128)"
    cycles = [
        archloom.estimate(text, "systolic_array", {"rows": d, "columns": d, "dma_bytes": 64}).cycles for d in (4, 8, 16)
    ]
    assert cycles == sorted(cycles, reverse=True)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(MappingError, match="larger left_kib, top_kib or out_kib would help"):
        archloom.estimate(
            "gemm(m=1,n=2000,k=2000)", "systolic_array", {"rows": 512, "columns": 512, "top_kib": 1}
        )


def test_bad_options_are_listed() -> None:
    with pytest.raises(TargetError, match=r"'rows': expected an integer from 1 to 4096, found 0; option 'dataflow'"):
        archloom.estimate("gemm(m=1,n=2,k=3)", "systolic_array", {"rows": 0, "dataflow": "xs"})
