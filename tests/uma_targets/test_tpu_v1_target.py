"""TPU v1's graph and emission: cycles by hand and step by step, what the paper's roofline says, mappings that fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference import simulate_reference as step_by_step
from archloom.acadl_models.tpu_v1 import tpu_v1
from archloom.mapper.mapping import Mapping
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import MappingError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.kit.gemm import GemmEmitter
from archloom.uma_targets.tpu_v1.target import TpuV1, emit
from examples.tpu_v1_kernels import cnn, cnn_reference, mlp
from tests.support.examples import examples, slow

SMALL = {"dim": 4, "unified_buffer_kib": 2, "accumulator_kib": 1, "weight_bytes": 8, "host_bytes": 4}


def test_sizes_are_the_papers() -> None:
    graph = tpu_v1()
    assert graph.parameters == {"dim": 256, "ub_rows": 96 << 10, "acc_rows": 4 << 10}
    assert 2 * 256 * 256 * graph.clock_hz == pytest.approx(92e12, rel=0.01)
    for link in graph.links:
        assert link.bandwidth * graph.clock_hz / 2**30 == pytest.approx({"ddr3": 30, "pcie": 14}[link.name], rel=0.03)


def test_small_batches_wait_for_their_weights() -> None:
    """200 rows use a tile for 256 cycles, and it takes 1,425 to come (64 KiB at 46 bytes a cycle)."""
    graph, tiles = tpu_v1(), 5 * 8 * 8
    timing = simulate(graph, mlp(200, [2048] * 6, [1.0] * 5).resolved)
    tile = -(-(1 << 16) // 46)
    assert tiles * tile < timing.cycles < 1.05 * tiles * tile
    assert timing.cycles < simulate(graph, mlp(200, [2048] * 6, [1.0] * 5, ahead=0).resolved).cycles * 1.001


def test_large_batches_wait_for_no_weights() -> None:
    """2,048 rows keep the matrix unit busy, but for the host's transfers at both ends and the ends of layers."""
    timing = simulate(tpu_v1(host_bytes=256), mlp(2048, [2048] * 6, [1.0] * 5).resolved)
    least = 5 * 8 * 8 * 2048
    assert least < timing.cycles < 1.15 * least


def _random(workload: object, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.integers(-128, 128, t.shape).astype(t.dtype) for t in workload.inputs}  # type: ignore[attr-defined]


@pytest.mark.first_case
@pytest.mark.parametrize("rows", [1, slow(5), 20, slow(64)])
@pytest.mark.parametrize("bias", [False, True])
def test_blocks_of_rows_and_columns(rows: int, bias: bool) -> None:
    """Sums in one half of the accumulators or in all, partial tiles, several blocks and strips."""
    graph = tpu_v1(**SMALL)
    isa = taidl.load("tpu_v1", **graph.parameters)
    workload = gemm(37, 10, 7, epilogue=Epilogue(bias, 0.02, True, "int8"))
    mapping = Mapping("gemm", "", (("m", rows), ("n", 4), ("k", 4)), ("m", "n", "k"))
    stream = GemmEmitter("tpu_v1", tuple(graph.parameters.items()), emit).emit(workload, mapping)
    inputs = _random(workload, rows)
    found = interpreter.run(stream, isa, inputs, poison=1)["C"]
    sums = inputs["A"].astype(np.int32) @ inputs["B"].astype(np.int32) + (inputs["bias"] if bias else 0)
    np.testing.assert_array_equal(found, np.rint(sums.astype(np.float32) * np.float32(0.02)).clip(0, 127))
    if rows == 20:
        np.testing.assert_array_equal(np.asarray(compile_stream(stream, isa)(*inputs.values())[0]), found)
        assert simulate(graph, resolve(stream, isa)).cycles == step_by_step(graph, resolve(stream, isa)).cycles


def test_more_rows_are_chosen_where_weights_are_slow() -> None:
    workload = gemm(4096, 512, 512, epilogue=Epilogue(False, 0.02, False, "int8"))
    plan = search(workload, TpuV1.kit.accelerator, {"weight_bytes": 4})
    assert plan.mapping.size("m") >= 2048


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TargetError, match="dim must be an integer from 2 to 1024"):
        tpu_v1(dim=1)
    with pytest.raises(TargetError, match="accumulator_kib=1 holds 1 rows; at least 4 are needed"):
        tpu_v1(accumulator_kib=1)
    workload = gemm(512, 8, 8, epilogue=Epilogue(False, 0.02, False, "int8"))
    mapping = Mapping("gemm", "", (("m", 512), ("n", 4), ("k", 4)), ("m", "n", "k"))
    with pytest.raises(MappingError, match="blocks of 512 rows need as many accumulators"):
        GemmEmitter("tpu_v1", tuple(tpu_v1(**SMALL).parameters.items()), emit).emit(workload, mapping)


@st.composite
def convolutions(draw: st.DrawFn) -> Workload:
    """Small ones of every stride, padding and dilation, with and without a bias."""
    kernel, stride, dilation = (tuple(draw(st.integers(1, most)) for _ in range(2)) for most in (3, 2, 2))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    sides = [draw(st.integers(1 + (k - 1) * d, 7)) for k, d in zip(kernel, dilation)]
    n, c, o = (draw(st.integers(1, most)) for most in (3, 6, 6))
    return conv2d(n, *sides, c, o, *kernel, stride=stride, padding=padding, dilation=dilation,  # type: ignore[arg-type]
                  epilogue=Epilogue(draw(st.booleans()), 0.02, draw(st.booleans()), "int8"))


def convolved(workload: Workload, x: np.ndarray, w: np.ndarray, bias: np.ndarray | int = 0) -> np.ndarray:
    """Y of a ``conv2d`` workload, from slices of the padded image."""
    (top, left, bottom, right), (sh, sw), (dh, dw) = workload.padding, workload.stride, workload.dilation
    _, oh, ow, _ = workload.output.shape
    wide = np.pad(x.astype(np.int32), [(0, 0), (top, bottom), (left, right), (0, 0)])
    taps = (wide[:, r * dh:r * dh + (oh - 1) * sh + 1:sh, s * dw:s * dw + (ow - 1) * sw + 1:sw] @ w[r, s]
            for r in range(w.shape[0]) for s in range(w.shape[1]))
    sums = sum(taps) + bias
    scaled = np.rint(np.asarray(sums).astype(np.float32) * np.float32(workload.epilogue.scale))
    return scaled.clip(0 if workload.epilogue.relu else -128, 127)


@pytest.mark.slow
@examples(2, 200)
@given(convolutions(), st.integers(0, 1 << 16))
def test_every_mapping_of_a_convolution_computes_it(workload: Workload, seed: int) -> None:
    accelerator = TpuV1.kit.accelerator
    space = accelerator.make_space(workload, accelerator.hardware(SMALL), accelerator.resolve_options(SMALL))
    mapping = space.mapping(seed % len(space))
    stream = accelerator.emitter(SMALL).emit(workload, mapping)
    inputs = _random(workload, seed)
    found = interpreter.run(stream, accelerator.isa(SMALL), inputs, poison=1)["Y"]
    np.testing.assert_array_equal(found, convolved(workload, *inputs.values()))
    resolved, graph = resolve(stream, accelerator.isa(SMALL)), accelerator.graph(SMALL)
    assert simulate(graph, resolved).cycles == step_by_step(graph, resolved).cycles


def test_images_cross_the_host_link_once() -> None:
    """CNN0's layers: windows are set up in the Unified Buffer, so that as many bytes come as images have."""
    workload = conv2d(8, 19, 19, 256, 256, 3, 3, padding=(1, 1, 1, 1), epilogue=Epilogue(False, 0.02, True, "int8"))
    accelerator = TpuV1.kit.accelerator
    space = accelerator.make_space(workload, accelerator.hardware(), accelerator.resolve_options())
    resolved = resolve(accelerator.emitter().emit(workload, space.first()[0]), accelerator.isa())
    links = {link.name: link for link in simulate(accelerator.graph(), resolved).links}
    assert links["pcie"].read.bytes == links["pcie"].write.bytes == 8 * 19 * 19 * 256


def test_images_that_do_not_fit_are_refused() -> None:
    workload = conv2d(1, 40, 40, 4, 4, 3, 3, epilogue=Epilogue(False, 0.02, True, "int8"))
    accelerator = TpuV1.kit.accelerator
    with pytest.raises(MappingError, match="unified_buffer, of which there are 512"):
        accelerator.make_space(workload, accelerator.hardware(SMALL), accelerator.resolve_options(SMALL))


def test_a_chain_of_convolutions_by_hand() -> None:
    rng = np.random.default_rng(0)
    scales = (1 / 32, 1 / 64)
    x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((2, 5, 5, 4), (2, 3, 3, 4, 4)))
    kernel = cnn(2, 5, 3, scales, 4, acc_rows=64, ub_rows=256)
    np.testing.assert_array_equal(kernel.interpret(x, w), cnn_reference(x, w, scales))


@pytest.mark.slow
def test_convolutions_of_networks_are_taken_where_an_image_fits() -> None:
    """Through the whole way, bit for bit as onnxruntime; an image that does not fit is a product of its windows."""
    for side, op in ((4, "conv2d"), (30, "dense")):
        text = f"conv2d(n=1,c=3,h={side},w={side},o=3,k=3,bias=1,relu=1)"
        (layer,) = archloom.estimate(text, target="tpu_v1", options=SMALL).accelerator_layers
        assert layer.op.startswith(op)
        found = archloom.check(text, target="tpu_v1", options=SMALL)
        assert found.passed and [layer.bit_exact for layer in found.layers] == [True]
