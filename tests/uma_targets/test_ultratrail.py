"""UltraTrail: whole networks equal NumPy on the interpreter and the XLA oracle, and take the cycles of the sources."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import archloom
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.acadl_models.ultratrail import ultratrail
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, conv2d
from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import MappingError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.oracle.xla import compile_stream
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.uma_targets.ultratrail.target import UltraTrail
from benchmarks.published import dsd22
from benchmarks.published.temporal_networks import Block, Layer, Network, inference, network
from examples.onnx_graph import OnnxGraph
from tests.support.examples import examples, slow

Arrays = dict[str, np.ndarray]


def run_layer(layer: Layer, maps: list[np.ndarray], weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """A layer in NumPy, position by position."""
    padding = layer.kernel // 2
    x = np.pad(maps[layer.source].astype(np.int64), ((0, 0), (padding, padding)))
    out = np.zeros((layer.outputs, layer.made), np.int64)
    for p in range(layer.made):
        window = x[:, p * layer.stride:p * layer.stride + layer.kernel]
        out[:, p] = np.einsum("ock,ck->o", weight.astype(np.int64), window)
    if bias is not None:
        out += bias[:, None]
    if layer.residual is not None:
        out += maps[layer.residual].astype(np.int64) << layer.residual_shift
    out = np.clip(rounded(out, layer.shift), 0 if layer.relu else -128, 127)
    if layer.pooled:
        out = np.clip(rounded(out.sum(1, keepdims=True), layer.pool_shift), -128, 127)
    return out.astype(np.int8)


def rounded(x: np.ndarray, shift: int) -> np.ndarray:
    return (x + (1 << shift >> 1)) >> shift


def run_network(net: Network, given_: Arrays) -> np.ndarray:
    maps = [given_["x"]]
    for layer in net.layers:
        maps.append(run_layer(layer, maps, given_[f"{layer.name}.weight"], given_.get(f"{layer.name}.bias")))
    return maps[-1][:, 0]


def arguments(stream: Stream, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    limits = {"int8": 127, "int32": 1 << 12}
    return {t.name: rng.integers(-limits[t.dtype], limits[t.dtype], t.shape).astype(t.dtype) for t in stream.arguments}


def check(net: Network, dim: int, *, xla: bool) -> None:
    parameters = {**ultratrail(dim=dim).parameters, "features": 2048}
    isa = taidl.load("ultratrail", **parameters)
    stream = inference(net, parameters)
    inputs = arguments(stream)
    want = run_network(net, inputs)
    assert np.array_equal(interpreter.run(stream, isa, inputs)["y"], want)
    if xla:
        assert np.array_equal(np.asarray(compile_stream(stream, isa)(*inputs.values())[0]), want)


convolution = st.tuples(st.integers(1, 11), st.sampled_from([1, 3, 5, 9]), st.booleans())
block = st.builds(
    lambda convolutions, stride, residual: Block(tuple(convolutions), stride, residual),
    st.lists(convolution, min_size=1, max_size=3), st.sampled_from([1, 2, 3]), st.booleans(),
)


@given(st.integers(1, 9), st.integers(3, 17), st.lists(block, min_size=1, max_size=3), st.integers(1, 9),
       st.sampled_from([2, 4, 8]))
@examples(5, 100)
def test_random_networks_equal_numpy(channels, positions, blocks, classes, dim):
    check(network("net", channels, positions, blocks, classes), dim, xla=False)


@pytest.mark.slow
def test_a_residual_network_equals_numpy_on_the_oracle():
    check(network("net", 3, 5, [Block(((5, 3, True),), 2, True)], 3), 4, xla=True)


@pytest.mark.slow
@given(st.integers(1, 9), st.integers(3, 17), st.lists(block, min_size=1, max_size=2), st.integers(1, 9))
@examples(5, 100)
def test_engine_equals_reference(channels, positions, blocks, classes):
    graph = ultratrail(dim=4)
    stream = inference(network("net", channels, positions, blocks, classes), graph.parameters)
    resolved = resolve(stream, taidl.load("ultratrail", **graph.parameters))
    assert simulate(graph, resolved) == simulate_reference(graph, resolved)


@pytest.mark.parametrize("entry", dsd22.NETWORKS, ids=lambda e: e.network.name)
def test_cycles_of_the_published_networks(entry):
    cycles = dsd22.simulate_cycles(entry)
    if entry.network.name == "wwd_ha":  # the one that our model does not explain
        assert cycles == 2486
    else:
        assert cycles == entry.cycles


@pytest.mark.slow
def test_cycles_equal_those_of_the_reference_simulator():
    entry = next(e for e in dsd22.NETWORKS if e.network.name == "kws_lp")
    assert dsd22.simulate_cycles(entry, simulator=simulate_reference) == entry.cycles


@pytest.mark.slow
@pytest.mark.parametrize("entry", [e for e in dsd22.NETWORKS if e.network.name in ("kws_lp", "vad_lp")],
                         ids=lambda e: e.network.name)
def test_published_networks_equal_numpy(entry):
    check(entry.network, entry.dim, xla=False)


def test_loads_compete_with_the_array():
    entry = next(e for e in dsd22.NETWORKS if e.network.name == "vad_ha")
    graph = dsd22.graph(entry)
    parameters = graph.parameters
    isa = taidl.load("ultratrail", **parameters)
    cold = simulate(graph, resolve(inference(entry.network, parameters), isa))
    assert cold.cycles > entry.cycles + entry.network.channels * entry.network.positions // 4


def test_networks_that_do_not_fit_are_refused():
    net = network("big", 200, 300, [Block(((200, 9, True),), 1)], 2)
    with pytest.raises(MappingError, match="big on ultratrail needs 7500 rows of features in one memory, 1024 are"):
        inference(net, ultratrail().parameters)
    with pytest.raises(MappingError, match="needs 5650 rows of weights, 2048 are there"):
        inference(net, ultratrail(features=1 << 14).parameters)
    with pytest.raises(MappingError, match="block 0 makes 3 positions, and the way around it 2; .* odd"):
        network("even", 1, 4, [Block(((1, 2, False),), 2, True)], 1)


def test_options_out_of_range_are_listed_at_once():
    with pytest.raises(TargetError, match="dim must be .* features must be .* bus_bits must be a multiple of 8"):
        ultratrail(dim=1, features=0, bus_bits=12)


# --- temporal convolutions of networks --------------------------------------------------------------------------------


def temporal_network(across: bool, channels: int = 6, made: int = 5, positions: int = 7) -> onnx.ModelProto:
    """A TC-ResNet block of kernels as long as channels are ``made``, along the width or the height, quantized."""
    rng = np.random.default_rng(2)
    graph = OnnxGraph("tcn")
    shape_in = (1, channels, positions, 1) if across else (1, channels, 1, positions)

    def conv(x: str, outputs: int, inputs: int, kernel: int, stride: int, name: str) -> str:
        weight = rng.standard_normal((outputs, inputs, 1, kernel)).astype(np.float32)
        bias = graph.weight(f"{name}.bias", rng.standard_normal(outputs).astype(np.float32))
        shape, strides, pads = [1, kernel], [1, stride], [0, kernel // 2, 0, kernel // 2]
        if across:
            weight, shape, strides = weight.swapaxes(2, 3), shape[::-1], strides[::-1]
            pads = [kernel // 2, 0, kernel // 2, 0]
        inputs_ = [x, graph.weight(f"{name}.weight", np.ascontiguousarray(weight)), bias]
        return graph.node("Conv", inputs_, name, kernel_shape=shape, strides=strides, pads=pads)

    half = -(-positions // 2)
    x = graph.input("x", shape_in)
    around = graph.relu(conv(x, made, channels, 1, 2, "around"), "around.relu")
    y = graph.relu(conv(x, made, channels, made, 2, "first"), "first.relu")
    y = conv(y, made, made, made, 1, "second")
    y = graph.relu(graph.add(y, around, "sum"), "sum.relu")
    model = graph.model(y, (1, made, half, 1) if across else (1, made, 1, half))
    return quantize(model, [{"x": rng.standard_normal(shape_in).astype(np.float32)} for _ in range(3)])


@pytest.mark.slow
@pytest.mark.parametrize("across", [slow(False), True])
def test_temporal_convolutions_of_a_network_are_offloaded_and_equal_onnxruntime(across):
    model = archloom.load(temporal_network(across))
    report = archloom.estimate(model, "ultratrail", {"dim": 4})
    assert report.offloaded_macs_share == 1
    assert [layer.op for layer in report.accelerator_layers].count("conv2d+bias+relu") == 2
    result = archloom.check(model, "ultratrail", {"dim": 4})
    assert result.passed and len(result.layers) == 3 and all(layer.bit_exact for layer in result.layers)
    assert result.outputs[0].max_error_in_steps == 0


@pytest.mark.slow
@given(st.integers(1, 2), st.integers(1, 13), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5),
       st.integers(1, 3), st.integers(0, 4), st.integers(0, 4), st.booleans(), st.data())
@examples(8, 150)
def test_random_temporal_convolutions_equal_numpy(n, w, c, o, kernel, stride, left, right, bias, data):
    assume(left < kernel and right < kernel and w + left + right >= kernel)
    work = conv2d(n, 1, w, c, o, 1, kernel, stride=(1, stride), padding=(0, left, 0, right),
                  epilogue=Epilogue(bias=bias, scale=0.01, relu=True, out_dtype="int8"))
    options = {"dim": 4, "weights": 64, "sums": 64, "features": 64}
    plan = search(work, UltraTrail.kit.accelerator, options, use_cache=False)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    limits = {"int8": 128, "int32": 1 << 12}
    given_ = {t.name: rng.integers(-limits[t.dtype], limits[t.dtype], t.shape).astype(t.dtype) for t in work.inputs}
    got = interpreter.run(plan.stream, UltraTrail.kit.accelerator.isa(options), given_)["Y"]
    x = np.pad(given_["X"].astype(np.int64), ((0, 0), (0, 0), (left, right), (0, 0)))[:, 0]
    sums = np.stack([np.einsum("nkc,kco->no", x[:, p * stride:p * stride + kernel], given_["W"][0].astype(np.int64))
                     for p in range(got.shape[2])], 1) + (given_["bias"] if bias else 0)
    want = np.clip(np.rint(sums.astype(np.float32) * np.float32(0.01)), 0, 127).astype(np.int8)
    assert np.array_equal(got[:, 0], want)
    if data.draw(st.integers(0, 3)) == 0:
        graph, isa = UltraTrail.kit.accelerator.graph(options), UltraTrail.kit.accelerator.isa(options)
        resolved = resolve(plan.stream, isa)
        assert plan.timing.cycles == simulate_reference(graph, resolved).cycles


def test_a_temporal_convolution_that_does_not_fit_is_a_product():
    model = archloom.load(temporal_network(False, 11, 9, 13))
    taken = [archloom.estimate(model, "ultratrail", {"dim": 4, **more}) for more in ({}, {"features": 16})]
    assert all(report.offloaded_macs_share == 1 for report in taken)
    whole, parts = ([layer.op.split("+")[0] for layer in report.accelerator_layers] for report in taken)
    assert whole[:3] == ["conv2d"] * 3 and parts[:3] == ["dense"] * 3
