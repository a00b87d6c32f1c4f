"""Quantization: shared scales, errors, agreement with the float network."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

import archloom
from archloom.models import catalogue
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.quantization.quantize import quantize, scale_groups
from archloom.tvm_backend.quantization.scheme import Scheme
from tests.support.examples import examples, slow
from tests.support.tvm_backend.networks import Net, quantized, residual_cnn, samples


def scales(model: onnx.ModelProto) -> dict[str, float]:
    """Scale of each quantized tensor of the float network by its name."""
    values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    return {
        n.input[0].removesuffix("_QuantizeLinear_Input"): float(values[n.input[1]].reshape(-1)[0])
        for n in model.graph.node if n.op_type == "QuantizeLinear"
    }


def test_inputs_of_an_addition_share_a_scale() -> None:
    found = scales(quantized(residual_cnn()))
    assert found["b.out"] == found["pool.out"]
    assert found["add.out"] == found["add_relu.out"]


@pytest.mark.slow
@examples(8, 100)
@given(st.lists(st.floats(0.05, 20), min_size=2, max_size=4))
def test_a_shared_scale_covers_all_that_share_it(gains: list[float]) -> None:
    """Operands of a chain of additions, and its sums: whichever has the widest range, and wherever it stands."""
    net = Net()
    x = net.input("x", 1, 3, 6, 6)
    parts = [net.node("Conv", [x, net.weight(f"w{i}", 4, 3, 1, 1, gain=gain)], f"part{i}")
             for i, gain in enumerate(gains)]
    sums = [parts[0]]
    for i, part in enumerate(parts[1:]):
        sums.append(net.node("Add", [sums[-1], part], f"sum{i}"))
    model = net.model(net.conv(sums[-1], "last", 4, 2, 1))
    data = samples(model)
    largest, found = widest(model, [*parts, *sums[1:]], data), scales(quantize(model, data))
    for a, b in zip(sums[:-1], parts[1:], strict=True):
        assert found[a] == found[b]
    for name, most in largest.items():
        assert 127 * found[name] >= most * (1 - 1e-6), name
    assert any(127 * found[parts[0]] <= most * (1 + 1e-5) for most in largest.values())


def widest(model: onnx.ModelProto, names: list[str], data: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """The largest magnitude of tensors of a network over its samples."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    session = onnxruntime.InferenceSession(shown.SerializeToString())
    found = [[float(np.abs(value).max()) for value in session.run(None, given)] for given in data]
    return dict(zip(names, map(max, zip(*found)), strict=True))


@pytest.mark.slow
@examples(12, 100)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=3))
def test_an_addition_is_quantized_where_its_operands_have_one_shape(cuts: list[tuple[bool, ...]]) -> None:
    """An accelerator adds tensors of one shape: whichever axes of an operand are cut to 1, the sum stays in floats."""
    net, shape = Net(), (2, 4, 6, 5)
    x = net.conv(net.input("x", 2, 3, 6, 5), "first", 3, 4, 1)
    others = {net.input(f"other{i}", *(1 if cut else size for cut, size in zip(cuts_of, shape, strict=True))): cuts_of
              for i, cuts_of in enumerate(cuts)}
    sums = [net.node("Add", [x, name], f"{name}.sum") for name in others]
    found = scales(quantized(net.model(*(net.conv(y, f"{y}.last", 4, 2, 1) for y in sums))))
    for name, cuts_of in others.items():
        assert (name in found) == (not any(cuts_of))


def test_a_result_takes_the_scale_of_its_activation_and_pooling() -> None:
    found = scales(quantized(residual_cnn()))
    assert found["stem.out"] == found["stem_relu.out"] == found["pool.out"]
    assert found["a.out"] == found["a_relu.out"] != found["stem.out"]


def test_a_result_with_other_readers_keeps_its_range() -> None:
    net = Net()
    x = net.conv(net.input("x", 1, 3, 8, 8), "conv", 3, 4)
    relu = net.node("Relu", [x], "relu")
    model = net.model(relu, net.node("Sigmoid", [x], "sigmoid"))
    assert not any("relu.out" in members for members, _ in scale_groups(model))


def test_all_zero_points_are_zero_and_weights_per_tensor() -> None:
    model = quantized(residual_cnn())
    values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            assert not values[node.input[2]].any()
            assert values[node.input[1]].size == 1


def test_biases_are_in_units_of_the_sums() -> None:
    model = quantized(residual_cnn())
    values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    producer = {o: n for n in model.graph.node for o in n.output}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm") and len(node.input) > 2:
            x, w, b = (values[producer[i].input[1]].reshape(()) for i in node.input)
            assert values[producer[node.input[2]].input[0]].dtype == np.int32
            np.testing.assert_allclose(b, x * w, rtol=1e-6)


def test_batch_normalization_is_folded() -> None:
    net = Net()
    x = net.conv(net.input("x", 1, 3, 8, 8), "conv", 3, 4)
    parameters = [net.constant(n, np.linspace(0.5, 1.5, 4)) for n in ("gamma", "beta", "mean", "variance")]
    model = quantized(net.model(net.node("BatchNormalization", [x, *parameters], "norm")))
    assert "BatchNormalization" not in {n.op_type for n in model.graph.node}


def test_quantized_network_stays_close_to_the_float_one() -> None:
    model = residual_cnn()
    floats, integers = integer_session(model), integer_session(quantized(model))
    for x in samples(model, 3, seed=9):
        a, b = (run(s, x)["logits.out"] for s in (floats, integers))
        assert np.abs(a - b).max() < 0.1 * np.abs(a).max()


def test_the_network_that_is_given_stays_as_it_was() -> None:
    model = residual_cnn()
    before = model.SerializeToString()
    quantize(model, samples(model))
    assert model.SerializeToString() == before


def test_arrays_are_enough_for_a_single_input() -> None:
    model = residual_cnn()
    by_name, by_array = (quantize(model, data) for data in (samples(model), [s["image"] for s in samples(model)]))
    assert by_name.SerializeToString() == by_array.SerializeToString()


@pytest.mark.parametrize("method", [slow("entropy"), "percentile"])
def test_other_calibrations(method: str) -> None:
    model = residual_cnn()
    found = scales(quantize(model, samples(model, 8), Scheme(calibration=method)))  # type: ignore[arg-type]
    assert found["b.out"] == found["pool.out"] > 0


@pytest.mark.parametrize(("data", "message"), [
    ([], "expected at least one sample, found none"),
    ([{"imgae": np.zeros((1, 3, 12, 12), np.float32)}], "calibration sample 1: input 'image' is missing"),
    ([np.zeros((1, 3, 9, 9), np.float32)], "calibration sample 1: "),
    ([np.zeros((1, 3, 12, 12))], "calibration sample 1: "),
])
def test_samples_that_do_not_fit(data: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quantize(residual_cnn(), data)  # type: ignore[arg-type]


def test_a_quantized_network_is_not_quantized_again() -> None:
    with pytest.raises(ModelError, match="found one that is already quantized"):
        quantize(quantized(residual_cnn()), samples(residual_cnn()))


@pytest.mark.slow
def test_loaded_networks_and_names_are_quantized_as_what_they_were_loaded_from() -> None:
    module = torch.nn.Linear(3, 2).eval()
    samples, shapes = np.random.default_rng(0).normal(size=(4, 3)).astype("float32"), (torch.zeros(1, 3),)
    expected = archloom.quantize(module, samples, quiet=True)
    once = archloom.load(module, shapes)
    assert archloom.quantize(once, samples, quiet=True).graph.node == expected.graph.node
    again = archloom.load(expected)  # of a quantized network its floats are not known
    with pytest.raises(ModelError, match="already quantized"):
        archloom.quantize(again, samples, quiet=True)
    text = "lstm_keywords(frames=2,hidden=4)"
    named = archloom.quantize(text, catalogue.build(text).samples(1), quiet=True)
    assert any(node.op_type == "QuantizeLinear" for node in named.graph.node)


@pytest.mark.parametrize(("model", "message"), [
    ("gemm(m=4,n=4,k=4)", "quantize: expected a network of floats.*found an operator as text"),
    (3, "expected a network, found int; what can be loaded: ")])
def test_what_cannot_be_quantized(model: object, message: str) -> None:
    with pytest.raises(archloom.ArchloomError, match=message):
        archloom.quantize(model, [])  # type: ignore[arg-type]
